//! The job's own reports that its work is done.

use super::job_end_lines::JobEndLine;
use super::job_ends::{JobEnds, JobEventKind};
use crate::grammar::ending::FailureMode;
use crate::stages::net::net_stage::FirstReportLine;

impl JobEnds {
    /// The job's own end after a line, if no other job began and nothing failed between them.
    pub(crate) fn done_line_after(&self, at: FirstReportLine) -> Option<&JobEndLine> {
        let mut next = self.stretches[self.first_event_after(at)..].iter();
        let next = next.find(|s| s.kind != JobEventKind::GoesOn)?;
        let is_end = next.kind == JobEventKind::Done && next.input_number() == at.input;
        is_end.then_some(&next.first).filter(|line| line.at > at)
    }

    /// True where the job had reported its end before something outside of it ended what was left at a line.
    pub(crate) fn was_done_before(&self, at: FirstReportLine) -> bool {
        let killed = JobEventKind::Failed(FailureMode::Killed);
        let before = self
            .stretches
            .iter()
            .rev()
            .filter(|s| s.input_number() == at.input && s.first.at < at);
        let last = before
            .filter(|s| s.kind != killed)
            .map(|s| (s.kind, s.last.at));
        last.take(1).any(|(kind, line)| {
            let next_step = self.next_step_after(line);
            kind == JobEventKind::Done && next_step.is_none_or(|step| step > at.line)
        })
    }

    /// True where an input ends with the job's own report that it is done.
    pub(crate) fn reports_done(&self) -> bool {
        let inputs = self
            .stretches
            .chunk_by(|a, b| a.input_number() == b.input_number());
        let mut ends = inputs.filter_map(<[_]>::last);
        let killed = JobEventKind::Failed(FailureMode::Killed);
        ends.any(|last| match last.kind {
            JobEventKind::Done => self.next_step_after(last.last.at).is_none(),
            kind => kind == killed && self.was_done_before(last.first.at),
        })
    }
}
