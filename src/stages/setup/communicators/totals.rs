//! Sums over the chunks of all inputs.

use super::attribution::{build_communicators, resolve_processes};
use super::{
    CommunicatorSide, CommunicatorSides, CommunicatorsPartial, CommunicatorsSummary, tally_options,
};
use crate::count::calls::{CountedCalls, finish_counts};
use crate::count::cells::CellGatherer;
use crate::count::filtered::CountFilter;
use crate::count::row_counts::RowCounts;
use crate::count::tally::{self, CallKey, CallVolume, ChunkCounts, SortBuffer, Tally};
use crate::filter::FilterPart;
use crate::log::MergedChunk;
use crate::log::placement::{PlacedCalls, Placement, TakenInput};
use crate::log::timeline::{self, StepTimeline, StepWindow};
use crate::members::{MergedMembers, MergedNumbers};
use crate::pool;
use crate::stages::net::net_stage::FirstReportLine;
use serde::{Deserialize, Serialize};

/// Sums over the chunks of all inputs.
#[derive(Debug, Serialize, Deserialize)]
pub struct CommunicatorTotals {
    tally: Tally,
    sides: CommunicatorSides,
    /// Calls by merged member.
    calls: SortBuffer<(), CallKey>,
    /// Steps of the input with the most.
    steps: u64,
    /// The inputs' names.
    inputs: Vec<String>,
    /// Calls by step, if wanted.
    #[serde(skip)]
    by_step: Option<CommunicatorStepCalls>,
}

/// Calls by step.
#[derive(Debug)]
struct CommunicatorStepCalls {
    /// How calls by step are distinguished: not further than calls over all steps.
    tally: tally::Options,
    calls: CellGatherer,
    has_steps: bool,
}

impl CommunicatorTotals {
    /// Makes empty sums; chunks must be read with this `tally`.
    pub(crate) fn new(tally: &tally::Options, inputs: usize, jobs: usize) -> CommunicatorTotals {
        CommunicatorTotals {
            tally: Tally::new(tally.clone(), inputs, jobs),
            sides: CommunicatorSides::default(),
            calls: SortBuffer::default(),
            steps: 0,
            inputs: Vec::new(),
            by_step: None,
        }
    }

    /// Also counts calls by step, as `tally` distinguishes them; chunks must distinguish steps.
    pub(crate) fn with_steps(self, tally: &tally::Options) -> CommunicatorTotals {
        let by_step = CommunicatorStepCalls {
            tally: tally.clone(),
            calls: CellGatherer::default(),
            has_steps: false,
        };
        CommunicatorTotals {
            by_step: Some(by_step),
            ..self
        }
    }

    /// Adds later inputs that were read elsewhere, between two inputs; `to` has the numbers of their
    /// processes and members here. Calls that are no longer held have no step.
    pub fn merge(
        &mut self,
        other: CommunicatorTotals,
        to: &MergedNumbers,
        window: Option<&StepWindow>,
    ) {
        let ops = other.tally.ops.op_names();
        let ops: Vec<u32> = ops.map(|name| self.tally.ops.intern(name).0).collect();
        for (((), key), value) in other.calls.into_sorted() {
            let key = CallKey {
                op: ops[key.op as usize],
                member: to.members[key.member as usize],
                ..key
            };
            self.calls.push((), key, value);
        }
        let before = u32::try_from(self.inputs.len()).unwrap_or(u32::MAX);
        let here = |process: u32| to.processes[process as usize];
        self.sides.merge(other.sides, here, before);
        self.inputs.extend(other.inputs);
        self.steps = self.steps.max(other.steps);
        self.tally.merge(other.tally, to);
        let (calls, all) = (&mut self.calls, window.is_none());
        self.tally
            .drain_wanted(|_| all, |_, key, value| calls.push((), key, value));
    }

    /// Begins the next input.
    pub(crate) fn begin_input(&mut self, name: String) {
        self.tally.clear();
        self.inputs.push(name);
    }

    /// Adds a chunk.
    pub(crate) fn add_chunk(
        &mut self,
        part: MergedChunk<'_, CommunicatorsPartial>,
        steps: &timeline::Options,
    ) {
        let (visit, part) = part.take_visit();
        let (calls, heard) = visit.into_parts();
        let input = self.inputs.len().saturating_sub(1);
        let from = FirstReportLine {
            input: u32::try_from(input).unwrap_or(u32::MAX),
            line: part.line,
        };
        self.sides.add_lines(heard, part.to, from, part.merged);
        self.tally.add_chunk(part.with_visit(calls), steps);
    }

    /// Ends an input and counts its calls in `window`. Returns their placement, if chunks distinguish
    /// steps.
    pub(crate) fn end_input(
        &mut self,
        timeline: &StepTimeline,
        merged: &MergedMembers,
        window: Option<&StepWindow>,
    ) -> (Placement, TakenInput) {
        let inside = |step: &&timeline::TrainStep| window.is_none_or(|w| w.contains(step.step));
        let steps = timeline.steps.iter().filter(inside).map(|s| s.steps);
        let steps = steps.fold(0, u64::saturating_add);
        self.steps = self.steps.max(steps);
        let wanted = |gap: usize| is_gap_wanted(window, timeline, gap);
        let placed = self.tally.end_input(timeline, merged, wanted);
        self.take_tally(timeline, window);
        placed
    }

    /// Notes the number of steps of an input, which may have more than are kept.
    pub(crate) fn note_steps(&mut self, steps: u64) {
        self.steps = self.steps.max(steps);
    }

    /// Takes the counts of the tally.
    fn take_tally(&mut self, timeline: &StepTimeline, window: Option<&StepWindow>) {
        let (calls, by_step) = (&mut self.calls, &mut self.by_step);
        let (finer, jobs) = (self.tally.options().clone(), self.tally.jobs());
        let to = by_step.as_ref().map(|by_step| by_step.tally.clone());
        if let Some(by_step) = by_step {
            by_step.calls.next_input();
            by_step.has_steps |= !timeline.steps.is_empty();
        }
        let wanted = |gap: usize| is_gap_wanted(window, timeline, gap);
        let step_of = |gap: usize| timeline.step_of(gap).map(timeline::TrainStep::key);
        let chunks = self.tally.drain_gaps(wanted, |gap, key, value| {
            calls.push((), key, value);
            if let Some(by_step) = by_step {
                let key = by_step.tally.coarsen_key(&finer, &key);
                by_step.calls.push(step_of(gap), key, value);
            }
        });
        // A count may cover only a few calls, so all cores add them up.
        let added = |pieces: ChunkCounts<usize>| {
            let pieces = pieces.rename_stretches(|gap| wanted(gap).then(|| step_of(gap)));
            let mut wide = Vec::new();
            let coarse = to.as_ref().map(|to| {
                let add = |step, key, value| wide.push((step, key, value));
                pieces.change_keys(|key| to.coarsen_key(&finer, key), add)
            });
            (
                pieces.sum_over_stretches().collect::<Vec<_>>(),
                coarse,
                wide,
            )
        };
        let sink = |(all, coarse, wide): (Vec<_>, Option<_>, Vec<_>)| {
            for (key, value) in all {
                calls.push((), key, value);
            }
            if let (Some(by_step), Some(coarse)) = (by_step.as_mut(), coarse) {
                by_step.calls.push_chunk(coarse);
                for (step, key, value) in wide {
                    by_step.calls.push(step, key, value);
                }
            }
            Ok(())
        };
        // The sink never fails.
        let _ = pool::map_in_order(jobs, chunks.into_iter(), added, sink);
    }

    /// Counts held calls in `window` after all inputs are read. Returns their placement.
    pub(crate) fn take_rest(
        &mut self,
        merged: &MergedMembers,
        window: Option<&StepWindow>,
    ) -> Option<PlacedCalls> {
        let wanted = |timeline: &StepTimeline, gap: usize| is_gap_wanted(window, timeline, gap);
        let placed = self.tally.place_held(merged, wanted)?;
        self.take_tally(&placed.timeline, window);
        Some(placed)
    }

    /// Returns the calls by step, if wanted.
    pub(crate) fn take_calls_by_step(&mut self, merged: &MergedMembers) -> Option<CountedCalls> {
        let CommunicatorStepCalls {
            tally,
            calls,
            has_steps,
        } = self.by_step.take()?;
        let ops = self.tally.ops.clone();
        let none = RowCounts::new(&tally, None);
        Some(finish_counts(&tally, merged, ops, calls, none, has_steps))
    }

    /// Counts calls over all steps, as `tally` distinguishes them: not further than the chunks.
    pub(crate) fn count_calls_by(
        &self,
        tally: &tally::Options,
        merged: &MergedMembers,
    ) -> CountedCalls {
        let (ops, finer) = (self.tally.ops.clone(), self.tally.options());
        let mut calls = CellGatherer::default();
        for (((), key), value) in self.calls.clone().into_sorted() {
            calls.push(None, tally.coarsen_key(finer, &key), value);
        }
        let none = RowCounts::new(tally, None);
        finish_counts(tally, merged, ops, calls, none, false)
    }

    /// Returns the calls that pass `filter`, by merged member, as its caller distinguishes them.
    pub(crate) fn keep_calls(
        &self,
        filter: &CountFilter<'_>,
        merged: &MergedMembers,
    ) -> (Vec<(CallKey, CallVolume)>, FilterPart) {
        let names = CountedCalls::of_names(filter.tally(), merged, &self.tally.ops);
        let mut part = FilterPart::default();
        let calls = self.calls.clone().into_sorted().into_iter();
        let passing = calls.filter_map(|(((), key), value)| {
            let (key, passes) = filter.judge_key(&names, None, &key, value.calls, &mut part);
            passes.then_some((key, value))
        });
        (passing.collect(), part)
    }

    /// Returns the sides that lines report, without their calls.
    pub(crate) fn sides_from_lines(&self, merged: &MergedMembers) -> Vec<CommunicatorSide> {
        resolve_processes(self.sides.list.clone(), &merged.process_aliases())
    }

    /// Finds the communicators with their members and purposes.
    pub(crate) fn finish(mut self, merged: &MergedMembers) -> CommunicatorsSummary {
        let finer = self.tally.options().clone();
        let own = tally_options(false);
        self.calls
            .change_keys(|key| *key = own.coarsen_key(&finer, key));
        let ops = self.tally.ops;
        CommunicatorsSummary {
            inputs: self.inputs,
            ..build_communicators(self.sides, self.calls, merged, ops, self.steps)
        }
    }
}

/// True if the calls of a gap count.
fn is_gap_wanted(window: Option<&StepWindow>, timeline: &StepTimeline, gap: usize) -> bool {
    let step = || timeline.step_of(gap).map(|s| s.step);
    window.is_none_or(|w| step().is_some_and(|s| w.contains(s)))
}
