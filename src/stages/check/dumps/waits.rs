//! The waits of a job: the call in which each rank waits, and the calls that all made and that did not end.

use super::job::{DumpedJob, GroupDumpCalls, is_given_up, is_open};
use super::programs::DumpPrograms;
use crate::calls::wait::{CollectiveId, ReplayOutcome};
use crate::formats::flight::DumpEntry;
use std::collections::{BTreeMap, BTreeSet};

/// A call in which some members of a group wait, and to which others have not come.
pub(super) struct DumpWait<'d> {
    /// The group's place in the list of groups.
    pub(super) group: usize,
    /// The call's number in the group.
    pub(super) seq: u64,
    /// The ranks that wait in it.
    pub(super) waiting: BTreeSet<u32>,
    /// Ranks that have not made it, and wait in no call.
    pub(super) free: BTreeSet<u32>,
    /// The record of the first rank that waits.
    pub(super) call: &'d DumpEntry,
    /// The ranks without a dump.
    pub(super) silent: BTreeSet<u32>,
    /// PyTorch's watchdog gave the call up.
    pub(super) is_given_up: bool,
}

/// Finds the calls in which ranks wait, where the replay `stuck` ended.
pub(super) fn find_group_waits<'d>(
    programs: &DumpPrograms<'_, 'd>,
    stuck: &ReplayOutcome,
) -> Vec<DumpWait<'d>> {
    let mut waiting: BTreeMap<CollectiveId, BTreeSet<u32>> = BTreeMap::new();
    for (program, &rank) in programs.ranks.iter().enumerate() {
        if let Some(next) = programs.steps[program].get(stuck.at[program]) {
            waiting.entry(next.event).or_default().insert(rank);
        }
    }
    let wait = |(event, waiting): (&CollectiveId, &BTreeSet<u32>)| {
        let grouped = programs.group_of(*event);
        let call = programs.open_call(*event, waiting)?;
        let has_call = |rank: &u32| {
            let program = programs.program_of(*rank)?;
            programs.steps[program].get(stuck.at[program])
        };
        let (known, silent): (BTreeSet<u32>, BTreeSet<u32>) = {
            let ranks = grouped.group.ranks.iter().copied();
            ranks.partition(|rank| programs.job.ranks.contains_key(rank))
        };
        // The last calls of a cut dump are unknown.
        let is_whole = |rank: &u32| {
            programs
                .job
                .ranks
                .get(rank)
                .is_some_and(|left| left.is_whole)
        };
        let is_free = |rank: &u32| is_whole(rank) && has_call(rank).is_none();
        let calls = waiting
            .first()
            .and_then(|rank| grouped.members.get(rank)?.get(&event.1));
        Some(DumpWait {
            group: event.0 as usize,
            seq: event.1,
            waiting: waiting.clone(),
            free: known.into_iter().filter(is_free).collect(),
            call,
            silent,
            is_given_up: calls.is_some_and(|calls| is_given_up(calls)),
        })
    };
    waiting.iter().filter_map(wait).collect()
}

/// A call that all members of a group made, and that did not end on some of them.
pub(super) struct CommonWait<'d> {
    /// The group's place in the list of groups.
    pub(super) group: usize,
    /// The call's number in the group.
    pub(super) seq: u64,
    /// The record of the first member on which it did not end.
    pub(super) call: &'d DumpEntry,
    /// The members on which it did not end.
    pub(super) waiting: BTreeSet<u32>,
    /// PyTorch's watchdog gave it up on all members.
    pub(super) is_given_up: bool,
}

impl CommonWait<'_> {
    /// The number of a member's record of it.
    pub(super) fn record_of(&self, rank: u32, groups: &[GroupDumpCalls<'_>]) -> u64 {
        let calls = groups[self.group].members.get(&rank);
        let records = calls.and_then(|calls| calls.get(&self.seq)?.first());
        records.map_or(0, |entry| entry.record_id)
    }
}

/// Finds the calls that all members of their group made, and that did not end on some of them: in order, those that
/// were given up first. Only groups with whole dumps of all members.
pub(super) fn find_common_waits<'d>(
    job: &DumpedJob,
    groups: &[GroupDumpCalls<'d>],
) -> Vec<CommonWait<'d>> {
    let each = groups.iter().enumerate();
    let mut waits: Vec<CommonWait<'d>> = each
        .flat_map(|(at, grouped)| find_waits_of_group(job, at, grouped))
        .collect();
    let made = |wait: &CommonWait<'_>| wait.call.created_ns.unwrap_or(u64::MAX);
    waits.sort_by_key(|wait| (!wait.is_given_up, made(wait), wait.group, wait.seq));
    waits
}

fn find_waits_of_group<'d>(
    job: &DumpedJob,
    group: usize,
    grouped: &GroupDumpCalls<'d>,
) -> Vec<CommonWait<'d>> {
    let ranks = &grouped.group.ranks;
    let calls = |rank: &u32| {
        job.ranks.get(rank).filter(|left| left.is_whole)?;
        Some((*rank, grouped.members.get(rank)?))
    };
    let members: Option<Vec<_>> = ranks.iter().map(calls).collect();
    let members = members.unwrap_or_default();
    let Some((_, all)) = members.first() else {
        return Vec::new();
    };
    let wait = |&seq: &u64| {
        let own = members
            .iter()
            .map(|(rank, calls)| Some((*rank, calls.get(&seq)?)));
        let own: Vec<_> = own.collect::<Option<_>>()?;
        let open = own.iter().filter(|(_, calls)| is_open(calls));
        let open: BTreeMap<u32, &Vec<&'d DumpEntry>> = open.copied().collect();
        let (_, first) = open.first_key_value()?;
        Some(CommonWait {
            group,
            seq,
            call: first.first()?,
            waiting: open.keys().copied().collect(),
            is_given_up: own.iter().all(|(_, calls)| is_given_up(calls)),
        })
    };
    all.keys().filter_map(wait).collect()
}
