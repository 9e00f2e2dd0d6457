//! An input that is still being written: calls are given as soon as their steps are settled, and what was
//! given long ago is forgotten.

use super::{CountedCalls, Options, finish_counts};
use crate::count::cells::{CellGatherer, CountedStep};
use crate::count::row_counts::RowCounts;
use crate::count::tally;
use crate::count::tally::{CallKey, CallVolume, SortBuffer, Tally};
use crate::error::Result;
use crate::log::timeline::{self, Checkpoint, LiveTimeline, PresentSteps, StepKey, StepTimeline};
use crate::log::{LogState, MergedChunk};
use crate::members::MergedMembers;
use crate::output::live_rows::LiveRows;
use crate::source::FlushReason;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// Where nobody takes calls before the end, a step is settled when so many more have come.
const STEPS_UNTIL_SETTLED: usize = 64;

/// Calls of an input that goes on.
#[derive(Default)]
pub(super) struct LiveCounts<'e> {
    /// There is one input, of which steps are told apart.
    is_alone: bool,
    /// Who takes the calls of steps that are settled.
    early: Option<LiveRows<'e, CountedCalls>>,
    /// The last gap and the last step that were given.
    gap: Option<u32>,
    step: CountedStep,
    /// The last step that was given before the last turn, and before the one before it.
    turned: [CountedStep; 2],
    /// What was given since each.
    sums: [CallsChecksum; 2],
    /// It turned out otherwise.
    is_otherwise: bool,
    /// All that was forgotten, by key.
    gone: SortBuffer<(), CallKey>,
    growing: LiveTimeline,
}

/// A sum that other calls do not have, in whatever parts they are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CallsChecksum(u128);

impl CallsChecksum {
    fn add_counts(&mut self, gap: usize, key: CallKey, value: CallVolume) {
        let mut hasher = FxHasher::default();
        (gap, key).hash(&mut hasher);
        let hash = u128::from(hasher.finish() | 1);
        let (calls, bytes) = (u128::from(value.calls), value.bytes);
        let calls = hash.wrapping_mul(calls).rotate_left(64);
        self.0 = self
            .0
            .wrapping_add(calls.wrapping_add(hash.wrapping_mul(bytes)));
    }
}

impl<'e> LiveCounts<'e> {
    /// Gives calls to `early`.
    pub(super) fn with_sink(
        early: Option<LiveRows<'e, CountedCalls>>,
        is_alone: bool,
    ) -> LiveCounts<'e> {
        LiveCounts {
            is_alone,
            early: early.filter(|_| is_alone),
            ..LiveCounts::default()
        }
    }

    /// The steps of a log that has ended.
    pub(super) fn finish_timeline(
        &mut self,
        log: &LogState,
        steps: &timeline::Options,
    ) -> StepTimeline {
        let timeline = log.build_final_timeline(&mut self.growing, steps);
        self.is_otherwise |= self.growing.is_contradicted();
        timeline
    }

    /// The steps that are not known any more.
    pub(super) fn forgotten_steps(&self) -> &PresentSteps {
        self.growing.forgotten_steps()
    }

    /// True where calls were given otherwise than they turned out to be.
    pub(super) fn is_contradicted(&self) -> bool {
        self.is_otherwise
    }

    /// True for a gap whose calls count, and were not given for good.
    pub(super) fn counts_gap(
        &self,
        options: &Options,
        timeline: &StepTimeline,
        gap: usize,
    ) -> bool {
        let step = || timeline.step_of(gap).map(timeline::TrainStep::key);
        let is_given = self.turned[1].is_some_and(|given| step().is_some_and(|s| s <= given));
        !is_given && options.counts_gap(timeline, gap)
    }

    /// All that was given for good, by key.
    pub(super) fn into_given_calls(self) -> Vec<(CallKey, CallVolume)> {
        let all = self.gone.into_sorted().into_iter();
        all.map(|((_, key), value)| (key, value)).collect()
    }

    /// A part has been added to the tally: gives what is settled now.
    pub(super) fn emit_settled(
        &mut self,
        part: &MergedChunk<'_, ()>,
        counted: (&mut Tally, &mut CellGatherer),
        (read, options): (&Options, &tally::Options),
    ) -> Result<()> {
        let Some((log, pause)) = part.so_far.filter(|_| self.is_alone) else {
            return Ok(());
        };
        let turn = match &mut self.early {
            // What comes so fast is only copied: each step would be placed twice for nobody.
            Some(_) if pause == FlushReason::Long => return Ok(()),
            Some(_) => {
                let known = (log, part.merged);
                if let Some(calls) = self.settled_calls(counted.0, (read, options), known)
                    && let Some(early) = &mut self.early
                {
                    early.send_rows(calls)?;
                }
                self.gap
            }
            None if !counted.0.is_pipe_full(part.marks.len() - part.marks.forgotten_count()) => {
                return Ok(());
            }
            None => {
                let timeline = log.update_growing_timeline(&mut self.growing, &read.timeline);
                let steps = timeline.steps.remaining();
                let last = steps
                    .len()
                    .checked_sub(STEPS_UNTIL_SETTLED)
                    .and_then(|at| steps.get(at));
                last.and_then(|last| u32::try_from(last.mark).ok())
            }
        };
        let turns = self.early.as_ref().is_none_or(LiveRows::has_checkpoints);
        match turn
            .filter(|_| turns)
            .and_then(|gap| self.growing.checkpoint(gap))
        {
            Some(turn) => self.checkpoint(turn, (part, log), counted, read),
            None => Ok(()),
        }
    }

    /// The calls of the steps that are settled now, after those that were given; `None` where there is
    /// none.
    fn settled_calls(
        &mut self,
        tally: &mut Tally,
        (read, options): (&Options, &tally::Options),
        (log, merged): (&LogState, &MergedMembers),
    ) -> Option<CountedCalls> {
        let timeline = log.update_growing_timeline(&mut self.growing, &read.timeline);
        let mut logged = CellGatherer::default();
        let (last, mut most) = (self.step, self.step);
        let mut found = tally.settled_calls((timeline, merged), self.gap)?;
        self.gap = Some(found.last);
        let (sum, is_otherwise) = (&mut self.sums[0], &mut self.is_otherwise);
        let step_of = |gap: usize| {
            let step = timeline.step_of(gap).map(timeline::TrainStep::key);
            step.filter(|_| read.counts_gap(timeline, gap))
        };
        let is_new = |step: &StepKey| last.is_none_or(|last| *step > last);
        let mut take = |gap: usize, key: CallKey, value: CallVolume| {
            let step = step_of(gap)?;
            if !is_new(&step) {
                *is_otherwise = true;
                return None;
            }
            sum.add_counts(gap, key, value);
            most = most.max(Some(step));
            Some(step)
        };
        for pieces in found.pieces {
            pieces.each_count(|gap, key, value| {
                take(gap, key, value);
            });
            logged.push_chunk(pieces.rename_stretches(|gap| step_of(gap).filter(is_new).map(Some)));
        }
        found.others.drain(|gap, key, value| {
            if let Some(step) = take(gap, key, value) {
                logged.push(Some(step), key, value);
            }
        });
        if most == self.step {
            return None;
        }
        self.step = most;
        let rows = RowCounts::new(options, read.window);
        let counted = (tally.ops.clone(), logged);
        Some(finish_counts(options, merged, counted, rows, true))
    }

    /// A turn: what was given before the last one is forgotten; where nobody took it, it is counted by step.
    fn checkpoint(
        &mut self,
        turn: Checkpoint,
        (part, log): (&MergedChunk<'_, ()>, &LogState),
        (tally, logged): (&mut Tally, &mut CellGatherer),
        read: &Options,
    ) -> Result<()> {
        tally.count_checkpoint(turn, part, &read.timeline);
        if let Some(before) = turn.before {
            let timeline = self.growing.timeline();
            let is_given = self.early.is_some();
            let (gone, mut sum) = (&mut self.gone, CallsChecksum::default());
            tally.forget_until(before.gap, |gap, key, value| {
                if !read.counts_gap(timeline, gap) {
                    return;
                }
                match timeline.step_of(gap).map(timeline::TrainStep::key) {
                    Some(_) if is_given => {
                        sum.add_counts(gap, key, value);
                        gone.push((), key, value);
                    }
                    step => logged.push(step, key, value),
                }
            });
            self.is_otherwise |= is_given && sum != self.sums[1];
            self.growing.forget_until(before.gap);
            log.forget_gaps_until(before.gap);
        }
        self.turned = [self.step, self.turned[0]];
        self.sums = [CallsChecksum::default(), self.sums[0]];
        match &mut self.early {
            Some(early) => early.send_checkpoint(),
            None => Ok(()),
        }
    }
}
