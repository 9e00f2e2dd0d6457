//! Every rank's calls on every communicator, as hashes: enough to tell where ranks begin to call
//! different things, without keeping a call.
//!
//! The members of a communicator make the same collectives in the same order; what one sends,
//! its peer receives. So a member's collectives are one *stream*, its sends to a peer another, its
//! receives from a peer a third. Of a stream a running hash is kept, and what it was behind every
//! [`BLOCK`] calls: equal hashes are equal streams, and where they differ, the block in which they
//! begin to is read again ([`reread`]).

pub(crate) mod compare;
pub(super) mod last_calls;
pub(crate) mod piped;
pub(crate) mod reread;
pub(crate) mod step_ends;
#[cfg(test)]
mod tests;
pub(crate) mod unjudged_reason;

use crate::grammar::coll::Coll;
use crate::log::timeline::ForgettingList;
use crate::log::walk::{LogCall, RepairedCall, insert_at_places};
use crate::members::{CommIdentity, Interner, MergedMembers, MergedNumbers};
use last_calls::{LastChunkCalls, LastChunks, LastStreamCall, PeerCall};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

/// Calls between two kept hashes of a stream: what is read again where streams differ.
pub(crate) const CALLS_PER_HASH_BLOCK: u64 = 256;

/// Codes of NCCL's own reductions; those of the user are numbered by each process for itself.
const BUILTIN_REDOP_COUNT: u64 = 5;

/// One process's use of one communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ProcessComm {
    /// The process.
    pub(crate) process: u32,
    /// The communicator's address there.
    pub(crate) comm: u64,
    /// What INIT lines say the address is.
    pub(crate) identity: Option<CommIdentity>,
}

/// Which of a caller's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum StreamKind {
    /// Its collectives.
    Collective,
    /// What it sends to this rank.
    Send(i64),
    /// What it receives from this rank.
    Recv(i64),
}

/// What a call is to the other ranks, as far as they must agree on it.
fn call_mark(coll: &Coll<'_>, way: StreamKind) -> u64 {
    match way {
        StreamKind::Collective => {
            let root = coll.root.cast_unsigned().rotate_left(20);
            let kind = u64::from(coll.datatype) << 8 ^ coll.redop.min(BUILTIN_REDOP_COUNT) ^ root;
            mix_bits(mix_bits(hash_op_name(coll.op) ^ coll.count) ^ kind)
        }
        // The rank is the other's own, and the name the other's opposite.
        StreamKind::Send(_) | StreamKind::Recv(_) => {
            mix_bits(mix_bits(coll.count) ^ u64::from(coll.datatype))
        }
    }
}

/// An operation's name as a number.
fn hash_op_name(op: &[u8]) -> u64 {
    op.chunks(8).fold(op.len() as u64, |hash, part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        mix_bits(hash ^ u64::from_le_bytes(word))
    })
}

fn mix_bits(x: u64) -> u64 {
    let x = (x ^ x >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ x >> 29
}

/// Which stream a call belongs to; `None` for what no other rank must do too.
pub(crate) fn stream_kind_of(coll: &Coll<'_>) -> Option<StreamKind> {
    match coll.op {
        b"Send" => Some(StreamKind::Send(coll.root)),
        b"Recv" => Some(StreamKind::Recv(coll.root)),
        // One-sided: the other rank need not say anything.
        b"PutSignal" | b"Signal" | b"WaitSignal" => None,
        _ => Some(StreamKind::Collective),
    }
}

/// A moment in a chunk.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct HangAlarm {
    /// How many collectives there were before it, and how many sends and receives.
    calls: (usize, usize),
    /// How many slots.
    slots: usize,
}

/// One chunk's calls.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StreamsPartial {
    /// Collectives in line order: the member and the call's mark.
    calls: Vec<(u32, u64)>,
    /// Sends and receives in line order.
    between: Vec<PeerCall>,
    /// How many of both there were before each slot.
    slots: Vec<(usize, usize)>,
    /// opCount of each member's first collective.
    first: Vec<Option<u64>>,
    /// The same of its first send or receive.
    first_between: Vec<Option<u64>>,
    /// The bits that any opCount has.
    counts: u64,
    /// When something first said that the job hangs.
    alarm: Option<HangAlarm>,
}

impl StreamsPartial {
    #[inline(always)]
    pub(crate) fn add_call(&mut self, call: &LogCall<'_>) {
        let coll = &call.coll;
        self.counts |= coll.op_count;
        // No other operation's name has four letters.
        if coll.op.len() == b"Send".len() || coll.op.ends_with(b"Signal") {
            if let Some(way) = stream_kind_of(coll) {
                keep_first_op_count(&mut self.first_between, call);
                self.between.push(PeerCall {
                    member: call.member,
                    way,
                    mark: call_mark(coll, way),
                    behind: self.calls.len(),
                });
            }
            return;
        }
        keep_first_op_count(&mut self.first, call);
        let mark = call_mark(coll, StreamKind::Collective);
        self.calls.push((call.member, mark));
    }

    pub(crate) fn add_slot(&mut self) {
        self.slots.push((self.calls.len(), self.between.len()));
    }

    /// Puts calls in whose lines were torn.
    pub(crate) fn insert_torn_calls(&mut self, torn: &[RepairedCall<'_>]) {
        let (mut calls, mut between) = (Vec::new(), Vec::new());
        let mut done = 0;
        for &RepairedCall { slot, call, .. } in torn {
            let Some(way) = stream_kind_of(&call.coll) else {
                continue;
            };
            let at = self.slots.get(slot as usize).copied();
            let at = at.unwrap_or((self.calls.len(), self.between.len()));
            let rest = self.between[done..at.1].iter_mut();
            rest.for_each(|call| call.behind += calls.len());
            done = at.1;
            self.counts |= call.coll.op_count;
            let is_before = self
                .alarm
                .is_some_and(|alarm| (slot as usize) < alarm.slots);
            let (member, mark) = (call.member, call_mark(&call.coll, way));
            if way == StreamKind::Collective {
                keep_least_op_count(&mut self.first, &call);
                calls.push((at.0, (member, mark)));
                self.alarm
                    .iter_mut()
                    .filter(|_| is_before)
                    .for_each(|alarm| alarm.calls.0 += 1);
            } else {
                keep_least_op_count(&mut self.first_between, &call);
                let behind = at.0 + calls.len();
                between.push((
                    at.1,
                    PeerCall {
                        member,
                        way,
                        mark,
                        behind,
                    },
                ));
                self.alarm
                    .iter_mut()
                    .filter(|_| is_before)
                    .for_each(|alarm| alarm.calls.1 += 1);
            }
        }
        let rest = self.between[done..].iter_mut();
        rest.for_each(|call| call.behind += calls.len());
        insert_at_places(&mut self.calls, calls);
        insert_at_places(&mut self.between, between);
    }

    /// A line says that the job hangs.
    pub(crate) fn note_hang(&mut self) {
        self.alarm.get_or_insert(HangAlarm {
            calls: (self.calls.len(), self.between.len()),
            slots: self.slots.len(),
        });
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

/// The same of a call that may have been made before those that are known.
fn keep_least_op_count(first: &mut Vec<Option<u64>>, call: &LogCall<'_>) {
    keep_first_op_count(first, call);
    let (member, count) = (call.member as usize, call.coll.op_count);
    first[member] = first[member].map(|first| first.min(count));
}

/// Calls of one caller and one way, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallStream {
    /// How many.
    pub(crate) calls: u64,
    /// The hash of all of them.
    pub(crate) hash: u64,
    /// What it was behind each whole block. Of a pipe those are forgotten in which all streams that are to be
    /// the same are.
    pub(crate) blocks: ForgettingList<u64>,
    /// The first one of them.
    pub(crate) begin: Option<u64>,
    /// The first and the last input with any of them.
    pub(crate) inputs: Option<(u32, u32)>,
    /// How many it had when a line of the same input first said that the job hangs.
    before_alarm: Option<u64>,
}

impl CallStream {
    #[inline]
    fn push_mark(&mut self, mark: u64) {
        self.hash = mix_bits(self.hash ^ mark);
        self.calls += 1;
        if self.calls.is_multiple_of(CALLS_PER_HASH_BLOCK) {
            self.blocks.push(self.hash);
            self.begin.get_or_insert(self.hash);
        }
    }

    fn note_input(&mut self, input: u32) {
        let (first, _) = self.inputs.unwrap_or((input, input));
        self.inputs = Some((first, input));
    }

    /// What comes is no part of the hang.
    fn mark_hang(&mut self) {
        self.before_alarm.get_or_insert(self.calls);
    }
}

/// The streams of all inputs.
#[derive(Debug, Default)]
pub(crate) struct CallStreams {
    /// Who calls.
    pub(crate) callers: Interner<ProcessComm>,
    /// Their streams, by number.
    pub(crate) list: Vec<CallStream>,
    /// The stream of a caller's calls of a way.
    pub(crate) at: FxHashMap<(u32, StreamKind), u32>,
    /// One merged member of each caller.
    pub(crate) member: Vec<u32>,
    /// The ways of each caller's streams.
    ways: Vec<Vec<StreamKind>>,
    /// The smallest opCount of the first calls of each caller: a communicator's first call has 0.
    first: Vec<u64>,
    /// NCCL counts its calls in opCount; where it does not, all are 0.
    pub(crate) counts: bool,
    /// The last input of which a line said that the job hangs: what its ranks do afterwards is no
    /// part of the hang. Of other inputs' calls it is not known whether they came before or after.
    alarmed: Option<u32>,
    /// The last calls of every process.
    tail: LastChunks,
    /// The input in hand, and the processes with calls in it.
    speakers: (u32, FxHashSet<u32>),
}

impl CallStreams {
    /// The last calls of every process, in the order of their lines.
    pub(crate) fn list_last_calls(&self) -> Vec<LastStreamCall> {
        self.tail.calls_before_hang(self)
    }

    /// How many calls at the end of the input in hand are kept for what they show together.
    fn count_last_calls(&self) -> u64 {
        self.tail.kept_of_current_input()
    }

    /// Adds a chunk of `input` that follows those before.
    pub(crate) fn add_chunk(
        &mut self,
        part: StreamsPartial,
        to: &MergedNumbers,
        merged: &MergedMembers,
        input: u32,
    ) {
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
        let mut done = (0, 0);
        // Takes the calls up to there.
        let mut put = |all: &mut CallStreams, to: (usize, usize)| {
            for &(member, mark) in &calls[done.0..to.0] {
                all.list[own[member as usize] as usize].push_mark(mark);
            }
            for call in &between[done.1..to.1] {
                let at = all.intern_stream(callers[call.member as usize], call.way, input);
                all.list[at as usize].push_mark(call.mark);
            }
            done = to;
        };
        if let Some(alarm) = alarm.filter(|_| self.alarmed != Some(input)) {
            put(self, alarm.calls);
            self.note_hang_in_input(input);
        }
        put(self, (calls.len(), between.len()));
        if self.speakers.0 != input {
            self.speakers = (input, FxHashSet::default());
        }
        let process = |caller: &u32| self.callers.get(*caller).process;
        self.speakers.1.extend(callers.iter().map(process));
        let kept = LastChunkCalls {
            input,
            calls,
            between,
            own,
            callers,
        };
        self.tail.push_chunk(kept, self.speakers.1.len());
    }

    /// Of each member of a chunk the stream of its collectives; `first` is the opCount of its first.
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

    /// A line of the input says that the job hangs.
    fn note_hang_in_input(&mut self, input: u32) {
        self.alarmed = Some(input);
        let here = |stream: &&mut CallStream| stream.inputs.is_some_and(|(_, last)| last == input);
        for stream in self.list.iter_mut().filter(here) {
            stream.mark_hang();
        }
    }

    /// A caller has a call with this opCount: they rise.
    fn note_op_count(&mut self, caller: u32, op_count: u64) {
        let first = &mut self.first[caller as usize];
        *first = op_count.min(*first);
    }

    /// True where some communicator's first calls are not there, by NCCL's own count.
    pub(crate) fn lacks_first_calls(&self) -> bool {
        self.first
            .iter()
            .any(|&first| first > 0 && first < u64::MAX)
    }

    /// True where a caller's first call has NCCL's number 0, or NCCL does not count.
    pub(crate) fn begins_at_first_call(&self, caller: u32) -> bool {
        let first = self.first.get(caller as usize).copied();
        first.is_none_or(|first| first == 0 || first == u64::MAX)
    }

    /// How many calls a stream had when the job hung, or has in all.
    pub(crate) fn calls_until_hang(&self, stream: u32) -> u64 {
        let stream = self.list.get(stream as usize);
        stream.map_or(0, |stream| stream.before_alarm.unwrap_or(stream.calls))
    }

    /// The caller that a merged member is.
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

    /// The ways that a caller has calls of.
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
        stream.note_input(input);
        if self.alarmed == Some(input) {
            stream.mark_hang();
        }
        at
    }
}

/// Who a merged member is.
pub(crate) fn caller_of_member(member: u32, merged: &MergedMembers) -> ProcessComm {
    let member = merged.origins.members.get(member);
    ProcessComm {
        process: merged.origins.places.get(member.place).process,
        comm: member.comm,
        identity: merged.identity_of(member),
    }
}
