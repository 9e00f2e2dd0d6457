//! Sends and receives that have no counterpart.

use super::job::{DumpCallsBySeq, DumpedJob, GroupDumpCalls};
use crate::formats::flight::{DumpEntry, FlightCallState, FlightOp};
use std::collections::{BTreeMap, BTreeSet};

/// Messages of one group without a counterpart.
pub(super) struct UnmatchedMessages<'d> {
    /// The sends and receives without a counterpart.
    pub(super) calls: Vec<UnmatchedCall<'d>>,
    /// The only rank that is an end of all of them.
    pub(super) odd: Option<u32>,
}

impl UnmatchedMessages<'_> {
    /// True if a rank sent to, or received from, one rank where another one waits for it.
    pub(super) fn has_misdirected_call(&self, rank: u32) -> bool {
        let own = self.calls.iter().filter(|call| call.rank == rank);
        let others = || self.calls.iter().filter(|call| call.peer == rank);
        own.clone().any(|own| {
            others().any(|other| other.rank != own.peer && other.is_send() != own.is_send())
        })
    }
}

/// One end of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnmatchedCall<'d> {
    /// The caller's rank in the job.
    pub(super) rank: u32,
    /// Its peer's rank in the job.
    pub(super) peer: u32,
    pub(super) entry: &'d DumpEntry,
}

impl UnmatchedCall<'_> {
    fn is_send(&self) -> bool {
        matches!(self.entry.op, FlightOp::Send { .. })
    }

    /// True if it did not end.
    pub(super) fn is_open(&self) -> bool {
        self.entry.reached_state() != FlightCallState::Completed
    }
}

impl<'d> GroupDumpCalls<'d> {
    /// Iterates over the sends and receives of each member, in the order in which it made them; messages to ranks
    /// outside the group are left out.
    pub(super) fn iter_messages(&self) -> impl Iterator<Item = UnmatchedCall<'d>> {
        let all = self.messages.iter();
        let all = all.flat_map(|(&rank, calls)| calls.iter().map(move |&entry| (rank, entry)));
        all.filter_map(|(rank, entry)| {
            let (FlightOp::Send { to: peer, .. } | FlightOp::Recv { from: peer, .. }) = entry.op
            else {
                return None;
            };
            let peer = *self.group.ranks.get(peer as usize)?;
            Some(UnmatchedCall { rank, peer, entry })
        })
    }
}

/// A message's ends: the sender and the receiver.
type MessageEndpoints = (u32, u32);

/// Numbers the single messages between each two members of a group: not those that were put together in any order.
/// A group of two has numbers of its own, of others all messages must be known.
pub(super) fn number_messages<'d>(
    job: &DumpedJob,
    grouped: &GroupDumpCalls<'d>,
) -> impl Iterator<Item = BTreeMap<u32, DumpCallsBySeq<'d>>> {
    let mut pairs: BTreeMap<MessageEndpoints, BTreeMap<u32, DumpCallsBySeq<'d>>> = BTreeMap::new();
    let single = grouped.iter_messages();
    for UnmatchedCall { rank, peer, entry } in single.filter(|call| call.entry.coalesced.is_none())
    {
        let Some(left) = job.ranks.get(&rank).filter(|left| left.is_whole) else {
            continue;
        };
        let both = pairs.entry((rank.min(peer), rank.max(peer))).or_default();
        let own = both.entry(rank).or_default();
        let number = match grouped.group.ranks.len() {
            2 => entry.p2p_seq,
            _ if left.has_all_calls() => own.len() as u64 + 1,
            _ => continue,
        };
        own.entry(number).or_default().push(entry);
    }
    pairs.into_values()
}

/// The sends and the receives between two members, each in their order.
type MessagesByEndpoints<'d> = BTreeMap<MessageEndpoints, [Vec<UnmatchedCall<'d>>; 2]>;

/// Collects a group's messages between members with whole dumps of all their calls.
fn collect_whole_pairs<'d>(
    job: &DumpedJob,
    grouped: &GroupDumpCalls<'d>,
) -> MessagesByEndpoints<'d> {
    let mut pairs = MessagesByEndpoints::new();
    for call in grouped.iter_messages() {
        let (ends, side) = match call.is_send() {
            true => ((call.rank, call.peer), 0),
            false => ((call.peer, call.rank), 1),
        };
        if job.has_all_calls_of(ends.0) && job.has_all_calls_of(ends.1) {
            pairs.entry(ends).or_default()[side].push(call);
        }
    }
    pairs
}

/// Lists the open ends of messages with another end that ended: the calls that were launched with them wait, and not
/// they.
pub(super) fn list_served_ends<'d>(
    job: &DumpedJob,
    grouped: &GroupDumpCalls<'d>,
) -> impl Iterator<Item = UnmatchedCall<'d>> {
    let pairs = collect_whole_pairs(job, grouped).into_values();
    let met = pairs.flat_map(|[sends, receives]| sends.into_iter().zip(receives));
    met.filter_map(
        |(send, receive)| match (send.is_open(), receive.is_open()) {
            (true, false) => Some(send),
            (false, true) => Some(receive),
            _ => None,
        },
    )
}

/// Finds a group's messages without a counterpart, between members with whole dumps of all their calls.
pub(super) fn find_unmatched<'d>(
    job: &DumpedJob,
    grouped: &GroupDumpCalls<'d>,
) -> Option<UnmatchedMessages<'d>> {
    let mut calls = Vec::new();
    for [sends, receives] in collect_whole_pairs(job, grouped).into_values() {
        let met = sends.len().min(receives.len());
        calls.extend(sends[met..].iter().chain(&receives[met..]));
    }
    // An ended message may only have been launched; at least one end of a wait is open.
    if !calls.iter().any(UnmatchedCall::is_open) {
        return None;
    }
    let ends = |call: &UnmatchedCall<'_>| BTreeSet::from([call.rank, call.peer]);
    let common = calls.iter().map(ends).reduce(|all, two| &all & &two)?;
    let odd = match common.len() {
        1 => common.first().copied(),
        _ => None,
    };
    Some(UnmatchedMessages { calls, odd })
}
