//! Calls that are placed, counted.

use super::{CallKey, ChunkCounts, Options, SortBuffer, TallyPartial};
use crate::count::limits::CALLS_PER_SHARE;
use crate::grammar::coll::Coll;
use crate::log::placement::{CallShape, GapCalls, StreamsByProcess};
use crate::members::OpInterner;
use crate::pool;
use serde::{Deserialize, Serialize};

/// The counted calls of an input, by gap and key.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GapCounts {
    pub(super) options: Options,
    /// Without steps the counts, by gap 0 and key; else those that need many bits.
    pub(super) wide: SortBuffer<usize, CallKey>,
    /// With steps: the counts of each chunk, by gap of the input. Most gaps of a window are never read again.
    pub(super) pieces: Vec<ChunkCounts<usize>>,
    pub(super) jobs: usize,
}

impl GapCounts {
    /// Nothing counted yet.
    pub(super) fn new(options: Options, jobs: usize) -> GapCounts {
        GapCounts {
            options,
            wide: SortBuffer::default(),
            pieces: Vec::new(),
            jobs,
        }
    }

    /// Counts placed calls, gap by gap, on all cores; operations are numbered by `ops`.
    pub(super) fn count_placed(
        &mut self,
        ops: &mut OpInterner,
        calls: &StreamsByProcess,
        stretches: impl Iterator<Item = GapCalls>,
    ) {
        let GapCounts {
            options,
            wide,
            pieces,
            jobs,
        } = self;
        let mut stretches: Vec<GapCalls> = stretches.collect();
        let numbers: Vec<u32> = calls.ops.op_names().map(|n| ops.intern(n).0).collect();
        stretches.sort_by_key(|calls| calls.gap);
        let ops = &*ops;
        let key = |what: &CallShape| {
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
            options.key_of_logged(op, ops.op_kind(op), what.member, &coll)
        };
        let keys: Vec<(CallKey, Option<u128>)> = calls.call_shapes().iter().map(key).collect();
        let count = |share: &&[GapCalls]| {
            let mut partial = TallyPartial::new(options);
            // How often each was called in the gap in hand, and what was called at all.
            let (mut times, mut called) = (vec![0_u32; keys.len()], Vec::new());
            for gap in share.chunk_by(|a, b| a.gap == b.gap) {
                for made in gap {
                    calls.calls_of(*made).each_number(|what| {
                        let times = &mut times[what as usize];
                        if *times == 0 {
                            called.push(what);
                        }
                        *times += 1;
                    });
                }
                partial.gap = gap[0].gap;
                for what in called.drain(..) {
                    let times = std::mem::take(&mut times[what as usize]);
                    let (key, bytes) = keys[what as usize];
                    let counts = &mut partial.counts;
                    counts.add_calls(key, times.into(), bytes, partial.short);
                }
                partial.close_gap();
            }
            partial
        };
        let sink = |partial: TallyPartial| {
            let ends = partial.ends.iter();
            let ends: Vec<_> = ends.map(|&(gap, end)| (gap as usize, end)).collect();
            let keys = partial.counts.keys().to_vec();
            let cells = partial.cells;
            for (gap, key, value) in partial.wide {
                wide.push(gap as usize, keys[key as usize], value);
            }
            pieces.push(ChunkCounts::new(keys, cells, &ends));
            Ok(())
        };
        // The sink does not fail.
        let _ = pool::map_in_order(*jobs, split_into_shares(&stretches).iter(), count, sink);
    }
}

/// Divides calls, sorted by gap, into shares of whole gaps.
fn split_into_shares(stretches: &[GapCalls]) -> Vec<&[GapCalls]> {
    let mut shares = Vec::new();
    let (mut from, mut sum) = (0, 0);
    for (at, calls) in stretches.iter().enumerate() {
        let next = stretches.get(at + 1);
        let ends = next.is_none_or(|next| next.gap != calls.gap);
        sum += calls.count_calls();
        if ends && sum >= CALLS_PER_SHARE {
            shares.push(&stretches[from..=at]);
            (from, sum) = (at + 1, 0);
        }
    }
    shares.push(&stretches[from..]);
    shares
}
