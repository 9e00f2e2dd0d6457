//! Lines of an attempt that explain its later failures.

use super::FailureEvidence;
use crate::grammar::ending::FailureCause;
use crate::stages::check::log::job_end_lines::ReportedFailure;
use crate::stages::check::warn::known_warns::{WarnRole, look_up_warn};
use crate::stages::check::watchdog::{WatchdogMessage as Watch, WatchdogRecord};
use crate::stages::net::net_stage::FirstReportLine;
use memchr::memmem;
use std::collections::BTreeSet;

/// What explains later failures of an attempt.
pub(super) struct AttemptAlarms {
    /// The first line by which NCCL failed, a peer was lost or ranks timed out.
    pub(super) lost: Option<FirstReportLine>,
    /// That, or the first line with a process's own state.
    pub(super) stated: Option<FirstReportLine>,
    /// The ranks to which others lost their connection.
    pub(super) closers: BTreeSet<u32>,
    /// HCCL reports an error.
    pub(super) has_hccl: bool,
    /// Inputs in which a watchdog reports the error with which it ended its process.
    pub(super) thrown: BTreeSet<u32>,
}

/// True where what the process uses failed, and its line does not only follow from another failure.
pub(super) fn explains_others(failure: &ReportedFailure) -> bool {
    let known = look_up_warn(&failure.says);
    let follows = known.is_some_and(|known| known.role == WarnRole::Consequence);
    let is_state = failure.what == FailureCause::OwnState;
    failure.what.is_of_surroundings() && !(is_state && follows)
}

impl FailureEvidence<'_> {
    /// Finds the lines of an attempt that explain later ones.
    pub(super) fn find_alarms(&self, failures: &[ReportedFailure]) -> AttemptAlarms {
        let first_of = |is: fn(&ReportedFailure) -> bool| {
            let first = failures.iter().find(|f| is(f));
            self.alarm.into_iter().chain(first.map(|f| f.line.at)).min()
        };
        AttemptAlarms {
            lost: first_of(|f| f.what == FailureCause::Nccl),
            stated: first_of(explains_others),
            closers: super::setup::ranks_that_closed(failures),
            thrown: self.inputs_with_thrown_errors(),
            has_hccl: self
                .watched
                .iter()
                .any(|w| matches!(w.what, Watch::Hccl(_))),
        }
    }

    /// The inputs in which PyTorch's watchdog ended a process for an error of the GPU's: no peer's end leads to one.
    fn inputs_with_thrown_errors(&self) -> BTreeSet<u32> {
        let is_thrown = |w: &&WatchdogRecord| match &w.what {
            Watch::Exception(what) => memmem::find(what, b"CUDA error").is_some(),
            _ => false,
        };
        self.watched
            .iter()
            .filter(is_thrown)
            .map(|w| w.at.input)
            .collect()
    }
}
