//! Streams of calls that are read again, and the calls that they keep.

use super::CALLS_PER_HASH_BLOCK;
use super::reread_chunk::CallLine;
use super::step_ends::InputStepEnds;
use crate::calls::same::Content;
use crate::stages::check::log::job_spans::JobCallSpans;
use crate::stages::check::ranks::limits::CALLS_READ_PAST_DIFFERENCE;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// A call of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallDetail {
    /// Its number in the stream.
    pub(crate) seq: u64,
    /// Its number among all calls of the process on the communicators that are read.
    pub(crate) nth: u64,
    /// The operation.
    pub(crate) op: Box<[u8]>,
    /// The input.
    pub(crate) input: u32,
    /// Its line.
    pub(crate) line: CallLine,
}

impl CallDetail {
    /// What the callers of this call must agree on, if it is a collective.
    pub(crate) fn content(&self) -> Content<'_> {
        Content::of_collective(&self.line.to_coll(&self.op))
    }
}

/// The calls that are read again if streams begin to differ in a block: its own, those of the block before, which show
/// what usually comes, and some later ones.
pub(crate) fn calls_around_block(block: u64) -> Range<u64> {
    let first = block.saturating_sub(1) * CALLS_PER_HASH_BLOCK;
    first..(block + 1) * CALLS_PER_HASH_BLOCK + CALLS_READ_PAST_DIFFERENCE
}

/// The other results of reading calls again.
pub(crate) struct RereadSinks<'a> {
    /// Every call of each process.
    pub(crate) spans: &'a mut JobCallSpans,
    /// The ends of the processes' steps, if they are needed.
    pub(crate) ends: Option<&'a mut InputStepEnds>,
}

/// The streams that take calls, by place.
pub(super) struct StreamTakers<'a> {
    /// The place of each stream that is wanted.
    pub(super) places: &'a FxHashMap<u32, usize>,
    pub(super) streams: &'a mut [StreamReread],
}

impl StreamTakers<'_> {
    /// A stream by its number, if it is wanted.
    pub(super) fn stream_mut(&mut self, stream: u32) -> Option<&mut StreamReread> {
        let place = *self.places.get(&stream)?;
        self.streams.get_mut(place)
    }
}

/// A stream while it is read: the calls so far, and the kept ones.
#[derive(Debug, Default)]
pub(super) struct StreamReread {
    ranges: Vec<Range<u64>>,
    calls: u64,
    kept: Vec<CallDetail>,
}

impl StreamReread {
    pub(super) fn from_ranges(ranges: &[Range<u64>]) -> StreamReread {
        StreamReread {
            ranges: ranges.to_vec(),
            ..StreamReread::default()
        }
    }

    /// Keeps the next call if it is wanted.
    pub(super) fn take_next_call(&mut self, call: impl FnOnce() -> CallDetail) {
        let seq = self.calls;
        self.calls += 1;
        self.take_call(seq, call);
    }

    /// Keeps the call of this number if it is wanted.
    pub(super) fn take_call(&mut self, seq: u64, call: impl FnOnce() -> CallDetail) {
        if self.ranges.iter().any(|range| range.contains(&seq)) {
            self.kept.push(CallDetail { seq, ..call() });
        }
    }

    /// Sets the number of calls so far.
    pub(super) fn set_calls_made(&mut self, calls: u64) {
        self.calls = calls;
    }

    /// The kept calls in order: calls that were joined from pieces may have come late.
    pub(super) fn into_kept_calls(mut self) -> Vec<CallDetail> {
        self.kept.sort_by_key(|call| call.seq);
        self.kept
    }
}
