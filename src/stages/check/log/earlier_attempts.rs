//! Findings on attempts of a job that was started again.

use crate::stages::check::finding::{Finding, LineSpot, Reason, Severity};
use crate::stages::check::warn::warnings::Warnings;

/// Excuses ranks that stopped in an attempt that another one follows in the same input, unless the watchdog reports that
/// the attempt hung: the ranks of a job that was ended from outside are at different calls.
pub(crate) fn excuse_earlier_attempts(findings: &mut [Finding], said: &Warnings) {
    let is_ended = |finding: &Finding| {
        let Some(LineSpot::Line(at)) = finding.evidence.first().map(|evidence| evidence.at) else {
            return false;
        };
        let is_watched = |again| {
            let mut here = said
                .watchdog_lines()
                .iter()
                .filter(|one| one.at.input == at.input);
            here.any(|one| one.at < again)
        };
        let again = said.ends.restart_after(at);
        again.is_some_and(|again| !is_watched(again))
    };
    for finding in findings {
        let is_call = finding.kind.is_stop() && finding.about.seq.is_some();
        if is_call && finding.severity == Severity::Error && is_ended(finding) {
            finding.excuse(Reason::StartedAgain);
        }
    }
}
