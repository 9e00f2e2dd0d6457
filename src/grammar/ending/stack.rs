//! What a failure leaves beside its own line: frames of stacks in NCCL's own code, those of a traceback whose first line
//! is cut off, and assertions of a kernel on the GPU.
//!
//! ```text
//!   File "train.py", line 7, in main                                      Python's traceback
//!   File "pynccl_wrapper.py", line 7 in ncclAllReduce                     faulthandler
//!  2 0x0000000000049b8a addProxyOpIfNeeded()  /build/nccl/src/enqueue.cc:180   UCX
//! ../aten/src/Gather.cu:14: operator(): block: [0,0,0], thread: [1,0,0] Assertion `i < n` failed.   CUDA
//! ```

use super::{EndingLine, process_of_line};
use crate::token::dec_u64;
use memchr::memmem;

/// A place in NCCL's code in which a process was when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NcclFrame<'a> {
    /// The function.
    pub function: &'a [u8],
    /// The name of the file.
    pub file: &'a [u8],
    /// The line of the file.
    pub line: u64,
}

/// An assertion of a kernel on the GPU that did not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelAssertion<'a> {
    /// What should hold.
    pub condition: &'a [u8],
    /// The file's name and the line.
    pub place: &'a [u8],
}

/// Reads the line of such an assertion; every thread that it stops prints one.
pub(super) fn read_kernel_assertion<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    memmem::find(before, b"thread: [")?;
    let condition = &behind[..memchr::memchr(b'`', behind)?];
    let path = &before[..memmem::find(before, b": ")?];
    let place = file_name(path);
    memmem::find(place, b".cu").filter(|_| !condition.is_empty())?;
    Some(EndingLine::KernelAssertion(KernelAssertion {
        condition,
        place,
    }))
}

/// A frame of Python's, at its `", line `: a traceback has a comma behind the number, and its exception follows.
pub(super) fn read_python_frame<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let begin = memmem::rfind(before, b"File \"")?;
    let path = &before[begin + b"File \"".len()..];
    let (rest, line) = dec_u64(behind).ok()?;
    if rest.starts_with(b", in ") {
        return Some(EndingLine::Traceback(process_of_line(before)));
    }
    let function = first_word(rest.strip_prefix(b" in ")?);
    let frame = NcclFrame {
        function,
        file: file_name(path),
        line,
    };
    is_nccl_function(function).then_some(EndingLine::NcclFrame(frame))
}

/// A frame of PyTorch's watchdog, which ends its process by an exception that nothing takes.
pub(super) fn read_watchdog_frame<'a>(_: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    Some(EndingLine::WatchdogFrame)
}

/// `  what():  bad allocation`, the line after that with the exception's type.
pub(super) fn read_reason<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let reason = behind.trim_ascii();
    (!reason.is_empty()).then_some(EndingLine::Reason(reason))
}

/// UCX's frame with its place in NCCL's source, at the `()  /` between its function and the path.
pub(super) fn read_source_frame<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let function = before.rsplit(|b| b.is_ascii_whitespace()).next()?;
    let (path, line) = behind.split_at(memchr::memchr(b':', behind)?);
    let (_, line) = dec_u64(&line[1..]).ok()?;
    let has = |word: &[u8]| memmem::find(path, word).is_some();
    let is_of_nccl = is_nccl_function(function) || has(b"nccl") || has(b"rccl");
    let frame = NcclFrame {
        function,
        file: file_name(path),
        line,
    };
    (is_of_nccl && !function.is_empty()).then_some(EndingLine::NcclFrame(frame))
}

fn is_nccl_function(name: &[u8]) -> bool {
    name.starts_with(b"nccl") || name.starts_with(b"pnccl")
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

fn first_word(text: &[u8]) -> &[u8] {
    let end = text.iter().position(u8::is_ascii_whitespace);
    &text[..end.unwrap_or(text.len())]
}
