//! A pipe with dropped steps against its naive twin, the same log as a file: the findings are
//! equal.

use super::*;
use crate::grammar::trainer::{StepLine, Trainer};
use crate::log::timeline::{self, MarkList, resolve_timeline};
use crate::log::walk::MarkPosition;
use crate::stages::check::twins::{self, log};
use crate::synth;
use crate::synth::fault::{Fault, FaultKind};
use crate::synth::options::Strategy;
use proptest::prelude::*;
use std::cell::Cell;

thread_local! {
    /// The number of steps that findings use, if a test sets it.
    pub(super) static KEPT: Cell<Option<usize>> = const { Cell::new(None) };

    /// How often steps were let go.
    pub(super) static LET_GO: Cell<usize> = const { Cell::new(0) };
}

/// Steps that are looked at here.
const FEW: usize = 1300;

/// A pipe rests after this many bytes.
const PIECE: usize = 1 << 20;

/// Returns the findings of a file and of a pipe, and how often steps were dropped.
fn both(log: &[u8]) -> [(String, usize); 2] {
    twins::both(log, PIECE, |path| {
        KEPT.set(Some(FEW));
        LET_GO.set(0);
        let found = twins::found(path, 2);
        KEPT.set(None);
        (found, LET_GO.get())
    })
}

/// A job of many steps.
fn job(seed: u64) -> synth::Options {
    synth::Options {
        seed,
        ranks: 2,
        strategy: Strategy::Ddp,
        tp: 1,
        layers: 1,
        steps: 7000,
        ..synth::Options::default()
    }
}

const FAULTS: [FaultKind; 5] = [
    FaultKind::Skip,
    FaultKind::Count,
    FaultKind::Datatype,
    FaultKind::Redop,
    FaultKind::Stall,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3))]

    /// A fault anywhere in a job, or a job that is started again, and that may evaluate now and then.
    #[test]
    fn a_pipe_of_which_steps_are_let_go_gives_the_findings_of_a_file(
        seed in 1..1000_u64,
        fault in proptest::option::weighted(0.7, 0..FAULTS.len()),
        step in 4500..6990_u64,
        evaluates in any::<bool>(),
    ) {
        let mut options = job(seed);
        // A job with a fault hangs before it evaluates again.
        options.eval_every = (evaluates && fault.is_none()).then_some(700);
        match fault {
            Some(fault) => options.fault = Some(Fault {
                step: Some(step),
                ..Fault::of(FAULTS[fault])
            }),
            None => options.restart_at = Some(step),
        }
        let [file, piped] = both(&log(&options));
        prop_assert_eq!(fault.is_some(), file.0.contains("severity: Error"), "{}", file.0);
        prop_assert!(file.1 == 1 && piped.1 > 1, "{} {}", file.1, piped.1);
        prop_assert_eq!(piped.0, file.0);
    }
}

#[test]
fn what_is_told_of_the_first_steps_is_remembered() {
    // The number falls, ranks are at different calls after it, and calls stop: all long before the end.
    let mut options = job(3);
    options.epoch_steps = Some(900);
    let text = String::from_utf8(log(&options)).unwrap();
    let (mut steps, mut cut) = (0, String::new());
    for line in text.split_inclusive('\n') {
        let is_step = line.starts_with("Training epoch");
        let is_call = line.contains("opCount");
        steps += usize::from(is_step);
        if is_step && !(500..800).contains(&steps) {
            // Without it the step is the iteration of the epoch.
            let begin = line.find("| global_step").unwrap();
            let end = line.find("| max_memory").unwrap();
            cut += &line[..begin];
            cut += &line[end..];
        } else if !is_call || steps < 1000 {
            cut += line;
        }
    }
    let [file, piped] = both(cut.as_bytes());
    assert!(piped.1 > 1, "{}", piped.1);
    let stop = "steps continue after step 99 but their calls stop";
    for told in ["SeveralRuns", "CallsStop", stop] {
        assert!(file.0.contains(told), "{told}: {}", file.0);
    }
    assert_eq!(piped.0, file.0);
}

/// Step lines with these numbers, and other lines among them.
fn marks(numbers: &[(u64, bool)]) -> MarkList {
    let mut list = MarkList::default();
    let marks = (0..).zip(numbers).flat_map(|(at, &(step, is_between))| {
        let mark = |line, mark| MarkPosition {
            start: line,
            cut: line + 1,
            line,
            next_line: line + 1,
            mark,
        };
        let line = StepLine::without_time(Trainer::Nemo2, step);
        let between = is_between.then(|| mark(2 * at, TrainerMark::Between));
        between
            .into_iter()
            .chain([mark(2 * at + 1, TrainerMark::Step(line))])
    });
    list.extend(marks);
    list
}

proptest! {
    /// Steps that are let go bit by bit leave what they leave at once.
    #[test]
    fn it_does_not_matter_when_steps_are_let_go(
        steps in proptest::collection::vec((prop_oneof![8 => Just(1), 1 => 2..5_u64, 1 => Just(0)], any::<bool>()), 1..60),
        calls in proptest::collection::vec((0..80_usize, 0..3_u64), 0..30),
        uneven in proptest::option::of(0..60_usize),
        cuts in proptest::collection::btree_set(1..60_usize, 1..5),
    ) {
        let mut number = 0;
        let numbers: Vec<(u64, bool)> = steps.into_iter().map(|(more, is_between)| {
            number = if more == 0 { 0 } else { number + more };
            (number, is_between)
        }).collect();
        let list = marks(&numbers);
        let timeline = resolve_timeline(&list, &[], &timeline::Options::default());
        let many = timeline.steps.len();
        let since = |step: usize| timeline.start_of_last(many - step);
        let sums = || {
            let mut sums = GapSums::default();
            for &(gap, calls) in &calls {
                sums.add_to_gap(gap, GapCallSum { calls, bytes: 0 });
            }
            sums
        };
        let merged = MergedMembers::default();
        let known = list.as_slice();
        let begin = OldSteps { uneven, ..OldSteps::default() };
        let (mut old, mut left) = (begin.clone(), sums());
        let mut lines = Vec::new();
        for &cut in cuts.iter().filter(|&&cut| cut < many) {
            lines.extend(old.step_end_lines(since(cut).unwrap(), &timeline, known));
            old.drop_steps(since(cut).unwrap(), &timeline, known, &mut left, &merged);
        }
        let Some(last) = since(old.since.step) else { return Ok(()) };
        let (mut twin, mut all) = (begin, sums());
        prop_assert_eq!(lines, twin.step_end_lines(last, &timeline, known));
        twin.drop_steps(last, &timeline, known, &mut all, &merged);
        prop_assert_eq!(&old, &twin);
        prop_assert_eq!(&left.by_gap, &all.by_gap);
        prop_assert_eq!(left.last_gap(), sums().last_gap());
        // The result of all steps.
        let first = timeline.steps.remaining();
        prop_assert_eq!(old.first, first.first().map(|step| step.step));
        let fall = first[..last.step].windows(2).find(|pair| pair[0].segment != pair[1].segment);
        let line = |step: &TrainStep| list.as_slice().get(step.mark).unwrap().line;
        prop_assert_eq!(old.fall, fall.map(|pair| [line(&pair[1]), line(&pair[0])]));
        let interval = timeline.line_interval();
        let seam = first[..last.step].windows(2).find(|pair| {
            let is_late = uneven.is_some_and(|gap| gap <= pair[1].mark);
            is_late && (pair[0].segment != pair[1].segment || pair[1].steps != interval)
        });
        prop_assert_eq!(old.first_seam(interval), seam.map(|pair| line(&pair[0])));
    }
}
