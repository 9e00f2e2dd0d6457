//! The last calls of every process, in the order of their lines.
//!
//! A hang is at the end of a log: the ranks' last calls on all their communicators together show which rank
//! waits for which other ([`crate::calls::wait`]). The calls of the last chunks are kept as the walk left them,
//! which costs a call nothing; they are put in order only when they are needed.

use super::limits::{LAST_CALLS_PER_PROCESS, MIN_LAST_CALLS_PER_INPUT};
use super::{CallStreams, StreamKind};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A send or a receive.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct PeerCall {
    /// The member.
    pub(crate) member: u32,
    /// To or from which rank.
    pub(crate) way: StreamKind,
    /// The mark of its content.
    pub(crate) mark: u64,
    /// Collectives of the chunk before it.
    pub(crate) collectives_before: usize,
}

/// One chunk's calls.
#[derive(Debug, Default)]
pub(crate) struct LastChunkCalls {
    /// Its input.
    pub(crate) input: u32,
    /// Collectives in line order: the member and the call's mark.
    pub(crate) calls: Vec<(u32, u64)>,
    /// Sends and receives in line order.
    pub(crate) between: Vec<PeerCall>,
    /// The stream of each member's collectives.
    pub(crate) own: Vec<u32>,
    /// Each member's caller.
    pub(crate) callers: Vec<u32>,
}

impl LastChunkCalls {
    fn call_count(&self) -> usize {
        self.calls.len() + self.between.len()
    }

    /// Gives its calls in line order: the stream and the mark.
    fn for_each_call(&self, streams: &CallStreams, mut sink: impl FnMut(u32, u64)) {
        let mut between = self.between.iter().peekable();
        let other = |call: &PeerCall, sink: &mut dyn FnMut(u32, u64)| {
            let caller = self.callers[call.member as usize];
            if let Some(&stream) = streams.at.get(&(caller, call.way)) {
                sink(stream, call.mark);
            }
        };
        for (done, &(member, mark)) in self.calls.iter().enumerate() {
            while let Some(call) = between.next_if(|call| call.collectives_before <= done) {
                other(call, &mut sink);
            }
            sink(self.own[member as usize], mark);
        }
        between.for_each(|call| other(call, &mut sink));
    }
}

/// A call at the end of an input.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastStreamCall {
    /// Its input.
    pub(crate) input: u32,
    /// Its stream.
    pub(crate) stream: u32,
    /// Its number in the stream.
    pub(crate) seq: u64,
    /// The mark of its content.
    pub(crate) mark: u64,
}

/// The last chunks of all inputs.
#[derive(Debug, Default)]
pub(crate) struct LastChunks {
    /// Chunks of the inputs that were read.
    done: Vec<LastChunkCalls>,
    /// Chunks of the current input.
    now: VecDeque<LastChunkCalls>,
    /// The calls of the current input's chunks.
    calls: usize,
}

impl LastChunks {
    /// Keeps the next chunk, of an input with lines of `processes` processes.
    pub(crate) fn push_chunk(&mut self, kept: LastChunkCalls, processes: usize) {
        if self.now.back().is_some_and(|last| last.input != kept.input) {
            self.done.extend(self.now.drain(..));
            self.calls = 0;
        }
        self.calls += kept.call_count();
        self.now.push_back(kept);
        let wanted = MIN_LAST_CALLS_PER_INPUT.max(LAST_CALLS_PER_PROCESS.saturating_mul(processes));
        while let Some(first) = self.now.front().map(LastChunkCalls::call_count)
            && self.calls - first >= wanted
        {
            self.calls -= first;
            self.now.pop_front();
        }
    }

    /// Counts the kept calls of the current input.
    pub(super) fn kept_of_current_input(&self) -> u64 {
        self.calls as u64
    }

    /// The calls in order, up to the line that reports a hang.
    pub(crate) fn calls_before_hang(&self, streams: &CallStreams) -> Vec<LastStreamCall> {
        let all = || self.done.iter().chain(&self.now);
        let mut kept: Vec<u64> = vec![0; streams.list.len()];
        for chunk in all() {
            chunk.for_each_call(streams, |stream, _| kept[stream as usize] += 1);
        }
        let made = streams.list.iter().map(|stream| stream.hashed.calls);
        let mut next: Vec<u64> = made.zip(kept).map(|(all, kept)| all - kept).collect();
        let mut calls = Vec::new();
        for chunk in all() {
            chunk.for_each_call(streams, |stream, mark| {
                let seq = next[stream as usize];
                next[stream as usize] += 1;
                if seq < streams.calls_until_hang(stream) {
                    calls.push(LastStreamCall {
                        input: chunk.input,
                        stream,
                        seq,
                        mark,
                    });
                }
            });
        }
        calls
    }
}

/// For each of these calls the number of its input's calls after it.
pub(crate) fn count_calls_behind(calls: &[LastStreamCall]) -> Vec<u64> {
    let mut seen: FxHashMap<u32, u64> = FxHashMap::default();
    let later = calls.iter().rev().map(|call| {
        let seen = seen.entry(call.input).or_default();
        *seen += 1;
        *seen - 1
    });
    let mut later: Vec<u64> = later.collect();
    later.reverse();
    later
}
