//! Failures that a process reports itself: exceptions, and errors of NCCL.

use super::{Ending, Failure, What, whose};
use crate::token::dec_u32;
use memchr::memmem;

/// A failure of whom the line's prefix names.
pub(super) fn failed<'a>(what: What, before: &'a [u8]) -> Option<Ending<'a>> {
    Some(Ending::Failed(Failure {
        what,
        who: whose(before),
        says: b"",
    }))
}

pub(super) fn itself<'a>(before: &'a [u8], _: &'a [u8]) -> Option<Ending<'a>> {
    failed(What::Crash, before)
}

pub(super) fn traceback<'a>(before: &'a [u8], _: &'a [u8]) -> Option<Ending<'a>> {
    Some(Ending::Traceback(whose(before)))
}

/// Exceptions of launchers, without `Error` or `Exception`: a process that they started failed.
const REPEATED: [&[u8]; 3] = [b"ChildFailed", b"CalledProcess", b"ProcessExited"];

/// Exceptions of a process whose peer is gone.
const LOST: [&[u8]; 6] = [
    b"DistBackend",
    b"DistNetwork",
    b"DistStore",
    b"ConnectionRefused",
    b"ConnectionReset",
    b"BrokenPipe",
];

/// `torch.OutOfMemoryError: CUDA out of memory.`, `KeyboardInterrupt`: a name with its parts, after
/// nothing but a prefix, and its text.
pub(super) fn exception<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
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
    // The anchor is the name's end: what is in front of it is the rest of the name.
    let name = &before[begin..];
    if !is_whole || !is_first || name.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let has = |word: &[u8]| memmem::find(text, word).is_some();
    let ends = |names: &[&[u8]]| names.iter().any(|end| name.ends_with(end));
    let what = if name.is_empty() && text.is_empty() {
        What::Interrupted
    } else if ends(&REPEATED) {
        What::Repeated
    } else if name.ends_with(b"Signal") {
        What::Cancelled
    } else if ends(&LOST)
        || name.starts_with(b"nccl")
        || has(b"NCCL")
        || has(b"nccl")
        || has(b"Connection closed by peer")
    {
        What::Nccl
    } else {
        What::Exception
    };
    Some(Ending::Failed(Failure {
        what,
        who: whose(&before[..begin]),
        says: &before[begin..],
    }))
}

/// C++'s word for an exception that nobody caught; PyTorch throws one for an error of NCCL's.
pub(super) fn thrown<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let what = match memmem::find(behind, b"DistBackendError") {
        Some(_) => What::Nccl,
        None => What::Crash,
    };
    failed(what, before)
}

pub(super) fn nccl<'a>(before: &'a [u8], _: &'a [u8]) -> Option<Ending<'a>> {
    let begins = before.last().is_none_or(|b| !b.is_ascii_alphanumeric());
    begins.then(|| failed(What::Nccl, before)).flatten()
}

/// `RuntimeError: NCCL Error 2: unhandled system error`, of older PyTorch.
pub(super) fn numbered<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let (rest, _) = dec_u32(behind).ok()?;
    rest.starts_with(b": ")
        .then(|| nccl(before, behind))
        .flatten()
}

/// `NCCL operation ncclGroupEnd() failed: unhandled cuda error`, of XLA.
pub(super) fn xla<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let failed = memmem::find(behind, b" failed: ").is_some();
    failed.then(|| nccl(before, behind)).flatten()
}
