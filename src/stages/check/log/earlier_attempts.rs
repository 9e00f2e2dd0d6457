//! Findings on attempts of a job that was started again.

use super::job_ends::JobEnds;
use crate::stages::check::finding::{Finding, LineSpot, Reason, Severity};

/// Lowers errors about calls of an attempt that another one follows in the same input: ranks of a job that was ended
/// are at different calls, and other faults did not end the job.
pub(crate) fn excuse_earlier_attempts(findings: &mut [Finding], ends: &JobEnds) {
    let is_earlier = |finding: &Finding| {
        let first = finding.evidence.first().map(|evidence| evidence.at);
        matches!(first, Some(LineSpot::Line(at)) if ends.restart_after(at).is_some())
    };
    for finding in findings {
        let is_error = finding.severity == Severity::Error && finding.about.seq.is_some();
        if is_error && is_earlier(finding) {
            finding.excuse(Reason::StartedAgain);
            if !finding.kind.is_stop() {
                finding.severity = Severity::Warning;
            }
        }
    }
}
