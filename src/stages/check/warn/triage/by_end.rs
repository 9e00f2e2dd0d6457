//! WARN lines by how their job ended: lines after its own end, lines that led to its end, and lines
//! after which it went on.

use super::of_kind::is_error;
use super::{Group, Triage};
use crate::grammar::ending::How;
use crate::stages::check::finding::{Finding, Severity, Spot, Sure};
use crate::stages::check::log::job_ends::{Ends, Line};
use crate::stages::check::warn::known::Role;
use crate::stages::check::warn::warnings::Seen;

impl<'a> Triage<'a> {
    pub(crate) fn ends(&self) -> &'a Ends {
        self.all.ends()
    }

    /// The job's own end that all lines of a process come after, if it made no call since.
    fn done_before(&self, seen: &Seen) -> Option<&'a Line> {
        self.ends().done_before(seen.first).filter(|_| {
            let failed = self.ends().failed_behind(seen.first, |_| true);
            seen.calls == 0 && failed.is_none()
        })
    }

    /// Lines that come after the job's own end, and the others. NCCL's taking down has its own
    /// finding.
    pub(crate) fn late(&self, groups: Vec<Group<'a>>) -> (Vec<Group<'a>>, Vec<Group<'a>>) {
        let (mut late, mut others) = (Vec::new(), Vec::new());
        for Group { known, members } in groups {
            let own = known.is_some_and(|k| matches!(k.role, Role::Teardown | Role::Harmless));
            let (after, before): (Vec<_>, Vec<_>) = members
                .into_iter()
                .partition(|member| !own && self.done_before(member.seen).is_some());
            for (members, to) in [(after, &mut late), (before, &mut others)] {
                if !members.is_empty() {
                    to.push(Group { known, members });
                }
            }
        }
        (late, others)
    }

    /// Lines that come after the job's own end.
    pub(crate) fn after_end(&self, group: &Group<'a>) -> Finding {
        let end = self.done_before(group.first());
        let said = end.map_or(String::new(), |end| format!(": {}", end.quoted()));
        let why = format!("the job had reported its end before{said}");
        let mut finding = self.finding(group, vec![why]);
        finding.severity = Severity::Note;
        finding.sure = Sure::High;
        finding.says = format!("after the job's own end, {}", finding.says);
        finding.evidence.extend(end.map(Line::shown));
        finding
    }

    /// The line by which the job ended that a kind of lines led to: one of NCCL's functions gave an
    /// error after the WARN, and neither its process nor its job did anything more.
    fn ended_by(&self, group: &Group<'a>) -> Option<&'a Line> {
        let failed = |how: How| how != How::Killed;
        let gave_up = |seen: &&Seen| seen.result.is_some_and(is_error) && seen.calls == 0;
        let mut members = group.members.iter().map(|member| member.seen);
        let ends = self.ends();
        members
            .clone()
            .filter(gave_up)
            .find_map(|seen| ends.failed_behind(seen.last, failed))
            .or_else(|| {
                // Where NCCL's lines have a file of their own, the launcher's are in another.
                let idle = |seen: &&Seen| gave_up(seen) && ends.is_idle_behind(seen.last);
                let seen = members.find(idle)?;
                ends.failed_elsewhere(seen.last.input, failed)
            })
    }

    /// What is only a warning by itself is an error where the job ended by it; and no job failed by
    /// a line after which it went on until it was done.
    pub(crate) fn judge_by_end(&self, group: &Group<'a>, finding: &mut Finding) {
        // What is surely harmless ends no job.
        if finding.severity == Severity::Note && finding.sure == Sure::High {
            return;
        }
        let last = group.members.iter().map(|member| member.seen.last).max();
        let went_on = last.and_then(|last| self.ends().done_behind(last));
        // What follows from a failure elsewhere did not end the job.
        let may_cause = group.known.is_none_or(|k| k.role != Role::Consequence);
        let ended = self.ended_by(group).filter(|_| may_cause);
        let (severity, words, end) = match (ended, went_on) {
            (Some(end), _) => (Severity::Error, "then the job ended", end),
            (None, Some(done)) if finding.severity == Severity::Error => (
                Severity::Warning,
                "the job went on and reported its end",
                done,
            ),
            _ => return,
        };
        finding.severity = severity;
        finding.sure = finding.sure.min(Sure::Medium);
        finding.why += &format!("; {words}: {}", end.quoted());
        finding.evidence.push(end.shown());
    }

    /// What PyTorch's watchdog says after the job's own end is a note, unless the job failed then.
    pub(crate) fn note_after_end(&self, finding: &mut Finding) {
        let at = finding.evidence.first().map(|evidence| evidence.at);
        let Some(Spot::Line(at)) = at else { return };
        if self.ends().failed_behind(at, |_| true).is_some() {
            return;
        }
        if let Some(end) = self.ends().done_before(at) {
            finding.severity = Severity::Note;
            finding.why += &format!("; the job had reported its end before: {}", end.quoted());
            finding.evidence.push(end.shown());
        }
    }
}
