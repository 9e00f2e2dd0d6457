//! Initialisations that had not ended when the log ends, connections that are still tried, and interfaces that
//! cannot serve a job on several hosts.
//!
//! A log that was cut, or copied while its job starts, has initialisations that had not ended: that is no fault.
//! It is one where something else shows that they will not end: a failure, a watched log that stopped, or ranks
//! that have not come as far as all ranks must have come before the first of them can complete.

mod first_call;
mod group_order;
mod incomplete;
mod interface_kind;
mod interfaces;
mod limits;
mod open_evidence;
mod open_setups;
mod phase_words;
mod retrying;
mod unnamed;

use crate::report::account::Account;
use crate::stages::check::finding::{Finding, Kind, Severity};
use crate::stages::check::log::job_end_lines::ReportedFailure;
use crate::stages::check::ranks::stopped::JobLiveness;
use crate::stages::check::walk::{CheckGathered, WalkedInput};
use crate::stages::communicators::CommunicatorsSummary;
use crate::stages::net::NetSummary;
use crate::stages::net::net_stage::FirstReportLine;
use rustc_hash::FxHashMap;

/// The known facts of a job's start.
pub(in crate::stages::check) struct SetupContext<'s> {
    net: &'s NetSummary,
    found: &'s CommunicatorsSummary,
    inputs: &'s [WalkedInput],
    accounts: &'s [Account],
    /// The ends of processes that lines report.
    reported: Vec<ReportedFailure>,
    /// The last line of each process.
    last_lines: FxHashMap<u32, FirstReportLine>,
    /// The number of processes with lines.
    speakers: usize,
    /// The last line that is not NCCL's.
    foreign: Option<FirstReportLine>,
    /// Something else shows that the job failed.
    failed: bool,
    /// The log has WARN lines.
    warned: bool,
    now: JobLiveness,
}

impl<'s> SetupContext<'s> {
    /// Makes the context; `failed` if something else shows that the job failed.
    pub(in crate::stages::check) fn new(
        seen: &'s CheckGathered,
        failed: bool,
        now: JobLiveness,
    ) -> SetupContext<'s> {
        SetupContext {
            net: &seen.net,
            found: &seen.found,
            inputs: &seen.inputs,
            accounts: &seen.accounts,
            reported: seen.warnings.ends.collect_reported(),
            last_lines: seen.net.all.sockets.last_lines(),
            speakers: seen
                .net
                .real
                .iter()
                .filter(|&&p| seen.net.process(p).is_some())
                .count(),
            foreign: seen.lines.last_foreign,
            failed,
            warned: seen.lines.warns,
            now,
        }
    }

    fn is_stalled(&self) -> bool {
        self.now == JobLiveness::Stalled
    }

    /// True if the end of the log shows nothing, since the job runs.
    fn is_running(&self) -> bool {
        self.now == JobLiveness::Running
    }

    /// True if a trainer ended a step.
    fn has_steps(&self) -> bool {
        self.inputs
            .iter()
            .any(|input| input.first_step_number().is_some())
    }

    /// True if a line may be lost, or in another place than its own.
    fn is_damaged(&self) -> bool {
        let lost = |account: &Account| {
            account.damaged + account.overwritten + account.spliced + account.block_writers > 0
        };
        self.accounts.iter().any(lost) || self.inputs.iter().any(|input| input.remains.count > 0)
    }

    /// Returns the findings on the job's start.
    pub(in crate::stages::check) fn find_setup_faults(&self) -> Vec<Finding> {
        let mut all = incomplete::find_open_setups(self);
        all.extend(retrying::find_retries(self));
        all.extend(first_call::find_silent_start(self));
        let is_troubled = self.failed
            || self.is_stalled()
            || all
                .iter()
                .any(|f| f.kind == Kind::ConnectRetrying || f.severity == Severity::Error);
        all.extend(interfaces::find_unsuitable_interfaces(self, is_troubled));
        all
    }
}
