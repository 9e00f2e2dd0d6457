//! Which process failed, by the job's other lines: Python's exceptions, the launcher's report, the
//! scheduler, the system's out-of-memory killer; and the rank that alone says nothing any more.
//!
//! The first failure is the cause. What follows is left out: processes that lost their peer,
//! that the launcher ended, or that PyTorch's watchdog took down.

use super::job_ends::{JobEndLine, JobEnds, ReportedFailure};
use super::resumed_jobs::ResumedInputs;
use crate::grammar::ending::FailureCause;
use crate::stages::check::finding::{
    About, Confidence, DeadRanks, Evidence, Finding, Kind, LineSpot, Reason, Severity,
};
use crate::stages::check::ranks::names;
use crate::stages::check::watchdog::{WatchdogMessage as Watch, WatchdogRecord};
use crate::stages::check::wording::{quote_text, rank_ranges as ranks_named};
use crate::stages::communicators::CommunicatorsSummary;
use crate::stages::net::net_stage::FirstReportLine;
use memchr::memmem;
use std::collections::BTreeSet;

/// What lines report of the ends of processes and jobs.
pub(crate) struct FailureEvidence<'a> {
    /// The lines.
    pub(crate) ends: &'a JobEnds,
    /// PyTorch's watchdog's.
    pub(crate) watched: &'a [WatchdogRecord],
    /// Who is which rank.
    pub(crate) found: &'a CommunicatorsSummary,
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
    /// What the attempt's failure came to: it is less than an error where the job went on.
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

impl FailureEvidence<'_> {
    /// The findings: one for each attempt that failed, and for the rank that fell silent.
    pub(crate) fn find_failures(&self) -> Vec<Finding> {
        let attempts = self.split_attempts();
        let causes = attempts
            .iter()
            .filter_map(|attempt| self.find_cause_of_attempt(attempt));
        let mut findings: Vec<Finding> = causes.collect();
        // The lines of a launcher may be in a file of their own, once for each host.
        let mut known: Vec<Finding> = Vec::new();
        for finding in std::mem::take(&mut findings) {
            if !known.iter().any(|other| is_repeated(&finding, other)) {
                known.push(finding);
            }
        }
        findings = known;
        let alarms = self.first_alarms();
        let is_known = |at: FirstReportLine| {
            let mut lines = findings.iter().filter_map(|f| f.evidence.first());
            lines.any(|line| line.at.input() == at.input)
        };
        if !alarms.iter().any(|alarm| is_known(alarm.at)) {
            findings.extend(self.find_dead_process(&alarms));
        }
        findings
    }

    /// The lines at which a job failed: no scheduler's or person's end, nor what comes after one.
    pub(crate) fn failure_lines(&self) -> Vec<FirstReportLine> {
        let is_end = |f: &ReportedFailure| {
            matches!(f.what, FailureCause::Cancelled | FailureCause::Interrupted)
        };
        let attempts = self.split_attempts().into_iter();
        let failed = attempts.filter(|attempt| !self.is_outlived(attempt));
        let lines = failed.flat_map(|attempt| {
            let lines = attempt.failures.into_iter().take_while(|f| !is_end(f));
            let lines = lines.filter(|f| !matches!(f.what, FailureCause::Signal(15)));
            lines.map(|f| f.line.at).collect::<Vec<_>>()
        });
        lines.collect()
    }

    /// True for an attempt that ended without a word why, by an exit code or an abort, and that a
    /// later one outlived: nothing that it left shows what is wrong with the job.
    fn is_outlived(&self, attempt: &JobAttempt) -> bool {
        attempt.outlived
            && self
                .find_cause_of_attempt(attempt)
                .is_some_and(|cause| cause.reasons.contains(&Reason::AnswersError))
    }

    /// True where nothing but lost connections shows that processes ended, and no more than a few ranks say
    /// so: those that outlive another print their own failure. In a job that is killed from outside
    /// the first processes to end are lost to the others, which then end too.
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

    /// What a job prints after it was cancelled, or before it is started again, follows from that.
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
        let is_end = |f: &ReportedFailure| {
            matches!(f.what, FailureCause::Cancelled | FailureCause::Interrupted)
        };
        self.split_attempts().iter().any(|attempt| {
            let first = attempt.failures.first();
            let end = first.filter(|f| is_end(f) || self.is_outlived(attempt));
            end.map(|f| f.line.at).is_some_and(|end| {
                let again = self.ends.restart_after(end);
                end.input == at.input && end < at && again.is_none_or(|again| at < again)
            })
        })
    }

    fn split_attempts(&self) -> Vec<JobAttempt> {
        let mut attempts: Vec<JobAttempt> = Vec::new();
        let mut last: Option<FirstReportLine> = None;
        let failures = self.ends.collect_reported();
        let reported = failures.iter().filter(|f| f.pid.is_some());
        let reported = reported.map(|f| f.line.at).max();
        for failure in failures {
            let at = failure.line.at;
            if self.ends.done_line_after(at).is_some() {
                continue;
            }
            let is_reported = reported.is_some_and(|line| line > at);
            let may_be_handled = failure.what == FailureCause::Exception && !is_reported;
            if may_be_handled && !is_uncaught(&failure) && self.is_handled(at) {
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

    /// True where a job works after a line of its input, and before another.
    fn works_between(&self, from: FirstReportLine, to: Option<FirstReportLine>) -> bool {
        let before = |line: FirstReportLine| to.is_none_or(|to| line < to);
        let begins = self.ends.restart_after(from);
        begins.is_some_and(before) || self.ends.has_gone_on(from, to)
    }

    /// The first line of each input by which PyTorch's watchdog, or an error that NCCL gave, says that
    /// the job failed; of the last attempt that has one.
    fn first_alarms(&self) -> Vec<JobEndLine> {
        let is_failure =
            |w: &&WatchdogRecord| matches!(w.what, Watch::Timeout(_) | Watch::Exception(_));
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

    fn find_cause_of_attempt(&self, attempt: &JobAttempt) -> Option<Finding> {
        let failures = &attempt.failures;
        let first = failures.iter().find(|f| f.what != FailureCause::Repeated)?;
        let ended = matches!(
            first.what,
            FailureCause::Cancelled | FailureCause::Interrupted
        );
        let lost = failures
            .iter()
            .find(|f| f.what == FailureCause::Nccl)
            .map(|f| f.line.at);
        let alarm = self.watched.iter().map(|w| w.at).chain(lost).min();
        let is_own = |f: &&ReportedFailure| {
            // Whoever lost a peer, or timed out, is taken down after it.
            let taken = alarm.is_some_and(|alarm| alarm < f.line.at);
            let memory = || memmem::find(&f.says, b"OutOfMemory").is_some();
            // Whoever reports that it lost a peer outlived it: what ends it then is a consequence.
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
                | FailureCause::Nccl => false,
                FailureCause::Signal(15) => false,
                FailureCause::Signal(6) | FailureCause::Exit(_) | FailureCause::Crash => {
                    !taken && !f.listed
                }
                FailureCause::Exception => !taken || memory(),
                FailureCause::Signal(_) => !f.listed && !outlived(),
                FailureCause::OutOfMemory => !f.listed,
            }
        };
        if ended {
            return Some(self.ended_from_outside(first));
        }
        let own: Vec<&ReportedFailure> = failures.iter().filter(is_own).collect();
        let Some(&cause) = own.first() else {
            return Some(attempt.judge_outcome(self.find_setup_failure(failures)?, false));
        };
        // Who an exception without a rank is of, and which process a rank is, the launcher says.
        let same = |f: &&ReportedFailure| {
            f.pid.is_some() && (cause.rank.is_none() || f.rank.is_none() || cause.rank == f.rank)
        };
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
        finding = attempt.judge_outcome(finding, is_uncaught(cause));
        if let Some(report) = report.filter(|f| f.line.at != cause.line.at) {
            finding.evidence.push(report.line.to_evidence());
        }
        Some(finding)
    }

    /// A scheduler or a person ended the job.
    fn ended_from_outside(&self, end: &ReportedFailure) -> Finding {
        let interrupted = end.what == FailureCause::Interrupted;
        let words = quote_text(&end.says);
        let says = match words.split_once(" DUE TO ") {
            _ if interrupted => "the job was interrupted (SIGINT, Ctrl-C)".to_owned(),
            _ if words.is_empty() => "the job was ended from outside".to_owned(),
            Some((at, why)) => {
                format!(
                    "the scheduler cancelled the job at {at}: {}",
                    why.to_lowercase()
                )
            }
            None => format!("the scheduler cancelled the job at {}", words.trim()),
        };
        Finding {
            kind: if interrupted {
                Kind::JobInterrupted
            } else {
                Kind::JobCancelled
            },
            severity: Severity::Note,
            says,
            about: About::default(),
            sure: Confidence::High,
            why: "its line is before that of any other failure".to_owned(),
            advice: NO_ACTION_AFTER_END.to_owned(),
            evidence: vec![end.line.to_evidence()],
            reasons: Vec::new(),
        }
    }

    fn failure_finding(
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
        let place = match (named, pid, &host) {
            (Some(process), ..) => names::describe_process(process),
            (None, Some(pid), Some(host)) => format!("{}:{pid}", quote_text(host)),
            (None, Some(pid), None) => format!("process {pid}"),
            (None, None, Some(host)) => format!("on {}", quote_text(host)),
            (None, None, None) => String::new(),
        };
        let who = match (rank, place.is_empty()) {
            (Some(rank), false) => format!("rank {rank} ({place})"),
            (Some(rank), true) => format!("rank {rank}"),
            (None, false) if pid.is_some() => place,
            (None, false) => format!("a process {place}"),
            (None, true) => "a process".to_owned(),
        };
        let (kind, says, advice) = describe_failure(failure, &who);
        Finding {
            kind,
            severity: Severity::Error,
            says,
            about: About {
                host,
                pid,
                rank,
                ..About::default()
            },
            sure: Confidence::High,
            why: "the line reports it, and no failure comes before it".to_owned(),
            advice: advice.to_owned(),
            evidence: vec![failure.line.to_evidence()],
            reasons: Vec::from_iter(failure.may_answer_error().then_some(Reason::AnswersError)),
        }
    }

    /// The process that a failure is of.
    fn failed_process(
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
            // Launchers may name hosts as nobody else does, and pids are of a host only.
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
        self.process_of_rank(rank?, failure.line.at)
    }

    /// The process of a rank of the job, of the attempt that was at work at a line.
    fn process_of_rank(&self, rank: u32, at: FirstReportLine) -> Option<u32> {
        let begins = self.ends.first_messages();
        let begin = |process: &u32| {
            begins
                .get(process)
                .filter(|b| b.input == at.input && **b <= at)
        };
        let those = self
            .ranks_and_processes()
            .filter(|(of, _)| *of == rank)
            .map(|(_, process)| process);
        those.max_by_key(|process| begin(process).copied())
    }

    /// The rank in the job of a process.
    fn rank_of(&self, process: u32) -> Option<u32> {
        let own = self.ranks_and_processes().find(|(_, of)| *of == process);
        own.map(|(rank, _)| rank)
    }

    /// The job's ranks and their processes, of each attempt.
    fn ranks_and_processes(&self) -> impl Iterator<Item = (u32, u32)> {
        let all = self.found.communicators.iter();
        let world = all.filter(|c| c.place.has_all_job_ranks() && c.place.sure);
        let sides = world
            .flat_map(|c| &c.sides)
            .map(|&side| &self.found.sides[side]);
        sides.filter_map(|side| side.rank.map(|rank| (rank, side.process)))
    }

    /// The one rank that says nothing behind a failure of which all others say something, or all ranks of
    /// one host.
    fn find_dead_process(&self, alarms: &[JobEndLine]) -> Option<Finding> {
        let alarm = alarms.first()?;
        let spoke = alarms
            .iter()
            .flat_map(|alarm| self.ends.ranks_speaking_after(alarm.at));
        let spoke: BTreeSet<u32> = spoke.collect();
        let worlds = self
            .found
            .communicators
            .iter()
            .filter(|c| c.place.has_all_job_ranks());
        let world = worlds.filter_map(|c| c.nranks).max()?;
        let silent: BTreeSet<u32> = (0..world).filter(|rank| !spoke.contains(rank)).collect();
        let rank = *silent.first()?;
        let is_one = silent.len() == 1 || self.are_all_of_a_host(&silent, alarm.at);
        if !is_one || spoke.len() < 2 {
            return None;
        }
        let process = self.process_of_rank(rank, alarm.at);
        let named = process.map(|at| &self.found.processes[at as usize]);
        let lost = self.ends.collect_reported().into_iter().find(|f| {
            let gone = |words: &[u8]| memmem::find(&f.line.text, words).is_some();
            f.what == FailureCause::Nccl && gone(b"ncclRemoteError")
        });
        let dead = DeadRanks {
            is_host: named.is_some() && silent.len() > 1,
            are_many: silent.len() > 1,
            is_connection_lost: lost.is_some(),
        };
        let who = match named {
            Some(process) if dead.is_host => format!(
                "ranks {}, all of host {},",
                ranks_named(&silent),
                quote_text(&process.host)
            ),
            Some(process) => format!("rank {rank} ({})", names::describe_process(process)),
            None => format!("rank {rank}"),
        };
        // The lines of a host may be elsewhere.
        let sure = match dead.is_connection_lost && !dead.are_many {
            true => Confidence::High,
            false => Confidence::Medium,
        };
        let mut evidence: Vec<Evidence> = vec![alarm.to_evidence()];
        evidence.extend(
            lost.filter(|f| f.line.at != alarm.at)
                .map(|f| f.line.to_evidence()),
        );
        Some(Finding {
            kind: Kind::DeadProcess,
            severity: Severity::Error,
            says: format!(
                "{who} printed nothing after the job failed, and all other ranks did ({}): {}",
                ranks_named(&spoke),
                dead.describe_outcome()
            ),
            about: About {
                host: named.map(|p| p.host.clone()),
                pid: named.and_then(|p| p.pid),
                rank: Some(rank),
                ..About::default()
            },
            sure,
            why: "PyTorch prints a line for each rank that is alive".to_owned(),
            advice: "look at this process first: its own output, its host (dmesg, power, GPU), a stack if \
                     it is still there (py-spy dump)"
                .to_owned(),
            evidence,
            reasons: vec![Reason::Dead(dead)],
        })
    }

    /// True for ranks that are all those of one host.
    fn are_all_of_a_host(&self, ranks: &BTreeSet<u32>, at: FirstReportLine) -> bool {
        let host = |rank: u32| {
            let process = self.process_of_rank(rank, at)?;
            Some(&self.found.processes[process as usize].host)
        };
        let Some(own) = ranks.first().and_then(|&rank| host(rank)) else {
            return false;
        };
        let there = self
            .ranks_and_processes()
            .filter(|(rank, _)| host(*rank) == Some(own));
        let there: BTreeSet<u32> = there.map(|(rank, _)| rank).collect();
        *ranks == there
    }
}

/// True for an exception that nothing caught: PyTorch puts `[rank3]: ` in front of its lines then. A
/// launcher that names the rank of each line puts no blank there.
fn is_uncaught(failure: &ReportedFailure) -> bool {
    failure.rank.is_some_and(|rank| {
        let own = format!("[rank{rank}]: ");
        memmem::find(&failure.line.text, own.as_bytes()).is_some()
    })
}

/// `signal 9 (SIGKILL)`.
fn describe_signal(number: i32) -> String {
    let name = match number {
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        _ => return format!("signal {number}"),
    };
    format!("signal {number} ({name})")
}

/// True if two attempts report one failure.
fn is_repeated(one: &Finding, other: &Finding) -> bool {
    one.kind == other.kind
        && one.about.pid == other.about.pid
        && one.says == other.says
        && one.reasons == other.reasons
}

/// The advice where a job was ended from outside.
const NO_ACTION_AFTER_END: &str =
    "no action is needed for the ranks: different calls at this point are not a fault";

/// Corrects the advice on a job that was ended from outside, if its ranks were at fault before.
pub(crate) fn correct_end_advice(findings: &mut [Finding]) {
    let is_error = |finding: &Finding| finding.severity == Severity::Error;
    if findings.iter().any(is_error) {
        let ends = findings
            .iter_mut()
            .filter(|f| f.advice == NO_ACTION_AFTER_END);
        for end in ends {
            "look at the errors first: the job may have been ended because of them"
                .clone_into(&mut end.advice);
        }
    }
}

/// The kind of a failure of `who`, the sentence and the advice.
fn describe_failure(failure: &ReportedFailure, who: &str) -> (Kind, String, &'static str) {
    let memory = "look for other users of the memory of the host, and at the size of the job's own \
                  buffers and workers there";
    match failure.what {
        FailureCause::Exception => (
            Kind::RankException,
            format!("{who} raised {}", quote_text(failure.says.trim_ascii())),
            "look at its traceback: the other ranks only lost this peer",
        ),
        FailureCause::OutOfMemory => (
            Kind::HostOutOfMemory,
            format!("{who} was killed: the host was out of memory"),
            memory,
        ),
        FailureCause::Signal(9) => (
            Kind::RankKilled,
            format!("{who} was killed by {}", describe_signal(9)),
            "look at the kernel log of its host (dmesg) for the out-of-memory killer, and for \
             another process that may have killed it",
        ),
        FailureCause::Signal(number) => (
            Kind::RankCrashed,
            format!("{who} crashed with {}", describe_signal(number)),
            "look at its own output (a stack may follow the line) and its core file",
        ),
        FailureCause::Exit(code) => (
            Kind::RankExited,
            format!("{who} ended with exit code {code}"),
            "look at its own output",
        ),
        FailureCause::Crash if !failure.says.is_empty() => (
            Kind::RankCrashed,
            quote_text(&failure.says),
            "look at the lines before this one for the first process that reports an error",
        ),
        _ => (
            Kind::RankCrashed,
            format!("{who} crashed: {}", failure.line.quote()),
            "look at its own output and its core file",
        ),
    }
}
