//! The failures of processes, put together from the lines that report them.

use super::job_end_lines::{
    FailureLine, FailureLineText, JobEndLine, ProcessName, ReportedFailure, begins_or_names_gpu,
    name_by_pid, shown_failure, unstated_failure,
};
use super::limits::MAX_LIST_END_LINES;
use crate::grammar::ending::{FailureCause, has_nccl_error};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the ends that lines report, in line order: exceptions with their traceback, and what launchers, the
/// scheduler and the system report. In an excerpt, and where no step ends, a traceback may be missing.
pub(super) fn collect_failures(
    told: &[FailureLine],
    is_excerpt: bool,
    has_steps: bool,
) -> Vec<ReportedFailure> {
    let mut all = Vec::new();
    for lines in told.chunk_by(|a, b| a.line.at.input == b.line.at.input) {
        let mut reader = FailureReader {
            is_excerpt,
            has_steps,
            ..FailureReader::default()
        };
        lines.iter().for_each(|line| reader.take_line(line));
        all.append(&mut reader.finish_input());
    }
    name_by_pid(&mut all);
    all
}

/// Reads the lines of one input.
#[derive(Default)]
struct FailureReader<'a> {
    is_excerpt: bool,
    has_steps: bool,
    all: Vec<ReportedFailure>,
    /// The ranks that are printing a traceback.
    traced: BTreeSet<Option<u32>>,
    /// The ranks that print an exception which ends nothing, and true until it comes.
    ignored: BTreeMap<Option<u32>, bool>,
    /// The texts of such exceptions, without their numbers.
    ignored_texts: BTreeSet<Vec<u8>>,
    /// The fields of a launcher's report read up to here, and whether it is about the process that failed first.
    name: ProcessName,
    time: Option<Box<[u8]>>,
    is_first: bool,
    last: Option<&'a JobEndLine>,
    /// A frame in NCCL that no crash has yet.
    frame: Option<Box<[u8]>>,
    /// A frame of torchrun's traceback.
    launcher: Option<&'a JobEndLine>,
    /// The first assertion of a kernel, and its line.
    assertion: Option<(&'a JobEndLine, Box<[u8]>)>,
}

impl<'a> FailureReader<'a> {
    fn take_line(&mut self, told: &'a FailureLine) {
        let FailureLine { line, what } = told;
        match what {
            FailureLineText::Traceback(rank) => {
                self.traced.insert(*rank);
            }
            FailureLineText::Ignored(rank) => {
                self.ignored.insert(*rank, true);
            }
            FailureLineText::Chained(rank) => {
                self.ignored.entry(*rank).and_modify(|comes| *comes = true);
            }
            FailureLineText::NcclFrame(text) => match self.all.last_mut() {
                Some(crash) if crash.is_crash() => {
                    crash.inside.get_or_insert_with(|| text.clone());
                }
                _ => self.frame = Some(text.clone()),
            },
            FailureLineText::Reason(text) => {
                // Between them another process may have printed its own.
                let last = self.all.last_mut().filter(|last| last.is_crash());
                if let Some(crash) = last.filter(|last| last.line.at.line + 1 == line.at.line) {
                    crash.reason.get_or_insert_with(|| text.clone());
                    // The process did not crash: nothing took the error that NCCL gave it.
                    if has_nccl_error(text) {
                        crash.what = FailureCause::Nccl;
                    }
                }
            }
            FailureLineText::ListEntry => {
                // The fields that name it may be cut off.
                let last = self.all.last_mut().filter(|last| last.rank.is_none());
                if let Some(last) = last.filter(|last| last.line.at.line + 1 == line.at.line) {
                    last.listed = true;
                }
            }
            FailureLineText::ListEnd => {
                let last = self.all.last_mut();
                let is_near = |last: &&mut ReportedFailure| {
                    line.at.line <= last.line.at.line + MAX_LIST_END_LINES
                };
                if let Some(last) = last.filter(is_near) {
                    last.listed = false;
                }
            }
            FailureLineText::Assertion(text) => {
                for failure in self.all.iter_mut().filter(|f| f.is_of_assertion()) {
                    failure.inside.get_or_insert_with(|| text.clone());
                }
                self.assertion.get_or_insert_with(|| (line, text.clone()));
            }
            FailureLineText::LauncherFrame => self.launcher = Some(line),
            FailureLineText::First => self.is_first = true,
            FailureLineText::Time(time) => self.time = Some(time.clone()),
            FailureLineText::Host(host) => self.name.host = Some(host.clone()),
            FailureLineText::Rank(rank, local) => {
                self.last = Some(line);
                (self.name.rank, self.name.local_rank) = (Some(*rank), *local);
            }
            FailureLineText::Failed(what, who, says) => self.add_failure(line, *what, who, says),
        }
    }

    fn add_failure(
        &mut self,
        line: &JobEndLine,
        what: FailureCause,
        who: &ProcessName,
        says: &[u8],
    ) {
        let raised = matches!(what, FailureCause::Exception | FailureCause::Repeated);
        let traced = self.traced.remove(&who.rank);
        if raised && self.is_ignored(who.rank) {
            self.ignored_texts.insert(drop_digits(says));
            return;
        }
        let is_told = who.rank.is_some() || begins_or_names_gpu(&line.text, says);
        let is_hooked = !self.has_steps && is_uncaught_on_rank(&line.text, says);
        let is_sure = traced || self.is_excerpt && is_told || is_hooked;
        if raised && !is_sure || what == FailureCause::Warned && !self.is_excerpt {
            return;
        }
        let is_end = matches!(what, FailureCause::Exit(_) | FailureCause::Signal(_));
        let of_report = is_end && self.name.rank.is_some();
        let report = match of_report {
            true => std::mem::take(&mut self.name),
            false => ProcessName::default(),
        };
        let mut failure = ReportedFailure {
            line: line.clone(),
            what,
            says: says.into(),
            rank: who.rank.or(report.rank),
            pid: who.pid,
            host: who.host.clone().or(report.host),
            inside: None,
            reason: None,
            listed: of_report && !self.is_first,
            time: self.time.take().filter(|_| of_report),
        };
        if failure.is_crash() {
            // Python's report of a crash follows that of another handler.
            if self
                .all
                .last()
                .is_some_and(|last| failure.repeats_crash(last))
            {
                return;
            }
            failure.inside = self.frame.take();
        } else if failure.is_of_assertion() {
            failure.inside = self.assertion.as_ref().map(|(_, text)| text.clone());
        }
        self.all.push(failure);
        self.is_first &= !of_report;
    }

    /// Returns true if a rank's exception, or the one to which it belongs, ends nothing.
    fn is_ignored(&mut self, rank: Option<u32>) -> bool {
        match self.ignored.get_mut(&rank) {
            Some(comes) if *comes => {
                *comes = false;
                true
            }
            _ => {
                self.ignored.remove(&rank);
                false
            }
        }
    }

    fn finish_input(mut self) -> Vec<ReportedFailure> {
        // An exception that ends nothing at one place does so at others, too.
        let texts = std::mem::take(&mut self.ignored_texts);
        self.all.retain(|failure| {
            let raised = matches!(failure.what, FailureCause::Exception);
            !(raised && !texts.is_empty() && texts.contains(&drop_digits(&failure.says)))
        });
        if let Some((line, text)) = self.assertion
            && self.is_excerpt
            && self.all.is_empty()
        {
            let says = [&b"an assertion of a GPU's kernel failed: "[..], &text].concat();
            self.all.push(shown_failure(line, says));
        } else if let Some(line) = self.launcher
            && self.is_excerpt
            && self.all.is_empty()
        {
            let says = b"torchrun failed while it ran the job: its traceback is cut off before the exception";
            self.all.push(shown_failure(line, says.to_vec()));
        }
        let cut = self.last.filter(|_| self.is_first);
        let cut = cut.and_then(|last| unstated_failure(last, &self.name));
        self.all.extend(cut);
        self.all
    }
}

/// True for the line of an exception that nothing took, as PyTorch's hook writes it: `[rank2]: ValueError: x`.
fn is_uncaught_on_rank(line: &[u8], says: &[u8]) -> bool {
    let rest = line.strip_prefix(b"[rank").unwrap_or_default();
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let text = rest[digits..].strip_prefix(b"]: ").unwrap_or_default();
    !text.is_empty() && says.starts_with(text)
}

/// A text without its numbers.
fn drop_digits(text: &[u8]) -> Vec<u8> {
    let kept = text.iter().filter(|b| !b.is_ascii_digit());
    kept.copied().collect()
}
