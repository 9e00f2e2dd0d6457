//! Lines that report the end of a process or a job.

use crate::grammar::ending::{FailureCause, ProcessOfLine};
use crate::stages::check::finding::Evidence;
use crate::stages::check::wording::quote_text;
use crate::stages::net::net_stage::FirstReportLine;
use memchr::memmem;
use serde::{Deserialize, Serialize};

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
    Host(Box<[u8]>),
    Rank(u32, Option<u32>),
    Failed(FailureCause, ProcessName, Box<[u8]>),
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
    /// A launcher lists it among those that it ended, or that failed later.
    pub(crate) listed: bool,
}

impl ReportedFailure {
    /// True if the process may have ended itself because of an error: by an exit code, or by an abort,
    /// which is a crash without an access to memory that failed.
    pub(crate) fn may_answer_error(&self) -> bool {
        match self.what {
            FailureCause::Exit(_) => true,
            FailureCause::Signal(number) => !matches!(number, 7 | 9 | 11),
            FailureCause::Crash => {
                let text = match self.says.is_empty() {
                    true => &self.line.text,
                    false => &self.says,
                };
                let names = |signal: &[u8]| memmem::find(text, signal).is_some();
                !names(b"SIGSEGV") && !names(b"SIGBUS")
            }
            _ => false,
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
