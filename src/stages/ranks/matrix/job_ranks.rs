//! The ranks of the job, by communicator.

use super::gather::{self, TrafficGatherer};
use super::list_rank_calls;
use super::members::MatrixMembers;
use crate::count::calls::{Options as Read, Progress};
use crate::error::Result;
use crate::filter::JobRankTable;
use crate::members::comm_id::CommId;
use crate::report::Report;
use crate::source::InputName;
use crate::stages::{self, run_snapshot};
use std::collections::BTreeSet;

/// The ranks of the job, by communicator.
#[derive(Debug, Default)]
pub(crate) struct JobRanks {
    table: JobRankTable,
    /// The communicators with calls.
    used: BTreeSet<CommId>,
}

impl JobRanks {
    /// True if no rank is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.iter_used().next().is_none()
    }

    fn iter_used(&self) -> impl Iterator<Item = (&CommId, &Vec<u32>)> {
        let all = self.table.communicators.iter();
        all.filter(|(id, _)| self.used.contains(id))
    }

    /// The ranks in the job of a communicator's members, in the order of their ranks there.
    pub(crate) fn ranks_of_members(&self, id: &CommId) -> Option<&[u32]> {
        self.table.communicators.get(id).map(|members| &members[..])
    }

    /// The ranks by communicator, as a filter needs them.
    pub(crate) fn into_table(self) -> JobRankTable {
        self.table
    }

    /// All ranks of the communicators with calls, in order.
    pub(crate) fn iter_ranks(&self) -> impl Iterator<Item = u32> {
        let all: BTreeSet<u32> = self.iter_used().flat_map(|(_, of)| of).copied().collect();
        all.into_iter()
    }

    /// The communicators with calls, largest first.
    pub(crate) fn iter_communicators(&self) -> impl Iterator<Item = (CommId, &[u32])> {
        let mut all: Vec<_> = self.iter_used().map(|(id, of)| (*id, &of[..])).collect();
        all.sort_by_key(|(id, members)| (std::cmp::Reverse(members.len()), *members, *id));
        all.into_iter()
    }
}

/// Reads the ranks of all `origins`, by communicators of which all members are known.
///
/// # Errors
/// No input could be read.
pub(crate) fn read_job_ranks(
    origins: &[InputName],
    read: &Read,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<JobRanks> {
    let tally = gather::matrix_tally_options(read.window.is_some());
    let mut gather = TrafficGatherer::new(read, &tally, origins.len(), Vec::new());
    let new = || run_snapshot::empty_partial(&tally);
    let merged = stages::read_stage(&mut gather, origins, read, report, progress, new)?;
    gather.add_held_calls(&merged);
    let found = gather.finish(&merged);
    let calls = list_rank_calls(&found.calls);
    let used = calls.iter().filter_map(|made| made.who.comm_id).collect();
    let members = MatrixMembers::from_sides(found.sides, found.processes, &calls);
    let aliases = merged.process_aliases();
    let ranks = merged.find_job_ranks(&aliases);
    let named = aliases.iter().zip(merged.origins.processes.items());
    let processes = named.filter_map(|(&real, process)| {
        let rank = ranks.rank_of(real, None)?;
        Some(((process.host.clone(), process.pid), rank))
    });
    let table = JobRankTable {
        communicators: members.whole_communicators(),
        processes: processes.collect(),
    };
    Ok(JobRanks { table, used })
}
