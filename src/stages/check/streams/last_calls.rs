//! The last calls of every process, in the order of their lines.
//!
//! A hang is at the end of a log: what the ranks do there, on all their communicators together,
//! shows who waits for whom (`ranks::replay`). The calls of the last chunks are kept as their
//! walk left them, which costs a call nothing; they are put in order only where they are asked
//! for.

use super::{CallStreams, StreamKind};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// So many calls of an input are kept at least.
const MIN_LAST_CALLS_PER_INPUT: usize = 1 << 13;

/// And so many of each of its processes: no rank is further ahead of the others, for CUDA's queue
/// of launches holds 1,024.
const LAST_CALLS_PER_PROCESS: usize = 512;

/// A send or a receive.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct PeerCall {
    /// The member.
    pub(crate) member: u32,
    /// To or from whom.
    pub(crate) way: StreamKind,
    /// What it is to the other side.
    pub(crate) mark: u64,
    /// How many collectives of the chunk stand before it.
    pub(crate) behind: usize,
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
    /// Of each member the stream of its collectives.
    pub(crate) own: Vec<u32>,
    /// Of each member the caller it is.
    pub(crate) callers: Vec<u32>,
}

impl LastChunkCalls {
    fn call_count(&self) -> usize {
        self.calls.len() + self.between.len()
    }

    /// Its calls in line order: the stream and the mark.
    fn for_each_call(&self, streams: &CallStreams, mut sink: impl FnMut(u32, u64)) {
        let mut between = self.between.iter().peekable();
        let other = |call: &PeerCall, sink: &mut dyn FnMut(u32, u64)| {
            let caller = self.callers[call.member as usize];
            if let Some(&stream) = streams.at.get(&(caller, call.way)) {
                sink(stream, call.mark);
            }
        };
        for (done, &(member, mark)) in self.calls.iter().enumerate() {
            while let Some(call) = between.next_if(|call| call.behind <= done) {
                other(call, &mut sink);
            }
            sink(self.own[member as usize], mark);
        }
        between.for_each(|call| other(call, &mut sink));
    }
}

/// A call at the end of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastStreamCall {
    /// Its input.
    pub(crate) input: u32,
    /// Its stream.
    pub(crate) stream: u32,
    /// Its number in the stream.
    pub(crate) seq: u64,
    /// What it must agree in with the other ranks' calls.
    pub(crate) mark: u64,
}

/// The last chunks of all inputs.
#[derive(Debug, Default)]
pub(crate) struct LastChunks {
    /// Of the inputs that were read.
    done: Vec<LastChunkCalls>,
    /// Of the input in hand.
    now: VecDeque<LastChunkCalls>,
    /// How many calls these are.
    calls: usize,
}

impl LastChunks {
    /// Keeps a chunk that follows those before, of an input with lines of so many processes.
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

    /// How many calls of the input in hand are kept.
    pub(super) fn kept_of_current_input(&self) -> u64 {
        self.calls as u64
    }

    /// The calls in order, those up to the line that says that the job hangs.
    pub(crate) fn calls_before_hang(&self, streams: &CallStreams) -> Vec<LastStreamCall> {
        let all = || self.done.iter().chain(&self.now);
        let mut kept: Vec<u64> = vec![0; streams.list.len()];
        for chunk in all() {
            chunk.for_each_call(streams, |stream, _| kept[stream as usize] += 1);
        }
        let made = streams.list.iter().map(|stream| stream.calls);
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

/// How many calls of its input come behind each of these.
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

/// True where all calls are of one input: only its lines have an order.
pub(crate) fn are_of_one_input<'c>(calls: impl IntoIterator<Item = &'c LastStreamCall>) -> bool {
    let mut inputs = calls.into_iter().map(|call| call.input);
    let first = inputs.next();
    inputs.all(|input| Some(input) == first)
}
