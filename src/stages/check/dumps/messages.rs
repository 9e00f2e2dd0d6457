//! Sends and receives that have no counterpart.

use super::job::{DumpedJob, GroupDumpCalls};
use crate::formats::flight::{DumpEntry, FlightCallState, FlightOp};
use std::collections::{BTreeMap, BTreeSet};

/// Messages of one group that do not meet.
pub(super) struct UnmatchedMessages<'d> {
    /// The sends and receives without a counterpart: who made each, and with whom.
    pub(super) calls: Vec<(u32, u32, &'d DumpEntry)>,
    /// The one rank that all of them have in common, as one of both ends.
    pub(super) odd: Option<u32>,
}

/// A message's ends: who sends, who receives.
type MessageEndpoints = (u32, u32);

/// What does not meet in a group, of members whose dumps are all there and hold all their calls.
pub(super) fn find_unmatched<'d>(
    job: &DumpedJob,
    grouped: &GroupDumpCalls<'d>,
) -> Option<UnmatchedMessages<'d>> {
    let ranks = &grouped.group.ranks;
    let is_whole = |rank: &u32| {
        let left = job.ranks.get(rank);
        left.is_some_and(|left| {
            let first = left.dump.entries.first();
            left.is_whole && first.is_none_or(|entry| entry.record_id == 0)
        })
    };
    // Ranks in the group, as the calls have them, by rank in the job.
    let global = |at: u32| ranks.get(at as usize).copied();
    let (mut sent, mut received) = (MessagesByEndpoints::new(), MessagesByEndpoints::new());
    for (&rank, calls) in &grouped.messages {
        for &entry in calls {
            match entry.op {
                FlightOp::Send { to, .. } => {
                    let to = global(to)?;
                    sent.entry((rank, to)).or_default().push((rank, to, entry));
                }
                FlightOp::Recv { from, .. } => {
                    let from = global(from)?;
                    received
                        .entry((from, rank))
                        .or_default()
                        .push((rank, from, entry));
                }
                _ => {}
            }
        }
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
    // That one has ended may only say that it was launched, but of what waits one has not.
    let is_open = |(_, _, entry): &(u32, u32, &DumpEntry)| {
        entry.reached_state() != FlightCallState::Completed
    };
    if !calls.iter().any(is_open) {
        return None;
    }
    let ends = |&(a, b, _): &(u32, u32, &DumpEntry)| BTreeSet::from([a, b]);
    let common = calls.iter().map(ends).reduce(|all, two| &all & &two)?;
    let odd = match common.len() {
        1 => common.first().copied(),
        _ => None,
    };
    Some(UnmatchedMessages { calls, odd })
}

type MessagesByEndpoints<'d> = BTreeMap<MessageEndpoints, Vec<(u32, u32, &'d DumpEntry)>>;
