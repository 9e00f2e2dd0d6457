//! Faults as they are asked for, and ranks that wait for each other.

use super::pending_works::PendingWorks;
use super::{CallCounter, Fault, FaultGroup, FaultKind, FaultPlan};
use crate::job::SynthJob;
use crate::job::schedule::{ProgramStretch, build_program};
use crate::options::{LogLayout, Options, SynthNet};
use crate::truth::cells::TruthCells;
use crate::{StreamSink, generate};
use nccl_pipe_grammar::message::c10d::{self, C10dMessage};

fn asked(fault: &str, change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options {
        steps: 6,
        fault: Some(fault.parse().unwrap()),
        ..Options::default()
    };
    change(&mut options);
    options
}

fn said(fault: &str, change: impl FnOnce(&mut Options)) -> String {
    let refused = asked(fault, change).check().unwrap_err().to_string();
    assert!(refused.contains("--fault: "), "{refused}");
    refused
}

#[test]
fn a_fault_is_read_with_its_keys() {
    let read: Fault = "slow-init,rank=3,comm=tensor".parse().unwrap();
    let expected = Fault {
        rank: Some(3),
        comm: Some(FaultGroup::Tensor),
        ..Fault::of(FaultKind::SlowInit)
    };
    assert_eq!(read, expected);
    let bad = [
        "",
        "slow",
        "skip,step",
        "skip,step=-1",
        "skip,rank=1,rank=2",
        "skip,comm=job",
        "skip,watchdog=maybe",
        "skip,node=1",
    ];
    for text in bad {
        assert!(text.parse::<Fault>().is_err(), "{text}");
    }
}

#[test]
fn what_makes_no_sense_is_named() {
    let one = |_: &mut Options| {};
    let two = |o: &mut Options| (o.ranks, o.nodes, o.tp, o.net) = (16, 2, 4, Some(SynthNet::Ib));
    assert!(said("recv", one).contains("--pp 2"));
    assert!(said("recv,comm=tensor", |o| o.pp = 2).contains("comm=pipeline"));
    assert!(said("sockets", one).contains("--nodes 2"));
    assert!(said("sockets", |o| (o.nodes, o.net) = (2, Some(SynthNet::Efa))).contains("--net ib"));
    assert!(
        said("gpudirect", |o| (o.nodes, o.net) =
            (2, Some(SynthNet::Socket)))
        .contains("GPUDirect")
    );
    assert!(said("nvls", two).contains("--nvls"));
    assert!(said("channels", |o| (o.nodes, o.tp) = (4, 4)).contains("two hosts"));
    assert!(
        said("version", |o| (o.nodes, o.nccl) =
            (2, crate::options::Nccl::V2_21))
        .contains("2.22")
    );
    assert!(said("slow-init,comm=expert", one).contains("no expert"));
    assert!(said("setting", |o| (o.nodes, o.init) = (2, false)).contains("--no-init"));
    assert!(said("skip,comm=expert", one).contains("expert communicator"));
    assert!(said("root,step=1", |o| o.tp = 1).contains("in step 1"));
    assert!(said("skip,host=0", one).contains("skip has no host"));
    assert!(said("sockets,rank=1", two).contains("sockets has no rank"));
    assert!(said("die,step=99", one).contains("step 99"));
    assert!(said("die,rank=8", one).contains("rank 8"));
    assert!(said("setting,host=2", two).contains("host 2"));
    assert!(said("die", |o| o.layout = LogLayout::Blocks).contains("--layout blocks"));
    assert!(said("die", |o| o.restart_at = Some(4)).contains("--restart-at"));
    assert!(said("skip,step=2", |o| o.eval_every = Some(4)).contains("--eval-every"));
    asked("skip", |o| o.eval_every = Some(2)).check().unwrap();
}

#[test]
fn a_healthy_job_comes_to_its_end_however_its_ranks_are_mixed() {
    for (ranks, tp, pp, ep) in [(8, 2, 1, 1), (16, 2, 4, 2), (8, 1, 2, 4), (64, 4, 4, 2)] {
        let options = asked("redop", |o| {
            (o.ranks, o.tp, o.pp, o.ep, o.zero_counts) = (ranks, tp, pp, ep, ep > 1);
        });
        options.check().unwrap();
        let (job, mut cells) = (SynthJob::new(&options, 0), TruthCells::default());
        let plan = FaultPlan::plan_fault(&options, &job).unwrap().unwrap();
        let mut watch = CallCounter::new(Some(&plan));
        watch.live = true;
        let mut pending = PendingWorks::new(&job);
        // The last rank makes all its calls before the first makes one.
        for rank in (0..ranks).rev() {
            for call in build_program(&job, rank, &options, ProgramStretch::Train, &mut cells) {
                let (count, _) = call.count_and_cell(&options, 4);
                watch.record_call(rank, (4, 0), &call, count, 0);
            }
            for made in watch.take_new_calls() {
                if pending.push(made) {
                    pending.run_first_work(rank);
                }
            }
        }
        assert!(
            (0..ranks).all(|rank| pending.is_idle(rank)),
            "{ranks} ranks"
        );
    }
}

#[test]
fn the_watchdog_names_the_call_that_never_came() {
    let options = asked("stall,comm=tensor", |o| o.tp = 4);
    let mut bytes = Vec::new();
    let truth = generate(&options, &mut StreamSink::new(&mut bytes)).unwrap();
    let missing = truth.fault.unwrap().seq.unwrap();
    let (mut caught, mut waiting) = (0, 0);
    for line in bytes.split(|&b| b == b'\n') {
        match c10d::parse_c10d_line(line) {
            Some(C10dMessage::Timeout(timeout)) => {
                assert_eq!(timeout.timeout_ms, 600_000);
                assert!(
                    timeout.ran_ms.is_some_and(|ms| ms >= 600_000.0) && timeout.numel_in.is_some()
                );
                caught += 1;
            }
            Some(C10dMessage::LastWork(last)) => {
                assert!(last.enqueued >= last.completed);
                let tensor = last
                    .who
                    .group
                    .is_some_and(|g| g.ends_with(b"(TENSOR_MODEL_PARALLEL_GROUP)"));
                // PyTorch counts from 1: the work that ended last is the one before.
                waiting += u64::from(
                    tensor
                        && (last.at, last.completed) == (Some(missing as i64 + 1), missing as i64),
                );
            }
            _ => {}
        }
    }
    // All but the rank that stands still, when they time out and when they go down.
    assert_eq!((caught, waiting), (14, 3));
}

#[test]
fn what_hangs_begins_like_the_healthy_job() {
    let text = |options: &Options| {
        let mut bytes = Vec::new();
        let truth = generate(options, &mut StreamSink::new(&mut bytes)).unwrap();
        (String::from_utf8(bytes).unwrap(), truth)
    };
    for kind in FaultKind::ALL
        .iter()
        .filter(|kind| kind.is_of_calls() && !kind.needs_lead())
    {
        let options = asked(kind.name(), |o| (o.pp, o.seed) = (2, 5));
        let (healthy, _) = text(&Options {
            fault: None,
            ..options.clone()
        });
        let (wrong, truth) = text(&options);
        let fault = truth.fault.unwrap();
        let before = healthy.find(&format!("iteration {}/", fault.step.unwrap() - 1));
        let before = before.unwrap();
        assert_eq!(healthy[..before], wrong[..before], "{kind:?}");
        if fault.hangs {
            continue;
        }
        // One line, and no other.
        let differ = healthy.lines().zip(wrong.lines()).enumerate();
        let differ: Vec<usize> = differ
            .filter(|(_, (a, b))| a != b)
            .map(|(i, _)| i)
            .collect();
        assert_eq!(differ, [fault.line.unwrap() as usize - 1], "{kind:?}");
        assert_eq!(healthy.lines().count(), wrong.lines().count());
    }
}
