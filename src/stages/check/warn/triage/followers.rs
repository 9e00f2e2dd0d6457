//! Findings on lines that only follow: from a failure without a line, or from NCCL's teardown.

use super::{CommEndCounts, Triage, WarningGroup};
use crate::grammar::ending::FailureMode;
use crate::stages::check::finding::{Confidence, Finding, Kind, WarnKind};
use crate::stages::check::log::job_end_lines::JobEndLine;
use crate::stages::check::watchdog::WatchdogRecord;
use crate::stages::check::wording::{
    FollowerCounts, describe_followers as folded_words, number_of_lines, number_of_processes,
    number_of_times, quote_text,
};
use std::collections::BTreeSet;

impl<'a> Triage<'a> {
    /// Lines that follow from a failure without a line.
    pub(super) fn followers_without_cause(
        &self,
        alone: &[WarningGroup<'a>],
        causes: &[WarningGroup<'a>],
        tail: &mut FollowerCounts<'a>,
        groups: &[WarningGroup<'a>],
        out: &mut Vec<Finding>,
    ) {
        let Some((lead, rest)) = alone.split_first() else {
            return;
        };
        let mut folded = FollowerCounts::new();
        for group in rest {
            for &member in &group.members {
                self.fold_follower(&mut folded, group.id(), member);
            }
        }
        // The launcher's report on a process that ended is nearer to the cause; NCCL's failure is the same
        // failure once more.
        let outside = |how: FailureMode| how != FailureMode::Nccl;
        let all = || {
            std::iter::once(lead)
                .chain(rest)
                .flat_map(|group| &group.members)
        };
        let ends = self.job_ends();
        let end = all()
            .find_map(|m| ends.failure_after(m.seen.first, outside))
            .or_else(|| ends.failure_in_other_input(lead.first().first.input, outside));
        let mut why = vec![
            format!(
                "it is the first of its kind, {}",
                self.clock.describe_order(lead.first())
            ),
            match (causes.is_empty(), end) {
                (true, Some(end)) => format!(
                    "it follows from a failure elsewhere; the log reports how the job ended: {}",
                    end.quote()
                ),
                (true, None) => "such a line mostly follows from an earlier failure".to_owned(),
                (false, _) => "it comes before any cause in this log".to_owned(),
            },
        ];
        let unknown = groups.iter().find(|g| g.known.is_none());
        if let Some(unknown) = unknown.filter(|g| self.clock.is_before(g.first(), lead.first())) {
            why.push(format!(
                "an unknown WARN comes before it: {}",
                quote_text(unknown.first().nccl_text())
            ));
        }
        if !folded.is_empty() {
            why.push(format!("with it: {}", folded_words(&folded)));
        }
        if !tail.is_empty() {
            let tail = std::mem::take(tail);
            why.push(format!("then NCCL was shut down: {}", folded_words(&tail)));
        }
        let mut finding = self.group_finding(lead, why);
        finding.sure = finding.sure.max(Confidence::Medium);
        finding.evidence.extend(end.map(JobEndLine::to_evidence));
        self.adjust_severity_by_end(lead, &mut finding);
        out.push(finding);
    }

    /// Returns the finding on lines of NCCL's teardown, if nothing failed before.
    pub(super) fn shutdown_finding(&self, teardown: &[WarningGroup<'a>]) -> Option<Finding> {
        let lead = teardown.first()?;
        let members = || teardown.iter().flat_map(|group| &group.members);
        let count: u64 = teardown.iter().map(WarningGroup::count).sum();
        let processes: BTreeSet<u32> = members().filter_map(|m| m.process).collect();
        let mut evidence = self.group_evidence(lead);
        evidence.extend(teardown.iter().skip(1).map(|g| g.first().to_evidence()));
        let reference = lead.known.map_or("", |known| known.reference);
        let means = lead.known.map_or("", |known| known.means);
        let of = format!(
            "{} of {}",
            number_of_lines(count),
            number_of_processes(processes.len())
        );
        let going_on = members().filter(|m| m.seen.calls > 0).count();
        if going_on > 0 {
            let says = format!(
                "NCCL's connections were closed while {} made more calls: {of}",
                number_of_processes(going_on)
            );
            return Some(Finding {
                about: self.about_process(lead.members[0].process),
                why: format!("{means}, and calls of the same processes come after these lines"),
                advice: format!(
                    "find out why a communicator was aborted before the job's end; see {reference}"
                ),
                evidence,
                ..Finding::of_kind(Kind::Warn(WarnKind::PROXY_MIDWAY), Confidence::Low, says)
            });
        }
        let (ends, end) = self.all.ordinary_ends();
        let CommEndCounts {
            destroyed,
            aborted,
            communicators,
        } = self.ended;
        let mut why = vec![means.to_owned(), "no failure comes before it".to_owned()];
        if self.all.counts_calls() {
            why.push("these processes made no call after it".to_owned());
        }
        if ends > 0 {
            why.push(format!(
                "PyTorch reports {} that a process ended normally",
                number_of_times(ends)
            ));
        }
        if destroyed + aborted > 0 {
            why.push(format!(
                "of {communicators} communicators {destroyed} were destroyed and {aborted} aborted"
            ));
        }
        evidence.extend(end.map(WatchdogRecord::to_evidence));
        let finished = ends > 0 || destroyed > 0;
        let sure = if finished {
            Confidence::High
        } else {
            Confidence::Medium
        };
        let says = format!("these lines are harmless, they were printed as the job ended: {of}");
        Some(Finding {
            why: why.join("; "),
            advice: format!(
                "no action is needed; destroy_process_group() before the program ends avoids them; \
                 see {reference}"
            ),
            evidence,
            ..Finding::of_kind(Kind::ShutdownWarns, sure, says)
        })
    }
}
