//! Calls counted by what tells them apart: the one fold that nccl-ops, nccl-hist and nccl-agg
//! share. Memory grows with the number of distinct things, never with the number of calls.

use crate::log::Part;
use crate::log::placement::{Across, Methods, Placed, Placement, Placer, Recorder, Streams, Taken};
use crate::log::timeline::{self, Timeline, Turn};
use crate::log::walk::{Call, Torn, Visit};
use crate::members::{Merged, Ops, Renumbered};
use counts::Counts;
use packed::Packed;
pub use pieces::Pieces;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub(crate) mod bag;
pub(crate) mod counts;
pub(crate) mod key;
pub(crate) mod packed;
pub(crate) mod pieces;
mod replay;

pub use bag::Bag;
pub use key::{
    BYTES, Counted, Key, NO_ROOT, NO_TYPE, NONE, Options, Sizing, UNKNOWN, three_digits,
};
use replay::replay;

/// How many calls and how large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Value {
    /// Calls.
    pub calls: u64,
    /// Their bytes together, of those whose bytes are known.
    pub bytes: u128,
    /// The smallest.
    pub min: u128,
    /// The largest.
    pub max: u128,
}

impl Value {
    /// Counts `calls` equal calls of `bytes` each.
    #[inline]
    pub fn add(&mut self, calls: u64, bytes: Option<u128>) {
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
    pub fn merge(&mut self, other: &Value) {
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

/// What one chunk adds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Partial {
    options: Options,
    ops: Ops,
    counts: Counts,
    /// Keys have no more than a member, an operation and a size.
    short: bool,
    /// Where steps are told apart: the calls themselves, to be counted once they are placed.
    calls: Recorder,
    /// Number of the gap in the chunk.
    gap: u32,
    /// The finished gaps' counts, one gap's after the other's.
    cells: Packed,
    /// Those gaps that had some, and where their counts end.
    ends: Vec<(u32, usize)>,
    /// Counts that need more than 64 bits, by gap.
    wide: Vec<(u32, u32, Value)>,
}

impl Partial {
    /// Nothing counted yet.
    pub fn new(options: &Options) -> Self {
        Partial {
            options: options.clone(),
            ops: Ops::default(),
            counts: Counts::new(),
            short: !options.exact && !options.datatypes && options.sizing != Sizing::Count,
            calls: Recorder::default(),
            gap: 0,
            cells: Packed::default(),
            ends: Vec::new(),
            wide: Vec::new(),
        }
    }

    /// Ends the gap in hand.
    fn close(&mut self) {
        let (gap, wide) = (self.gap, &mut self.wide);
        self.counts
            .take(&mut self.cells, |key, value| wide.push((gap, key, value)));
        if self.ends.last().map_or(0, |end| end.1) < self.cells.end() {
            self.ends.push((gap, self.cells.end()));
        }
    }
}

impl Visit for Partial {
    #[inline(always)]
    fn call(&mut self, call: &Call<'_>) {
        if self.options.steps {
            return self.calls.call(call);
        }
        let (op, kind) = self.ops.intern(call.coll.op);
        let (key, bytes) = self.options.key(op, kind, call.member, &call.coll);
        self.counts.add(key, 1, bytes, self.short);
    }

    fn mark(&mut self) {
        if self.options.steps {
            self.calls.mark();
        }
    }

    fn slot(&mut self) {
        if self.options.steps {
            self.calls.slot();
        }
    }

    fn same(&mut self, first: &[u32]) {
        if self.options.steps {
            self.calls.same(first);
        }
    }

    fn torn(&mut self, calls: &[Torn<'_>]) {
        if self.options.steps {
            return self.calls.torn(calls);
        }
        // Where a call comes in does not matter.
        calls.iter().for_each(|torn| self.call(&torn.call));
    }
}

/// Calls of gaps that are settled.
pub(crate) struct SoFar {
    /// The last of these gaps.
    pub(crate) last: u32,
    /// What they have, as it was counted.
    pub(crate) pieces: Vec<Pieces<usize>>,
    /// What else they have.
    pub(crate) others: Bag<usize, Key>,
}

/// By process, where its calls are cut: see [`Placement`].
type Cuts = [Vec<(u32, u32)>];

/// The tally of one input after another, chunk after chunk.
#[derive(Debug, Serialize, Deserialize)]
pub struct Tally {
    options: Options,
    /// Operations by number.
    pub ops: Ops,
    /// Where steps are not told apart, by gap 0 and key; else counts that need many bits.
    calls: Bag<usize, Key>,
    /// Where steps are told apart: the gaps of each chunk, by their numbers in the input. Most
    /// gaps of a window are never looked at again.
    pieces: Vec<Pieces<usize>>,
    /// Calls that are not placed yet.
    placer: Placer,
    /// Calls of inputs without step lines.
    across: Across,
    jobs: usize,
    /// Nothing is asked but the counts.
    counts_only: bool,
}

impl Tally {
    /// Nothing counted yet of so many `inputs`, with those that are read elsewhere; the work is shared out to `jobs` threads.
    pub fn new(options: Options, inputs: usize, jobs: usize) -> Tally {
        Tally {
            options,
            ops: Ops::default(),
            calls: Bag::default(),
            pieces: Vec::new(),
            placer: Placer::of(jobs),
            across: Across::of(inputs),
            jobs,
            counts_only: false,
        }
    }

    /// The same where nobody asks in which gap a call was made ([`Tally::end`]), once it is counted.
    pub(crate) fn counts_only(mut self) -> Tally {
        self.counts_only = true;
        self.clear();
        self
    }

    /// Adds what is held of inputs that were read elsewhere, and that come after these: both are
    /// between two inputs, and what they counted was given away. `to` is how processes and members
    /// are numbered here. Calls that are not held any more are counted.
    pub fn merge(&mut self, other: Tally, to: &Renumbered) -> Methods {
        self.clear();
        let Some(calls) = self.across.merge(other.across, to) else {
            return Methods::default();
        };
        let Tally {
            options,
            ops,
            calls: wide,
            pieces,
            jobs,
            ..
        } = self;
        let nowhere = calls.nowhere();
        let stretches = calls.each(&nowhere).collect();
        replay(options, ops, (&calls, stretches), (pieces, wide), *jobs);
        Methods {
            without: calls.calls(),
            ..Methods::default()
        }
    }

    /// What it tells apart.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// How many threads it counts on.
    pub fn jobs(&self) -> usize {
        self.jobs
    }

    /// Begins the next input.
    pub fn clear(&mut self) {
        self.calls.clear();
        self.pieces.clear();
        self.placer = match self.counts_only {
            true => Placer::of(self.jobs).forgetful(),
            false => Placer::of(self.jobs),
        };
    }

    /// Gives the input's calls to `sink`, those of the gaps that are wanted.
    pub fn drain(
        &mut self,
        wanted: impl Fn(usize) -> bool,
        mut sink: impl FnMut(usize, Key, Value),
    ) {
        for pieces in self.gaps(&wanted, &mut sink) {
            pieces.each(|gap, key, value| {
                if wanted(gap) {
                    sink(gap, key, value);
                }
            });
        }
    }

    /// As [`Tally::drain`], but the gaps of whole chunks are given as they are, wanted or not.
    pub fn gaps(
        &mut self,
        wanted: impl Fn(usize) -> bool,
        mut sink: impl FnMut(usize, Key, Value),
    ) -> Vec<Pieces<usize>> {
        self.calls.drain(|gap, key, value| {
            if wanted(gap) {
                sink(gap, key, value);
            }
        });
        std::mem::take(&mut self.pieces)
    }

    /// Adds a chunk. Where steps are told apart its calls are counted when they are placed.
    pub fn add(&mut self, part: Part<'_, Partial>, steps: &timeline::Options) {
        let (mut partial, part) = part.taken();
        if self.options.steps {
            let (placer, count) = self.counting();
            return placer.add(partial.calls, &part, steps, count);
        }
        partial.close();
        let ops: Vec<u32> = partial.ops.names().map(|n| self.ops.intern(n).0).collect();
        let merged = |key: &Key| Key {
            member: part
                .to
                .members
                .get(key.member as usize)
                .copied()
                .unwrap_or(0),
            op: ops[key.op as usize],
            ..*key
        };
        let keys: Vec<Key> = partial.counts.keys().iter().map(merged).collect();
        for (_, key, value) in partial.wide {
            self.calls.push(0, keys[key as usize], value);
        }
        for (key, sums) in partial.cells.all() {
            self.calls.push(0, keys[key as usize], sums.into());
        }
    }

    /// The calls of an input that goes on, by what has come so far: of the gaps after `after` those that
    /// are settled, if there are new ones. They stay here, too.
    pub(crate) fn so_far(
        &mut self,
        (timeline, merged): (&Timeline, &Merged),
        after: Option<u32>,
    ) -> Option<SoFar> {
        let Tally {
            options,
            ops,
            calls,
            pieces: before,
            placer,
            jobs,
            ..
        } = self;
        let needed = after.map_or(0, |after| after.saturating_add(1));
        let found = placer.so_far(timeline, merged, needed);
        let last = found
            .settled
            .filter(|&last| after.is_none_or(|after| last > after))?;
        let is_new = |gap: usize| {
            u32::try_from(gap).is_ok_and(|gap| gap <= last && after.is_none_or(|a| gap > a))
        };
        let (mut pieces, mut others) = (Vec::new(), Bag::default());
        let stretches = found.streams.each(&found.cuts);
        let stretches = stretches.filter(|s| is_new(s.0 as usize)).collect();
        let counted = (&mut pieces, &mut others);
        replay(options, ops, (found.streams, stretches), counted, *jobs);
        // What was counted before calls were asked for; what was counted later is among these, too.
        let since = found.since.filter(|since| after.is_none_or(|a| *since > a));
        if let Some(since) = since {
            let is_wanted = |gap: &usize| *gap <= since as usize && is_new(*gap);
            let part =
                |pieces: &Pieces<usize>| pieces.clone().renamed(|gap| Some(gap).filter(is_wanted));
            pieces.extend(before.iter().map(part));
            calls.clone().drain(|gap, key, value| {
                if is_wanted(&gap) {
                    others.push(gap, key, value);
                }
            });
        }
        Some(SoFar {
            last,
            pieces,
            others,
        })
    }

    /// At a turn of an input that goes on: counts what came up to it.
    pub(crate) fn turn(&mut self, turn: Turn, part: &Part<'_, ()>, steps: &timeline::Options) {
        let (placer, count) = self.counting();
        placer.turn(turn, part, steps, count);
    }

    /// The calls that are not placed yet, and what counts them once they are.
    fn counting(&mut self) -> (&mut Placer, impl FnMut(&Streams, &Cuts)) {
        let Tally {
            options,
            ops,
            calls: wide,
            pieces,
            placer,
            jobs,
            ..
        } = self;
        let count = |calls: &Streams, cuts: &Cuts| {
            let stretches = calls.each(cuts).collect();
            replay(options, ops, (calls, stretches), (pieces, wide), *jobs);
        };
        (placer, count)
    }

    /// Forgets the calls up to the end of gap `gap`, once they are counted, and gives them to `sink`.
    pub(crate) fn forget(&mut self, gap: u32, mut sink: impl FnMut(usize, Key, Value)) {
        let is_old = |at: usize| at <= gap as usize;
        let pieces = std::mem::take(&mut self.pieces);
        self.pieces = pieces
            .into_iter()
            .filter_map(|pieces| {
                pieces.each(|at, key, value| {
                    if is_old(at) {
                        sink(at, key, value);
                    }
                });
                let left = pieces.renamed(|at| (!is_old(at)).then_some(at));
                (left.stretches().count() > 0).then_some(left)
            })
            .collect();
        let mut left = Bag::default();
        self.calls.drain(|at, key, value| match is_old(at) {
            true => sink(at, key, value),
            false => left.push(at, key, value),
        });
        self.calls = left;
        self.placer.forget(gap);
    }

    /// The input ended: counts the calls that are not counted yet by the gaps they were made in, of
    /// those gaps that are wanted. Those of an input without steps are held, where another may have
    /// the steps, until [`Tally::rest`].
    pub fn place(
        &mut self,
        timeline: &Timeline,
        merged: &Merged,
        wanted: impl Fn(usize) -> bool,
    ) -> Methods {
        self.end((timeline, merged), wanted).1.methods
    }

    /// The same. Gives where the calls were made, and the input's number if its calls are held.
    pub fn end(
        &mut self,
        (timeline, merged): (&Timeline, &Merged),
        wanted: impl Fn(usize) -> bool,
    ) -> (Placement, Taken) {
        let Tally {
            options,
            ops,
            calls: wide,
            pieces,
            placer,
            across,
            jobs,
            ..
        } = self;
        let placer = std::mem::take(placer);
        let mut count = |calls: &Streams, cuts: &[Vec<(u32, u32)>]| {
            let stretches = calls.each(cuts).filter(|s| wanted(s.0 as usize));
            let calls = (calls, stretches.collect());
            replay(options, ops, calls, (&mut *pieces, &mut *wide), *jobs);
        };
        let (placement, mut taken) = across.end(placer, (timeline, merged), &mut count);
        if let Some(calls) = taken.too_many.take() {
            count(&calls, &calls.nowhere());
        }
        (placement, taken)
    }

    /// All inputs ended: counts the calls that are held, by the gaps of the timeline that it gives.
    pub fn rest(
        &mut self,
        merged: &Merged,
        wanted: impl Fn(&Timeline, usize) -> bool,
    ) -> Option<(Arc<Timeline>, Methods)> {
        let placed = self.held(merged, wanted)?;
        Some((placed.timeline, placed.methods))
    }

    /// The same. Gives where the calls were made.
    pub fn held(
        &mut self,
        merged: &Merged,
        wanted: impl Fn(&Timeline, usize) -> bool,
    ) -> Option<Placed> {
        self.clear();
        let Tally {
            options,
            ops,
            calls: wide,
            pieces,
            across,
            jobs,
            ..
        } = self;
        let placed = across.place(merged, *jobs)?;
        let stretches = placed.streams.each(&placed.cuts);
        let stretches = stretches.filter(|s| wanted(&placed.timeline, s.0 as usize));
        let calls = (&placed.streams, stretches.collect());
        replay(options, ops, calls, (pieces, wide), *jobs);
        Some(placed)
    }
}
