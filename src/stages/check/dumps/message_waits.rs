//! Ranks that wait in messages, and the rank at the end of such waits that waits in nothing.

use super::job::GroupDumpCalls;
use super::messages::UnmatchedCall;
use super::programs::DumpPrograms;
use crate::calls::wait::ReplayOutcome;
use crate::formats::flight::{FlightCallState, FlightOp};
use std::collections::{BTreeMap, BTreeSet};

/// The open messages of each rank, and the ranks that wait in nothing.
pub(super) struct MessageWaits<'d> {
    open: BTreeMap<u32, Vec<UnmatchedCall<'d>>>,
    /// Ranks whose calls all ended.
    idle: BTreeSet<u32>,
    /// Ranks without a dump.
    absent: BTreeSet<u32>,
}

impl<'d> MessageWaits<'d> {
    /// Collects the messages that did not end, where the replay of the collectives ended at `stuck`.
    pub(super) fn collect_open(
        programs: &DumpPrograms<'_, 'd>,
        groups: &[GroupDumpCalls<'d>],
        stuck: &ReplayOutcome,
    ) -> MessageWaits<'d> {
        let mut open: BTreeMap<u32, Vec<UnmatchedCall<'d>>> = BTreeMap::new();
        for grouped in groups {
            for (&rank, calls) in &grouped.messages {
                for &entry in calls {
                    let (FlightOp::Send { to: peer, .. } | FlightOp::Recv { from: peer, .. }) =
                        entry.op
                    else {
                        continue;
                    };
                    let peer = grouped.group.ranks.get(peer as usize).copied();
                    if let Some(peer) = peer
                        && entry.reached_state() != FlightCallState::Completed
                    {
                        let call = UnmatchedCall { rank, peer, entry };
                        open.entry(rank).or_default().push(call);
                    }
                }
            }
        }
        let ranks = programs.ranks.iter().enumerate();
        let idle = ranks.filter(|(program, rank)| {
            let left = programs.job.ranks.get(rank);
            let waits = programs.steps[*program].get(stuck.at[*program]).is_some();
            left.is_some_and(|left| left.is_whole) && !waits && !open.contains_key(rank)
        });
        let idle = idle.map(|(_, &rank)| rank).collect();
        let all = programs.ranks.iter().copied();
        let absent = all.filter(|rank| !programs.job.ranks.contains_key(rank));
        MessageWaits {
            absent: absent.collect(),
            open,
            idle,
        }
    }

    /// True if all calls of a rank ended.
    pub(super) fn is_idle(&self, rank: u32) -> bool {
        self.idle.contains(&rank)
    }

    /// True if a rank waits in a message with a rank other than `other`.
    pub(super) fn waits_for_third(&self, rank: u32, other: u32) -> bool {
        let mut calls = self.open.get(&rank).into_iter().flatten();
        calls.any(|call| call.peer != other)
    }

    /// True if a message of a rank did not end that came before this record of it.
    pub(super) fn has_open_before(&self, rank: u32, record_id: u64) -> bool {
        let mut calls = self.open.get(&rank).into_iter().flatten();
        calls.any(|call| call.entry.record_id < record_id)
    }

    /// Returns the last message of those in which `rank`, and then its peer, and so on, wait for a rank that is idle or
    /// left no dump: that is its peer.
    pub(super) fn find_last_wait(&self, rank: u32) -> Option<UnmatchedCall<'d>> {
        self.find_wait_for(rank, |peer| {
            self.idle.contains(&peer) || self.absent.contains(&peer)
        })
    }

    /// The same for a rank of which `is_end` is true.
    pub(super) fn find_wait_for(
        &self,
        rank: u32,
        is_end: impl Fn(u32) -> bool,
    ) -> Option<UnmatchedCall<'d>> {
        let (mut seen, mut next) = (BTreeSet::from([rank]), vec![rank]);
        while let Some(rank) = next.pop() {
            for call in self.open.get(&rank).into_iter().flatten() {
                if is_end(call.peer) {
                    return Some(*call);
                }
                if seen.insert(call.peer) {
                    next.push(call.peer);
                }
            }
        }
        None
    }
}
