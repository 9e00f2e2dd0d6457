//! Failures that a process reports itself: exceptions, and errors of NCCL.

use super::reports::{ReportKind, find_report};
use super::torchrun;
use super::{
    EndingLine, FailureCause, ProcessFailure, find_setup_failure, process_of_line, relayed_error,
    setup_failure::find_port,
};
use crate::message::warn::find_cuda_return;
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

/// `Exception ignored in atexit callback`, `Task exception was never retrieved` of asyncio.
pub(super) fn read_ignored<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    Some(EndingLine::Ignored(process_of_line(before)))
}

/// `The above exception was the direct cause of the following exception:`.
pub(super) fn read_chained<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    Some(EndingLine::Chained(process_of_line(before)))
}

/// Exceptions of launchers, without `Error` or `Exception`: a process that they started failed.
const LAUNCHER_EXCEPTIONS: [&[u8]; 4] = [
    b"ChildFailed",
    b"CalledProcess",
    b"ProcessExited",
    b"ProcessRaised",
];

/// Texts of exceptions about the failure of another process.
const RELAYED_WORDS: [&[u8]; 2] = [
    b"exception in a background process",
    b"actor died unexpectedly before finishing",
];

fn has_relayed_words(text: &[u8]) -> bool {
    let mut words = RELAYED_WORDS.iter();
    words.any(|words| memmem::find(text, words).is_some())
}

/// Exceptions of a process after its peer has gone.
const LOST_PEER_EXCEPTIONS: [&[u8]; 8] = [
    b"DistBackend",
    b"DistNetwork",
    b"DistStore",
    b"ConnectionRefused",
    b"ConnectionReset",
    b"BrokenPipe",
    b"RendezvousConnection",
    b"RendezvousTimeout",
];

/// An exception with a name that ends with `Error`: the word alone is how any tool begins its complaint.
pub(super) fn read_named_error<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let is_named = before
        .last()
        .is_some_and(|b| b.is_ascii_alphanumeric() || b"_.".contains(b));
    is_named.then(|| read_exception(before, behind)).flatten()
}

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
    // Markdown's marks of a quotation, of code and of bold words may be in front.
    let is_mark = |b: &&u8| b">*`_ ".contains(*b);
    let is_first = prefix
        .iter()
        .rev()
        .find(|b| !is_mark(b))
        .is_none_or(|last| matches!(last, b':' | b')' | b'|'))
        || ends_with_logged_error(prefix)
        || ends_with_time(prefix);
    // The anchor is the end of the name; the rest of the name is before it.
    let name = &before[begin..];
    let reports = |kind| find_report(text, kind).is_some();
    let is_number = name.first().is_some_and(u8::is_ascii_digit);
    if !is_whole || !is_first || is_number || reports(ReportKind::Spawned) {
        return None;
    }
    let ends = |names: &[&[u8]]| names.iter().any(|end| name.ends_with(end));
    let what = if name.is_empty() && text.is_empty() {
        FailureCause::Interrupted
    } else if ends(&LAUNCHER_EXCEPTIONS) || has_relayed_words(text) {
        FailureCause::Repeated
    } else if name.ends_with(b"Signal") {
        return torchrun::read_signal_exception(text);
    } else if ends(&LOST_PEER_EXCEPTIONS)
        || name.starts_with(b"nccl")
        || reports(ReportKind::Raised)
        || reports(ReportKind::Nccl)
        || is_setup_error(name, behind)
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

/// `triton.runtime.errors.OutOfResources: ...`, an exception by its module.
pub(super) fn read_exception_of_module<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    let name = behind.iter().take_while(|b| b.is_ascii_alphanumeric());
    let (name, text) = behind.split_at(name.count());
    let is_class = name.first().is_some_and(u8::is_ascii_uppercase);
    let is_read = name.ends_with(b"Error") || name.ends_with(b"Exception");
    (is_class && !is_read)
        .then(|| read_exception(before, text))
        .flatten()
}

/// True for the beginning of a line that Python's logger writes for an error, with the place of the program's line:
/// `ERROR 03-04 01:21:00 executor.py:374]`.
fn ends_with_logged_error(prefix: &[u8]) -> bool {
    let Some(place) = prefix.strip_suffix(b"]") else {
        return false;
    };
    let digits = place.iter().rev().take_while(|b| b.is_ascii_digit());
    let file = &place[..place.len() - digits.count()];
    let is_error = [&b"ERROR"[..], b"CRITICAL"]
        .iter()
        .any(|level| memmem::find(prefix, level).is_some());
    file.len() < place.len() && file.ends_with(b".py:") && is_error
}

/// True for a prefix that ends with a time, as collectors of logs put it in front of each line: `Jul 13 21:22:34`,
/// `2026-07-13T21:22:34.5678901Z`.
fn ends_with_time(prefix: &[u8]) -> bool {
    let word = prefix.rsplit(|&b| b == b' ').next().unwrap_or_default();
    let word = word.strip_suffix(b"]").unwrap_or(word);
    let is_part = |b: &u8| b.is_ascii_digit() || b":.,-+TZ".contains(b);
    let parts = word.split(|&b| b == b':');
    word.iter().all(is_part)
        && parts.clone().count() > 2
        && parts.clone().all(|part| part.len() > 1)
        && prefix.split(|&b| b == b' ').count() < 6
}

/// True for an exception of PyTorch's C++ code that a process could not set up a process group.
fn is_setup_error(name: &[u8], behind: &[u8]) -> bool {
    let of_pytorch = name.ends_with(b"Runtime") || name.ends_with(b"Timeout");
    of_pytorch && find_setup_failure(&[b"Error", behind].concat()).is_some()
}

/// An error of PyTorch's process groups, on a line of its own.
pub(super) fn read_setup_error<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    report_own_words(FailureCause::Nccl, before)
}

/// A server that cannot listen: `bind: address already in use`.
pub(super) fn read_address_in_use<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    let tries_again = [&b"rying"[..], b"etry"]
        .iter()
        .any(|word| memmem::find(behind, word).is_some());
    read_own_report(before, behind).filter(|_| !tries_again)
}

/// `Port 8123 is already in use.`
pub(super) fn read_port_in_use<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let at = memmem::rfind(before, b"ort ")?;
    find_port(&before[at..]).and_then(|_| read_address_in_use(before, behind))
}

/// A line that explains the process's end by its state.
pub(super) fn read_own_report<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    report_own_words(FailureCause::OwnState, before)
}

/// A failure that a line of its own reports, unless its logger marks it as a warning.
fn report_own_words<'a>(what: FailureCause, before: &'a [u8]) -> Option<EndingLine<'a>> {
    // The ranks that did not come to a barrier, or the address, are in front of the words.
    let list = before.len().saturating_sub(MAX_RANK_LIST_BYTES);
    let what = match (is_logged_as_warning(before), what) {
        (false, what) => Some(what),
        (true, FailureCause::Nccl) => Some(FailureCause::Warned),
        (true, _) => None,
    };
    Some(EndingLine::Failed(ProcessFailure {
        what: what?,
        who: process_of_line(before),
        says: &before[list..],
    }))
}

/// A fatal line of XLA's: `F external/xla/xla/client.h:80] ...`. Where the text is about another process, that is read.
pub(super) fn read_xla_fatal<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let begins = before.last().is_none_or(|last| b" \t".contains(last));
    let is_own = begins && find_setup_failure(behind).is_none();
    is_own.then(|| read_crash(before, behind)).flatten()
}

/// A condition that does not hold, in a fatal line of glog or Abseil: `F1127 20:56:54.1  81 x.cc:81] Check failed: a == b`;
/// of NCCL's result in Caffe and others: `Check failed: result == ncclSuccess (2 vs. 0) unhandled system error`.
pub(super) fn read_failed_check<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let mut words = before.split(|b| b" \t[:>|".contains(b));
    let is_level = |word: &[u8]| {
        word.strip_prefix(b"F")
            .is_some_and(|date| date.iter().all(u8::is_ascii_digit))
    };
    let read = || match memmem::find(behind, b"ncclSuccess") {
        Some(_) => report_failure_by_prefix(FailureCause::Nccl, before),
        None => read_crash(before, behind),
    };
    words.any(is_level).then(read).flatten()
}

/// The longest list of ranks that is looked at, in bytes.
const MAX_RANK_LIST_BYTES: usize = 120;

/// C++'s words for an uncaught exception; PyTorch throws one for an error of NCCL's.
pub(super) fn read_cpp_exception<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let what = match memmem::find(behind, b"DistBackendError") {
        Some(_) => FailureCause::Nccl,
        None => FailureCause::Crash,
    };
    report_failure_by_prefix(what, before)
}

/// True for the beginning of a line that its program's logger marks as a warning or less: the program went on.
fn is_logged_as_warning(before: &[u8]) -> bool {
    // `[W519 22:35:49.0 NCCLSymmetricMemory.cu:268]` of PyTorch and of glog, `[W socket.cpp:401]` before 2.2.
    let marked = memchr::memchr_iter(b'[', before).any(|open| {
        let level = &before[open + 1..];
        matches!(level, [b'W' | b'I', b' ' | b'0'..=b'9', ..])
    });
    let words = [&b"WARNING"[..], b" WARN "];
    marked
        || words
            .iter()
            .any(|word| memmem::find(before, word).is_some())
}

/// An error of the verbs library that a program reports: `Failed to modify QP to RTR: Connection timed out`.
pub(super) fn read_verbs_error<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    let is_failure = before.ends_with(b"ailed to m") && !is_logged_as_warning(before);
    is_failure
        .then(|| report_failure_by_prefix(FailureCause::Nccl, before))
        .flatten()
}

pub(super) fn read_nccl_error<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    let begins = before.last().is_none_or(|b| !b.is_ascii_alphanumeric());
    (begins && !is_logged_as_warning(before))
        .then(|| report_failure_by_prefix(FailureCause::Nccl, before))
        .flatten()
}

/// `Test CUDA failure common.cu:1030 'system not yet initialized'`, of nccl-tests.
pub(super) fn read_cuda_failure<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    relayed_error::is_cuda_failure(behind)
        .then(|| read_nccl_error(before, behind))
        .flatten()
}

/// `cudaGetDeviceCount returned 802`, of NVIDIA's samples.
pub(super) fn read_cuda_return<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let function = before.rsplit(|b| *b == b' ').next()?;
    find_cuda_return(&[function, b" returned ", behind].concat())?;
    read_own_report(before, behind)
}

/// `ncclSystemError: System call failed`: the name of a result, by itself or in front of its words.
pub(super) fn read_nccl_result_name<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    let is_whole = behind.trim_ascii_end().is_empty() || behind.starts_with(b":");
    is_whole.then(|| read_nccl_error(before, behind)).flatten()
}

/// `Last error:`, after the text of an exception.
pub(super) fn read_last_error<'a>(_: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    Some(EndingLine::LastWarn)
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
