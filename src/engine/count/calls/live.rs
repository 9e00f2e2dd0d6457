//! Counts an input that is still being written: emits calls once their steps are settled, and forgets old ones.

use super::Options;
use super::counted::{CountedCalls, finish_counts};
use crate::count::cells::{CellGatherer, CountedStep};
use crate::count::limits::STEPS_UNTIL_SETTLED;
use crate::count::row_counts::RowCounts;
use crate::count::tally;
use crate::count::tally::{CallKey, CallVolume, SortBuffer, Tally};
use crate::error::Result;
use crate::log::placement::SettleRule;
use crate::log::timeline::{self, Checkpoint, LiveTimeline, PresentSteps, StepKey, StepTimeline};
use crate::log::{LogState, MergedChunk};
use crate::members::MergedMembers;
use crate::output::live_rows::LiveRows;
use crate::source::FlushReason;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// The calls of a growing input.
#[derive(Default)]
pub(super) struct LiveCounts<'e> {
    /// True for a single input that is counted by step.
    is_alone: bool,
    /// Takes the calls of settled steps.
    early: Option<LiveRows<'e, CountedCalls>>,
    /// When a step is settled.
    pub(super) rule: SettleRule,
    /// The last gap and the last step emitted.
    gap: Option<u32>,
    step: CountedStep,
    /// The last step emitted before the last checkpoint, and before the one before it.
    turned: [CountedStep; 2],
    /// Sums of the calls since each.
    sums: [CallsChecksum; 2],
    /// Emitted calls were wrong.
    is_otherwise: bool,
    /// The forgotten calls, by key.
    gone: SortBuffer<(), CallKey>,
    growing: LiveTimeline,
}

/// A checksum of calls that does not depend on how they are split.
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

impl CallsChecksum {
    fn plus(self, other: CallsChecksum) -> CallsChecksum {
        CallsChecksum(self.0.wrapping_add(other.0))
    }
}

impl<'e> LiveCounts<'e> {
    /// Emits calls to `early`.
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

    /// Returns the final steps of a log.
    pub(super) fn finish_timeline(
        &mut self,
        log: &LogState,
        steps: &timeline::Options,
    ) -> StepTimeline {
        let timeline = log.build_final_timeline(&mut self.growing, steps);
        self.is_otherwise |= self.growing.is_contradicted();
        timeline
    }

    /// Returns the forgotten steps.
    pub(super) fn forgotten_steps(&self) -> &PresentSteps {
        self.growing.forgotten_steps()
    }

    /// The last settled step: its calls were emitted, if it has any.
    pub(super) fn last_settled_step(&self) -> Option<StepKey> {
        let step = self.growing.timeline().step_of(self.gap? as usize)?;
        Some(step.key())
    }

    /// True if emitted calls turned out to be wrong.
    pub(super) fn is_contradicted(&self) -> bool {
        self.is_otherwise
    }

    /// True if the gap's calls count and are not final output yet.
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

    /// Returns the final output, by key.
    pub(super) fn into_given_calls(self) -> Vec<(CallKey, CallVolume)> {
        let all = self.gone.into_sorted().into_iter();
        all.map(|((_, key), value)| (key, value)).collect()
    }

    /// Emits the calls that are settled after a part was added.
    pub(super) fn emit_settled(
        &mut self,
        part: &MergedChunk<'_, ()>,
        tally: &mut Tally,
        logged: &mut CellGatherer,
        read: &Options,
        options: &tally::Options,
    ) -> Result<()> {
        let Some((log, pause)) = part.so_far.filter(|_| self.is_alone) else {
            return Ok(());
        };
        let turn = match &mut self.early {
            // A fast input is not placed now: each step would be placed twice in vain.
            Some(_) if pause == FlushReason::Long => return Ok(()),
            Some(_) => {
                if let Some(calls) = self.settled_calls(tally, read, options, log, part.merged)
                    && let Some(early) = &mut self.early
                {
                    early.send_rows(calls)?;
                }
                self.gap
            }
            None if !tally.is_pipe_full(part.marks.len() - part.marks.forgotten_count()) => {
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
            Some(turn) => self.checkpoint(turn, part, log, tally, logged, read),
            None => Ok(()),
        }
    }

    /// Returns the calls of steps that are settled but not emitted; `None` if there are none.
    fn settled_calls(
        &mut self,
        tally: &mut Tally,
        read: &Options,
        options: &tally::Options,
        log: &LogState,
        merged: &MergedMembers,
    ) -> Option<CountedCalls> {
        let timeline = log.update_growing_timeline(&mut self.growing, &read.timeline);
        let mut logged = CellGatherer::default();
        let (last, mut most) = (self.step, self.step);
        let mut found = tally.settled_calls(timeline, merged, self.gap, self.rule)?;
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
        let calls = finish_counts(options, merged, tally.ops.clone(), logged, rows, true);
        Some(calls)
    }

    /// Compares the emitted calls with those that all text so far gives the same steps.
    pub(super) fn compare_emitted(
        &mut self,
        tally: &mut Tally,
        read: &Options,
        log: &LogState,
        merged: &MergedMembers,
    ) {
        let timeline = log.update_growing_timeline(&mut self.growing, &read.timeline);
        let first = self.turned[1];
        let is_emitted = |gap: usize| {
            let step = timeline.step_of(gap).map(timeline::TrainStep::key);
            let is_within = |step| Some(step) > first && Some(step) <= self.step;
            read.counts_gap(timeline, gap) && step.is_some_and(is_within)
        };
        let Some(mut found) = tally.all_calls_so_far(timeline, merged) else {
            return;
        };
        let mut sum = CallsChecksum::default();
        let mut take = |gap: usize, key: CallKey, value: CallVolume| {
            if is_emitted(gap) {
                sum.add_counts(gap, key, value);
            }
        };
        for pieces in &found.pieces {
            pieces.each_count(&mut take);
        }
        found.others.drain(take);
        let [since, before] = self.sums;
        self.is_otherwise |= sum != since.plus(before);
    }

    /// Forgets what was emitted before the last checkpoint; without a sink, counts it by step first.
    fn checkpoint(
        &mut self,
        turn: Checkpoint,
        part: &MergedChunk<'_, ()>,
        log: &LogState,
        tally: &mut Tally,
        logged: &mut CellGatherer,
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
