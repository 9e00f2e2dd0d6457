//! Processes that could not set up a process group: they waited for a rank that did not come.

use super::FailureEvidence;
use crate::grammar::ending::{FailureCause, SetupFailure, find_setup_failure};
use crate::stages::check::finding::{About, Confidence, Finding, Kind};
use crate::stages::check::log::job_end_lines::ReportedFailure;
use crate::stages::check::log::limits::MAX_SETUP_LINES_SHOWN;
use crate::stages::check::wording::{quote_text, rank_ranges as ranks_named};
use std::collections::BTreeSet;

/// The processes that waited for the id of a communicator, as far as lines name them.
struct CommIdWaiters<'f> {
    /// Each with its rank there and the rank that makes the id.
    all: Vec<(&'f ReportedFailure, u32, u32)>,
    /// The job's ranks that waited.
    ranks: BTreeSet<u32>,
}

impl CommIdWaiters<'_> {
    /// The ranks of the job that did not make an id. A group's ranks rise with those of the job: where
    /// a rank has one number in both, so has each below it.
    fn ranks_without_id(&self) -> BTreeSet<u32> {
        let same = self.all.iter().filter(|(f, rank, _)| f.rank == Some(*rank));
        let missing: BTreeSet<u32> = same.map(|&(_, _, from)| from).collect();
        // A rank that waited as well may wait for one that did not.
        match missing.is_subset(&self.ranks) {
            true => missing,
            false => missing.difference(&self.ranks).copied().collect(),
        }
    }

    /// `ranks 1 and 2`, `a process`.
    fn describe_waiters(&self) -> String {
        match (self.ranks.first(), self.ranks.len()) {
            (None, _) => "a process".to_owned(),
            (Some(rank), 1) => format!("rank {rank}"),
            _ => format!("ranks {}", ranks_named(&self.ranks)),
        }
    }
}

impl FailureEvidence<'_> {
    /// The finding on the processes among `failures` that could not set up a process group.
    pub(super) fn find_setup_failure(&self, failures: &[ReportedFailure]) -> Option<Finding> {
        let all = failures.iter().filter(|f| f.what == FailureCause::Nccl);
        let all: Vec<_> = all
            .filter_map(|f| Some((f, find_setup_failure(&f.line.text)?)))
            .collect();
        let &(first, what) = all.first()?;
        let shown = all
            .iter()
            .take(MAX_SETUP_LINES_SHOWN)
            .map(|(f, _)| f.line.to_evidence());
        // The process itself is unknown: it may have no line of NCCL, and then a smaller
        // communicator may be taken for that of all ranks.
        let finding = |says, rank: Option<u32>, advice| Finding {
            about: About::of_rank(rank),
            advice,
            evidence: shown.collect(),
            ..Finding::of_kind(Kind::SetupFailed, Confidence::Medium, says)
        };
        let look =
            "its own output, whether it waits for a download or an input, a stack (py-spy dump)";
        match what {
            SetupFailure::Id { waited, .. } => {
                // Where a whole job ends at once, its processes also lose the store.
                if !waited && self.ended_together() {
                    return None;
                }
                let all = all.iter().filter_map(|&(f, what)| match what {
                    SetupFailure::Id { rank, from, .. } => Some((f, rank, from)),
                    _ => None,
                });
                let all: Vec<_> = all.collect();
                let ranks = all.iter().filter_map(|(f, ..)| f.rank).collect();
                Some(self.no_comm_id_finding(&CommIdWaiters { all, ranks }, waited, look, finding))
            }
            SetupFailure::Clients { came, all } => Some(finding(
                format!("only {came} of {all} processes joined the job before the time was up"),
                None,
                format!("look at the processes that did not join: {look}"),
            )),
            SetupFailure::Store(address) => {
                let who = first
                    .rank
                    .map_or("a process".to_owned(), |rank| format!("rank {rank}"));
                Some(finding(
                    format!(
                        "{who} could not connect to the job's store at {}",
                        quote_text(address)
                    ),
                    None,
                    "look at whether rank 0 runs there (MASTER_ADDR, MASTER_PORT), and whether a \
                     firewall is between the hosts"
                        .to_owned(),
                ))
            }
        }
    }

    fn no_comm_id_finding(
        &self,
        waiting: &CommIdWaiters<'_>,
        waited: bool,
        look: &str,
        finding: impl FnOnce(String, Option<u32>, String) -> Finding,
    ) -> Finding {
        let (who, missing) = (waiting.describe_waiters(), waiting.ranks_without_id());
        let end = match waited {
            true => "",
            false => ": the connection to the job's store was lost",
        };
        match (missing.first(), waiting.all.first()) {
            (Some(&rank), _) if missing.len() == 1 => finding(
                format!(
                    "rank {rank} did not make the id of a communicator that {who} waited for{end}"
                ),
                Some(rank),
                format!("look at rank {rank} first: {look}"),
            ),
            (_, Some(&(failure, rank, from))) => {
                let job = failure
                    .rank
                    .and_then(|of| of.checked_add(from)?.checked_sub(rank));
                let job = job.map_or(String::new(), |job| {
                    format!(" (rank {job} of the job, if the communicator's ranks are consecutive)")
                });
                finding(
                    format!(
                        "{who} waited for the id of a communicator, which its rank {from} did not \
                         make{end}; no line reports which rank of the job that is"
                    ),
                    None,
                    format!("look at rank {from} of that communicator first{job}: {look}"),
                )
            }
            (_, None) => finding(
                format!("{who} waited for the id of a communicator"),
                None,
                look.to_owned(),
            ),
        }
    }
}
