//! Jobs whose ranks run ahead, held against what makes a job one.

use crate::fault::FaultKind;
use crate::options::{LogLayout, Nccl, Options, SynthEnd, SynthTrainer};
use crate::{StreamSink, Truth, generate};
use std::collections::BTreeMap;

fn made(options: &Options) -> (String, Truth) {
    options.check().unwrap();
    let mut bytes = Vec::new();
    let truth = generate(options, &mut StreamSink::new(&mut bytes)).unwrap();
    (String::from_utf8(bytes).unwrap(), truth)
}

/// Layouts of jobs: ranks, tp, pp, ep, cp, trainer.
const LAYOUTS: [(usize, usize, usize, usize, usize, SynthTrainer); 6] = [
    (4, 1, 1, 1, 1, SynthTrainer::Hf),
    (8, 2, 1, 1, 1, SynthTrainer::Nemo2),
    (8, 2, 2, 1, 1, SynthTrainer::Megatron),
    (8, 1, 1, 4, 1, SynthTrainer::Torchtitan),
    (8, 2, 1, 1, 4, SynthTrainer::Maxtext),
    (16, 2, 4, 2, 1, SynthTrainer::Nanotron),
];

fn job(layout: usize, lead: u64, seed: u64) -> Options {
    let (ranks, tp, pp, ep, cp, trainer) = LAYOUTS[layout % LAYOUTS.len()];
    Options {
        seed,
        ranks,
        tp,
        pp,
        ep,
        cp,
        trainer,
        steps: 6,
        lead: Some(lead),
        ..Options::default()
    }
}

/// A call as its line says it, and the line's process with its communicator.
fn call(line: &str) -> Option<((String, String), String)> {
    let (head, body) = line.split_once(" NCCL INFO ")?;
    let (op, rest) = body.split_once(": opCount ")?;
    let (said, rest) = rest.split_once(" comm ")?;
    let (ptr, _) = rest.split_once(' ')?;
    let (_, said) = said.split_once(" count ")?;
    let pid = head.rsplit(['\r', ' ']).find(|word| word.contains(':'))?;
    let pid = pid.split(':').nth(1)?;
    Some(((pid.into(), ptr.into()), format!("{op} {said}")))
}

/// The calls of each process on each communicator, in order.
fn by_member(text: &str) -> BTreeMap<(String, String), Vec<String>> {
    let mut calls = BTreeMap::<_, Vec<String>>::new();
    for (member, said) in text.lines().filter_map(call) {
        calls.entry(member).or_default().push(said);
    }
    calls
}

/// The members' calls of each communicator, collectives only.
fn collectives(text: &str, truth: &Truth) -> Vec<Vec<Vec<String>>> {
    let calls = by_member(text);
    let of = |member: &crate::truth::rows::MemberRow| {
        let made = calls.get(&(member.pid.to_string(), member.comm.clone()));
        let mut made = made.cloned().unwrap_or_default();
        made.retain(|said| !said.starts_with("Send") && !said.starts_with("Recv"));
        made
    };
    let comms = truth.communicators.iter();
    comms
        .map(|comm| comm.members.iter().map(of).collect())
        .collect()
}

#[test]
fn members_of_a_healthy_job_make_the_same_calls_however_far_ahead_they_are() {
    for (layout, seed) in (0..LAYOUTS.len()).flat_map(|l| [(l, 1), (l, 2)]) {
        for lead in 0..=3 {
            let options = Options {
                eval_every: Some(3),
                tail_calls: seed == 2,
                ..job(layout, lead, seed)
            };
            let (text, truth) = made(&options);
            for members in collectives(&text, &truth) {
                assert!(members.iter().all(|m| *m == members[0]), "{options:?}");
            }
            assert_eq!(truth.intact_calls, truth.calls);
            assert_eq!(truth.lines, text.lines().count() as u64);
        }
    }
}

#[test]
fn the_truth_has_the_step_of_every_call_in_program_order() {
    for (layout, lead) in (0..LAYOUTS.len()).flat_map(|l| [(l, 0), (l, 2), (l, 3)]) {
        let options = job(layout, lead, 3);
        let (text, truth) = made(&options);
        let steps = &truth.call_steps["stream"];
        let lines: Vec<_> = text.lines().filter_map(call).collect();
        assert_eq!(lines.len(), steps.len());
        // A process makes its steps one behind the other.
        let mut last = BTreeMap::new();
        let mut sums = BTreeMap::<u64, u64>::new();
        for (((pid, _), _), step) in lines.iter().zip(steps) {
            let step = step.unwrap();
            let before = last.insert(pid, step).unwrap_or(step);
            assert!(before <= step && step <= before + 1, "{options:?}");
            *sums.entry(step).or_default() += 1;
        }
        // And the sums are those of the job without leads.
        let (_, mixed) = made(&Options {
            lead: None,
            ..options.clone()
        });
        let told: u64 = truth.steps.iter().map(|s| s.sum.calls).sum();
        assert_eq!((told, truth.calls), (mixed.calls, mixed.calls));
        for row in truth.steps.iter().filter(|row| row.steps == 1) {
            assert_eq!(row.sum.calls, sums[&row.step], "{options:?}");
        }
    }
}

/// How many steps ahead of the step line behind it a call is, at most.
fn farthest(text: &str, truth: &Truth) -> u64 {
    let mut steps = truth.call_steps["stream"].iter().flatten();
    let mut open = Vec::<u64>::new();
    let mut farthest = 0;
    for line in text.lines() {
        if call(line).is_some() {
            open.extend(steps.next());
        } else if let Some((_, at)) = line.split_once("global_step: ") {
            let end = at.find(|c: char| !c.is_ascii_digit()).unwrap_or(at.len());
            let step: u64 = at[..end].parse().unwrap();
            let ahead = open.drain(..).map(|s| s.saturating_sub(step));
            farthest = farthest.max(ahead.max().unwrap_or(0));
        }
    }
    farthest
}

#[test]
fn ranks_are_as_far_ahead_as_they_may_be_and_no_farther() {
    for lead in 0..=3 {
        let far: Vec<u64> = (1..=4)
            .map(|seed| {
                let (text, truth) = made(&Options {
                    steps: 10,
                    ..job(1, lead, seed)
                });
                farthest(&text, &truth)
            })
            .collect();
        // While the rank that prints does so, others begin one more step.
        assert!(far.iter().all(|&far| far <= lead + 1), "{lead}: {far:?}");
        assert!(far.iter().any(|&far| far >= lead.max(1)), "{lead}: {far:?}");
    }
}

#[test]
fn the_same_options_give_the_same_bytes() {
    let options = job(2, 2, 7);
    assert_eq!(made(&options).0, made(&options).0);
    assert_ne!(made(&options).0, made(&job(2, 2, 8)).0);
    assert_ne!(made(&options).0, made(&job(2, 1, 7)).0);
}

#[test]
fn a_job_with_a_fault_hangs_by_itself() {
    for kind in FaultKind::ALL.iter().filter(|kind| kind.is_of_calls()) {
        let layout = match kind {
            FaultKind::Recv => 2,
            FaultKind::Peer => 4,
            _ => 1,
        };
        let (text, truth) = made(&Options {
            fault: Some(format!("{},watchdog=off", kind.name()).parse().unwrap()),
            ..job(layout, 2, 5)
        });
        let fault = truth.fault.clone().unwrap();
        let silent = matches!(kind, FaultKind::Redop);
        assert_eq!(fault.hangs, !silent, "{kind:?}");
        let agreed = collectives(&text, &truth)
            .iter()
            .all(|members| members.iter().all(|m| *m == members[0]));
        // Of these the calls themselves are those of a healthy job, in another order.
        let same = matches!(kind, FaultKind::Recv | FaultKind::Peer | FaultKind::Crossed);
        assert!(!agreed || same, "{kind:?}");
        assert!(
            !fault.hangs || !text.contains("Destroy COMPLETE"),
            "{kind:?}"
        );
    }
}

#[test]
fn a_wrong_peer_is_in_the_log_whether_all_messages_are_of_one_size_or_not() {
    for layout in [3, 4] {
        let (text, truth) = made(&Options {
            fault: Some("peer,watchdog=off".parse().unwrap()),
            ..job(layout, 1, 5)
        });
        let fault = truth.fault.clone().unwrap();
        let line = text.lines().nth(fault.line.unwrap() as usize - 1).unwrap();
        let (made, expected) = (fault.made.unwrap().root, fault.expected.unwrap().root);
        assert_ne!(made, expected);
        assert!(line.contains(&format!(" root {made} ")), "{line}");
    }
}

#[test]
fn a_rank_that_is_killed_takes_with_it_what_it_handed_over() {
    let (text, truth) = made(&Options {
        fault: Some("die,step=3,rank=5,watchdog=off".parse().unwrap()),
        nccl: Nccl::V2_24,
        ..job(1, 3, 2)
    });
    let fault = truth.fault.clone().unwrap();
    let last = fault.last_call.unwrap().line as usize;
    let pid = format!(":{}:", fault.pid.unwrap());
    let mut behind = text.lines().skip(last);
    assert!(!behind.any(|line| call(line).is_some() && line.contains(&pid)));
    assert!(text.contains("Connection closed by localRank 5"));
}

#[test]
fn uneven_data_is_of_all_ranks_that_share_it() {
    let steps_of = |kind: &str| {
        let (text, truth) = made(&Options {
            fault: Some(format!("{kind},rank=5,watchdog=off").parse().unwrap()),
            ..job(1, 1, 1)
        });
        let fault = truth.fault.clone().unwrap();
        assert_eq!(fault.ranks, [4, 5]);
        let steps = truth.call_steps["stream"].iter().flatten();
        let mut first = BTreeMap::<String, usize>::new();
        for (((pid, _), _), _) in text.lines().filter_map(call).zip(steps) {
            *first.entry(pid).or_default() += 1;
        }
        let mine = first[&fault.pid.unwrap().to_string()];
        let most = first.values().copied().max().unwrap();
        let least = first.values().copied().min().unwrap();
        (mine, least, most)
    };
    let (mine, least, _) = steps_of("fewer-steps");
    assert_eq!(mine, least);
    let (mine, _, most) = steps_of("more-steps");
    assert_eq!(mine, most);
}

#[test]
fn a_job_that_is_killed_stops_anywhere_and_its_members_agree_as_far_as_they_came() {
    for (end, layout) in [
        (SynthEnd::Killed, LogLayout::Stream),
        (SynthEnd::Cancelled, LogLayout::Stream),
        (SynthEnd::Cut, LogLayout::Stream),
    ] {
        for seed in 1..=3 {
            let (text, truth) = made(&Options {
                end,
                layout,
                steps: 9,
                ..job(1, 2, seed)
            });
            assert!((2..9).contains(&truth.steps.len()), "{end:?}");
            assert_eq!(text.ends_with('\n'), end != SynthEnd::Cut);
            assert_eq!(text.contains(" CANCELLED AT "), end == SynthEnd::Cancelled);
            for members in collectives(&text, &truth) {
                let most = members.iter().max_by_key(|m| m.len()).unwrap();
                assert!(members.iter().all(|m| most.starts_with(m)), "{end:?}");
            }
            assert!(truth.after.calls > 0);
        }
    }
}

#[test]
fn a_restarted_job_goes_on_from_an_earlier_step() {
    let (text, truth) = made(&Options {
        restart_at: Some(5),
        steps: 9,
        ..job(1, 2, 4)
    });
    let lives: Vec<(u64, u64)> = truth.steps.iter().map(|s| (s.segment, s.step)).collect();
    let second = lives.iter().find(|(segment, _)| *segment == 1).unwrap();
    assert!(second.1 <= 5 && lives.last() == Some(&(1, 8)));
    assert!(text.contains("srun: error: "));
    let unfinished = truth.between_stretches.iter();
    assert!(unfinished.filter(|row| row.what == "unfinished").count() > 0);
    let told: u64 = truth.steps.iter().map(|s| s.sum.calls).sum();
    assert_eq!(told + truth.between.calls + truth.after.calls, truth.calls);
}

#[test]
fn what_makes_no_sense_is_named() {
    let said = |change: &dyn Fn(&mut Options)| {
        let mut options = job(1, 1, 1);
        change(&mut options);
        options.check().unwrap_err().to_string()
    };
    assert!(said(&|o| o.lead = Some(4)).contains("0 to 3"));
    assert!(said(&|o| o.size = Some(1 << 20)).contains("--size"));
    assert!(said(&|o| (o.lead, o.end) = (None, SynthEnd::Cut)).contains("needs --lead"));
    let extra = || Some("extra".parse().unwrap());
    assert!(said(&|o| (o.lead, o.fault) = (None, extra())).contains("--lead"));
    assert!(said(&|o| (o.end, o.fault) = (SynthEnd::Killed, extra())).contains("--fault"));
    // One copy of the model: no rank makes another number of steps than the others.
    let alone = Options {
        fault: Some("more-steps".parse().unwrap()),
        tp: 4,
        ranks: 4,
        ..job(1, 1, 1)
    };
    let refused = generate(&alone, &mut StreamSink::new(&mut Vec::new()));
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("share their data")
    );
}
