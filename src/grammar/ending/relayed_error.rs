//! An error of NCCL's that a program relays: the result that a function of NCCL's gave it, and NCCL's
//! last WARN, in the program's own words.
//!
//! ```text
//! torch.distributed.DistBackendError: NCCL error in: ../NCCLUtils.hpp:275, unhandled system error (run with
//!     NCCL_DEBUG=INFO for details), NCCL version 2.20.5                                   PyTorch
//! ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
//! Last error:
//! Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000                     a line of its own
//! NCCL operation ncclGroupEnd() failed: unhandled cuda error (run with NCCL_DEBUG=INFO for details). Last NCCL
//!     warning(error) log entry (may be unrelated) 'Cuda failure 2 'out of memory''.       XLA
//! n1: Test NCCL failure common.cu:958 'unhandled system error (run with .. for details) / socket failed'
//! n1: Test CUDA failure common.cu:1030 'system not yet initialized'                       nccl-tests, of CUDA itself
//! Failed: Cuda error custom_all_reduce.cuh:307 'peer access is not supported'             vLLM, SGLang
//! CUDA error 217 at ggml-cuda.cu:6292: peer access is not supported                       llama.cpp
//! CUDA error at bandwidthTest.cu:256 code=802(cudaErrorSystemNotReady) "cudaSetDevice(0)"   NVIDIA's samples
//! cudaGetDeviceCount returned 802
//! ImportError: libtorch_cuda.so: undefined symbol: ncclCommRegister                       of the loader
//! Failed to modify QP to RTR: Connection timed out                                        of the verbs library
//! cupy.cuda.nccl.NcclError: NCCL_ERROR_SYSTEM_ERROR: unhandled system error               CuPy
//! ```
//!
//! The results' words are those of `ncclGetErrorString` in NCCL's `src/init.cc` (2.4 to 2.30), the last
//! WARN is that of `ncclGetLastError` (2.13); PyTorch's from `NCCLUtils.cpp` and `NCCLUtils.hpp`, XLA's from
//! `nccl_errors.h`, nccl-tests' from `common.h`.

use super::reports::{ReportKind, find_report};
use crate::message::warn::find_cuda_return;
use crate::token::dec_u32;
use memchr::memmem;
use std::ops::Range;

/// An error of NCCL's, as a line of a program relays it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayedError<'a> {
    /// The result of NCCL's function, `ncclResult_t`; the line may not name it.
    pub result: Option<i32>,
    /// NCCL's last WARN.
    pub last_warn: LastWarn<'a>,
}

impl RelayedError<'_> {
    /// True for `ncclRemoteError`: another process ended, or could not be reached.
    pub fn is_remote_error(&self) -> bool {
        self.result == Some(6)
    }
}

/// Where a program prints NCCL's last WARN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastWarn<'a> {
    /// The line does not have it.
    Missing,
    /// In the line.
    Text(&'a [u8]),
    /// In its place an error of CUDA's, of the loader's or of the verbs library's that the program got itself.
    Own(&'a [u8]),
    /// In the next line of the same process.
    NextLine {
        /// What both lines have in front.
        label: &'a [u8],
    },
}

/// The words and names of NCCL's results, each with its number. A name may be in front of words.
const RESULT_WORDS: [(&[u8], i32); 19] = [
    (b"unhandled cuda error", 1),
    (b"unhandled CUDA error", 1),
    (b"unhandled system error", 2),
    (b"internal error", 3),
    (b"invalid argument", 4),
    (b"invalid usage", 5),
    (b"remote process exited or there was a network error", 6),
    (b"ncclUnhandledCudaError", 1),
    (b"ncclSystemError", 2),
    (b"ncclInternalError", 3),
    (b"ncclInvalidArgument", 4),
    (b"ncclInvalidUsage", 5),
    (b"ncclRemoteError", 6),
    (b"NCCL_ERROR_UNHANDLED_CUDA_ERROR", 1),
    (b"NCCL_ERROR_SYSTEM_ERROR", 2),
    (b"NCCL_ERROR_INTERNAL_ERROR", 3),
    (b"NCCL_ERROR_INVALID_ARGUMENT", 4),
    (b"NCCL_ERROR_INVALID_USAGE", 5),
    (b"NCCL_ERROR_REMOTE_ERROR", 6),
];

/// The words in front of NCCL's last WARN in PyTorch's exception.
pub(super) const LAST_ERROR: &str = "Last error:";

/// True for a line that relays an error as PyTorch does: `NCCL error in: ../NCCLUtils.hpp:275, unhandled system error`.
pub fn has_nccl_error(line: &[u8]) -> bool {
    memmem::find(line, b"NCCL error").is_some()
}

/// Reads the error of NCCL's in a line that reports one ([`super::FailureCause::Nccl`]), or that has
/// `Last error:`; `None` if the line names neither a result nor a WARN.
pub fn find_relayed_error(line: &[u8]) -> Option<RelayedError<'_>> {
    // The reason of an error of the program's own may have such words, too.
    let own = find_own_error(line).map_or(line.len(), |own| own.start);
    let first = RESULT_WORDS
        .iter()
        .filter_map(|&(words, result)| Some((memmem::find(&line[..own], words)?, result)))
        .min();
    let result = first.map(|(_, result)| result);
    let last_warn = match find_last_warn(line) {
        // Other programs print such words, too.
        LastWarn::Text(_) if result.is_none() => LastWarn::Missing,
        last_warn => last_warn,
    };
    let last_warn = match (result, last_warn) {
        (None, LastWarn::Missing) => {
            find_own_error(line).map_or(LastWarn::Missing, |own| LastWarn::Own(&line[own]))
        }
        (_, last_warn) => last_warn,
    };
    (result.is_some() || last_warn != LastWarn::Missing)
        .then_some(RelayedError { result, last_warn })
}

fn find_last_warn(line: &[u8]) -> LastWarn<'_> {
    let behind = |words: &[u8]| Some(split_around(line, words)?.1);
    if let Some((label, rest)) = split_around(line, LAST_ERROR.as_bytes()) {
        // A line break may be written as two letters, in JSON or in Python's repr of a text.
        let rest = rest.trim_ascii();
        let rest = rest.strip_prefix(b"\\n").unwrap_or(rest);
        let end = memmem::find(rest, b"\\n").unwrap_or(rest.len());
        return match rest[..end].trim_ascii() {
            b"" => LastWarn::NextLine { label },
            text => LastWarn::Text(text),
        };
    }
    if let Some(rest) = behind(b"log entry (may be unrelated) '") {
        return match memchr::memrchr(b'\'', rest).map(|end| rest[..end].trim_ascii()) {
            None | Some(b"") => LastWarn::Missing,
            Some(text) => LastWarn::Text(text),
        };
    }
    // The other half of nccl-tests' text is empty where NCCL printed no WARN.
    let tested = behind(b"Test NCCL failure ").and_then(|rest| {
        let at = memmem::find(rest, b" / ")?;
        let text = rest[at + b" / ".len()..].trim_ascii_end();
        Some(text.strip_suffix(b"'").unwrap_or(text).trim_ascii())
    });
    match tested {
        None | Some(b"") => LastWarn::Missing,
        Some(text) => LastWarn::Text(text),
    }
}

/// Returns where a line has the error that the program itself got, or the state that explains its end.
fn find_own_error(line: &[u8]) -> Option<Range<usize>> {
    let words = [
        &b"undefined symbol: nccl"[..],
        // XLA's `nccl_stub.cc`, in place of a result of NCCL's.
        b"Unable to load NCCL library",
        b"Failed to modify QP",
        b"failed to modify QP",
    ];
    let at = words.iter().find_map(|words| memmem::find(line, words));
    let end = line.trim_ascii_end().len();
    let reported = || find_report(line, ReportKind::Own).map(|own| end - own.len());
    let at = at.or_else(|| find_cuda_failure(line)).or_else(reported)?;
    Some(at..end.max(at))
}

/// Words of a program's own check of CUDA's results.
pub(super) const CUDA_CHECKS: [&str; 4] = [
    "CUDA failure ",
    "Cuda failure ",
    "CUDA error ",
    "Cuda error ",
];

/// Returns where a line has the error of CUDA's that a program's check reports, which begins with the word `CUDA`.
fn find_cuda_failure(line: &[u8]) -> Option<usize> {
    let words = CUDA_CHECKS.map(str::as_bytes);
    let mut found = words
        .iter()
        .filter_map(|words| Some((memmem::find(line, words)?, words.len())));
    let checked = found.find_map(|(at, len)| is_cuda_failure(&line[at + len..]).then_some(at));
    let returned = || find_cuda_return(line).map(|words| words.start);
    checked.or_else(returned)
}

/// True for `common.cu:1030 'system not yet initialized'`, of nccl-tests, `217 at common.cu:1030: peer access`, of
/// llama.cpp, and `at x.cu:256 code=802(cudaErrorSystemNotReady)`, of NVIDIA's samples: a source file with its line, and a
/// reason.
pub(super) fn is_cuda_failure(behind: &[u8]) -> bool {
    let numbered = dec_u32(behind).ok();
    let numbered = numbered.and_then(|(rest, _)| rest.strip_prefix(b" at "));
    let place = numbered.unwrap_or(behind.strip_prefix(b"at ").unwrap_or(behind));
    let Some((place, reason)) = split_around(place, b" ") else {
        return false;
    };
    let colon = memchr::memchr(b':', place);
    let name = colon.and_then(|colon| place[..colon].rsplit(|&b| b == b'.').next());
    let is_source =
        name.is_some_and(|end| [&b"cu"[..], b"cuh", b"cc", b"cpp", b"h", b"hpp"].contains(&end));
    let is_reason = reason.starts_with(b"'") || reason.starts_with(b"code=");
    is_source && (numbered.is_some() || is_reason)
}

/// Returns the text before `words` and after them.
fn split_around<'a>(line: &'a [u8], words: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = memmem::find(line, words)?;
    Some((&line[..at], &line[at + words.len()..]))
}

/// Reads NCCL's last WARN in the line after `Last error:`; `label` is what both lines have in front.
/// `None` if the line is something else: NCCL printed no WARN then.
pub fn read_last_warn_line<'a>(line: &'a [u8], label: &[u8]) -> Option<&'a [u8]> {
    /// What follows where the text is empty: PyTorch's stack, Python's report of the next exception.
    const OTHER_LINES: [&[u8]; 6] = [
        b"Exception raised from",
        b"frame #",
        b"Traceback (",
        b"terminate called",
        b"The above exception",
        b"During handling",
    ];
    let text = line.strip_prefix(label).unwrap_or(line).trim_ascii();
    // A text that was copied upside down goes on with the result's name.
    let results = RESULT_WORDS.iter().map(|(words, _)| *words);
    let results = results.filter(|words| words.starts_with(b"nccl"));
    let mut others = OTHER_LINES.into_iter().chain(results);
    let is_other = others.any(|other| text.starts_with(other));
    (!text.is_empty() && !is_other).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<(Option<i32>, Option<&[u8]>)> {
        let error = find_relayed_error(line.as_bytes())?;
        let text = match error.last_warn {
            LastWarn::Missing => None,
            LastWarn::Text(text) | LastWarn::Own(text) => Some(text),
            LastWarn::NextLine { .. } => Some(&b"next"[..]),
        };
        Some((error.result, text))
    }

    #[test]
    fn result_and_last_warn_are_read() {
        type Relayed = Option<(Option<i32>, Option<&'static str>)>;
        let told: [(&str, Relayed); 25] = [
            (
                "ImportError: x/libtorch_cuda.so: undefined symbol: ncclDevCommCreate",
                Some((None, Some("undefined symbol: ncclDevCommCreate"))),
            ),
            (
                "[rank3]: Failed to modify QP to RTR: Connection timed out",
                Some((
                    None,
                    Some("Failed to modify QP to RTR: Connection timed out"),
                )),
            ),
            (
                "gpu: Test CUDA failure common.cu:1030 'system not yet initialized'",
                Some((
                    None,
                    Some("CUDA failure common.cu:1030 'system not yet initialized'"),
                )),
            ),
            (
                "Failed: Cuda error /x/csrc/custom_all_reduce.cuh:307 'peer access is not supported'",
                Some((
                    None,
                    Some(
                        "Cuda error /x/csrc/custom_all_reduce.cuh:307 'peer access is not supported'",
                    ),
                )),
            ),
            (
                "Failed: Cuda error /x/csrc/custom_all_reduce.cuh:164 'invalid argument'",
                Some((
                    None,
                    Some("Cuda error /x/csrc/custom_all_reduce.cuh:164 'invalid argument'"),
                )),
            ),
            (
                "CUDA error 2 at ggml-cuda.cu:6292: out of memory",
                Some((
                    None,
                    Some("CUDA error 2 at ggml-cuda.cu:6292: out of memory"),
                )),
            ),
            ("CUDA error 2 of 7 at line 3", None),
            (
                "CUDA error at /x/bandwidthTest.cu:256 code=802(cudaErrorSystemNotReady) \"cudaSetDevice(0)\" ",
                Some((
                    None,
                    Some(
                        "CUDA error at /x/bandwidthTest.cu:256 code=802(cudaErrorSystemNotReady) \"cudaSetDevice(0)\"",
                    ),
                )),
            ),
            (
                "gpu: cudaGetDeviceCount returned 35",
                Some((None, Some("cudaGetDeviceCount returned 35"))),
            ),
            ("cuInit returned 0, the loop returned 35 items", None),
            (
                "x.cc:133: NCCL operation ncclGetUniqueId(&id) failed: Unable to load NCCL library. Multi-GPU",
                Some((None, Some("Unable to load NCCL library. Multi-GPU"))),
            ),
            (
                "DistBackendError: NCCL error in: x.hpp:275, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.20.5",
                Some((Some(5), None)),
            ),
            ("[rank1]: Last error:", Some((None, Some("next")))),
            (
                "x, unhandled system error, NCCL version 2.21.5\\nLast error:\\nsocket failed\\n",
                Some((Some(2), Some("socket failed"))),
            ),
            (
                "NCCL operation ncclCommInitRank(&comm) failed: unhandled cuda error (run). Last NCCL warning(error) \
                 log entry (may be unrelated) 'Cuda failure 2 'out of memory''.",
                Some((Some(1), Some("Cuda failure 2 'out of memory'"))),
            ),
            (
                "failed: unhandled cuda error. Last NCCL warning(error) log entry (may be unrelated) ''.",
                Some((Some(1), None)),
            ),
            (
                "n1: Test NCCL failure common.cu:958 'unhandled system error (run with NCCL_DEBUG=INFO for details) / '",
                Some((Some(2), None)),
            ),
            (
                "n1: Test NCCL failure common.cu:958 'remote process exited or there was a network error / peer n2<5>'",
                Some((Some(6), Some("peer n2<5>"))),
            ),
            (
                "n1: Test NCCL failure all_reduce.cu:471 'internal error - please report this issue to the NCCL developers'",
                Some((Some(3), None)),
            ),
            ("ncclUnhandledCudaError", Some((Some(1), None))),
            (
                "NcclError: NCCL_ERROR_INVALID_USAGE: invalid usage",
                Some((Some(5), None)),
            ),
            // The first result is that of the line; others are in the words for it.
            (
                "ncclRemoteError: A call failed; ncclSystemError is another",
                Some((Some(6), None)),
            ),
            ("NCCL error: unknown", None),
            ("Last error: no such file", None),
            ("", None),
        ];
        for (line, expect) in told {
            let expect = expect.map(|(result, text)| (result, text.map(str::as_bytes)));
            assert_eq!(read(line), expect, "{line}");
        }
    }

    #[test]
    fn the_next_line_is_a_warn_or_something_else() {
        let read =
            |line: &'static str| read_last_warn_line(line.as_bytes(), b"[rank1]: ").map(Vec::from);
        assert_eq!(
            read("[rank1]: Cuda failure 2"),
            Some(b"Cuda failure 2".to_vec())
        );
        assert_eq!(read("Cuda failure 2"), Some(b"Cuda failure 2".to_vec()));
        assert_eq!(read("[rank1]: Exception raised from x at y:1"), None);
        assert_eq!(
            read("[rank1]: ncclInvalidUsage: This usually reflects"),
            None
        );
        assert_eq!(read("[rank1]: "), None);
    }
}
