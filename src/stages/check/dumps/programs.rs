//! What each rank called, in order, as far as the dumps have it.

use super::compare::{CompareScope, DumpCallShape};
use super::job::{DumpCallsBySeq, DumpedJob, GroupDumpCalls, RankDump, is_open};
use crate::calls::wait::{CollectiveId, CollectiveReplay, ProgramCall};
use crate::formats::flight::DumpEntry;
use rustc_hash::{FxBuildHasher, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;

/// The ranks' collectives of all groups.
pub(super) struct DumpPrograms<'j, 'd> {
    pub(super) job: &'j DumpedJob,
    groups: &'j [GroupDumpCalls<'d>],
    /// The rank in the job of each program, in order.
    pub(super) ranks: Vec<u32>,
    /// The programs of each group's members.
    members: Vec<Vec<u32>>,
    /// The calls of each program.
    pub(super) steps: Vec<Vec<ProgramCall>>,
    /// Calls that ended on all members that made them.
    ended: FxHashSet<CollectiveId>,
}

impl<'j, 'd> DumpPrograms<'j, 'd> {
    pub(super) fn new(job: &'j DumpedJob, groups: &'j [GroupDumpCalls<'d>]) -> Self {
        let mut programs = DumpPrograms {
            job,
            groups,
            ranks: job.ranks_in_groups().into_iter().collect(),
            members: Vec::with_capacity(groups.len()),
            steps: Vec::new(),
            ended: FxHashSet::default(),
        };
        let mut numbered: Vec<Vec<(u64, ProgramCall)>> = vec![Vec::new(); programs.ranks.len()];
        for (group, grouped) in (0..).zip(groups) {
            let all = grouped.group.ranks.iter();
            let all = all.filter_map(|&rank| Some(programs.program_of(rank)? as u32));
            programs.members.push(all.collect());
            let from = programs.first_common_call(grouped);
            programs
                .ended
                .extend(ended_calls(grouped).map(|seq| (group, seq)));
            for (&rank, calls) in &grouped.members {
                let Some(program) = programs.program_of(rank) else {
                    continue;
                };
                let call = |(&seq, records): (&u64, &Vec<&DumpEntry>)| {
                    let shape = DumpCallShape::from_records(records, CompareScope::Calls);
                    let (event, mark) = ((group, seq), FxBuildHasher.hash_one(&shape));
                    Some((records.first()?.record_id, ProgramCall { event, mark }))
                };
                numbered[program].extend(calls.range(from..).filter_map(call));
            }
        }
        for mut calls in numbered {
            calls.sort_by_key(|(record, _)| *record);
            let calls = calls.into_iter().map(|(_, call)| call);
            programs.steps.push(calls.collect());
        }
        programs
    }

    /// The first call of a group that no member's dump has forgotten.
    fn first_common_call(&self, grouped: &GroupDumpCalls<'_>) -> u64 {
        let first = |(rank, calls): (&u32, &DumpCallsBySeq<'_>)| {
            let left = self.job.ranks.get(rank);
            let has_all = left.is_none_or(RankDump::has_all_calls);
            let first = calls.keys().next().copied().filter(|_| !has_all);
            first.unwrap_or(0)
        };
        grouped.members.iter().map(first).max().unwrap_or(0)
    }

    pub(super) fn program_of(&self, rank: u32) -> Option<usize> {
        self.ranks.binary_search(&rank).ok()
    }

    pub(super) fn ranks_of(&self, programs: &[u32]) -> BTreeSet<u32> {
        let ranks = programs
            .iter()
            .filter_map(|&at| self.ranks.get(at as usize));
        ranks.copied().collect()
    }

    pub(super) fn group_of(&self, event: CollectiveId) -> &'j GroupDumpCalls<'d> {
        &self.groups[event.0 as usize]
    }

    /// The records of a call, by those of `ranks` that made it.
    fn calls_of_ranks(
        &self,
        event: CollectiveId,
        ranks: &BTreeSet<u32>,
    ) -> impl Iterator<Item = &'j Vec<&'d DumpEntry>> {
        let members = &self.group_of(event).members;
        ranks
            .iter()
            .filter_map(move |rank| members.get(rank)?.get(&event.1))
    }

    /// The record of the first of `ranks` on which the call did not end.
    pub(super) fn open_call(
        &self,
        event: CollectiveId,
        ranks: &BTreeSet<u32>,
    ) -> Option<&'d DumpEntry> {
        let mut calls = self.calls_of_ranks(event, ranks);
        calls.find(|calls| is_open(calls))?.first().copied()
    }

    /// The record of the first of `ranks` that made the call.
    pub(super) fn made_call(
        &self,
        event: CollectiveId,
        ranks: &BTreeSet<u32>,
    ) -> Option<&'d DumpEntry> {
        self.calls_of_ranks(event, ranks).next()?.first().copied()
    }

    pub(super) fn build_replay(&self) -> CollectiveReplay<'_> {
        CollectiveReplay {
            members: &self.members,
            programs: &self.steps,
            ended: &self.ended,
        }
    }
}

/// The calls of a group that ended on all members that made them. One that only some made may have: the root of a
/// broadcast does not wait.
fn ended_calls(grouped: &GroupDumpCalls<'_>) -> impl Iterator<Item = u64> {
    let mut is_ended: BTreeMap<u64, bool> = BTreeMap::new();
    for (&seq, calls) in grouped.members.values().flatten() {
        *is_ended.entry(seq).or_insert(true) &= !is_open(calls);
    }
    is_ended
        .into_iter()
        .filter(|(_, is)| *is)
        .map(|(seq, _)| seq)
}
