//! What follows from an end from outside: the scheduler, a person, or an attempt that a later one outlived.

use super::FailureEvidence;
use super::alarms::{AttemptAlarms, explains_others};
use crate::grammar::ending::FailureCause;
use crate::stages::check::finding::{Finding, LineSpot, Reason};
use crate::stages::check::log::job_end_lines::ReportedFailure;
use crate::stages::net::net_stage::FirstReportLine;

impl FailureEvidence<'_> {
    /// The line by which an attempt was ended from outside, if no line reports another failure before it. Launchers
    /// that were told to end close their processes, and may print that first.
    pub(super) fn find_outside_end<'f>(
        &self,
        failures: &'f [ReportedFailure],
        alarms: &AttemptAlarms,
    ) -> Option<&'f ReportedFailure> {
        let is_close = |f: &&ReportedFailure| {
            let is_report = f.what.is_of_surroundings() && !explains_others(f);
            is_report || matches!(f.what, FailureCause::Signal(15) | FailureCause::Repeated)
        };
        let first = failures.iter().find(|f| f.what != FailureCause::Repeated);
        let end = failures.iter().find(|f| !is_close(f));
        let end = end.filter(|f| f.is_outside_end())?;
        let is_first = first.is_some_and(ReportedFailure::is_outside_end);
        let is_own = |f: &ReportedFailure| self.is_own_failure(f, failures, alarms);
        (is_first || !failures.iter().any(is_own)).then_some(end)
    }

    /// True where launchers closed their processes before they print the order to end.
    pub(super) fn is_closed_before_end(&self, failures: &[ReportedFailure]) -> bool {
        let alarms = self.find_alarms(failures);
        self.find_outside_end(failures, &alarms).is_some()
    }

    /// Excuses findings on lines after a job was cancelled, or before it is started again.
    pub(crate) fn excuse_after_end(&self, findings: &mut [Finding]) {
        for finding in findings {
            let lines = finding
                .evidence
                .iter()
                .filter_map(|evidence| match evidence.at {
                    LineSpot::Line(at) => Some(at),
                    LineSpot::Byte { .. } => None,
                });
            let after = lines.min().is_some_and(|at| self.is_after_job_end(at));
            if after && (finding.kind.is_warn() || finding.kind.is_watchdog()) {
                finding.excuse(Reason::AfterJobEnd);
            }
        }
    }

    /// True for a line after that by which the scheduler or a person ended the job, or an attempt of
    /// it that a later one outlived.
    pub(crate) fn is_after_job_end(&self, at: FirstReportLine) -> bool {
        let mut ends = self.ended.get(&at.input).into_iter().flatten();
        ends.any(|(after, again)| *after <= at && again.is_none_or(|again| at < again))
    }
}
