//! A summary of the first steps of a long job. Findings use the last steps of an input, so only
//! these are kept of a pipe that goes on for a month.
//!
//! A file is summarised in the same way, so that a log has the same findings as a file and through
//! a pipe.

#[cfg(test)]
mod tests;

use crate::count::values::ValueCounts;
use crate::grammar::trainer::TrainerMark;
use crate::log::timeline::{GapKind, LastStepsStart, MarkSlice, StepTimeline, TrainStep};
use crate::members::MergedMembers;
use crate::stages::check::log::limits::{
    EXTRA_STEPS_KEPT_OF_PIPE, MAX_EXACT_STEP_TIMES, MAX_OLD_LINE_DISTANCES, MAX_STEPS_KEPT,
    UNSETTLED_STEPS_OF_PIPE,
};
use crate::stages::survey::{GapCallSum, GapSums};
use std::collections::BTreeMap;

/// How many of the last steps are looked at; tests take fewer.
pub(crate) fn max_steps_kept() -> usize {
    #[cfg(test)]
    if let Some(kept) = tests::KEPT.get() {
        return kept;
    }
    MAX_STEPS_KEPT
}

/// The summary.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OldSteps {
    /// Where the steps begin that are still known.
    pub(crate) since: LastStepsStart,
    /// How many steps the lines of the others represent.
    pub(crate) steps: u64,
    /// The number of the first one.
    pub(crate) first: Option<u64>,
    /// The last one.
    pub(crate) last: Option<LastOldStep>,
    /// The first line at which the step number falls, and the line before it.
    pub(crate) fall: Option<[u64; 2]>,
    /// The last one with calls.
    pub(crate) called: Option<LastStepWithCalls>,
    /// The first gap after which ranks were at different calls.
    pub(crate) uneven: Option<usize>,
    /// Where lines may be missing after that: the line before the first place of each kind. A kind is how many
    /// steps a line represents, or nothing where the step number falls.
    seams: BTreeMap<Option<u64>, u64>,
    /// Their times, and their speeds.
    pub(crate) times: ValueCounts,
    pub(crate) tflops: ValueCounts,
}

impl Default for OldSteps {
    fn default() -> OldSteps {
        OldSteps {
            since: LastStepsStart::default(),
            steps: 0,
            first: None,
            last: None,
            fall: None,
            called: None,
            uneven: None,
            seams: BTreeMap::new(),
            times: ValueCounts::with_limit(MAX_EXACT_STEP_TIMES),
            tflops: ValueCounts::with_limit(MAX_EXACT_STEP_TIMES),
        }
    }
}

/// The last step that is not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastOldStep {
    pub(crate) segment: u32,
    /// Its number.
    pub(crate) step: u64,
    /// Its line.
    pub(crate) line: u64,
}

/// A step with calls after which none has any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastStepWithCalls {
    /// Its place among all steps, and its number.
    at: usize,
    pub(crate) step: u64,
    /// The number and the line of the step after it.
    pub(crate) next: Option<(u64, u64)>,
}

impl LastStepWithCalls {
    /// Returns how many of `steps` steps follow it.
    pub(crate) fn steps_after(&self, steps: usize) -> usize {
        steps.saturating_sub(self.at + 1)
    }
}

impl OldSteps {
    /// Returns, for a pipe that is read up to here, the first step that is kept, and the last gap
    /// with calls that can be placed; `None` until enough more steps have come.
    pub(crate) fn steps_to_drop(&self, timeline: &StepTimeline) -> Option<(LastStepsStart, u32)> {
        let steps = &timeline.steps;
        let since = timeline.start_of_last(max_steps_kept() + EXTRA_STEPS_KEPT_OF_PIPE)?;
        let settled = steps
            .get(steps.len().checked_sub(UNSETTLED_STEPS_OF_PIPE)?)?
            .mark;
        let is_due = since.step > self.since.step;
        is_due.then_some((since, u32::try_from(settled).ok()?))
    }

    /// Drops the steps before `since`: adds them to the summary, and removes their calls from
    /// `sums`.
    pub(crate) fn drop_steps(
        &mut self,
        since: LastStepsStart,
        timeline: &StepTimeline,
        marks: MarkSlice<'_>,
        sums: &mut GapSums,
        merged: &MergedMembers,
    ) {
        let old = timeline.steps.slice(self.since.step..since.step);
        let line = |step: &TrainStep| marks.get(step.mark).map(|mark| mark.line);
        let (Some(first), Some(last)) = (old.first(), old.last()) else {
            return;
        };
        self.first.get_or_insert(first.step);
        let each = old.iter().map(|step| step.steps);
        self.steps = each.fold(self.steps, u64::saturating_add);
        for step in old {
            step.time_s
                .into_iter()
                .for_each(|time| self.times.add_value(time));
            let tflops = step.tflops.into_iter();
            tflops.for_each(|tflops| self.tflops.add_value(tflops));
        }
        self.times.sort();
        self.tflops.sort();
        if let Some(called) = &mut self.called {
            called.next = called.next.or_else(|| Some((first.step, line(first)?)));
        }
        self.called = last_step_with_calls(since, timeline, marks, sums).or(self.called);
        if self.uneven.is_none() {
            let gaps = self.since.gap..since.gap;
            self.uneven = sums.first_gap_apart(merged, timeline, gaps);
        }
        self.note_seams(old, line);
        #[cfg(test)]
        tests::LET_GO.set(tests::LET_GO.get() + 1);
        self.last = line(last).map(|line| LastOldStep {
            segment: last.segment,
            step: last.step,
            line,
        });
        sums.forget_before(since.gap);
        self.since = since;
    }

    /// Looks where step numbers fall, and where lines may be missing.
    fn note_seams(&mut self, old: &[TrainStep], line: impl Fn(&TrainStep) -> Option<u64>) {
        let known = self.last.map(|last| (last.segment, last.line));
        // The line before is looked up only where it is needed.
        let before = |at: usize| match at.checked_sub(1) {
            Some(before) => line(&old[before]),
            None => known.map(|(_, line)| line),
        };
        let mut segment = known.map(|(segment, _)| segment);
        for (at, step) in old.iter().enumerate() {
            let Some(segment) = segment.replace(step.segment) else {
                continue;
            };
            let falls = segment != step.segment;
            if falls && self.fall.is_none() {
                self.fall = line(step)
                    .zip(before(at))
                    .map(|(line, before)| [line, before]);
            }
            let kind = (!falls).then_some(step.steps);
            if self.uneven.is_some_and(|gap| gap <= step.mark)
                && self.seams.len() < MAX_OLD_LINE_DISTANCES
                && !self.seams.contains_key(&kind)
                && let Some(before) = before(at)
            {
                self.seams.insert(kind, before);
            }
        }
    }

    /// Returns the line before the first place where lines may be missing, if a line mostly
    /// represents `usual` steps.
    pub(crate) fn first_seam(&self, interval: u64) -> Option<u64> {
        let seams = self.seams.iter();
        let seams = seams.filter(|(kind, _)| is_seam(**kind, interval));
        seams.map(|(_, line)| *line).min()
    }

    /// The lines that end a step from where these steps end up to `to`, in order, with the step's number; a line
    /// that is no step's of the timeline has the number of the step before.
    pub(crate) fn step_end_lines(
        &self,
        to: LastStepsStart,
        timeline: &StepTimeline,
        marks: MarkSlice<'_>,
    ) -> Vec<(u64, u64)> {
        let steps = timeline.steps.slice(self.since.step..to.step);
        let mut steps = steps.iter().peekable();
        let mut step = self.last.map_or(0, |last| last.step);
        let marks = marks.slice(self.since.gap..to.gap);
        let marks = (self.since.gap + marks.forgotten_count()..).zip(marks.iter());
        let lines = marks.filter_map(|(at, mark)| {
            while let Some(next) = steps.next_if(|next| next.mark <= at) {
                step = next.step;
            }
            matches!(mark.mark, TrainerMark::Step(_)).then_some((mark.line, step))
        });
        lines.collect()
    }
}

/// Returns the last step before `since` with calls, among those with known calls.
fn last_step_with_calls(
    since: LastStepsStart,
    timeline: &StepTimeline,
    marks: MarkSlice<'_>,
    sums: &GapSums,
) -> Option<LastStepWithCalls> {
    let old = sums.by_gap.partition_point(|(gap, _)| *gap < since.gap);
    let step = |&(gap, sum): &(usize, GapCallSum)| match timeline.gaps.get(gap) {
        Some(GapKind::Step(step)) if sum.calls > 0 => Some(*step as usize),
        _ => None,
    };
    let at = sums.by_gap[..old].iter().rev().find_map(step)?;
    let next = timeline.steps.slice(at + 1..since.step).first();
    Some(LastStepWithCalls {
        at,
        step: timeline.steps.get(at)?.step,
        next: next.and_then(|next| Some((next.step, marks.get(next.mark)?.line))),
    })
}

/// True if lines may be missing before a step: its line represents an unusual number of steps, or the
/// step number falls.
pub(crate) fn is_seam(steps: Option<u64>, interval: u64) -> bool {
    steps != Some(interval)
}
