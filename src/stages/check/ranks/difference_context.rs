//! The context for judging calls that differ.

use super::deadlock::Rendezvous;
use super::last_calls::LastCallByProcess;
use super::mismatch::{CallDetails, MemberCalls};
use super::names::RankNames;
use super::stopped::lone_stop::LoneStopSearch;
use crate::stages::check::log::job_processes::JobProcesses;
use crate::stages::check::log::job_spans::JobCallSpans;
use crate::stages::check::streams::compare::MemberStream;
use crate::stages::check::streams::step_ends::InputStepEnds;
use crate::stages::check::streams::stream_owners::StreamOwner;
use crate::stages::check::streams::{CALLS_PER_HASH_BLOCK, CallStreams, ProcessComm, StreamKind};
use crate::stages::check::watchdog::WatchdogRecord;
use crate::stages::communicators::CommunicatorsSummary;
use rustc_hash::{FxHashMap, FxHashSet};

/// The context for judging calls that differ.
#[derive(Clone, Copy)]
pub(crate) struct DifferenceContext<'a> {
    pub(crate) found: &'a CommunicatorsSummary,
    pub(crate) streams: &'a CallStreams,
    pub(crate) details: &'a CallDetails,
    /// The callers of sends and receives that were read again.
    pub(crate) messaging: &'a FxHashSet<ProcessComm>,
    pub(crate) met: &'a Rendezvous,
    /// The lines of PyTorch's watchdog.
    pub(crate) watched: &'a [WatchdogRecord],
    pub(crate) ranks: &'a JobProcesses,
    /// Calls of a pipe may have been dropped.
    pub(crate) is_piped: bool,
    pub(crate) names: RankNames<'a>,
    /// The owner of each caller's calls.
    pub(crate) whose: &'a FxHashMap<ProcessComm, StreamOwner>,
    /// Each process's last call.
    pub(crate) last: &'a LastCallByProcess<'a>,
}

impl<'a> DifferenceContext<'a> {
    /// The caller of a number.
    pub(crate) fn caller_at(&self, number: u32) -> ProcessComm {
        *self.streams.callers.get(number)
    }

    /// The calls of a stream that were read again.
    pub(crate) fn calls_of(&self, stream: MemberStream<'_>) -> MemberCalls<'a> {
        let MemberStream { member, way } = stream;
        let key = member.caller.map(|at| (self.caller_at(at), way));
        let list = key.and_then(|key| self.details.get(&key));
        MemberCalls {
            member: *member,
            list: list.map_or(&[][..], |list| list),
        }
    }

    /// True if all calls of a stream could be read again in the block `block`, up to call `made`.
    pub(crate) fn are_calls_reread(&self, stream: MemberStream<'_>, block: u64, made: u64) -> bool {
        let first = block * CALLS_PER_HASH_BLOCK;
        let end = made.min(first + CALLS_PER_HASH_BLOCK);
        let calls = self.calls_of(stream).list;
        let known = calls.partition_point(|call| call.seq < end)
            - calls.partition_point(|call| call.seq < first);
        stream.member.caller.is_none() || known as u64 == end.saturating_sub(first)
    }

    /// Returns a search over the last calls and their owners; `steps` are the processes' own.
    pub(crate) fn lone_stop_search<'t>(
        &'t self,
        steps: &'t InputStepEnds,
        spans: &'t JobCallSpans,
    ) -> LoneStopSearch<'t> {
        let mut process_of: FxHashMap<u32, u32> = FxHashMap::default();
        let mut made: FxHashMap<u32, u64> = FxHashMap::default();
        for ((number, _), &stream) in &self.streams.at {
            let caller = self.caller_at(*number);
            *made.entry(caller.process).or_default() += self.streams.calls_until_hang(stream);
            let own = self.whose.get(&caller);
            process_of.extend(own.map(|own| (stream, own.process)));
        }
        // Calls that no stream has would move the others.
        let own = move |input: u32, process: u32| {
            let own = steps.steps_of_process(input, process)?;
            (made.get(&process) == Some(&own.made)).then_some(own)
        };
        LoneStopSearch {
            calls: self.streams.list_last_calls(),
            steps: Box::new(own),
            process_of: Box::new(move |stream| process_of.get(&stream).copied()),
            spans,
        }
    }

    /// How many collectives each caller made.
    pub(crate) fn count_collectives(&self) -> FxHashMap<ProcessComm, u64> {
        let all = self.streams.at.iter();
        let collectives = all.filter(|((_, way), _)| *way == StreamKind::Collective);
        collectives
            .map(|((number, _), &at)| (self.caller_at(*number), self.streams.calls_until_hang(at)))
            .collect()
    }
}
