//! The findings on a process that failed, or on a job that was ended from outside.

use super::FailureEvidence;
use crate::grammar::ending::FailureCause;
use crate::stages::check::finding::{About, Confidence, Finding, Kind, Reason, Severity};
use crate::stages::check::log::job_end_lines::ReportedFailure;
use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::wording::{quote_text, rank_ranges, verb_form};
use crate::stages::check::words::failures as words;
use crate::stages::net::net_stage::FirstReportLine;
use std::collections::BTreeSet;

impl<'a> FailureEvidence<'a> {
    /// Returns the finding that a scheduler or a person ended the job.
    pub(super) fn ended_from_outside(&self, end: &ReportedFailure) -> Finding {
        let interrupted = end.what == FailureCause::Interrupted;
        let kind = if interrupted {
            Kind::JobInterrupted
        } else {
            Kind::JobCancelled
        };
        let says = words::describe_outside_end(end);
        let advice = match end.what {
            FailureCause::Signal(1) => {
                "start the job so that it outlives the terminal: tmux, nohup, setsid, or the scheduler"
            }
            _ => "",
        };
        Finding {
            advice: advice.to_owned(),
            evidence: vec![end.line.to_evidence()],
            ..Finding::of_kind(kind, Confidence::High, says)
        }
    }

    /// Returns the finding that a process failed first.
    pub(super) fn failure_finding(
        &self,
        failure: &ReportedFailure,
        rank: Option<u32>,
        pid: Option<u64>,
    ) -> Finding {
        let process = self.failed_process(failure, rank, pid);
        let rank = rank.or_else(|| process.and_then(|process| self.rank_of(process)));
        let named = process.map(|at| &self.found.processes[at as usize]);
        let host = named.map(|p| p.host.clone()).or(failure.host.clone());
        let pid = named.and_then(|p| p.pid).or(pid);
        let is_nameless = rank.is_none() && pid.is_none() && host.is_none();
        let closed = self.closed_local_rank(failure.line.at);
        let closed = closed.filter(|_| is_nameless && failure.is_crash());
        let who = match &closed {
            Some((local, host)) => format!("local rank {local} of {}", quote_text(host)),
            None => {
                let names = RankNames { found: self.found };
                let named = process.map(|process| names.process_and_gpu(process));
                words::name_failed_process(named, rank, pid, host.as_deref())
            }
        };
        let is_named_by_closing = closed.is_some();
        let host = host.or(closed.map(|(_, host)| host));
        let (kind, says, advice) = words::describe_failure(failure, &who);
        // A few lines do not show an earlier failure, and a process that waits until its time is up is not at fault.
        let (sure, rank) = match failure.what {
            FailureCause::Repeated => (Confidence::Low, None),
            FailureCause::Exception if failure.is_time_out() => (Confidence::Low, None),
            FailureCause::Exception if self.ends.is_excerpt() => (Confidence::Medium, rank),
            // The crash is sure, and its process only likely.
            _ if is_named_by_closing => (Confidence::Medium, rank),
            _ => (Confidence::High, rank),
        };
        Finding {
            about: About {
                host,
                pid,
                rank,
                ..About::default()
            },
            advice: advice.to_owned(),
            evidence: vec![failure.line.to_evidence()],
            reasons: Vec::from_iter(failure.may_answer_error().then_some(Reason::AnswersError)),
            ..Finding::of_kind(kind, sure, says)
        }
    }

    /// The only rank among those of its host that closed its connections after a line, and the host.
    fn closed_local_rank(&self, at: FirstReportLine) -> Option<(u32, Box<[u8]>)> {
        let host = |process: u32| self.found.processes[process as usize].host.clone();
        self.ends.closed_local_rank_after(at, host)
    }

    /// Returns the process of a failure.
    pub(super) fn failed_process(
        &self,
        failure: &ReportedFailure,
        rank: Option<u32>,
        pid: Option<u64>,
    ) -> Option<u32> {
        let all = || (0_u32..).zip(&self.found.processes);
        let of_pid = pid.map(|pid| {
            let mut those: Vec<u32> = all()
                .filter(|(_, p)| p.pid == Some(pid))
                .map(|p| p.0)
                .collect();
            // Launchers may use names of hosts that no other line has, and a pid is valid on one
            // host only.
            let on = |at: &u32| {
                let host = &self.found.processes[*at as usize].host;
                failure
                    .host
                    .as_ref()
                    .is_some_and(|named| named.starts_with(host))
            };
            if those.len() > 1 {
                those.retain(on);
            }
            those
        });
        match of_pid.as_deref() {
            Some([one]) => return Some(*one),
            Some([_, ..]) => return None,
            _ => {}
        }
        self.ranks.process_of_rank(rank?, failure.line.at)
    }

    /// True unless the ranks or hosts of two reports, or of the processes that they name, differ.
    pub(super) fn may_be_one_process(
        &self,
        one: &ReportedFailure,
        other: &ReportedFailure,
    ) -> bool {
        let process = |f: &ReportedFailure| self.failed_process(f, f.rank, f.pid);
        let rank = |f: &ReportedFailure| f.rank.or_else(|| self.rank_of(process(f)?));
        let host = |f: &ReportedFailure| {
            let named = process(f).map(|at| self.found.processes[at as usize].host.clone());
            f.host.clone().or(named)
        };
        // A launcher may print a host's name with its domain.
        let is_same_host = |a: Box<[u8]>, b: Box<[u8]>| a.starts_with(&b) || b.starts_with(&a);
        let ranks = rank(one).zip(rank(other));
        let hosts = host(one).zip(host(other));
        ranks.is_none_or(|(a, b)| a == b) && hosts.is_none_or(|(a, b)| is_same_host(a, b))
    }

    /// The rank in the job of a process.
    fn rank_of(&self, process: u32) -> Option<u32> {
        let own = self.ranks.iter_ranks().find(|(_, of)| *of == process);
        own.map(|(rank, _)| rank)
    }
}

/// Returns the finding on a launcher's list of processes that failed, where the one that failed first is cut off.
pub(super) fn listed_finding(failures: &[ReportedFailure]) -> Option<Finding> {
    let listed: Vec<&ReportedFailure> = failures.iter().filter(|f| f.listed).collect();
    let ranks: BTreeSet<u32> = listed.iter().filter_map(|f| f.rank).collect();
    let says = format!(
        "the launcher lists {} {} as ended; its report of the first failure is cut off",
        verb_form(ranks.len(), "rank", "ranks"),
        rank_ranges(&ranks)
    );
    Some(Finding {
        why: "the list does not have the order in which they failed".to_owned(),
        advice: "look for the end of the launcher's report (Root Cause), and at the output of each process"
            .to_owned(),
        evidence: vec![listed.first()?.line.to_evidence()],
        ..Finding::of_kind(Kind::RankExited, Confidence::Low, says)
    })
}

/// Returns the finding on an error of NCCL's, or of a lost process, that only a program's words report.
pub(super) fn nccl_words_finding(failures: &[ReportedFailure]) -> Option<Finding> {
    let failure = failures.iter().find(|f| f.what == FailureCause::Nccl)?;
    let who = failure
        .rank
        .map_or("a process".to_owned(), |rank| format!("rank {rank}"));
    let words = match failure.says.is_empty() {
        true => failure.line.quote(),
        false => quote_text(failure.says.trim_ascii()),
    };
    Some(Finding {
        why: "the program's own line reports it; no line has NCCL's result or reason".to_owned(),
        advice: "look for the first failure among all ranks: an exception, the watchdog's lines, a process that ended"
            .to_owned(),
        evidence: vec![failure.line.to_evidence()],
        ..Finding::of_kind(
            Kind::NcclError,
            Confidence::Low,
            format!("{who} reports an NCCL error, or that it lost another process: {words}"),
        )
    })
}

/// Corrects the advice on a job that was ended from outside, if its ranks were at fault before.
pub(crate) fn correct_end_advice(findings: &mut [Finding]) {
    let is_error = |finding: &Finding| finding.severity == Severity::Error;
    if findings.iter().any(is_error) {
        let ends = findings
            .iter_mut()
            .filter(|f| matches!(f.kind, Kind::JobInterrupted | Kind::JobCancelled));
        for end in ends {
            "look at the errors first: the job may have been ended because of them"
                .clone_into(&mut end.advice);
        }
    }
}
