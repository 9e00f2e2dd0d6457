//! WARN lines by the end of their job: lines after its own end, lines that led to its end, and lines after
//! which it went on.

use super::group_findings::is_error_result;
use super::{ProcessWarning, Triage, WarningGroup};
use crate::grammar::ending::FailureMode;
use crate::stages::check::finding::{Confidence, Finding, LineSpot, Severity};
use crate::stages::check::log::{job_end_lines::JobEndLine, job_ends::JobEnds};
use crate::stages::check::warn::known_warns::WarnRole;
use crate::stages::check::warn::warnings::WarningLines;

impl<'a> Triage<'a> {
    pub(crate) fn job_ends(&self) -> &'a JobEnds {
        &self.all.ends
    }

    /// The job's own end before all lines of a process, if it made no call since.
    fn done_before(&self, seen: &WarningLines) -> Option<&'a JobEndLine> {
        self.job_ends().done_line_before(seen.first).filter(|_| {
            let failed = self.job_ends().failure_after(seen.first, |_| true);
            seen.calls == 0 && failed.is_none()
        })
    }

    /// Splits lines into those after the job's own end and the others. NCCL's teardown has its own finding.
    pub(crate) fn split_after_end(
        &self,
        groups: Vec<WarningGroup<'a>>,
    ) -> (Vec<WarningGroup<'a>>, Vec<WarningGroup<'a>>) {
        let (mut late, mut others) = (Vec::new(), Vec::new());
        for WarningGroup { known, members } in groups {
            let own =
                known.is_some_and(|k| matches!(k.role, WarnRole::Teardown | WarnRole::Harmless));
            let (after, before): (Vec<_>, Vec<_>) = members
                .into_iter()
                .partition(|member| !own && self.done_before(member.seen).is_some());
            for (members, to) in [(after, &mut late), (before, &mut others)] {
                if !members.is_empty() {
                    to.push(WarningGroup { known, members });
                }
            }
        }
        (late, others)
    }

    /// Returns the finding on lines after the job's own end.
    pub(crate) fn after_end_finding(&self, group: &WarningGroup<'a>) -> Finding {
        let end = self.done_before(group.first());
        let said = end.map_or(String::new(), |end| format!(": {}", end.quote()));
        let why = format!("the job had reported its end before{said}");
        let mut finding = self.group_finding(group, vec![why]);
        finding.severity = Severity::Note;
        finding.sure = Confidence::High;
        finding.says = format!("after the job's own end, {}", finding.says);
        finding.evidence.extend(end.map(JobEndLine::to_evidence));
        finding
    }

    /// Returns the line by which the job ended, if a kind of lines led to it: one of NCCL's functions returned
    /// an error after the WARN, and neither its process nor its job did anything more.
    fn end_line_led_to(&self, group: &WarningGroup<'a>) -> Option<&'a JobEndLine> {
        let failed = |how: FailureMode| how != FailureMode::Killed;
        let gave_up =
            |seen: &&WarningLines| seen.result.is_some_and(is_error_result) && seen.calls == 0;
        let mut members = group.members.iter().map(|member| member.seen);
        let ends = self.job_ends();
        members
            .clone()
            .filter(gave_up)
            .find_map(|seen| ends.failure_after(seen.last, failed))
            .or_else(|| {
                // If NCCL's lines have a file of their own, the launcher's are in another.
                let idle = |seen: &&WarningLines| gave_up(seen) && ends.is_idle_after(seen.last);
                let seen = members.find(idle)?;
                ends.failure_in_other_input(seen.last.input, failed)
            })
    }

    /// True where the error that NCCL's functions returned after a line came to the program, and nothing was done after it.
    fn has_failed_program(&self, group: &WarningGroup<'a>) -> bool {
        let failed = |member: &ProcessWarning<'a>| {
            let (process, result) = (member.process?, member.seen.result?);
            let way = self.all.returned.error_way(process, result)?;
            let is_last = way.calls == 0 && self.job_ends().is_idle_after(way.last);
            let mut relayed = self.all.returned.relayed_lines().iter();
            let mut is_relayed = || relayed.any(|line| line.result == Some(result));
            Some(is_last && (way.has_reached_program || is_relayed()))
        };
        group
            .members
            .iter()
            .any(|member| failed(member) == Some(true))
    }

    /// A warning becomes an error if the job ended by it; and no job failed by a line after which it went on
    /// until it was done.
    pub(crate) fn adjust_severity_by_end(&self, group: &WarningGroup<'a>, finding: &mut Finding) {
        // Harmless lines of high confidence end no job.
        if finding.severity == Severity::Note && finding.sure == Confidence::High {
            return;
        }
        let is_handled = |member: &ProcessWarning<'a>| {
            let of = |process| self.all.returned.is_handled(process, member.seen.last);
            member.process.is_some_and(of)
        };
        // An error of the GPU is not one of a network.
        let is_of_gpu = group.first().nccl_text().starts_with(b"Cuda failure");
        let handled = group.members.iter().all(is_handled) && !is_of_gpu;
        if finding.severity == Severity::Error && handled {
            finding.severity = Severity::Warning;
            finding.why += "; its process went on with another network";
        }
        let last = group.members.iter().map(|member| member.seen.last).max();
        let went_on = last.and_then(|last| self.job_ends().done_line_after(last));
        // Consequences of a failure elsewhere did not end the job.
        let may_cause = group.known.is_none_or(|k| k.role != WarnRole::Consequence);
        let ended = self.end_line_led_to(group).filter(|_| may_cause);
        let (severity, words, end) = match (ended, went_on) {
            (Some(end), _) => (Severity::Error, "then the job ended", end),
            (None, Some(done)) if finding.severity == Severity::Error => (
                Severity::Warning,
                "the job went on and reported its end",
                done,
            ),
            (None, None)
                if may_cause
                    && finding.severity == Severity::Warning
                    && self.has_failed_program(group) =>
            {
                finding.severity = Severity::Error;
                finding.why += "; the program got the error, and did nothing more";
                return;
            }
            _ => return,
        };
        finding.severity = severity;
        finding.sure = finding.sure.min(Confidence::Medium);
        finding.why += &format!("; {words}: {}", end.quote());
        finding.evidence.push(end.to_evidence());
    }

    /// Lines of PyTorch's watchdog after the job's own end are notes, unless the job failed then.
    pub(crate) fn note_after_end(&self, finding: &mut Finding) {
        let at = finding.evidence.first().map(|evidence| evidence.at);
        let Some(LineSpot::Line(at)) = at else { return };
        if self.job_ends().failure_after(at, |_| true).is_some() {
            return;
        }
        if let Some(end) = self.job_ends().done_line_before(at) {
            finding.severity = Severity::Note;
            finding.why += &format!("; the job had reported its end before: {}", end.quote());
            finding.evidence.push(end.to_evidence());
        }
    }
}
