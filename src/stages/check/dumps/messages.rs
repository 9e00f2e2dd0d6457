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

/// Finds a group's messages without a counterpart, between members with whole dumps of all their calls.
pub(super) fn find_unmatched<'d>(
    job: &DumpedJob,
    grouped: &GroupDumpCalls<'d>,
) -> Option<UnmatchedMessages<'d>> {
    let is_whole = |rank: &u32| {
        let left = job.ranks.get(rank);
        left.is_some_and(|left| left.is_whole && left.has_all_calls())
    };
    let (mut sent, mut received) = (MessagesByEndpoints::new(), MessagesByEndpoints::new());
    for call in grouped.iter_messages() {
        let (calls, ends) = match call.is_send() {
            true => (&mut sent, (call.rank, call.peer)),
            false => (&mut received, (call.peer, call.rank)),
        };
        calls.entry(ends).or_default().push(call);
    }
    let all: BTreeSet<MessageEndpoints> = sent.keys().chain(received.keys()).copied().collect();
    let mut calls = Vec::new();
    for ends in all {
        if !is_whole(&ends.0) || !is_whole(&ends.1) {
            continue;
        }
        let empty = Vec::new();
        let (sends, receives) = (
            sent.get(&ends).unwrap_or(&empty),
            received.get(&ends).unwrap_or(&empty),
        );
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

type MessagesByEndpoints<'d> = BTreeMap<MessageEndpoints, Vec<UnmatchedCall<'d>>>;
