//! The results of the walk over one input.

use crate::grammar::trainer::{StepLine, TrainerMark};
use crate::log::LogState;
use crate::log::timeline::{MarkList, StepTimeline, TrainStep};
use crate::log::walk::MarkPosition;
use crate::members::MergedMembers;
use crate::stages::benchmark::{BenchmarkPartial, BenchmarkTable, BenchmarkTables};
use crate::stages::check::finding::Evidence;
use crate::stages::check::log::missing_steps::InputCuts;
use crate::stages::check::log::old_steps::OldSteps;
use crate::stages::check::log::overwritten::HeaderRemains;
use crate::stages::net::net_stage::FirstReportLine;
use crate::stages::survey::GapSums;
use crate::stages::survey::rhythm::OddStep;
use std::borrow::Cow;
use std::mem;

/// The results of the walk over one input.
#[derive(Debug)]
pub(crate) struct WalkedInput {
    /// Its name.
    pub(crate) name: String,
    /// Where its step lines and the like are.
    pub(crate) marks: MarkList,
    /// The summary of its first steps, if it has more than findings use.
    pub(crate) old: OldSteps,
    /// The steps that are looked at. Its gaps and marks are counted from where the old steps end.
    pub(crate) timeline: StepTimeline,
    /// All steps with the values of their own lines, even if lines lag behind the calls. Empty
    /// unless requested.
    pub(crate) printed: Vec<TrainStep>,
    /// Its calls by gap.
    pub(crate) sums: GapSums,
    /// The gaps after which ranks were at different calls, if known.
    pub(crate) apart: Option<Vec<usize>>,
    /// Steps in which a communicator's ranks made another number of collectives.
    pub(crate) odd: Vec<OddStep>,
    /// Where lines may be missing.
    pub(crate) cuts: InputCuts,
    /// The remains of overwritten lines.
    pub(crate) remains: HeaderRemains,
    /// Tables of nccl-tests.
    pub(crate) benchmarks: Vec<BenchmarkTable>,
    /// Its streams of calls, in their order, and how many calls it has of each.
    pub(super) calls: Vec<(u32, u64)>,
}

/// The kept parts of an input's lines besides calls and facts of the job.
#[derive(Default)]
pub(super) struct InputRemains {
    headers: HeaderRemains,
    benchmarks: BenchmarkTables,
}

impl InputRemains {
    /// Adds the chunk of input `input` that begins at its line `line`.
    pub(super) fn add_chunk(
        &mut self,
        headers: HeaderRemains,
        benchmarks: BenchmarkPartial,
        input: u32,
        line: u64,
    ) {
        self.headers.add_chunk(headers, input, line);
        self.benchmarks.add_chunk(benchmarks, line);
    }
}

/// The steps of an input.
pub(super) struct WalkedSteps {
    /// The summary of the first steps.
    pub(super) old: OldSteps,
    /// The steps that findings use.
    pub(super) timeline: StepTimeline,
    /// The steps as the trainer numbers them, if anything asks for them.
    pub(super) printed: Vec<TrainStep>,
}

impl WalkedInput {
    /// Creates the results from a log, its calls and the remains of its overwritten lines. Takes
    /// its marks.
    pub(super) fn from_log(
        name: String,
        log: &mut LogState,
        steps: WalkedSteps,
        sums: GapSums,
        remains: InputRemains,
        merged: &MergedMembers,
        printer: Option<u32>,
    ) -> WalkedInput {
        let WalkedSteps {
            old,
            timeline,
            printed,
        } = steps;
        let marks = mem::take(&mut log.marks);
        let apart = sums.gaps_apart(merged, &timeline);
        WalkedInput {
            name,
            odd: sums.find_odd_steps(&log.account, merged, &timeline, printer),
            cuts: InputCuts::find_cuts(&sums, apart.as_deref(), &marks, &timeline, &old),
            apart,
            marks,
            old,
            timeline,
            printed,
            sums,
            remains: remains.headers,
            benchmarks: remains.benchmarks.finish(),
            calls: Vec::new(),
        }
    }

    /// True if the last step line announces this as the last step. If numbers begin again in each
    /// epoch, it is not the last of the run.
    pub(crate) fn ends_with_last_step(&self) -> bool {
        let last = self.timeline.steps.last();
        let mark = last.and_then(|step| self.mark_of_step(step));
        let is_last = |line: &StepLine| line.total == Some(line.step) && line.epoch.is_none();
        mark.is_some_and(|mark| matches!(&mark.mark, TrainerMark::Step(line) if is_last(line)))
    }

    /// The line of a step of those that are looked at, by its place among them; the input is the `number`th.
    pub(crate) fn step_line_evidence(&self, number: u32, step: usize) -> Option<Evidence> {
        let step = self.timeline.steps.get(step)?;
        Some(self.line_evidence(number, self.mark_of_step(step)?.line))
    }

    /// A line of this input, the `number`th.
    pub(crate) fn line_evidence(&self, number: u32, line: u64) -> Evidence {
        let input = number;
        FirstReportLine { input, line }.into()
    }

    /// The mark of a step's line.
    fn mark_of_step(&self, step: &TrainStep) -> Option<Cow<'_, MarkPosition>> {
        self.marks.as_slice().get(self.old.since.gap + step.mark)
    }

    /// The number of its first step.
    pub(crate) fn first_step_number(&self) -> Option<u64> {
        let first = self.timeline.steps.remaining().first();
        self.old.first.or(first.map(|step| step.step))
    }

    /// The number of its last step.
    pub(crate) fn last_step_number(&self) -> Option<u64> {
        let last = self.timeline.steps.remaining().last();
        let last = last.map(|step| step.step);
        last.or(self.old.last.map(|old| old.step))
    }

    /// The number of the last step with its line before `line`.
    pub(crate) fn last_step_before(&self, line: u64) -> Option<u64> {
        self.last_step_between(0, line)
    }

    /// The number of the last step with its line from `begin` on, and before `line`.
    pub(crate) fn last_step_between(&self, begin: u64, line: u64) -> Option<u64> {
        let is_between = |mark: u64| begin <= mark && mark < line;
        let steps = self.timeline.steps.remaining().iter().rev();
        let mut before = steps.filter(|step| {
            self.mark_of_step(step)
                .is_some_and(|mark| is_between(mark.line))
        });
        let old = || {
            self.old
                .last
                .filter(|old| is_between(old.line))
                .map(|old| old.step)
        };
        before.next().map(|step| step.step).or_else(old)
    }

    /// The number of the last step with its line before a gap of the input.
    pub(crate) fn last_step_before_gap(&self, gap: usize) -> Option<u64> {
        let mut before = self.timeline.steps.remaining().iter().rev();
        let before = before.find(|step| self.old.since.gap + step.mark < gap);
        before
            .map(|step| step.step)
            .or(self.old.last.map(|old| old.step))
    }

    /// The step that a line is in, if it is one of those that are looked at.
    pub(crate) fn step_at_line(&self, line: u64) -> Option<u64> {
        let gap = self
            .marks
            .as_slice()
            .partition_point(|mark| mark.line < line);
        let gap = gap.checked_sub(self.old.since.gap)?;
        self.timeline.step_of(gap).map(|step| step.step)
    }

    /// The first line at which the step number falls, and the step line before it.
    pub(crate) fn first_step_fall(&self) -> Option<Vec<u64>> {
        if let Some(fall) = self.old.fall {
            return Some(fall.into());
        }
        let steps = self.timeline.steps.remaining();
        let fall = steps.iter().position(|step| step.segment > 0)?;
        let line = |step: &TrainStep| self.mark_of_step(step).map(|mark| mark.line);
        let before = match fall.checked_sub(1) {
            Some(before) => line(&steps[before]),
            None => self.old.last.map(|last| last.line),
        };
        Some(line(&steps[fall]).into_iter().chain(before).collect())
    }
}
