//! The waits of a job: in each process group the first call that members wait in and others have not made.

use super::job::{DumpedJob, GroupDumpCalls, is_given_up, is_open};
use crate::calls::wait;
use crate::formats::flight::DumpEntry;
use std::collections::{BTreeMap, BTreeSet};

/// A call that some members of a group have made and wait in, and others have not made.
pub(super) struct DumpWait<'d> {
    /// The group's place in the list of groups.
    pub(super) group: usize,
    /// The call's number in the group.
    pub(super) seq: u64,
    /// The ranks that wait in it, and those that left a dump without it.
    pub(super) ranks: wait::CallWait,
    /// The record of the first rank that waits.
    pub(super) call: &'d DumpEntry,
    /// The ranks without a dump.
    pub(super) silent: BTreeSet<u32>,
    /// PyTorch's watchdog gave the call up.
    pub(super) is_given_up: bool,
}

/// Finds the first call of each group that some members wait in and others have not made.
pub(super) fn find_group_waits<'d>(
    job: &DumpedJob,
    groups: &[GroupDumpCalls<'d>],
) -> Vec<DumpWait<'d>> {
    let each = groups.iter().enumerate();
    each.filter_map(|(at, grouped)| find_group_wait(job, at, grouped))
        .collect()
}

fn find_group_wait<'d>(
    job: &DumpedJob,
    group: usize,
    grouped: &GroupDumpCalls<'d>,
) -> Option<DumpWait<'d>> {
    let members = &grouped.members;
    let reached = |rank: &u32| {
        let calls = members.get(rank);
        calls
            .and_then(|calls| calls.keys().next_back().copied())
            .unwrap_or(0)
    };
    let ranks = grouped.group.ranks.iter().copied();
    let (known, silent): (BTreeSet<u32>, BTreeSet<u32>) =
        ranks.partition(|rank| job.ranks.contains_key(rank));
    // The last calls of a cut dump are unknown.
    let is_whole = |rank: &&u32| job.ranks.get(rank).is_some_and(|left| left.is_whole);
    let least = known.iter().filter(is_whole).map(&reached).min()?;
    let most = known.iter().map(&reached).max()?;
    let open_at = |seq: u64| {
        let of = |rank: &u32| members.get(rank)?.get(&seq);
        let open = known
            .iter()
            .filter(|rank| of(rank).is_some_and(|calls| is_open(calls)));
        open.copied().collect::<BTreeSet<u32>>()
    };
    // A call that all made, and some have not ended, can only wait for ranks without a dump.
    let seq = match least < most {
        true => least + 1,
        false if silent.is_empty() => return None,
        false => {
            let mut made: BTreeSet<u64> = BTreeSet::new();
            members.values().for_each(|calls| made.extend(calls.keys()));
            made.into_iter().find(|&seq| !open_at(seq).is_empty())?
        }
    };
    let waiting = open_at(seq);
    let calls = members.get(waiting.first()?)?.get(&seq)?;
    let call = calls.first()?;
    let lacking = known
        .iter()
        .filter(|rank| is_whole(rank) && reached(rank) < seq)
        .copied()
        .collect();
    Some(DumpWait {
        group,
        seq,
        call,
        silent,
        is_given_up: is_given_up(calls),
        ranks: wait::CallWait {
            waiting,
            lacking,
            made_at: call.created_ns.unwrap_or(u64::MAX),
        },
    })
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
