//! Findings on attempts of a job that was started again.

use crate::stages::check::finding::{Finding, LineSpot, Reason, Severity};
use crate::stages::check::warn::warnings::Warnings;

/// Notes that the job was started again after a fault of its calls. Excuses ranks that stopped, unless the watchdog
/// reports that the attempt hung: the ranks of a job that was ended from outside are at different calls.
pub(crate) fn excuse_earlier_attempts(findings: &mut [Finding], said: &Warnings) {
    for finding in findings {
        if finding.about.seq.is_none() || finding.severity != Severity::Error {
            continue;
        }
        let Some(LineSpot::Line(at)) = finding.evidence.first().map(|evidence| evidence.at) else {
            continue;
        };
        let Some(again) = said.ends.restart_after(at) else {
            continue;
        };
        let watched = said.watchdog_lines().iter();
        let mut here = watched.filter(|one| one.at.input == at.input);
        if !finding.kind.is_stop() {
            finding.reasons.push(Reason::StartedAgain);
        } else if here.any(|one| one.at < again) {
            finding.reasons.push(Reason::StartedAgain);
            finding.advice =
                "its process is gone: read its own output, and the messages of its host at that time (dmesg)"
                    .to_owned();
        } else {
            finding.excuse(Reason::StartedAgain);
        }
    }
}
