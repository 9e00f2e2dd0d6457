//! Calls counted by key: the fold that nccl-ops, nccl-hist and nccl-agg share. Memory grows with the number of
//! distinct keys, never with the number of calls.

use crate::log::MergedChunk;
use crate::log::placement::{
    CallPlacer, CutsByProcess, FilesWithoutSteps, PlacedCalls, Placement, PlacementMethods,
    SettleRule, StreamsByProcess, TakenInput,
};
use crate::log::timeline::{self, Checkpoint, StepTimeline};
use crate::members::{MergedMembers, MergedNumbers, OpInterner};
pub use chunk_counts::ChunkCounts;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub(crate) mod chunk_counts;
pub(crate) mod counts;
pub(crate) mod key;
pub(crate) mod packed;
mod partial;
mod replay;
pub(crate) mod sort_buffer;

pub use key::{
    BYTE_DATATYPE, CallKey, NO_REDUCTION, NO_ROOT, Options, SizeKey, TallyCall, UNKNOWN_SIZE,
    UNNAMED_DATATYPE, round_to_three_digits,
};
pub use partial::TallyPartial;
use replay::GapCounts;
pub use sort_buffer::SortBuffer;

/// How many calls and how large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallVolume {
    /// Calls.
    pub calls: u64,
    /// The sum of their known bytes.
    pub bytes: u128,
    /// The smallest.
    pub min: u128,
    /// The largest.
    pub max: u128,
}

impl CallVolume {
    /// Counts `calls` equal calls of `bytes` each.
    #[inline]
    pub fn add_calls(&mut self, calls: u64, bytes: Option<u128>) {
        let before = self.calls;
        // Only a table's own `calls` column can come near the end of 64 bits.
        self.calls = self.calls.saturating_add(calls);
        let Some(bytes) = bytes else { return };
        self.bytes = self
            .bytes
            .saturating_add(bytes.saturating_mul(u128::from(calls)));
        self.min = if before == 0 {
            bytes
        } else {
            self.min.min(bytes)
        };
        self.max = self.max.max(bytes);
    }

    /// Adds another's calls.
    pub fn merge(&mut self, other: &CallVolume) {
        if other.calls == 0 {
            return;
        }
        self.min = if self.calls == 0 {
            other.min
        } else {
            self.min.min(other.min)
        };
        self.max = self.max.max(other.max);
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Calls of gaps that are settled.
pub(crate) struct SettledCalls {
    /// The last of these gaps.
    pub(crate) last: u32,
    /// Their counts, as chunks.
    pub(crate) pieces: Vec<ChunkCounts<usize>>,
    /// Their other counts.
    pub(crate) others: SortBuffer<usize, CallKey>,
}

/// The tally of one input after another, chunk after chunk.
#[derive(Debug, Serialize, Deserialize)]
pub struct Tally {
    /// Operations by number.
    pub ops: OpInterner,
    counts: GapCounts,
    /// Calls that are not placed yet.
    placer: CallPlacer,
    /// Calls of inputs without step lines.
    across: FilesWithoutSteps,
    /// Only the counts are asked for.
    counts_only: bool,
}

impl Tally {
    /// Begins a tally of `inputs`, including those that are read elsewhere; `jobs` threads share the work.
    pub fn new(options: Options, inputs: usize, jobs: usize) -> Tally {
        Tally {
            ops: OpInterner::default(),
            counts: GapCounts::new(options, jobs),
            placer: CallPlacer::with_jobs(jobs),
            across: FilesWithoutSteps::for_inputs(inputs),
            counts_only: false,
        }
    }

    /// Forgets the gap of each call ([`Tally::end_input`]) once it is counted.
    pub(crate) fn without_gaps(mut self) -> Tally {
        self.counts_only = true;
        self.clear();
        self
    }

    /// Adds the held calls of later inputs that were read elsewhere: both tallies are between two inputs, and
    /// their counts were drained. `to` numbers processes and members here. Counts calls that are no longer
    /// held.
    pub fn merge(&mut self, other: Tally, to: &MergedNumbers) -> PlacementMethods {
        self.clear();
        let Some(calls) = self.across.merge(other.across, to) else {
            return PlacementMethods::default();
        };
        let nowhere = calls.unplaced_cuts();
        self.counts
            .count_placed(&mut self.ops, &calls, calls.each_gap_calls(&nowhere));
        PlacementMethods {
            without: calls.count_calls(),
            ..PlacementMethods::default()
        }
    }

    /// The tally's options.
    pub fn options(&self) -> &Options {
        &self.counts.options
    }

    /// How many threads it counts on.
    pub fn jobs(&self) -> usize {
        self.counts.jobs
    }

    /// Begins the next input.
    pub fn clear(&mut self) {
        self.counts.wide.clear();
        self.counts.pieces.clear();
        let placer = CallPlacer::with_jobs(self.counts.jobs);
        self.placer = match self.counts_only {
            true => placer.without_old_cuts(),
            false => placer,
        };
    }

    /// Gives the input's calls to `sink`, those of the gaps that are wanted.
    pub fn drain_wanted(
        &mut self,
        wanted: impl Fn(usize) -> bool,
        mut sink: impl FnMut(usize, CallKey, CallVolume),
    ) {
        for pieces in self.drain_gaps(&wanted, &mut sink) {
            pieces.each_count(|gap, key, value| {
                if wanted(gap) {
                    sink(gap, key, value);
                }
            });
        }
    }

    /// As [`Tally::drain_wanted`], but the gaps of whole chunks are given as they are, wanted or not.
    pub fn drain_gaps(
        &mut self,
        wanted: impl Fn(usize) -> bool,
        mut sink: impl FnMut(usize, CallKey, CallVolume),
    ) -> Vec<ChunkCounts<usize>> {
        self.counts.wide.drain(|gap, key, value| {
            if wanted(gap) {
                sink(gap, key, value);
            }
        });
        std::mem::take(&mut self.counts.pieces)
    }

    /// Adds a chunk. With steps, its calls are counted when they are placed.
    pub fn add_chunk(&mut self, part: MergedChunk<'_, TallyPartial>, steps: &timeline::Options) {
        let (mut partial, part) = part.take_visit();
        if self.counts.options.steps {
            let (placer, count) = self.placer_and_counter();
            return placer.add_chunk(partial.calls, &part, steps, count);
        }
        partial.close_gap();
        let ops: Vec<u32> = partial
            .ops
            .op_names()
            .map(|n| self.ops.intern(n).0)
            .collect();
        let merged = |key: &CallKey| CallKey {
            member: part
                .to
                .members
                .get(key.member as usize)
                .copied()
                .unwrap_or(0),
            op: ops[key.op as usize],
            ..*key
        };
        let keys: Vec<CallKey> = partial.counts.keys().iter().map(merged).collect();
        for (_, key, value) in partial.wide {
            self.counts.wide.push(0, keys[key as usize], value);
        }
        for (key, sums) in partial.cells.all_counts() {
            self.counts.wide.push(0, keys[key as usize], sums.into());
        }
    }

    /// Returns the calls of a growing input in the gaps after `after` that are settled by `rule`, if there are new
    /// ones. They stay here, too.
    pub(crate) fn settled_calls(
        &mut self,
        timeline: &StepTimeline,
        merged: &MergedMembers,
        after: Option<u32>,
        rule: SettleRule,
    ) -> Option<SettledCalls> {
        let needed = after.map_or(0, |after| after.saturating_add(1));
        let placer = &mut self.placer;
        let found = placer.live_placement_by(rule, timeline, merged, needed);
        let is_new = |&last: &u32| after.is_none_or(|after| last > after);
        let last = found.settled.filter(is_new)?;
        let is_new = |gap: usize| {
            u32::try_from(gap).is_ok_and(|gap| gap <= last && after.is_none_or(|a| gap > a))
        };
        let Tally { ops, counts, .. } = self;
        let mut new = GapCounts::new(counts.options.clone(), counts.jobs);
        let stretches = found.streams.each_gap_calls(&found.cuts);
        let stretches = stretches.filter(|calls| is_new(calls.gap as usize));
        new.count_placed(ops, found.streams, stretches);
        // What was counted before calls were asked for; what was counted later is among these, too.
        let since = found.since.filter(|since| after.is_none_or(|a| *since > a));
        if let Some(since) = since {
            let is_wanted = |gap: &usize| *gap <= since as usize && is_new(*gap);
            let part = |pieces: &ChunkCounts<usize>| {
                pieces
                    .clone()
                    .rename_stretches(|gap| Some(gap).filter(is_wanted))
            };
            new.pieces.extend(counts.pieces.iter().map(part));
            counts.wide.clone().drain(|gap, key, value| {
                if is_wanted(&gap) {
                    new.wide.push(gap, key, value);
                }
            });
        }
        Some(SettledCalls {
            last,
            pieces: new.pieces,
            others: new.wide,
        })
    }

    /// Returns all calls of a growing input that are not forgotten, as everything so far places them.
    pub(crate) fn all_calls_so_far(
        &mut self,
        timeline: &StepTimeline,
        merged: &MergedMembers,
    ) -> Option<SettledCalls> {
        self.placer.drop_window();
        self.settled_calls(timeline, merged, None, SettleRule::Lines)
    }

    /// True if the held calls and `step_lines` step lines take the memory of a pipe.
    pub(crate) fn is_pipe_full(&self, step_lines: usize) -> bool {
        self.placer.is_pipe_full(step_lines)
    }

    /// Counts the calls up to a checkpoint of a growing input.
    pub(crate) fn count_checkpoint(
        &mut self,
        turn: Checkpoint,
        part: &MergedChunk<'_, ()>,
        steps: &timeline::Options,
    ) {
        let (placer, count) = self.placer_and_counter();
        placer.place_checkpoint(turn, part, steps, count);
    }

    /// The calls that are not placed yet, and what counts them once they are.
    fn placer_and_counter(
        &mut self,
    ) -> (
        &mut CallPlacer,
        impl FnMut(&StreamsByProcess, &CutsByProcess),
    ) {
        let Tally {
            ops,
            counts,
            placer,
            ..
        } = self;
        let count = |calls: &StreamsByProcess, cuts: &CutsByProcess| {
            counts.count_placed(ops, calls, calls.each_gap_calls(cuts));
        };
        (placer, count)
    }

    /// Forgets the calls up to the end of gap `gap`, once they are counted, and gives them to `sink`.
    pub(crate) fn forget_until(
        &mut self,
        gap: u32,
        mut sink: impl FnMut(usize, CallKey, CallVolume),
    ) {
        let is_old = |at: usize| at <= gap as usize;
        let pieces = std::mem::take(&mut self.counts.pieces);
        self.counts.pieces = pieces
            .into_iter()
            .filter_map(|pieces| {
                pieces.each_count(|at, key, value| {
                    if is_old(at) {
                        sink(at, key, value);
                    }
                });
                let left = pieces.rename_stretches(|at| (!is_old(at)).then_some(at));
                (left.stretches().count() > 0).then_some(left)
            })
            .collect();
        let mut left = SortBuffer::default();
        self.counts.wide.drain(|at, key, value| match is_old(at) {
            true => sink(at, key, value),
            false => left.push(at, key, value),
        });
        self.counts.wide = left;
        self.placer.forget_until(gap);
    }

    /// Ends the input: counts the remaining calls of the gaps that are `wanted`. Calls of an input without
    /// steps are held until [`Tally::count_held`] if another input may have the steps.
    pub fn place_input(
        &mut self,
        timeline: &StepTimeline,
        merged: &MergedMembers,
        wanted: impl Fn(usize) -> bool,
    ) -> PlacementMethods {
        self.end_input(timeline, merged, wanted).1.methods
    }

    /// Like [`Tally::place_input`], and returns the placement, and the input's number if its calls are held.
    pub fn end_input(
        &mut self,
        timeline: &StepTimeline,
        merged: &MergedMembers,
        wanted: impl Fn(usize) -> bool,
    ) -> (Placement, TakenInput) {
        let Tally {
            ops,
            counts,
            placer,
            across,
            ..
        } = self;
        let placer = std::mem::take(placer);
        let mut count = |calls: &StreamsByProcess, cuts: &CutsByProcess| {
            let stretches = calls.each_gap_calls(cuts);
            let stretches = stretches.filter(|calls| wanted(calls.gap as usize));
            counts.count_placed(ops, calls, stretches);
        };
        let (placement, mut taken) = across.end_input(placer, timeline, merged, &mut count);
        if let Some(calls) = taken.too_many.take() {
            count(&calls, &calls.unplaced_cuts());
        }
        (placement, taken)
    }

    /// Counts the held calls after the last input, by the gaps of the returned timeline.
    pub fn count_held(
        &mut self,
        merged: &MergedMembers,
        wanted: impl Fn(&StepTimeline, usize) -> bool,
    ) -> Option<(Arc<StepTimeline>, PlacementMethods)> {
        let placed = self.place_held(merged, wanted)?;
        Some((placed.timeline, placed.methods))
    }

    /// Like [`Tally::count_held`]; returns the placed calls.
    pub fn place_held(
        &mut self,
        merged: &MergedMembers,
        wanted: impl Fn(&StepTimeline, usize) -> bool,
    ) -> Option<PlacedCalls> {
        self.clear();
        let placed = self.across.place_held(merged, self.counts.jobs)?;
        let stretches = placed.streams.each_gap_calls(&placed.cuts);
        let stretches = stretches.filter(|calls| wanted(&placed.timeline, calls.gap as usize));
        self.counts
            .count_placed(&mut self.ops, &placed.streams, stretches);
        Some(placed)
    }
}
