//! Calls counted by what tells them apart: the one fold that nccl-ops, nccl-hist and nccl-agg
//! share. Memory grows with the number of distinct things, never with the number of calls.

use crate::formats::log::Part;
use crate::formats::log::placement::{Across, Methods, Placement, Placer, Recorder, Streams, What};
use crate::formats::log::timeline::{self, Timeline};
use crate::formats::log::walk::{Call, Torn, Visit};
use crate::grammar::coll::Coll;
use crate::grammar::values::{Basis, Datatype, Kind};
use crate::members::Merged;
use crate::pool;
use counts::Counts;
use packed::Packed;
pub(crate) use pieces::Pieces;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub(crate) mod bag;
pub(crate) mod counts;
pub(crate) mod ops;
pub(crate) mod packed;
pub(crate) mod pieces;

pub use bag::Bag;
pub use ops::Ops;

/// What of a call's size tells it apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sizing {
    /// Its element count, exactly (nccl-agg).
    Count,
    /// Its bytes to three significant digits, as the histogram of percentiles keeps them
    /// (nccl-ops).
    Digits,
    /// Its bucket: the edges in bytes, rising; bucket i is from edge i-1 up to edge i
    /// (nccl-hist).
    Bucket(Vec<u128>),
}

/// What a tally tells apart, besides the operation and its size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// How sizes are told apart.
    pub sizing: Sizing,
    /// What bytes mean.
    pub basis: Basis,
    /// Tell members apart (for their rank, host, communicator, GPU).
    pub members: bool,
    /// Tell datatypes apart.
    pub datatypes: bool,
    /// Tell steps apart.
    pub steps: bool,
    /// Tell the communicator's size, the reduction and the root apart too.
    pub exact: bool,
}

/// A call as far as a tally tells calls apart.
#[derive(Debug, Clone, Copy)]
pub struct Counted {
    /// The operation's number.
    pub op: u32,
    /// The member's number.
    pub member: u32,
    /// The datatype's code, or [`NO_TYPE`].
    pub datatype: u64,
    /// Elements.
    pub count: u64,
    /// The communicator's size.
    pub nranks: Option<u32>,
    /// The reduction, or [`NONE`].
    pub redop: u64,
    /// The root, or [`NO_ROOT`].
    pub root: i64,
    /// Its bytes on the basis asked for.
    pub bytes: Option<u128>,
}

/// What tells calls apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The member's number; 0 where members are not told apart.
    pub member: u32,
    /// The operation's number in [`Ops`].
    pub op: u32,
    /// The datatype's code, or [`NO_TYPE`]; 0 where datatypes are not told apart.
    pub datatype: u64,
    /// The size by [`Sizing`]; [`UNKNOWN`] where the bytes are not known.
    pub size: u64,
    /// The communicator's size, where it decides the bytes or [`Options::exact`] asks; else 0.
    pub nranks: u32,
    /// The reduction under [`Options::exact`], else [`NONE`].
    pub redop: u64,
    /// The root under [`Options::exact`], else [`NO_ROOT`].
    pub root: i64,
}

// Two or three words instead of seven fields: this is done for every call.
impl std::hash::Hash for Key {
    #[inline]
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.member) << 32 | u64::from(self.op));
        let small = self.datatype.rotate_left(56) ^ u64::from(self.nranks).rotate_left(32);
        state.write_u64(self.size ^ small);
        if (self.redop, self.root) != (NONE, NO_ROOT) {
            state.write_u64(self.redop ^ self.root.cast_unsigned().rotate_left(32));
        }
    }
}

/// A datatype whose name a table does not give.
pub const NO_TYPE: u64 = u64::MAX;
/// No reduction, or one that is not told apart.
pub const NONE: u64 = u64::MAX;
/// No root, or one that is not told apart.
pub const NO_ROOT: i64 = i64::MIN;

/// The size of a call whose bytes are not known.
pub const UNKNOWN: u64 = u64::MAX;

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
    /// The finished gaps' counts, one gap's behind the other's.
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

    fn torn(&mut self, calls: &[Torn<'_>]) {
        if self.options.steps {
            return self.calls.torn(calls);
        }
        // Where a call comes in does not matter.
        calls.iter().for_each(|torn| self.call(&torn.call));
    }
}

impl Options {
    /// What a logged call counts as.
    #[inline(always)]
    fn key(&self, op: u32, kind: Kind, member: u32, coll: &Coll<'_>) -> (Key, Option<u128>) {
        let size = Datatype(coll.datatype).size();
        let api = size.map(|size| u128::from(coll.count) * u128::from(size));
        let bytes = api.and_then(|api| self.basis.of(kind, api, coll.nranks));
        let call = Counted {
            op,
            member,
            datatype: coll.datatype.into(),
            count: coll.count,
            nranks: coll.nranks,
            redop: coll.redop,
            root: coll.root,
            bytes,
        };
        (self.key_of(&call), bytes)
    }

    /// What a call counts as.
    #[inline(always)]
    pub fn key_of(&self, call: &Counted) -> Key {
        let size = match (&self.sizing, call.bytes) {
            (Sizing::Count, _) => call.count,
            (_, None) => UNKNOWN,
            (Sizing::Digits, Some(bytes)) => three_digits(bytes),
            (Sizing::Bucket(edges), Some(bytes)) => {
                edges.iter().take_while(|&&edge| edge <= bytes).count() as u64
            }
        };
        let by_nranks = self.exact || (self.basis != Basis::Api && self.sizing == Sizing::Count);
        Key {
            member: if self.members { call.member } else { 0 },
            op: call.op,
            datatype: if self.datatypes { call.datatype } else { 0 },
            size,
            nranks: if by_nranks {
                call.nranks.unwrap_or(0)
            } else {
                0
            },
            redop: if self.exact { call.redop } else { NONE },
            root: if self.exact { call.root } else { NO_ROOT },
        }
    }
}

/// `bytes` without what a histogram of three significant digits does not keep: 11 bits stay.
pub(crate) fn three_digits(bytes: u128) -> u64 {
    let bytes = u64::try_from(bytes).unwrap_or(UNKNOWN - 1);
    let drop = (64 - bytes.leading_zeros()).saturating_sub(11);
    bytes >> drop << drop
}

/// The tally of one input, chunk after chunk.
#[derive(Debug)]
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
}

impl Tally {
    /// Nothing counted yet of so many `inputs`; the work is shared out to `jobs` threads.
    pub fn new(options: Options, inputs: usize, jobs: usize) -> Tally {
        Tally {
            options,
            ops: Ops::default(),
            calls: Bag::default(),
            pieces: Vec::new(),
            placer: Placer::of(jobs),
            across: Across::of(inputs),
            jobs,
        }
    }

    /// Begins the next input.
    pub fn clear(&mut self) {
        self.calls.clear();
        self.pieces.clear();
        self.placer = Placer::of(self.jobs);
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
    pub(crate) fn gaps(
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
    pub fn merge(&mut self, part: Part<'_, Partial>, steps: &timeline::Options) {
        let (mut partial, part) = part.taken();
        if self.options.steps {
            let Tally {
                options,
                ops,
                calls: wide,
                pieces,
                placer,
                jobs,
                ..
            } = self;
            return placer.add(partial.calls, &part, steps, |calls, cuts| {
                let stretches = calls.each(cuts).collect();
                replay(options, ops, (calls, stretches), (pieces, wide), *jobs);
            });
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

    /// The input ended: counts the calls that are not counted yet by the gaps they were made in, of
    /// those gaps that are wanted. Those of an input without steps are held, where another may have
    /// the steps, until [`Tally::rest`].
    pub fn place(
        &mut self,
        timeline: &Timeline,
        merged: &Merged,
        wanted: impl Fn(usize) -> bool,
    ) -> Methods {
        let Tally {
            options,
            ops,
            calls: wide,
            pieces,
            placer,
            across,
            jobs,
        } = self;
        let placer = std::mem::take(placer);
        let mut count = |calls: &Streams, cuts: &[Vec<(u32, u32)>]| {
            let stretches = calls.each(cuts).filter(|s| wanted(s.0 as usize));
            let calls = (calls, stretches.collect());
            replay(options, ops, calls, (&mut *pieces, &mut *wide), *jobs);
        };
        let (placement, calls) = if across.holds(timeline) && placer.is_whole() {
            (Placement::default(), placer.held())
        } else {
            placer.end(timeline, merged, &mut count)
        };
        let taken = across.take(calls, &placement, timeline);
        if let Some(calls) = taken.too_many {
            count(&calls, &calls.nowhere());
        }
        taken.methods
    }

    /// All inputs ended: counts the calls that are held, by the gaps of the timeline that it gives.
    pub fn rest(
        &mut self,
        merged: &Merged,
        wanted: impl Fn(&Timeline, usize) -> bool,
    ) -> Option<(Arc<Timeline>, Methods)> {
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
        let (calls, timeline) = (&placed.streams, placed.timeline);
        let stretches = calls.each(&placed.cuts);
        let stretches = stretches.filter(|s| wanted(&timeline, s.0 as usize));
        let calls = (calls, stretches.collect());
        replay(options, ops, calls, (pieces, wide), *jobs);
        Some((timeline, placed.methods))
    }
}

/// A process's calls in a gap: the gap, and what they are by number.
type Stretch<'a> = (u32, &'a [u32]);

/// Calls that a thread counts at a time.
const SHARE: usize = 1 << 16;

/// Counts placed calls, gap by gap, on all cores.
fn replay(
    options: &Options,
    ops: &mut Ops,
    (calls, mut stretches): (&Streams, Vec<Stretch<'_>>),
    (pieces, wide): (&mut Vec<Pieces<usize>>, &mut Bag<usize, Key>),
    jobs: usize,
) {
    let numbers: Vec<u32> = calls.ops.names().map(|n| ops.intern(n).0).collect();
    stretches.sort_by_key(|(gap, _)| *gap);
    let mut shares = Vec::new();
    let (mut from, mut sum) = (0, 0);
    for (at, (gap, calls)) in stretches.iter().enumerate() {
        let ends = stretches.get(at + 1).is_none_or(|next| next.0 != *gap);
        sum += calls.len();
        if ends && sum >= SHARE {
            shares.push(&stretches[from..=at]);
            (from, sum) = (at + 1, 0);
        }
    }
    shares.push(&stretches[from..]);
    let ops = &*ops;
    let key = |what: &What| {
        let op = numbers.get(what.op as usize).copied().unwrap_or(0);
        let coll = Coll {
            op: b"",
            op_count: 0,
            count: what.count,
            datatype: what.datatype,
            redop: what.redop,
            root: what.root,
            comm: 0,
            nranks: what.nranks,
            stream: 0,
        };
        options.key(op, ops.kind(op), what.member, &coll)
    };
    let keys: Vec<(Key, Option<u128>)> = calls.whats().iter().map(key).collect();
    let count = |share: &&[Stretch<'_>]| {
        let mut partial = Partial::new(options);
        // How often each was called in the gap in hand, and what was called at all.
        let (mut times, mut called) = (vec![0_u32; keys.len()], Vec::new());
        for (at, (gap, calls)) in share.iter().enumerate() {
            for &what in *calls {
                let times = &mut times[what as usize];
                if *times == 0 {
                    called.push(what);
                }
                *times += 1;
            }
            if share.get(at + 1).is_none_or(|next| next.0 != *gap) {
                partial.gap = *gap;
                for what in called.drain(..) {
                    let times = std::mem::take(&mut times[what as usize]);
                    let (key, bytes) = keys[what as usize];
                    partial.counts.add(key, times.into(), bytes, partial.short);
                }
                partial.close();
            }
        }
        partial
    };
    let sink = |partial: Partial| {
        let ends: Vec<_> = partial
            .ends
            .iter()
            .map(|&(gap, end)| (gap as usize, end))
            .collect();
        let keys = partial.counts.keys().to_vec();
        let cells = partial.cells;
        for (gap, key, value) in partial.wide {
            wide.push(gap as usize, keys[key as usize], value);
        }
        pieces.push(Pieces::new(keys, cells, &ends));
        Ok(())
    };
    // The sink does not fail.
    let _ = pool::ordered(jobs, shares.iter(), count, sink);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_exact_below_2048_and_close_above() {
        for bytes in [0, 1, 1023, 2047] {
            assert_eq!(u128::from(three_digits(bytes)), bytes);
        }
        for bytes in [2049_u128, 1 << 20, 123_456_789, 1 << 40, (1 << 63) + 12345] {
            let kept = u128::from(three_digits(bytes));
            assert!(
                kept <= bytes && bytes - kept <= bytes / 1024,
                "{bytes} {kept}"
            );
        }
        assert!(three_digits(u128::MAX) < UNKNOWN);
    }

    #[test]
    fn buckets_are_half_open() {
        let options = Options {
            sizing: Sizing::Bucket(vec![65536, 1 << 20, 16 << 20]),
            basis: Basis::Api,
            members: false,
            datatypes: false,
            steps: false,
            exact: false,
        };
        let call = |bytes| Counted {
            op: 0,
            member: 0,
            datatype: 0,
            count: 0,
            nranks: None,
            redop: NONE,
            root: NO_ROOT,
            bytes: Some(bytes),
        };
        let bucket = |bytes: u128| options.key_of(&call(bytes)).size;
        assert_eq!(
            [65535, 65536, (1 << 20) - 1, 1 << 20, 16 << 20].map(bucket),
            [0, 1, 1, 2, 3]
        );
    }
}
