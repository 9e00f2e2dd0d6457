//! Ranks that wait in messages, and the rank at the end of such waits that waits in nothing.

use super::job::GroupDumpCalls;
use super::messages::{UnmatchedCall, list_served_ends};
use super::programs::DumpPrograms;
use super::waits::{CommonWait, DumpWait};
use crate::calls::wait::ReplayOutcome;
use std::collections::{BTreeMap, BTreeSet};

/// The open messages of each rank, and the ranks that wait in nothing.
pub(super) struct MessageWaits<'d> {
    open: BTreeMap<u32, Vec<UnmatchedCall<'d>>>,
    /// Ranks without an open call.
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
        let served = groups
            .iter()
            .flat_map(|grouped| list_served_ends(programs.job, grouped));
        let served: BTreeSet<_> = served.map(|end| (end.rank, end.entry.record_id)).collect();
        let messages = groups.iter().flat_map(GroupDumpCalls::iter_messages);
        for call in messages.filter(UnmatchedCall::is_open) {
            if !served.contains(&(call.rank, call.entry.record_id)) {
                open.entry(call.rank).or_default().push(call);
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

    /// Takes ranks from those that are free: a rank that waits in messages for one that waits in nothing, and one with a
    /// message that none comes for (`held`), unless its other end waits for the rank. Returns the messages at the ends of
    /// such waits, by the rank that they wait for.
    pub(super) fn drop_held_ranks<'c>(
        &self,
        waits: &mut [DumpWait<'d>],
        held: impl Iterator<Item = &'c UnmatchedCall<'c>>,
    ) -> BTreeMap<u32, Vec<UnmatchedCall<'d>>> {
        let held: Vec<(u32, u32)> = held
            .filter(|call| call.is_open())
            .map(|call| (call.rank, call.peer))
            .collect();
        let mut ends: BTreeMap<u32, Vec<UnmatchedCall<'d>>> = BTreeMap::new();
        for wait in &mut *waits {
            let away = held.iter().filter(|(_, peer)| !wait.waiting.contains(peer));
            for (rank, _) in away {
                wait.free.remove(rank);
            }
            wait.free.retain(|&rank| match self.find_last_wait(rank) {
                None => true,
                Some(call) => {
                    ends.entry(call.peer).or_default().push(call);
                    false
                }
            });
        }
        // One without an open call waits in nothing; another may.
        let is_idle = |rank: &u32| self.idle.contains(rank);
        if waits.iter().any(|wait| wait.free.iter().any(is_idle)) {
            waits.iter_mut().for_each(|wait| wait.free.retain(is_idle));
        }
        ends
    }

    /// Returns the message to look at: one that waits for the rank for which the most wait, else the first without a
    /// counterpart.
    pub(super) fn find_missing_message<'c: 'd>(
        &self,
        ends: &BTreeMap<u32, Vec<UnmatchedCall<'d>>>,
        unmet: &[UnmatchedCall<'c>],
    ) -> Option<UnmatchedCall<'d>> {
        // The first of those with equally many.
        let most = ends.values().rev().max_by_key(|calls| calls.len());
        let most = most.and_then(|calls| calls.first()).copied();
        let last = || unmet.iter().find_map(|call| self.find_last_wait(call.rank));
        let first = || unmet.iter().min_by_key(|call| call.entry.created_ns);
        most.or_else(last).or_else(|| first().copied())
    }

    /// True if a member waits in a message before a call that all made.
    pub(super) fn is_before(&self, wait: &CommonWait<'_>, groups: &[GroupDumpCalls<'_>]) -> bool {
        let is_before = |rank: &u32| {
            let record = wait.record_of(*rank, groups);
            let mut calls = self.open.get(rank).into_iter().flatten();
            calls.any(|call| call.entry.record_id < record)
        };
        wait.waiting.iter().any(is_before)
    }

    /// Returns the last message of those in which `rank`, and then its peer, and so on, wait for a rank that is idle or
    /// left no dump: that is its peer.
    pub(super) fn find_last_wait(&self, rank: u32) -> Option<UnmatchedCall<'d>> {
        let (mut seen, mut next) = (BTreeSet::from([rank]), vec![rank]);
        while let Some(rank) = next.pop() {
            for call in self.open.get(&rank).into_iter().flatten() {
                if self.idle.contains(&call.peer) || self.absent.contains(&call.peer) {
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
