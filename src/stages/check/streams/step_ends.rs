//! The number of calls after which each process ended each of its steps, by the steps in which the calls were
//! made ([`placement`](crate::log::placement)), not by their lines.

use crate::by_number::ByNumber;
use crate::count::calls::Options;
use crate::log::placement::{CallPlacer, CallRecorder, CutsByProcess};
use crate::log::timeline::{Checkpoint, GapKind, StepTimeline};
use crate::log::{LogState, MergedChunk};
use crate::members::MergedMembers;
use crate::stages::check::log::old_steps;
use std::collections::{BTreeMap, BTreeSet};

/// One process's steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessStepEnds {
    /// The number of its calls.
    pub(crate) made: u64,
    /// The number of calls at the end of each of its steps, rising.
    pub(crate) ends: Vec<u64>,
}

/// The steps of all inputs.
#[derive(Debug, Default)]
pub(crate) struct InputStepEnds {
    /// Steps by input and process.
    of: BTreeMap<u32, ByNumber<ProcessStepEnds>>,
    /// Ranks that print the step lines.
    pub(crate) printers: BTreeSet<u32>,
    /// Ranks that print the step lines, and made no call in one of the steps.
    pub(crate) skipped: BTreeSet<u32>,
}

impl InputStepEnds {
    /// The steps of a process in an input.
    pub(crate) fn steps_of_process(&self, input: u32, process: u32) -> Option<&ProcessStepEnds> {
        self.of.get(&input)?.get(process)
    }

    /// Adds the steps of other inputs.
    pub(super) fn add_inputs(&mut self, other: &InputStepEnds) {
        let of = other.of.iter().map(|(input, own)| (*input, own.clone()));
        self.of.extend(of);
        self.skipped.extend(&other.skipped);
        self.printers.extend(&other.printers);
    }
}

/// One input, while it is read.
pub(super) struct StepEndTracker<'o> {
    placer: CallPlacer,
    options: &'o Options,
}

impl<'o> StepEndTracker<'o> {
    pub(super) fn new(options: &'o Options) -> StepEndTracker<'o> {
        let placer = CallPlacer::with_jobs(options.log.jobs);
        StepEndTracker { placer, options }
    }

    /// Adds a chunk.
    pub(super) fn add_chunk(&mut self, calls: CallRecorder, part: &MergedChunk<'_, ()>) {
        self.placer
            .add_chunk(calls, part, &self.options.timeline, |_, _| {});
    }

    /// Places the calls up to a checkpoint, and forgets the places of calls before gap `old`.
    pub(super) fn place_and_forget(
        &mut self,
        turn: Checkpoint,
        old: usize,
        part: &MergedChunk<'_, ()>,
    ) {
        let steps = &self.options.timeline;
        self.placer.place_checkpoint(turn, part, steps, |_, _| {});
        let last = old.saturating_sub(1);
        self.placer
            .forget_until(u32::try_from(last).unwrap_or(u32::MAX));
    }

    /// Adds the steps of a file that was read to its end.
    pub(super) fn finish_log(
        self,
        input: u32,
        log: &LogState,
        merged: &MergedMembers,
        to: &mut InputStepEnds,
    ) {
        let timeline = log.build_timeline(&self.options.timeline);
        self.finish_input(input, &timeline, merged, to);
    }

    /// Adds the steps of an input that was read to its end, as far as they are counted.
    pub(super) fn finish_input(
        self,
        input: u32,
        timeline: &StepTimeline,
        merged: &MergedMembers,
        to: &mut InputStepEnds,
    ) {
        let (mut placement, _) = self.placer.end_input(timeline, merged, |_, _| {});
        let last = timeline
            .start_of_last(old_steps::max_steps_kept())
            .map(|since| {
                placement
                    .cuts
                    .values_mut()
                    .for_each(|cuts| keep_cuts_from_gap(cuts, since.gap));
                timeline.last_steps(since)
            });
        let timeline = last.as_ref().unwrap_or(timeline);
        to.of
            .insert(input, find_process_step_ends(&placement.cuts, timeline));
        let printer = placement.known.first();
        to.printers.extend(printer);
        let cuts = printer.and_then(|&printer| placement.cuts.get(printer));
        if cuts.is_some_and(|cuts| has_one_empty_step(cuts, timeline)) {
            to.skipped.extend(printer);
        }
    }
}

/// Renumbers the gaps of a process's cuts from `gap` on; earlier cuts get a gap that no
/// timeline has, and keep only their number of calls.
fn keep_cuts_from_gap(cuts: &mut Vec<(u32, u32)>, gap: usize) {
    let gap = u32::try_from(gap).unwrap_or(u32::MAX);
    let old = cuts.partition_point(|cut| cut.0 < gap);
    cuts.drain(..old.saturating_sub(1));
    for (at, _) in cuts {
        *at = at.checked_sub(gap).unwrap_or(u32::MAX);
    }
}

/// True if a rank has calls in all steps between its first and its last but one.
fn has_one_empty_step(cuts: &[(u32, u32)], timeline: &StepTimeline) -> bool {
    let with_calls = cuts.windows(2).filter(|w| w[1].1 > w[0].1).map(|w| w[1].0);
    let first = cuts.first().map(|cut| cut.0);
    let gaps = first.into_iter().chain(with_calls);
    let steps = gaps.filter_map(|gap| match timeline.gaps.get(gap as usize) {
        Some(GapKind::Step(step)) => Some(*step),
        _ => None,
    });
    let mut steps: Vec<u32> = steps.collect();
    steps.dedup();
    let mut missing = steps.windows(2).map(|w| w[1].saturating_sub(w[0] + 1));
    missing.by_ref().find(|&many| many > 0) == Some(1) && missing.all(|many| many == 0)
}

fn find_process_step_ends(
    cuts: &CutsByProcess,
    timeline: &StepTimeline,
) -> ByNumber<ProcessStepEnds> {
    cuts.map_values(|_, cuts| {
        let mut own = ProcessStepEnds::default();
        let mut before = None;
        for &(gap, made) in cuts {
            let step = timeline.gaps.get(gap as usize).copied();
            if let Some(GapKind::Step(_)) = before
                && step != before
            {
                own.ends.push(own.made);
            }
            before = step;
            own.made = made.into();
        }
        own
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(gaps: &[GapKind]) -> StepTimeline {
        StepTimeline {
            gaps: gaps.to_vec().into(),
            ..StepTimeline::default()
        }
    }

    #[test]
    fn steps_end_where_another_begins() {
        let gaps = [
            GapKind::Step(0),
            GapKind::Step(1),
            GapKind::Step(1),
            GapKind::Between,
            GapKind::Step(2),
        ];
        let cuts = vec![vec![(0, 4), (1, 6), (2, 8), (3, 9), (4, 11)]].into();
        let own = ProcessStepEnds {
            made: 11,
            ends: vec![4, 8],
        };
        let found = find_process_step_ends(&cuts, &timeline(&gaps));
        assert_eq!(found, vec![own].into());
    }

    #[test]
    fn steps_that_are_not_counted_have_no_end() {
        let cuts = vec![(0, 4), (1, 6), (2, 8), (3, 11)];
        let gaps = [GapKind::Step(0), GapKind::Step(1)];
        let own = ProcessStepEnds {
            made: 11,
            ends: vec![8],
        };
        for gone in 0..2 {
            let mut cuts = cuts[gone..].to_vec();
            keep_cuts_from_gap(&mut cuts, 2);
            let found = find_process_step_ends(&vec![cuts].into(), &timeline(&gaps));
            assert_eq!(found, vec![own.clone()].into());
        }
        let mut all = cuts.clone();
        keep_cuts_from_gap(&mut all, 0);
        assert_eq!(all, cuts);
    }

    #[test]
    fn one_step_without_calls_was_skipped() {
        let gaps: Vec<GapKind> = (0..6).map(GapKind::Step).collect();
        let is = |cuts: &[(u32, u32)]| has_one_empty_step(cuts, &timeline(&gaps));
        assert!(is(&[(0, 4), (1, 8), (3, 12), (4, 16)]));
        assert!(is(&[(0, 4), (1, 8), (2, 8), (3, 12)]));
        assert!(!is(&[(0, 4), (1, 8), (2, 12), (3, 16)]));
        // Two empty steps, or an empty step at the end.
        assert!(!is(&[(0, 4), (2, 8), (4, 12)]));
        assert!(!is(&[(0, 4), (3, 8), (4, 12)]));
        assert!(!is(&[]));
    }
}
