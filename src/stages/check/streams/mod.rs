//! Every rank's calls on every communicator, as hashes: enough to find where ranks begin to call different
//! things, without keeping a call.
//!
//! A member's collectives are one stream, its sends to a peer another, its receives from a peer a third
//! ([`crate::calls::same`]). Where streams that must be equal differ, the block in which they begin to differ is
//! read again ([`reread`]).

pub(crate) mod compare;
pub(crate) mod last_calls;
pub(crate) mod last_steps;
mod limits;
pub(crate) mod piped;
pub(crate) mod reread;
pub(crate) mod reread_chunk;
pub(crate) mod step_ends;
pub(crate) mod stream_owners;
#[cfg(test)]
mod tests;
pub(crate) mod unjudged_reason;
pub(crate) mod wanted_streams;

pub(crate) use crate::calls::hashes::CALLS_PER_HASH_BLOCK;
use crate::calls::hashes::HashedCalls;
pub(crate) use crate::calls::same::StreamKind;
use crate::calls::same::{Content, is_collective_name};
use crate::log::walk::{LogCall, RepairedCall, insert_at_places};
use crate::members::comm_id::CommId;
use crate::members::{CommIdentity, Interner, MergedMembers, MergedNumbers};
use last_calls::{LastChunkCalls, LastChunks, LastStreamCall, PeerCall};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// One process's use of one communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ProcessComm {
    /// The process.
    pub(crate) process: u32,
    /// The communicator's address there.
    pub(crate) comm: u64,
    /// The communicator at that address, by INIT lines.
    pub(crate) identity: Option<CommIdentity>,
}

/// The calls before a place in a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct CallsBefore {
    collectives: usize,
    messages: usize,
}

/// The first line of a chunk that reports a hang.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct HangAlarm {
    /// Where the line is among the calls.
    place: CallsBefore,
    /// The number of slots before it.
    slots: usize,
}

/// One chunk's calls.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StreamsPartial {
    /// Collectives in line order: the member and the call's mark.
    calls: Vec<(u32, u64)>,
    /// Sends and receives in line order.
    between: Vec<PeerCall>,
    /// The place of each slot.
    slots: Vec<CallsBefore>,
    /// The opCount of each member's first collective.
    first: Vec<Option<u64>>,
    /// The opCount of each member's first send or receive.
    first_between: Vec<Option<u64>>,
    /// The bits that any opCount has.
    counts: u64,
    alarm: Option<HangAlarm>,
}

impl StreamsPartial {
    #[inline(always)]
    pub(crate) fn add_call(&mut self, call: &LogCall<'_>) {
        let coll = &call.coll;
        self.counts |= coll.op_count;
        if !is_collective_name(coll.op) {
            self.add_message(call);
            return;
        }
        keep_first_op_count(&mut self.first, call);
        let mark = Content::of_collective(coll).mark();
        self.calls.push((call.member, mark));
    }

    fn add_message(&mut self, call: &LogCall<'_>) {
        let coll = &call.coll;
        let Some(way) = StreamKind::of_coll(coll) else {
            return;
        };
        keep_first_op_count(&mut self.first_between, call);
        self.between.push(PeerCall {
            member: call.member,
            way,
            mark: Content::of_call(coll, way).mark(),
            collectives_before: self.calls.len(),
        });
    }

    fn end_place(&self) -> CallsBefore {
        CallsBefore {
            collectives: self.calls.len(),
            messages: self.between.len(),
        }
    }

    pub(crate) fn add_slot(&mut self) {
        self.slots.push(self.end_place());
    }

    /// Inserts calls from torn lines.
    pub(crate) fn insert_torn_calls(&mut self, torn: &[RepairedCall<'_>]) {
        let (mut calls, mut between) = (Vec::new(), Vec::new());
        let mut moved = 0;
        for &RepairedCall { slot, call, .. } in torn {
            let Some(way) = StreamKind::of_coll(&call.coll) else {
                continue;
            };
            let at = self.slots.get(slot as usize).copied();
            let at = at.unwrap_or_else(|| self.end_place());
            let rest = self.between[moved..at.messages].iter_mut();
            rest.for_each(|call| call.collectives_before += calls.len());
            moved = at.messages;
            self.counts |= call.coll.op_count;
            let alarm = self.alarm.as_mut();
            let alarm = alarm.filter(|alarm| (slot as usize) < alarm.slots);
            let (member, mark) = (call.member, Content::of_call(&call.coll, way).mark());
            if way == StreamKind::Collective {
                keep_least_op_count(&mut self.first, &call);
                calls.push((at.collectives, (member, mark)));
                alarm
                    .into_iter()
                    .for_each(|alarm| alarm.place.collectives += 1);
            } else {
                keep_least_op_count(&mut self.first_between, &call);
                let message = PeerCall {
                    member,
                    way,
                    mark,
                    collectives_before: at.collectives + calls.len(),
                };
                between.push((at.messages, message));
                alarm
                    .into_iter()
                    .for_each(|alarm| alarm.place.messages += 1);
            }
        }
        let rest = self.between[moved..].iter_mut();
        rest.for_each(|call| call.collectives_before += calls.len());
        insert_at_places(&mut self.calls, calls);
        insert_at_places(&mut self.between, between);
    }

    /// Notes a line that reports a hang.
    pub(crate) fn note_hang(&mut self) {
        let (place, slots) = (self.end_place(), self.slots.len());
        self.alarm.get_or_insert(HangAlarm { place, slots });
    }
}

/// Keeps the opCount of a member's first call.
#[inline]
fn keep_first_op_count(first: &mut Vec<Option<u64>>, call: &LogCall<'_>) {
    let member = call.member as usize;
    if first.len() <= member {
        first.resize(member + 1, None);
    }
    first[member].get_or_insert(call.coll.op_count);
}

/// Keeps the smaller opCount: the call may be earlier than the known ones.
fn keep_least_op_count(first: &mut Vec<Option<u64>>, call: &LogCall<'_>) {
    keep_first_op_count(first, call);
    let (member, count) = (call.member as usize, call.coll.op_count);
    first[member] = first[member].map(|first| first.min(count));
}

/// One stream of one caller.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallStream {
    /// Its calls.
    pub(crate) hashed: HashedCalls,
    /// The first and the last input that have any of them.
    pub(crate) inputs: Option<(u32, u32)>,
    /// The calls before the last input with any of them.
    before_input: u64,
    /// The calls before the first line of the same input that reports a hang.
    before_alarm: Option<u64>,
    /// Some of them are in that input.
    is_before_alarm: bool,
}

impl CallStream {
    /// Notes that an input has calls of it; returns true for the first one.
    fn note_input(&mut self, input: u32) -> bool {
        let (first, _) = self.inputs.unwrap_or((input, input));
        let before = self.inputs.replace((first, input));
        let is_new = before.is_none_or(|(_, last)| last != input);
        if is_new {
            self.before_input = self.hashed.calls;
        }
        is_new
    }

    /// Marks later calls as made after the hang.
    fn mark_hang(&mut self) {
        if self.before_alarm.is_none() {
            self.before_alarm = Some(self.hashed.calls);
            self.is_before_alarm = self.hashed.calls > self.before_input;
        }
    }
}

/// The processes and streams with calls in the current input.
#[derive(Debug, Default)]
struct OpenInputCalls {
    number: u32,
    processes: FxHashSet<u32>,
    streams: Vec<u32>,
}

/// The streams of all inputs.
#[derive(Debug, Default)]
pub(crate) struct CallStreams {
    /// The callers.
    pub(crate) callers: Interner<ProcessComm>,
    /// The streams, by number.
    pub(crate) list: Vec<CallStream>,
    /// The number of a caller's stream.
    pub(crate) at: FxHashMap<(u32, StreamKind), u32>,
    /// One merged member of each caller.
    pub(crate) member: Vec<u32>,
    /// The kinds of each caller's streams.
    ways: Vec<Vec<StreamKind>>,
    /// The smallest opCount of the first calls of each caller: a communicator's first call has 0.
    first: Vec<u64>,
    /// True if NCCL counts its calls in opCount; in some versions all are 0.
    pub(crate) counts: bool,
    /// The last input with a line that reports a hang. Later calls of this input are no part of the hang;
    /// calls of other inputs have no order with the line.
    alarmed: Option<u32>,
    /// The last calls of every process.
    tail: LastChunks,
    /// These calls in order, once they are needed.
    ordered: OnceLock<Vec<LastStreamCall>>,
    /// The current input.
    now: OpenInputCalls,
}

impl CallStreams {
    /// The last calls of every process, in the order of their lines.
    pub(crate) fn list_last_calls(&self) -> &[LastStreamCall] {
        self.ordered
            .get_or_init(|| self.tail.calls_before_hang(self))
    }

    /// Counts the kept calls at the end of the current input.
    fn count_last_calls(&self) -> u64 {
        self.tail.kept_of_current_input()
    }

    /// The streams with calls in the input that was read last, in order, and the numbers of these calls.
    pub(crate) fn count_calls_of_input(&self, input: u32) -> Vec<(u32, u64)> {
        let mut streams = match self.now.number == input {
            true => self.now.streams.clone(),
            false => Vec::new(),
        };
        streams.sort_unstable();
        let count = |stream: u32| {
            let of = &self.list[stream as usize];
            (stream, of.hashed.calls - of.before_input)
        };
        streams.into_iter().map(count).collect()
    }

    /// Adds a chunk of `input` that follows those before.
    pub(crate) fn add_chunk(
        &mut self,
        part: StreamsPartial,
        to: &MergedNumbers,
        merged: &MergedMembers,
        input: u32,
    ) {
        let end = part.end_place();
        let StreamsPartial {
            calls,
            between,
            first,
            first_between,
            counts,
            alarm,
            ..
        } = part;
        self.counts |= counts > 0;
        if self.now.number != input {
            self.now = OpenInputCalls {
                number: input,
                ..OpenInputCalls::default()
            };
        }
        let callers: Vec<u32> = to
            .members
            .iter()
            .map(|&m| self.intern_caller(m, merged))
            .collect();
        let own = self.collective_streams(&callers, &first, input);
        for (&caller, count) in callers.iter().zip(first_between) {
            if let Some(count) = count {
                self.note_op_count(caller, count);
            }
        }
        let mut done = CallsBefore::default();
        let mut add_until = |all: &mut CallStreams, to: CallsBefore| {
            for &(member, mark) in &calls[done.collectives..to.collectives] {
                all.list[own[member as usize] as usize]
                    .hashed
                    .push_mark(mark);
            }
            for call in &between[done.messages..to.messages] {
                let at = all.intern_stream(callers[call.member as usize], call.way, input);
                all.list[at as usize].hashed.push_mark(call.mark);
            }
            done = to;
        };
        if let Some(alarm) = alarm.filter(|_| self.alarmed != Some(input)) {
            add_until(self, alarm.place);
            self.note_hang_in_input(input);
        }
        add_until(self, end);
        let process = |caller: &u32| self.callers.get(*caller).process;
        self.now.processes.extend(callers.iter().map(process));
        let kept = LastChunkCalls {
            input,
            calls,
            between,
            own,
            callers,
        };
        self.ordered.take();
        self.tail.push_chunk(kept, self.now.processes.len());
    }

    /// The stream of collectives of each member of a chunk; `first` has the opCount of its first one.
    fn collective_streams(
        &mut self,
        callers: &[u32],
        first: &[Option<u64>],
        input: u32,
    ) -> Vec<u32> {
        let mut own = vec![u32::MAX; callers.len()];
        for (member, count) in first.iter().enumerate() {
            let Some(count) = *count else { continue };
            own[member] = self.intern_stream(callers[member], StreamKind::Collective, input);
            self.note_op_count(callers[member], count);
        }
        own
    }

    /// Notes that a line of the input reports a hang.
    fn note_hang_in_input(&mut self, input: u32) {
        self.alarmed = Some(input);
        for &stream in &self.now.streams {
            self.list[stream as usize].mark_hang();
        }
    }

    /// Takes the calls of processes that begin after a line that reports a hang for calls before it, if they share a
    /// communicator with processes that made calls before it: files of several ranks are in one input. The
    /// processes of a job that is started again have communicators of their own.
    pub(crate) fn order_alarms(&mut self) {
        let mut of_process: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let mut comms: FxHashMap<u32, FxHashSet<CommId>> = FxHashMap::default();
        for (&(caller, _), &stream) in &self.at {
            let of = self.callers.get(caller);
            of_process.entry(of.process).or_default().push(stream);
            let comm = of.identity.and_then(|identity| identity.comm_id);
            comms.entry(of.process).or_default().extend(comm);
        }
        let is_before = |streams: &[u32]| {
            let mut streams = streams.iter().map(|&stream| &self.list[stream as usize]);
            streams.any(|stream| stream.before_alarm.is_none() || stream.is_before_alarm)
        };
        let (before, mut after): (Vec<_>, Vec<_>) = of_process
            .into_iter()
            .partition(|(_, streams)| is_before(streams));
        let of_processes = |list: &[(u32, Vec<u32>)]| -> FxHashSet<CommId> {
            list.iter()
                .flat_map(|(process, _)| &comms[process])
                .copied()
                .collect()
        };
        let mut known = of_processes(&before);
        loop {
            let is_known = |process: &u32| comms[process].iter().any(|comm| known.contains(comm));
            let beside: Vec<_> = after
                .extract_if(.., |(process, _)| is_known(process))
                .collect();
            if beside.is_empty() {
                return;
            }
            known.extend(of_processes(&beside));
            for stream in beside.into_iter().flat_map(|(_, streams)| streams) {
                self.list[stream as usize].before_alarm = None;
            }
        }
    }

    /// Keeps a caller's smallest opCount, which its first call has.
    fn note_op_count(&mut self, caller: u32, op_count: u64) {
        let first = &mut self.first[caller as usize];
        *first = op_count.min(*first);
    }

    /// True if the first calls of some communicator are missing, by NCCL's own count.
    pub(crate) fn lacks_first_calls(&self) -> bool {
        self.first
            .iter()
            .any(|&first| first > 0 && first < u64::MAX)
    }

    /// True if a caller's first call has NCCL's number 0, or NCCL does not count.
    pub(crate) fn begins_at_first_call(&self, caller: u32) -> bool {
        let first = self.first.get(caller as usize).copied();
        first.is_none_or(|first| first == 0 || first == u64::MAX)
    }

    /// Counts a stream's calls up to the hang, or all if no line reports one.
    pub(crate) fn calls_until_hang(&self, stream: u32) -> u64 {
        let stream = self.list.get(stream as usize);
        stream.map_or(0, |stream| {
            stream.before_alarm.unwrap_or(stream.hashed.calls)
        })
    }

    /// The number of a merged member's caller.
    fn intern_caller(&mut self, member: u32, merged: &MergedMembers) -> u32 {
        let of = caller_of_member(member, merged);
        let at = self.callers.intern(of);
        if self.member.len() <= at as usize {
            self.member.push(member);
            self.ways.push(Vec::new());
            self.first.push(u64::MAX);
        }
        at
    }

    /// The kinds of streams that a caller has.
    pub(crate) fn kinds_of_caller(&self, caller: u32) -> &[StreamKind] {
        self.ways.get(caller as usize).map_or(&[], |ways| ways)
    }

    /// The number of a stream, new or known.
    fn intern_stream(&mut self, caller: u32, way: StreamKind, input: u32) -> u32 {
        let (list, ways) = (&mut self.list, &mut self.ways);
        let at = *self.at.entry((caller, way)).or_insert_with(|| {
            list.push(CallStream::default());
            ways[caller as usize].push(way);
            u32::try_from(list.len() - 1).unwrap_or(u32::MAX)
        });
        let stream = &mut self.list[at as usize];
        if stream.note_input(input) {
            self.now.streams.push(at);
        }
        if self.alarmed == Some(input) {
            stream.mark_hang();
        }
        at
    }
}

/// The caller of a merged member.
pub(crate) fn caller_of_member(member: u32, merged: &MergedMembers) -> ProcessComm {
    let member = merged.origins.members.get(member);
    ProcessComm {
        process: merged.origins.places.get(member.place).process,
        comm: member.comm,
        identity: merged.identity_of(member),
    }
}
