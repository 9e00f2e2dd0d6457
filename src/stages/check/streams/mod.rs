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
pub(crate) mod why;

use crate::grammar::coll::Coll;
use crate::log::timeline::Recent;
use crate::log::walk::{Call, Torn, put_in};
use crate::members::{Identity, Interner, Merged, Renumbered};
use last_calls::{Between, Kept, Last, Tail};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

/// Calls between two kept hashes of a stream: what is read again where streams differ.
pub(crate) const BLOCK: u64 = 256;

/// Codes of NCCL's own reductions; those of the user are numbered by each process for itself.
const REDUCTIONS: u64 = 5;

/// One process's use of one communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    /// The process.
    pub(crate) process: u32,
    /// The communicator's address there.
    pub(crate) comm: u64,
    /// What INIT lines say the address is.
    pub(crate) identity: Option<Identity>,
}

/// Which of a caller's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Way {
    /// Its collectives.
    Collective,
    /// What it sends to this rank.
    Send(i64),
    /// What it receives from this rank.
    Recv(i64),
}

/// What a call is to the other ranks, as far as they must agree on it.
fn mark_of(coll: &Coll<'_>, way: Way) -> u64 {
    match way {
        Way::Collective => {
            let root = coll.root.cast_unsigned().rotate_left(20);
            let kind = u64::from(coll.datatype) << 8 ^ coll.redop.min(REDUCTIONS) ^ root;
            mix(mix(name(coll.op) ^ coll.count) ^ kind)
        }
        // The rank is the other's own, and the name the other's opposite.
        Way::Send(_) | Way::Recv(_) => mix(mix(coll.count) ^ u64::from(coll.datatype)),
    }
}

/// An operation's name as a number.
fn name(op: &[u8]) -> u64 {
    op.chunks(8).fold(op.len() as u64, |hash, part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        mix(hash ^ u64::from_le_bytes(word))
    })
}

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ x >> 29
}

/// Which stream a call belongs to; `None` for what no other rank must do too.
pub(crate) fn way(coll: &Coll<'_>) -> Option<Way> {
    match coll.op {
        b"Send" => Some(Way::Send(coll.root)),
        b"Recv" => Some(Way::Recv(coll.root)),
        // One-sided: the other rank need not say anything.
        b"PutSignal" | b"Signal" | b"WaitSignal" => None,
        _ => Some(Way::Collective),
    }
}

/// A moment in a chunk.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Alarm {
    /// How many collectives there were before it, and how many sends and receives.
    calls: (usize, usize),
    /// How many slots.
    slots: usize,
}

/// One chunk's calls.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Partial {
    /// Collectives in line order: the member and the call's mark.
    calls: Vec<(u32, u64)>,
    /// Sends and receives in line order.
    between: Vec<Between>,
    /// How many of both there were before each slot.
    slots: Vec<(usize, usize)>,
    /// opCount of each member's first collective.
    first: Vec<Option<u64>>,
    /// The same of its first send or receive.
    first_between: Vec<Option<u64>>,
    /// The bits that any opCount has.
    counts: u64,
    /// When something first said that the job hangs.
    alarm: Option<Alarm>,
}

impl Partial {
    #[inline(always)]
    pub(crate) fn call(&mut self, call: &Call<'_>) {
        let coll = &call.coll;
        self.counts |= coll.op_count;
        // No other operation's name has four letters.
        if coll.op.len() == b"Send".len() || coll.op.ends_with(b"Signal") {
            if let Some(way) = way(coll) {
                first_of(&mut self.first_between, call);
                self.between.push(Between {
                    member: call.member,
                    way,
                    mark: mark_of(coll, way),
                    behind: self.calls.len(),
                });
            }
            return;
        }
        first_of(&mut self.first, call);
        let mark = mark_of(coll, Way::Collective);
        self.calls.push((call.member, mark));
    }

    pub(crate) fn slot(&mut self) {
        self.slots.push((self.calls.len(), self.between.len()));
    }

    /// Puts calls in whose lines were torn.
    pub(crate) fn torn(&mut self, torn: &[Torn<'_>]) {
        let (mut calls, mut between) = (Vec::new(), Vec::new());
        let mut done = 0;
        for &Torn { slot, call, .. } in torn {
            let Some(way) = way(&call.coll) else { continue };
            let at = self.slots.get(slot as usize).copied();
            let at = at.unwrap_or((self.calls.len(), self.between.len()));
            let rest = self.between[done..at.1].iter_mut();
            rest.for_each(|call| call.behind += calls.len());
            done = at.1;
            self.counts |= call.coll.op_count;
            let is_before = self
                .alarm
                .is_some_and(|alarm| (slot as usize) < alarm.slots);
            let (member, mark) = (call.member, mark_of(&call.coll, way));
            if way == Way::Collective {
                least_of(&mut self.first, &call);
                calls.push((at.0, (member, mark)));
                self.alarm
                    .iter_mut()
                    .filter(|_| is_before)
                    .for_each(|alarm| alarm.calls.0 += 1);
            } else {
                least_of(&mut self.first_between, &call);
                let behind = at.0 + calls.len();
                between.push((
                    at.1,
                    Between {
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
        put_in(&mut self.calls, calls);
        put_in(&mut self.between, between);
    }

    /// A line says that the job hangs.
    pub(crate) fn alarm(&mut self) {
        self.alarm.get_or_insert(Alarm {
            calls: (self.calls.len(), self.between.len()),
            slots: self.slots.len(),
        });
    }
}

/// Keeps the opCount of a member's first call.
#[inline]
fn first_of(first: &mut Vec<Option<u64>>, call: &Call<'_>) {
    let member = call.member as usize;
    if first.len() <= member {
        first.resize(member + 1, None);
    }
    first[member].get_or_insert(call.coll.op_count);
}

/// The same of a call that may have been made before those that are known.
fn least_of(first: &mut Vec<Option<u64>>, call: &Call<'_>) {
    first_of(first, call);
    let (member, count) = (call.member as usize, call.coll.op_count);
    first[member] = first[member].map(|first| first.min(count));
}

/// Calls of one caller and one way, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stream {
    /// How many.
    pub(crate) calls: u64,
    /// The hash of all of them.
    pub(crate) hash: u64,
    /// What it was behind each whole block. Of a pipe those are forgotten in which all streams that are to be
    /// the same are.
    pub(crate) blocks: Recent<u64>,
    /// The first one of them.
    pub(crate) begin: Option<u64>,
    /// The first and the last input with any of them.
    pub(crate) inputs: Option<(u32, u32)>,
    /// How many it had when a line of the same input first said that the job hangs.
    before_alarm: Option<u64>,
}

impl Stream {
    #[inline]
    fn push(&mut self, mark: u64) {
        self.hash = mix(self.hash ^ mark);
        self.calls += 1;
        if self.calls.is_multiple_of(BLOCK) {
            self.blocks.push(self.hash);
            self.begin.get_or_insert(self.hash);
        }
    }

    fn touch(&mut self, input: u32) {
        let (first, _) = self.inputs.unwrap_or((input, input));
        self.inputs = Some((first, input));
    }

    /// What comes is no part of the hang.
    fn end(&mut self) {
        self.before_alarm.get_or_insert(self.calls);
    }
}

/// The streams of all inputs.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Who calls.
    pub(crate) callers: Interner<Caller>,
    /// Their streams, by number.
    pub(crate) list: Vec<Stream>,
    /// The stream of a caller's calls of a way.
    pub(crate) at: FxHashMap<(u32, Way), u32>,
    /// One merged member of each caller.
    pub(crate) member: Vec<u32>,
    /// The ways of each caller's streams.
    ways: Vec<Vec<Way>>,
    /// The smallest opCount of the first calls of each caller: a communicator's first call has 0.
    first: Vec<u64>,
    /// NCCL counts its calls in opCount; where it does not, all are 0.
    pub(crate) counts: bool,
    /// The last input of which a line said that the job hangs: what its ranks do afterwards is no
    /// part of the hang. Of other inputs' calls it is not known whether they came before or after.
    alarmed: Option<u32>,
    /// The last calls of every process.
    tail: Tail,
    /// The input in hand, and the processes with calls in it.
    speakers: (u32, FxHashSet<u32>),
}

impl Streams {
    /// The last calls of every process, in the order of their lines.
    pub(crate) fn tail(&self) -> Vec<Last> {
        self.tail.calls(self)
    }

    /// How many calls at the end of the input in hand are kept for what they show together.
    fn last_calls(&self) -> u64 {
        self.tail.now()
    }

    /// Adds a chunk of `input` that follows those before.
    pub(crate) fn add(&mut self, part: Partial, to: &Renumbered, merged: &Merged, input: u32) {
        let Partial {
            calls,
            between,
            first,
            first_between,
            counts,
            alarm,
            ..
        } = part;
        self.counts |= counts > 0;
        let callers: Vec<u32> = to.members.iter().map(|&m| self.caller(m, merged)).collect();
        let own = self.own(&callers, &first, input);
        for (&caller, count) in callers.iter().zip(first_between) {
            if let Some(count) = count {
                self.begins(caller, count);
            }
        }
        let mut done = (0, 0);
        // Takes the calls up to there.
        let mut put = |all: &mut Streams, to: (usize, usize)| {
            for &(member, mark) in &calls[done.0..to.0] {
                all.list[own[member as usize] as usize].push(mark);
            }
            for call in &between[done.1..to.1] {
                let at = all.stream(callers[call.member as usize], call.way, input);
                all.list[at as usize].push(call.mark);
            }
            done = to;
        };
        if let Some(alarm) = alarm.filter(|_| self.alarmed != Some(input)) {
            put(self, alarm.calls);
            self.hangs(input);
        }
        put(self, (calls.len(), between.len()));
        if self.speakers.0 != input {
            self.speakers = (input, FxHashSet::default());
        }
        let process = |caller: &u32| self.callers.get(*caller).process;
        self.speakers.1.extend(callers.iter().map(process));
        let kept = Kept {
            input,
            calls,
            between,
            own,
            callers,
        };
        self.tail.push(kept, self.speakers.1.len());
    }

    /// Of each member of a chunk the stream of its collectives; `first` is the opCount of its first.
    fn own(&mut self, callers: &[u32], first: &[Option<u64>], input: u32) -> Vec<u32> {
        let mut own = vec![u32::MAX; callers.len()];
        for (member, count) in first.iter().enumerate() {
            let Some(count) = *count else { continue };
            own[member] = self.stream(callers[member], Way::Collective, input);
            self.begins(callers[member], count);
        }
        own
    }

    /// A line of the input says that the job hangs.
    fn hangs(&mut self, input: u32) {
        self.alarmed = Some(input);
        let here = |stream: &&mut Stream| stream.inputs.is_some_and(|(_, last)| last == input);
        for stream in self.list.iter_mut().filter(here) {
            stream.end();
        }
    }

    /// A caller has a call with this opCount: they rise.
    fn begins(&mut self, caller: u32, op_count: u64) {
        let first = &mut self.first[caller as usize];
        *first = op_count.min(*first);
    }

    /// True where some communicator's first calls are not there, by NCCL's own count.
    pub(crate) fn is_late(&self) -> bool {
        self.first
            .iter()
            .any(|&first| first > 0 && first < u64::MAX)
    }

    /// True where a caller's first call has NCCL's number 0, or NCCL does not count.
    pub(crate) fn is_from_start(&self, caller: u32) -> bool {
        let first = self.first.get(caller as usize).copied();
        first.is_none_or(|first| first == 0 || first == u64::MAX)
    }

    /// How many calls a stream had when the job hung, or has in all.
    pub(crate) fn calls(&self, stream: u32) -> u64 {
        let stream = self.list.get(stream as usize);
        stream.map_or(0, |stream| stream.before_alarm.unwrap_or(stream.calls))
    }

    /// The caller that a merged member is.
    fn caller(&mut self, member: u32, merged: &Merged) -> u32 {
        let of = caller(member, merged);
        let at = self.callers.intern(of);
        if self.member.len() <= at as usize {
            self.member.push(member);
            self.ways.push(Vec::new());
            self.first.push(u64::MAX);
        }
        at
    }

    /// The ways that a caller has calls of.
    pub(crate) fn ways(&self, caller: u32) -> &[Way] {
        self.ways.get(caller as usize).map_or(&[], |ways| ways)
    }

    /// The number of a stream, new or known.
    fn stream(&mut self, caller: u32, way: Way, input: u32) -> u32 {
        let (list, ways) = (&mut self.list, &mut self.ways);
        let at = *self.at.entry((caller, way)).or_insert_with(|| {
            list.push(Stream::default());
            ways[caller as usize].push(way);
            u32::try_from(list.len() - 1).unwrap_or(u32::MAX)
        });
        let stream = &mut self.list[at as usize];
        stream.touch(input);
        if self.alarmed == Some(input) {
            stream.end();
        }
        at
    }
}

/// Who a merged member is.
pub(crate) fn caller(member: u32, merged: &Merged) -> Caller {
    let member = merged.origins.members.get(member);
    Caller {
        process: merged.origins.places.get(member.place).process,
        comm: member.comm,
        identity: merged.identity_of(member),
    }
}
