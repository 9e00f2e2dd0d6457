//! Failures that a process reports itself: exceptions, and errors of NCCL.

use super::{EndingLine, FailureCause, ProcessFailure, process_of_line};
use crate::token::dec_u32;
use memchr::memmem;

/// A failure of whom the line's prefix names.
pub(super) fn report_failure_by_prefix<'a>(
    what: FailureCause,
    before: &'a [u8],
) -> Option<EndingLine<'a>> {
    Some(EndingLine::Failed(ProcessFailure {
        what,
        who: process_of_line(before),
        says: b"",
    }))
}

pub(super) fn read_crash<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    report_failure_by_prefix(FailureCause::Crash, before)
}

pub(super) fn read_traceback<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    Some(EndingLine::Traceback(process_of_line(before)))
}

/// Exceptions of launchers, without `Error` or `Exception`: a process that they started failed.
const LAUNCHER_EXCEPTIONS: [&[u8]; 3] = [b"ChildFailed", b"CalledProcess", b"ProcessExited"];

/// Exceptions of a process after its peer has gone.
const LOST_PEER_EXCEPTIONS: [&[u8]; 6] = [
    b"DistBackend",
    b"DistNetwork",
    b"DistStore",
    b"ConnectionRefused",
    b"ConnectionReset",
    b"BrokenPipe",
];

/// `torch.OutOfMemoryError: CUDA out of memory.`, `KeyboardInterrupt`: a name with its parts, after
/// nothing but a prefix, and its text.
pub(super) fn read_exception<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let in_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.');
    let begin = before
        .iter()
        .rposition(|b| !in_name(b))
        .map_or(0, |at| at + 1);
    let text = behind.trim_ascii_end();
    let is_whole = text.is_empty() || text.starts_with(b":") && !text.starts_with(b"::");
    let prefix = before[..begin].trim_ascii_end();
    let is_first = prefix
        .last()
        .is_none_or(|last| matches!(last, b':' | b')' | b'|'));
    // The anchor is the end of the name; the rest of the name is before it.
    let name = &before[begin..];
    if !is_whole || !is_first || name.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let has = |word: &[u8]| memmem::find(text, word).is_some();
    let ends = |names: &[&[u8]]| names.iter().any(|end| name.ends_with(end));
    let what = if name.is_empty() && text.is_empty() {
        FailureCause::Interrupted
    } else if ends(&LAUNCHER_EXCEPTIONS) {
        FailureCause::Repeated
    } else if name.ends_with(b"Signal") {
        FailureCause::Cancelled
    } else if ends(&LOST_PEER_EXCEPTIONS)
        || name.starts_with(b"nccl")
        || has(b"NCCL")
        || has(b"nccl")
        || has(b"Connection closed by peer")
    {
        FailureCause::Nccl
    } else {
        FailureCause::Exception
    };
    Some(EndingLine::Failed(ProcessFailure {
        what,
        who: process_of_line(&before[..begin]),
        says: &before[begin..],
    }))
}

/// C++'s words for an uncaught exception; PyTorch throws one for an error of NCCL's.
pub(super) fn read_cpp_exception<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let what = match memmem::find(behind, b"DistBackendError") {
        Some(_) => FailureCause::Nccl,
        None => FailureCause::Crash,
    };
    report_failure_by_prefix(what, before)
}

pub(super) fn read_nccl_error<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    let begins = before.last().is_none_or(|b| !b.is_ascii_alphanumeric());
    begins
        .then(|| report_failure_by_prefix(FailureCause::Nccl, before))
        .flatten()
}

/// `RuntimeError: NCCL Error 2: unhandled system error`, of older PyTorch.
pub(super) fn read_numbered_nccl_error<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    let (rest, _) = dec_u32(behind).ok()?;
    rest.starts_with(b": ")
        .then(|| read_nccl_error(before, behind))
        .flatten()
}

/// `NCCL operation ncclGroupEnd() failed: unhandled cuda error`, of XLA.
pub(super) fn read_xla_nccl_error<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    let failed = memmem::find(behind, b" failed: ").is_some();
    failed.then(|| read_nccl_error(before, behind)).flatten()
}
