//! Lines that report the end of a process or a job.

use crate::grammar::ending::{
    FailureCause, KernelAssertion, NcclFrame, ProcessOfLine, find_crash_report,
};
use crate::stages::check::finding::Evidence;
use crate::stages::check::limits::MAX_LINE_TEXT_BYTES;
use crate::stages::check::wording::quote_text;
use crate::stages::net::net_stage::FirstReportLine;
use memchr::memmem;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A line of a failure, its names its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FailureLine {
    pub(super) line: JobEndLine,
    pub(super) what: FailureLineText,
}

/// The parts of such a line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum FailureLineText {
    Traceback(Option<u32>),
    First,
    Time(Box<[u8]>),
    Host(Box<[u8]>),
    Rank(u32, Option<u32>),
    /// A function of NCCL's, and its place.
    NcclFrame(Box<[u8]>),
    /// The reason of the exception before it.
    Reason(Box<[u8]>),
    /// The end before it is one of a launcher's list.
    ListEntry,
    /// The end before it is the last of a launcher's list.
    ListEnd,
    /// What a kernel asserts, and its place.
    Assertion(Box<[u8]>),
    /// torchrun failed; its exception follows.
    LauncherFrame,
    Failed(FailureCause, ProcessName, Box<[u8]>),
    /// The exception that follows ends nothing.
    Ignored(Option<u32>),
    /// The exception that follows belongs to the one before.
    Chained(Option<u32>),
}

/// The process that a line belongs to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ProcessName {
    pub(super) rank: Option<u32>,
    pub(super) local_rank: Option<u32>,
    pub(super) pid: Option<u64>,
    pub(super) host: Option<Box<[u8]>>,
}

impl From<ProcessOfLine<'_>> for ProcessName {
    fn from(who: ProcessOfLine<'_>) -> ProcessName {
        ProcessName {
            rank: who.rank,
            local_rank: who.local_rank,
            pid: who.pid,
            host: who.host.map(Into::into),
        }
    }
}

/// The end of a process or of a job, as a line reports it.
#[derive(Debug, Clone)]
pub(crate) struct ReportedFailure {
    /// The line.
    pub(crate) line: JobEndLine,
    /// What ended it.
    pub(crate) what: FailureCause,
    /// An exception with its text, a scheduler's words.
    pub(crate) says: Box<[u8]>,
    /// The rank in the job.
    pub(crate) rank: Option<u32>,
    /// The process.
    pub(crate) pid: Option<u64>,
    /// The host.
    pub(crate) host: Option<Box<[u8]>>,
    /// The function of NCCL's in which it crashed, or the assertion of a kernel that its exception is about, with the
    /// place.
    pub(crate) inside: Option<Box<[u8]>>,
    /// The reason of the C++ exception that ended it.
    pub(crate) reason: Option<Box<[u8]>>,
    /// A launcher lists it among those that it ended, or that failed later.
    pub(crate) listed: bool,
    /// When torchrun saw it; later ones are greater.
    pub(crate) time: Option<Box<[u8]>>,
}

impl ReportedFailure {
    /// True for a crash, whose stack may be printed before or after it.
    pub(crate) fn is_crash(&self) -> bool {
        let is_own = self.says.is_empty();
        is_own
            && matches!(
                self.what,
                FailureCause::Crash | FailureCause::Signal(4 | 6 | 7 | 8 | 11)
            )
    }

    /// True for an abort: a process does that to itself.
    pub(crate) fn is_abort(&self) -> bool {
        self.what == FailureCause::Signal(6)
            || self.line.text.ends_with(b"Fatal Python error: Aborted")
    }

    /// True for a second report of the same crash.
    pub(super) fn repeats_crash(&self, last: &ReportedFailure) -> bool {
        let process = |f: &ReportedFailure| (f.line.at.input, f.rank, f.pid, f.host.clone());
        self.is_crash() && last.is_crash() && process(self) == process(last)
    }

    /// True for an exception about an assertion of a kernel.
    pub(super) fn is_of_assertion(&self) -> bool {
        self.what == FailureCause::Exception
            && memmem::find(&self.says, b"device-side assert").is_some()
    }

    /// True where the scheduler or a person ended the job.
    pub(crate) fn is_outside_end(&self) -> bool {
        matches!(
            self.what,
            FailureCause::Cancelled | FailureCause::Interrupted | FailureCause::Signal(1)
        )
    }

    /// True for an exception by which a device's work that failed before is reported to a later call.
    pub(crate) fn reports_device(&self) -> bool {
        memmem::find(&self.says, b"tream synchronize failed").is_some()
    }

    /// True for an exception of a process that waited for others until its time was up. A download or a loader of data
    /// is its own.
    pub(crate) fn is_time_out(&self) -> bool {
        let has = |words: &&[u8]| memmem::find(&self.says, words).is_some();
        let waits: [&[u8]; 4] = [b"Timed out", b"timed out", b"Timeout", b"timeout"];
        let own: [&[u8]; 4] = [b"http", b"HTTP", b"DataLoader", b"TimeoutExpired"];
        self.what == FailureCause::Exception && waits.iter().any(has) && !own.iter().any(has)
    }

    /// True where a GPU or a host failed.
    pub(crate) fn is_of_hardware(&self) -> bool {
        matches!(self.what, FailureCause::Gpu(_) | FailureCause::Host)
    }

    /// True for the line of a launcher or the scheduler that names no process.
    pub(crate) fn is_nameless(&self) -> bool {
        let is_report = match self.what {
            FailureCause::Exit(_)
            | FailureCause::Signal(_)
            | FailureCause::OutOfMemory
            | FailureCause::Host => true,
            // The line of a process itself has no words of its own.
            FailureCause::Crash => !self.says.is_empty(),
            _ => false,
        };
        is_report && self.rank.is_none() && self.pid.is_none() && self.host.is_none()
    }

    /// True where a line that names its process may report the same end as one that does not. What
    /// happened to the host is more than the signal.
    pub(crate) fn completes_report(&self, nameless: &ReportedFailure) -> bool {
        let is_more = matches!(
            nameless.what,
            FailureCause::OutOfMemory | FailureCause::Host
        );
        !self.is_nameless() && (!is_more || self.what == nameless.what)
    }

    /// True for the host's lack of memory, where `kill` may be the kill that it was answered with.
    pub(crate) fn gives_reason_of(&self, kill: &ReportedFailure) -> bool {
        let is_kill = matches!(kill.what, FailureCause::Signal(9) | FailureCause::Exit(137));
        let is_other = |a: Option<u64>, b: Option<u64>| a.is_some() && b.is_some() && a != b;
        is_kill && self.what == FailureCause::OutOfMemory && !is_other(self.pid, kill.pid)
    }

    /// True if the process may have ended itself because of an error: by an exit code, or by an abort,
    /// which is a crash without an access to memory that failed.
    pub(crate) fn may_answer_error(&self) -> bool {
        match self.what {
            FailureCause::Exit(_) | FailureCause::Unstated | FailureCause::Crash => true,
            FailureCause::Signal(number) => !matches!(number, 7 | 9 | 11),
            _ => false,
        }
    }
}

/// True for an exception's text that reports an error of a GPU's library: no program prints that and goes on.
fn names_gpu_error(says: &[u8]) -> bool {
    let words = [
        &b"CUDA error"[..],
        b"CUDA out of memory",
        b"cuda runtime error",
        b"HIP error",
        b"HIP out of memory",
        b"HCCL error",
    ];
    let says = |words: &&[u8]| memmem::find(says, words).is_some();
    words.iter().any(says)
}

/// True for an exception that begins its line, but for Markdown's marks, or that reports an error of a GPU's library.
pub(super) fn begins_or_names_gpu(line: &[u8], says: &[u8]) -> bool {
    let marks = line.iter().take_while(|b| b">*`_ \t".contains(b)).count();
    line[marks..].starts_with(says) || names_gpu_error(says)
}

/// A frame of PyTorch's watchdog, beside those of NCCL's functions.
pub(crate) const WATCHDOG_FRAME: &[u8] = b"ncclCommWatchdog";

/// `ncclAllReduce (collectives.cc:26)`.
pub(super) fn describe_frame(frame: NcclFrame<'_>) -> Box<[u8]> {
    let NcclFrame {
        function,
        file,
        line,
    } = frame;
    let line = line.to_string();
    [function, b" (", file, b":", line.as_bytes(), b")"]
        .concat()
        .into()
}

/// `i < n (Gather.cu:14)`.
pub(super) fn describe_assertion(assertion: KernelAssertion<'_>) -> Box<[u8]> {
    let KernelAssertion { condition, place } = assertion;
    [condition, b" (", place, b")"].concat().into()
}

/// Returns the failure that a line shows where no line reports another: a kernel's assertion, a frame of torchrun.
pub(super) fn shown_failure(line: &JobEndLine, says: Vec<u8>) -> ReportedFailure {
    ReportedFailure {
        line: line.clone(),
        what: FailureCause::Crash,
        says: says.into(),
        rank: None,
        pid: None,
        host: None,
        inside: None,
        reason: None,
        listed: false,
        time: None,
    }
}

/// Returns the end of the process that a launcher's report, cut at the line `last`, names as the first.
pub(super) fn unstated_failure(last: &JobEndLine, name: &ProcessName) -> Option<ReportedFailure> {
    Some(ReportedFailure {
        line: last.clone(),
        what: FailureCause::Unstated,
        says: Box::default(),
        rank: Some(name.rank?),
        pid: None,
        host: name.host.clone(),
        inside: None,
        reason: None,
        listed: false,
        time: None,
    })
}

/// The rank in the job that a launcher gives the process with this number, if it is one.
pub(crate) fn rank_of_pid(reported: &[ReportedFailure], pid: u64) -> Option<u32> {
    let own = reported.iter().filter(|f| f.pid == Some(pid));
    let ranks: BTreeSet<u32> = own.filter_map(|f| f.rank).collect();
    ranks.first().copied().filter(|_| ranks.len() == 1)
}

/// Gives the ends with a process id the rank and the host that another line about this process has.
pub(super) fn name_by_pid(all: &mut [ReportedFailure]) {
    let mut known: BTreeMap<(u32, u64), Vec<ProcessName>> = BTreeMap::new();
    for failure in all.iter() {
        let ReportedFailure {
            rank: rank @ Some(_),
            pid: Some(pid),
            host,
            ..
        } = failure
        else {
            continue;
        };
        let names = known.entry((failure.line.at.input, *pid)).or_default();
        if names.iter().all(|name| name.rank != *rank) {
            names.push(ProcessName {
                rank: *rank,
                host: host.clone(),
                ..ProcessName::default()
            });
        }
    }
    for failure in all.iter_mut().filter(|failure| failure.rank.is_none()) {
        let names = failure
            .pid
            .and_then(|pid| known.get(&(failure.line.at.input, pid)));
        // Two hosts may use one number.
        if let Some([name]) = names.map(Vec::as_slice) {
            failure.rank = name.rank;
            failure.host = failure.host.take().or_else(|| name.host.clone());
        }
    }
}

/// A line that reports an end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobEndLine {
    /// Where it is.
    pub(crate) at: FirstReportLine,
    /// Its text; at most 300 bytes.
    pub(crate) text: Box<[u8]>,
}

impl JobEndLine {
    /// Keeps a line; of a long one the report of a crash, which may follow a progress bar.
    pub(super) fn keep_line(at: FirstReportLine, line: &[u8]) -> JobEndLine {
        let is_long = line.len() > MAX_LINE_TEXT_BYTES;
        let report = is_long.then(|| find_crash_report(line)).flatten();
        let text = report.unwrap_or(line);
        JobEndLine {
            at,
            text: text[..text.len().min(MAX_LINE_TEXT_BYTES)].into(),
        }
    }

    /// In a sentence.
    pub(crate) fn quote(&self) -> String {
        let end = |c: char| c == '.' || c.is_whitespace();
        quote_text(&self.text).trim_end_matches(end).to_owned()
    }

    /// As evidence.
    pub(crate) fn to_evidence(&self) -> Evidence {
        Evidence {
            at: self.at.into(),
            text: Some(self.text.to_vec()),
        }
    }
}
