//! The process that failed, by the job's other lines: Python's exceptions, the launcher's report,
//! the scheduler, the system's out-of-memory killer; and the only rank that printed nothing after
//! the failure.
//!
//! The first failure is the cause. Its consequences are left out: processes that lost their peer,
//! that the launcher ended, or that PyTorch's watchdog took down.

mod alarms;
mod dead_process;
pub(crate) mod failed_process;
mod outside_end;
mod setup;

use super::job_end_lines::{JobEndLine, ReportedFailure};
use super::job_ends::JobEnds;
use super::resumed_jobs::ResumedInputs;
use crate::grammar::ending::FailureCause;
use crate::stages::check::finding::{Finding, Reason, Severity};
use crate::stages::check::log::job_processes::JobProcesses;
use crate::stages::check::watchdog::{WatchdogMessage as Watch, WatchdogRecord};
use crate::stages::check::words::failures::describe_others_alike;
use crate::stages::communicators::CommunicatorsSummary;
use crate::stages::net::net_stage::FirstReportLine;
use alarms::AttemptAlarms;
use memchr::memmem;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// What lines report of the ends of processes and jobs.
pub(crate) struct FailureEvidence<'a> {
    /// The lines.
    pub(crate) ends: &'a JobEnds,
    /// PyTorch's watchdog's.
    pub(crate) watched: &'a [WatchdogRecord],
    /// The rank of each process.
    pub(crate) found: &'a CommunicatorsSummary,
    /// The first of the watchdog's lines.
    alarm: Option<FirstReportLine>,
    /// The processes of each rank of the job, of all attempts.
    ranks: JobProcesses,
    attempts: Vec<JobAttempt>,
    /// By input: where the job, or an attempt of it, ended as no failure does, and where it was started again.
    ended: BTreeMap<u32, Vec<(FirstReportLine, Option<FirstReportLine>)>>,
}

/// Failures of one attempt of a job: no work of the job lies between them.
struct JobAttempt {
    failures: Vec<ReportedFailure>,
    /// The job was started again after them.
    again: bool,
    /// It ended steps after them, more than its ranks may have been ahead.
    went_on: bool,
    /// It did so after it was started again.
    outlived: bool,
}

impl JobAttempt {
    /// Lowers the severity of the attempt's failure if the job went on.
    fn judge_outcome(&self, mut finding: Finding, uncaught: bool) -> Finding {
        if self.outlived && finding.reasons.contains(&Reason::AnswersError) {
            finding.excuse(Reason::OutlivedByRestart);
        } else if self.again {
            finding.severity = Severity::Warning;
            finding.reasons.push(match self.went_on {
                true => Reason::WentOn,
                false => Reason::StartedAgain,
            });
        } else if self.went_on && !uncaught {
            finding.severity = Severity::Warning;
            finding.reasons.push(Reason::WentOn);
        }
        finding
    }
}

impl<'a> FailureEvidence<'a> {
    /// Finds the attempts of the job and their ends, once for all that is asked of them.
    pub(crate) fn from_lines(
        ends: &'a JobEnds,
        watched: &'a [WatchdogRecord],
        found: &'a CommunicatorsSummary,
    ) -> FailureEvidence<'a> {
        let mut all = FailureEvidence {
            ends,
            watched,
            found,
            alarm: watched.iter().map(|watched| watched.at).min(),
            ranks: JobProcesses::new(found, ends.first_messages()),
            attempts: Vec::new(),
            ended: BTreeMap::new(),
        };
        all.attempts = all.split_attempts();
        let mut ended: BTreeMap<u32, Vec<_>> = BTreeMap::new();
        for attempt in &all.attempts {
            let Some(first) = attempt.failures.first() else {
                continue;
            };
            let at = first.line.at;
            let after = match first.is_outside_end() || all.is_outlived(attempt) {
                true => FirstReportLine {
                    line: at.line + 1,
                    ..at
                },
                // What launchers print as they end comes after the order to end.
                false if all.is_closed_before_end(&attempt.failures) => at,
                false => continue,
            };
            let those = ended.entry(at.input).or_default();
            those.push((after, ends.restart_after(at)));
        }
        all.ended = ended;
        all
    }

    /// The findings: one for each attempt that failed, and for the rank that fell silent.
    pub(crate) fn find_failures(&self) -> Vec<Finding> {
        let attempts = self.attempts.iter();
        let causes = attempts.filter_map(|attempt| self.find_cause_of_attempt(attempt));
        // The lines of a launcher may be in a file of their own, once for each host.
        let (mut findings, mut known): (Vec<Finding>, FxHashMap<String, Vec<usize>>) =
            Default::default();
        for finding in causes {
            let same = known.entry(finding.says.clone()).or_default();
            if !same.iter().any(|&at| is_repeated(&finding, &findings[at])) {
                same.push(findings.len());
                findings.push(finding);
            }
        }
        let alarms = self.first_alarms();
        let lines = findings.iter().filter_map(|f| f.evidence.first());
        let inputs: BTreeSet<u32> = lines.map(|line| line.at.input()).collect();
        if !alarms.iter().any(|alarm| inputs.contains(&alarm.at.input)) {
            findings.extend(self.find_dead_processes(&alarms));
        }
        findings
    }

    /// The finding on lines without a reason, in a few lines that show no other failure: the end of a launcher's list, an
    /// error of NCCL's in a program's words only.
    pub(crate) fn find_unexplained(&self) -> Option<Finding> {
        if !self.ends.is_excerpt() {
            return None;
        }
        let failed = self.attempts.iter().map(|attempt| &attempt.failures[..]);
        let mut failed =
            failed.filter(|failures| !failures.iter().any(ReportedFailure::is_outside_end));
        failed.find_map(|failures| {
            failed_process::listed_finding(failures)
                .or_else(|| failed_process::nccl_words_finding(failures))
                .or_else(|| setup::warned_finding(failures))
        })
    }

    /// The lines at which a job failed: no scheduler's or person's end, nor what comes after one.
    pub(crate) fn failure_lines(&self) -> Vec<FirstReportLine> {
        let attempts = self.attempts.iter();
        let failed = attempts.filter(|attempt| !self.is_outlived(attempt));
        let lines = failed.flat_map(|attempt| {
            let lines = attempt.failures.iter();
            lines.take_while(|f| !f.is_outside_end())
        });
        let lines = lines.filter(|f| !matches!(f.what, FailureCause::Signal(15)));
        lines.map(|f| f.line.at).collect()
    }

    /// True for an attempt that ended by an exit code or an abort without a reason, before a later
    /// attempt that went on: nothing in it shows a fault of the job.
    fn is_outlived(&self, attempt: &JobAttempt) -> bool {
        attempt.outlived
            && self
                .find_cause_of_attempt(attempt)
                .is_some_and(|cause| cause.reasons.contains(&Reason::AnswersError))
    }

    /// True if only lost connections show that processes ended, and few ranks report that: ranks
    /// that outlive another print their own failure. In a job that is killed from outside, the
    /// other ranks lose the first processes to end, and then end too.
    pub(crate) fn ended_together(&self) -> bool {
        let is_lost =
            |f: &ReportedFailure| matches!(f.what, FailureCause::Nccl | FailureCause::Repeated);
        let failures = self.ends.collect_reported();
        if !self.watched.is_empty() || !failures.iter().all(is_lost) {
            return false;
        }
        let spoke: BTreeSet<u32> = failures
            .iter()
            .flat_map(|f| self.ends.ranks_speaking_after(f.line.at))
            .collect();
        let all = self.found.communicators.iter().filter_map(|c| c.nranks);
        2 * spoke.len() < all.max().map_or(2, |all| all as usize)
    }

    fn split_attempts(&self) -> Vec<JobAttempt> {
        let mut attempts: Vec<JobAttempt> = Vec::new();
        let mut last: Option<FirstReportLine> = None;
        let failures = self.ends.collect_reported();
        let reported = failures.iter().filter(|f| f.pid.is_some());
        let reported = reported.map(|f| f.line.at).max();
        for failure in failures {
            let at = failure.line.at;
            let was_done = failure.is_outside_end() && self.ends.was_done_before(at);
            if was_done || self.ends.done_line_after(at).is_some() {
                continue;
            }
            let is_reported = reported.is_some_and(|line| line > at);
            let may_be_handled = failure.what == FailureCause::Exception && !is_reported;
            if may_be_handled
                && !is_uncaught(&failure)
                && self.is_handled(at)
                && !self.began_after(&failure)
            {
                continue;
            }
            let same = last
                .is_some_and(|last| last.input == at.input && !self.works_between(last, Some(at)));
            match attempts.last_mut().filter(|_| same) {
                Some(attempt) => attempt.failures.push(failure),
                None => attempts.push(JobAttempt {
                    failures: vec![failure],
                    again: false,
                    went_on: false,
                    outlived: false,
                }),
            }
            last = Some(at);
        }
        let taken_up = ResumedInputs::find_resumed(self.ends, self.found);
        for attempt in &mut attempts {
            let Some(last) = attempt.failures.last().map(|f| f.line.at) else {
                continue;
            };
            let ends_step = |at: FirstReportLine| self.ends.next_step_after(at).is_some();
            let again = self.ends.restart_after(last);
            let elsewhere = taken_up.is_resumed_later(last.input);
            attempt.again = again.is_some() || elsewhere;
            attempt.went_on = self.ends.has_gone_on(last, None);
            attempt.outlived = again.is_some_and(ends_step) || elsewhere;
        }
        attempts
    }

    /// True where the job went on after an exception, and was not started again: the program handled it.
    fn is_handled(&self, at: FirstReportLine) -> bool {
        !self.ends.is_idle_after(at) && self.ends.restart_after(at).is_none()
    }

    /// True where the first message of NCCL's of a process follows its failure: its lines were written late, and
    /// what follows does not show that it went on.
    fn began_after(&self, failure: &ReportedFailure) -> bool {
        let process = self.failed_process(failure, failure.rank, failure.pid);
        let begin = process.and_then(|process| self.ends.first_message_of(process));
        let at = failure.line.at;
        begin.is_some_and(|begin| begin.input == at.input && begin > at)
    }

    /// True where a job works after a line of its input, and before another.
    fn works_between(&self, from: FirstReportLine, to: Option<FirstReportLine>) -> bool {
        let before = |line: FirstReportLine| to.is_none_or(|to| line < to);
        let begins = self.ends.restart_after(from);
        begins.is_some_and(before) || self.ends.has_gone_on(from, to)
    }

    /// Returns the first line of each input by which PyTorch's watchdog, or an error from NCCL,
    /// reports that the job failed; of the last attempt that has one.
    fn first_alarms(&self) -> Vec<JobEndLine> {
        let is_failure = |w: &&WatchdogRecord| {
            matches!(
                w.what,
                Watch::Timeout(_) | Watch::Exception(_) | Watch::Stuck(_) | Watch::NoBatch(_)
            )
        };
        let watched = self.watched.iter().filter(is_failure).map(|w| JobEndLine {
            at: w.at,
            text: w.text.clone(),
        });
        let lost = self
            .ends
            .collect_reported()
            .into_iter()
            .filter(|f| f.what == FailureCause::Nccl);
        let mut lines: Vec<JobEndLine> = watched.chain(lost.map(|f| f.line)).collect();
        lines.sort_by_key(|line| line.at);
        let of_input = |lines: &[JobEndLine]| {
            let last = lines.last()?.at;
            let again = |at: FirstReportLine| {
                self.ends
                    .restart_after(at)
                    .is_some_and(|begin| begin < last)
            };
            let first = lines.iter().find(|line| !again(line.at));
            first.cloned()
        };
        let inputs = lines.chunk_by(|a, b| a.at.input == b.at.input);
        inputs.filter_map(of_input).collect()
    }

    /// True for a failure after a time-out that PyTorch's watchdog reports in the same input.
    fn timed_out_before(&self, f: &ReportedFailure) -> bool {
        let mut timeouts = self
            .watched
            .iter()
            .filter(|w| matches!(w.what, Watch::Timeout(_)));
        timeouts.any(|w| w.at.input == f.line.at.input && w.at < f.line.at)
    }

    /// The finding on processes that SIGTERM ended, where no line reports anything else.
    fn find_termination(&self, failures: &[ReportedFailure]) -> Option<Finding> {
        let is_end = |f: &ReportedFailure| {
            matches!(f.what, FailureCause::Signal(15) | FailureCause::Repeated)
        };
        let is_all = self.alarm.is_none() && failures.iter().all(is_end);
        let first = failures.iter().find(|f| f.what != FailureCause::Repeated)?;
        is_all.then(|| self.ended_from_outside(first))
    }

    /// True for a failure of a process that is no consequence of another line of its attempt.
    fn is_own_failure(
        &self,
        f: &ReportedFailure,
        failures: &[ReportedFailure],
        alarms: &AttemptAlarms,
    ) -> bool {
        // A process that lost a peer, or timed out, is taken down after it; an exception has its own reason.
        let alarm = match f.what {
            FailureCause::Exception => alarms.lost,
            _ => alarms.stated,
        };
        let is_closer = f.rank.is_some_and(|rank| alarms.closers.contains(&rank));
        let taken = !is_closer
            && alarm.is_some_and(|alarm| {
                alarm < f.line.at || f.is_crash() && is_in_its_text(f.line.at, alarm)
            });
        let memory = || memmem::find(&f.says, b"OutOfMemory").is_some();
        // A process that reports a lost peer outlived it, so its own end is a consequence.
        let outlived = || {
            let lost = |other: &ReportedFailure| {
                other.what == FailureCause::Nccl
                    && other.line.at < f.line.at
                    && other.rank == f.rank
            };
            f.rank.is_some() && failures.iter().any(lost)
        };
        match f.what {
            FailureCause::Cancelled
            | FailureCause::Interrupted
            | FailureCause::Repeated
            | FailureCause::Nccl
            | FailureCause::Warned
            | FailureCause::OwnState
            | FailureCause::Signal(15) => false,
            // The exception that nothing takes aborts the process; its line may come later.
            FailureCause::Signal(6) | FailureCause::Crash
                if f.is_abort() && alarms.thrown.contains(&f.line.at.input) =>
            {
                false
            }
            FailureCause::Signal(6)
            | FailureCause::Exit(_)
            | FailureCause::Unstated
            | FailureCause::Crash => !taken && !f.listed,
            FailureCause::Exception => {
                (!taken || memory()) && !(alarms.has_hccl && f.reports_device())
            }
            // A launcher kills the others after a rank that timed out.
            FailureCause::Signal(9) if self.timed_out_before(f) => false,
            FailureCause::Signal(_) => !f.listed && !outlived(),
            FailureCause::OutOfMemory => !f.listed,
            FailureCause::Gpu(_) | FailureCause::Host => true,
        }
    }

    fn find_cause_of_attempt(&self, attempt: &JobAttempt) -> Option<Finding> {
        let failures = &attempt.failures;
        if failures.iter().all(|f| f.what == FailureCause::Repeated) {
            // All that is left of a failure is what others report of it.
            let repeated = failures.first().filter(|_| self.alarm.is_none())?;
            return Some(self.failure_finding(repeated, repeated.rank, repeated.pid));
        }
        let alarms = self.find_alarms(failures);
        let is_own = |f: &&ReportedFailure| self.is_own_failure(f, failures, &alarms);
        if let Some(end) = self.find_outside_end(failures, &alarms) {
            return Some(self.ended_from_outside(end));
        }
        let own: Vec<&ReportedFailure> = failures.iter().filter(is_own).collect();
        // A GPU or host that fails is no consequence of another failure, wherever the lines about it are.
        let of_hardware = own.iter().find(|f| f.is_of_hardware());
        // A process that waits until its time is up is no cause.
        let first = own
            .iter()
            .find(|f| !f.is_time_out())
            .or(own.first())
            .map(|first| {
                let is_better = |f: &&&ReportedFailure| {
                    first.is_nameless() && f.completes_report(first) || f.gives_reason_of(first)
                };
                own.iter().find(is_better).unwrap_or(first)
            });
        // Reports of several launchers come in any order; each has the time.
        let first = first.map(|first| {
            let is_earlier = |f: &&&ReportedFailure| f.time.is_some() && f.time < first.time;
            let earlier = own.iter().filter(is_earlier);
            earlier.min_by_key(|f| &f.time).unwrap_or(first)
        });
        let Some(&cause) = of_hardware.or(first) else {
            let found = self.find_setup_failure(failures);
            let found = found.or_else(|| self.find_termination(failures))?;
            return Some(attempt.judge_outcome(found, false));
        };
        // The launcher has the rank of an exception without one, and the process of a rank.
        let same = |f: &&ReportedFailure| f.pid.is_some() && self.may_be_one_process(cause, f);
        let report = failures.iter().filter(|f| !f.listed).find(same);
        let pid = cause.pid.or(report.and_then(|f| f.pid));
        let rank = cause.rank.or(report.and_then(|f| f.rank));
        let mut finding = self.failure_finding(cause, rank, pid);
        let alike = own.iter().filter(|f| f.what == FailureCause::Exception);
        let others: BTreeSet<u32> = alike.filter_map(|f| f.rank).collect();
        if cause.what == FailureCause::Exception && others.len() > 1 {
            let n = others.len() - 1;
            finding.reasons.push(Reason::AlsoRaised(n));
        }
        if let FailureCause::Exit(_) = cause.what {
            let alike = failures.iter().filter(|f| f.what == cause.what);
            let others: BTreeSet<u32> = alike.filter_map(|f| f.rank).collect();
            finding.says += &describe_others_alike(others.len());
        }
        finding = attempt.judge_outcome(finding, is_uncaught(cause));
        if let Some(report) = report.filter(|f| f.line.at != cause.line.at) {
            finding.evidence.push(report.line.to_evidence());
        }
        Some(finding)
    }
}

/// True if `next` is in the text of the exception that ended a process at `at`: its `what():`, or the line after that.
fn is_in_its_text(at: FirstReportLine, next: FirstReportLine) -> bool {
    next.input == at.input && (at.line + 1..at.line + 3).contains(&next.line)
}

/// True for an exception that nothing caught: PyTorch puts `[rank3]: ` in front of its lines then. A
/// launcher that names the rank of each line puts no blank there.
fn is_uncaught(failure: &ReportedFailure) -> bool {
    failure.rank.is_some_and(|rank| {
        let own = format!("[rank{rank}]: ");
        memmem::find(&failure.line.text, own.as_bytes()).is_some()
    })
}

/// True if two attempts report one failure.
fn is_repeated(one: &Finding, other: &Finding) -> bool {
    one.kind == other.kind
        && one.about.pid == other.about.pid
        && one.says == other.says
        && one.reasons == other.reasons
}
