//! The reports of torchrun and of `torch.distributed.elastic`.

use super::launcher::{cause_of_exit_code, report_process_failure};
use super::{EndSignal, EndingLine, FailureCause, LauncherReport, ProcessFailure, ProcessOfLine};
use crate::token::{dec_i32, dec_u32, dec_u64};
use memchr::memmem;

/// `(exitcode: -9) local_rank: 2 (pid: 77) of binary`, `exitcode  : -9 (pid: 77)`; a web page may change blanks.
pub(super) fn read_torchrun<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let (rest, number) = dec_i32(behind.trim_ascii_start()).ok()?;
    let after = |word: &[u8]| memmem::find(rest, word).map(|at| &rest[at + word.len()..]);
    let pid = Some(dec_u64(after(b"(pid: ")?).ok()?);
    let local = after(b"local_rank: ").and_then(|text| dec_u32(text).ok());
    let who = ProcessOfLine {
        local_rank: local.map(|(_, rank)| rank),
        pid: pid.map(|(_, pid)| pid),
        ..ProcessOfLine::default()
    };
    report_process_failure(cause_of_exit_code(number)?, who)
}

/// `rank      : 2 (local_rank: 2)`
pub(super) fn read_torchrun_rank<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let (rest, rank) = dec_u32(behind).ok()?;
    let local = rest.strip_prefix(b" (local_rank: ")?;
    Some(EndingLine::Part(LauncherReport::Rank(ProcessOfLine {
        rank: Some(rank),
        local_rank: dec_u32(local).ok().map(|(_, rank)| rank),
        ..ProcessOfLine::default()
    })))
}

pub(super) fn read_torchrun_host<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    Some(EndingLine::Part(LauncherReport::Host(behind.trim_ascii())))
}

/// The same without its blanks, which other programs print, too.
pub(super) fn read_squeezed_host<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    before
        .trim_ascii()
        .is_empty()
        .then(|| read_torchrun_host(before, behind))
        .flatten()
}

/// `time      : 2023-06-03_22:45:52`
pub(super) fn read_torchrun_time<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let time = behind.trim_ascii();
    let is_time = time.len() == b"2023-06-03_22:45:52".len() && time.get(10) == Some(&b'_');
    is_time.then_some(EndingLine::Part(LauncherReport::Time(time)))
}

/// `error_file: <N/A>`, after the exit code of a process in torchrun's list.
pub(super) fn read_error_file<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    let is_field = before.trim_ascii().is_empty();
    is_field.then_some(EndingLine::Part(LauncherReport::ErrorFile))
}

/// The line of `=` after the last process of torchrun's list, the one that failed first.
pub(super) fn read_report_end<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let is_line = before.is_empty() && behind.trim_ascii_end().iter().all(|&b| b == b'=');
    is_line.then_some(EndingLine::Part(LauncherReport::ListEnd))
}

pub(super) fn read_first_failure<'a>(_: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    Some(EndingLine::Part(LauncherReport::First))
}

/// `Received Signals.SIGTERM death signal, shutting down workers`: torchrun got the order to end the job.
pub(super) fn read_death_signal<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    let at = memmem::find(before, b"Received ")? + b"Received ".len();
    report_end_of_launcher(&before[at..])
}

/// The line of torchrun that runs its agent, in the traceback of its failure: `return launch_agent(self._config, ...)`.
pub(super) fn read_launcher_frame<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    let is_code = before.trim_ascii().is_empty() || before.ends_with(b"    ");
    is_code.then_some(EndingLine::LauncherFrame)
}

/// torchrun's exception for that: `SignalException: Process 81 got signal: 1`; `text` follows the name.
pub(super) fn read_signal_exception(text: &[u8]) -> Option<EndingLine<'_>> {
    let words = b" got signal: ";
    let number = memmem::find(text, words).map(|at| &text[at + words.len()..]);
    report_end_of_launcher(number.unwrap_or_default())
}

/// The end of a launcher by a signal of this number or name.
fn report_end_of_launcher(signal: &[u8]) -> Option<EndingLine<'static>> {
    let name = signal.strip_prefix(b"Signals.SIG");
    let number = match name {
        Some(name) => EndSignal::parse_name(name).map(|(signal, _)| signal.number),
        None => dec_i32(signal).ok().map(|(_, number)| number),
    };
    let what = match number {
        _ if name.is_some_and(|name| name.starts_with(b"INT")) => FailureCause::Interrupted,
        Some(1) => FailureCause::Signal(1),
        Some(2) => FailureCause::Interrupted,
        _ => FailureCause::Cancelled,
    };
    report_process_failure(what, ProcessOfLine::default())
}

/// A row of torchrun's report without its blanks, or with all its fields on one line: `[2]: time : .. host : n1 rank : 2 (local_rank: 2)
/// exitcode : -6 (pid: 77)`.
pub(super) fn read_torchrun_row<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let EndingLine::Failed(failure) = read_torchrun(before, behind)? else {
        return None;
    };
    if before.trim_ascii().is_empty() {
        return Some(EndingLine::Failed(failure));
    }
    let after = |word: &[u8]| memmem::rfind(before, word).map(|at| &before[at + word.len()..]);
    let (_, rank) = dec_u32(after(b" rank : ")?).ok()?;
    let host = after(b" host : ").and_then(|text| text.split(|&b| b == b' ').next());
    Some(EndingLine::Failed(ProcessFailure {
        who: ProcessOfLine {
            rank: Some(rank),
            host,
            ..failure.who
        },
        ..failure
    }))
}
