//! Who waits for whom: members of a process group that made fewer calls than the others, those that
//! left no dump, and circles.

use super::job::{DumpedJob, GroupDumpCalls, is_given_up, is_open};
use crate::formats::flight::DumpEntry;
use std::collections::{BTreeMap, BTreeSet};

/// A call that some members of a group have made and wait in, and others have not made.
pub(super) struct GroupWait<'d> {
    /// The group's place in the list of groups.
    pub(super) group: usize,
    /// The call's number in the group.
    pub(super) seq: u64,
    /// Who waits in it, and the record of the first of them.
    pub(super) waiting: BTreeSet<u32>,
    pub(super) call: &'d DumpEntry,
    /// Who has not made it and left a dump.
    pub(super) lacking: BTreeSet<u32>,
    /// Who left none.
    pub(super) silent: BTreeSet<u32>,
    /// The watchdog gave it up.
    pub(super) is_given_up: bool,
}

/// The first call of each group that some members wait in and others have not made.
pub(super) fn find_group_waits<'d>(
    job: &DumpedJob,
    groups: &[GroupDumpCalls<'d>],
) -> Vec<GroupWait<'d>> {
    let each = groups.iter().enumerate();
    each.filter_map(|(at, grouped)| find_group_wait(job, at, grouped))
        .collect()
}

fn find_group_wait<'d>(
    job: &DumpedJob,
    group: usize,
    grouped: &GroupDumpCalls<'d>,
) -> Option<GroupWait<'d>> {
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
    // Of a dump that is cut nobody knows what came last.
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
    // What all have made, and some have not ended, waits for those without a dump alone.
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
    let lacking = known
        .iter()
        .filter(|rank| is_whole(rank) && reached(rank) < seq)
        .copied()
        .collect();
    Some(GroupWait {
        group,
        seq,
        call: calls.first()?,
        lacking,
        silent,
        is_given_up: is_given_up(calls),
        waiting,
    })
}

/// Who holds up the job: those who lack a call and wait for nobody, or the circle of all.
pub(super) enum JobBlocker<'w, 'd> {
    /// One call, and who has not made it.
    By(&'w GroupWait<'d>, BTreeSet<u32>),
    /// Ranks that wait for each other: two of their calls.
    Circle(&'w GroupWait<'d>, &'w GroupWait<'d>),
}

/// What follows from all waits.
pub(super) fn find_blocker<'w, 'd>(waits: &'w [GroupWait<'d>]) -> Option<JobBlocker<'w, 'd>> {
    // Whom each rank waits for, in any group.
    let mut awaits: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for wait in waits {
        for rank in &wait.waiting {
            awaits.entry(*rank).or_default().extend(&wait.lacking);
        }
    }
    let is_free = |rank: &&u32| awaits.get(rank).is_none_or(BTreeSet::is_empty);
    let lacks = |wait: &GroupWait<'_>| -> BTreeSet<u32> {
        wait.lacking.iter().filter(is_free).copied().collect()
    };
    // The call that was made first is what came to a stop first.
    let first = |wait: &&GroupWait<'_>| wait.call.created_ns.unwrap_or(u64::MAX);
    let by = waits
        .iter()
        .filter(|wait| !lacks(wait).is_empty())
        .min_by_key(first);
    if let Some(wait) = by {
        return Some(JobBlocker::By(wait, lacks(wait)));
    }
    // Everyone who lacks a call waits in another: two groups used in different orders.
    for one in waits {
        let crossed = waits.iter().find(|other| {
            !one.lacking.is_disjoint(&other.waiting) && !other.lacking.is_disjoint(&one.waiting)
        });
        if let Some(other) = crossed {
            return Some(JobBlocker::Circle(one, other));
        }
    }
    None
}
