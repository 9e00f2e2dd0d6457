//! WARN lines, and the error that a library states in their text. A WARN is not a failure: most are printed by jobs that
//! end well.
//!
//! ```text
//! NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129                         up to 2.9
//! NET/IB : Got completion from peer 10.0.0.1<51161> with error 12, opcode 1, len 0, vendor err 129 (Recv)   2.10+
//! NET/IB: Got completion from peer 10.0.0.1<51161> with status=12 opcode=0 len=0 vendor err 129  2.20+
//! NET/IB: Got completion from peer 10.0.0.1<51161> with status=X(12) opcode=Y(0) vendor_err=129  2.29+
//! Cuda failure 'out of memory', Cuda failure 2 'out of memory'
//! Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'x'       2.27+
//! HIP failure 'out of memory', HIP failure: 'out of memory'                                      RCCL
//! CUDA error: out of memory                                                                      PyTorch
//! CUDA error at bandwidthTest.cu:256 code=802(cudaErrorSystemNotReady) "cudaSetDevice(0)"        NVIDIA's samples
//! cudaGetDeviceCount returned 802                                                                NVIDIA's samples
//! ```
//!
//! From `src/transport/net_ib`, `src/transport/nvls.cc`, `src/include/checks.h` of those versions.

use crate::token::{dec_i32, dec_u32, whole};
use memchr::memmem;
use std::ops::Range;

/// A WARN's stated error, and its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarnMessage<'a> {
    /// The error that a library states.
    pub cause: WarnCause<'a>,
    /// All of it.
    pub text: &'a [u8],
}

/// The error that a library states in a WARN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarnCause<'a> {
    /// A work request of a NIC ended with an error.
    IbCompletion(CompletionError<'a>),
    /// CUDA or HIP reports an error.
    Gpu(GpuError<'a>),
    /// Nothing of these.
    Other,
}

/// A library that runs work on GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuLibrary {
    /// NVIDIA's.
    Cuda,
    /// AMD's.
    Hip,
}

/// An error of CUDA or HIP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuError<'a> {
    /// The library that reports it.
    pub library: GpuLibrary,
    /// Its number; NCCL prints it since 2.19.
    pub number: Option<u32>,
    /// Its words; empty if the line is cut before them.
    pub words: &'a [u8],
}

/// A work request that ended with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletionError<'a> {
    /// The peer's address, `10.0.0.1<51161>`; printed since 2.10.
    pub peer: Option<&'a [u8]>,
    /// `ibv_wc_status`: 4 local protection, 5 flushed, 10 remote access, 12 retries exceeded.
    pub status: u32,
    /// The NIC's maker's code.
    pub vendor_error: Option<u32>,
    /// The NIC; printed since 2.20.
    pub hca: Option<&'a [u8]>,
}

impl<'a> WarnMessage<'a> {
    /// The peer that the text names: an address or a host in front of its port, `10.0.0.1<51161>`.
    pub fn peer(&self) -> Option<&'a [u8]> {
        find_peer(self.text)
    }
}

/// The first word of `text` that ends in a port; in `10.0.0.1<39187><-10.0.0.2<46723>`, of GPUDirect-TCPX, the second
/// address.
fn find_peer(text: &[u8]) -> Option<&[u8]> {
    memchr::memchr_iter(b'<', text).find_map(|open| {
        let (rest, _) = dec_u32(&text[open + 1..]).ok()?;
        let rest = rest.strip_prefix(b">")?;
        let remote = [&b"<->"[..], b"<-", b"->"];
        if let Some(remote) = remote.iter().find_map(|arrow| rest.strip_prefix(*arrow)) {
            let end = memchr::memchr(b'<', remote).filter(|&end| end > 0)?;
            return Some(&remote[..end]);
        }
        let start = memchr::memrchr(b' ', &text[..open]).map_or(0, |i| i + 1);
        (start < open).then(|| &text[start..open])
    })
}

/// Any WARN.
pub fn parse_warn(text: &[u8]) -> WarnMessage<'_> {
    WarnMessage {
        cause: find_cause(text),
        text,
    }
}

fn find_cause(text: &[u8]) -> WarnCause<'_> {
    if let Some(completion) = parse_completion(text) {
        return WarnCause::IbCompletion(completion);
    }
    find_gpu_error(text).map_or(WarnCause::Other, WarnCause::Gpu)
}

/// Numbers here may be at the end of a cut line, but each is in front of another word.
fn parse_completion(text: &[u8]) -> Option<CompletionError<'_>> {
    let at = memmem::find(text, b"Got completion ")?;
    let rest = &text[at + b"Got completion ".len()..];
    let (peer, rest) = match rest.strip_prefix(b"from peer ") {
        Some(rest) => {
            let with = memmem::find(rest, b" with ")?;
            (Some(&rest[..with]), &rest[with + 1..])
        }
        None => (None, rest),
    };
    if let Some(rest) = rest.strip_prefix(b"with error ") {
        let (after, status) = dec_u32(rest).ok()?;
        let vendor_error = number_behind(after, b"vendor err ");
        let ended = after.starts_with(b",");
        return ended.then_some(CompletionError {
            peer,
            status,
            vendor_error,
            hca: None,
        });
    }
    let rest = rest.strip_prefix(b"with status=")?;
    let end = memchr::memchr(b' ', rest)?;
    let status = match memchr::memchr(b'(', &rest[..end]) {
        Some(open) => whole(dec_u32(rest[open + 1..end].strip_suffix(b")")?))?,
        None => whole(dec_u32(&rest[..end]))?,
    };
    let vendor_error =
        number_behind(rest, b"vendor err ").or_else(|| number_behind(rest, b"vendor_err="));
    let hca = memmem::rfind(rest, b" hca ").map(|at| &rest[at + b" hca ".len()..]);
    let hca = hca.filter(|name| !name.is_empty());
    Some(CompletionError {
        peer,
        status,
        vendor_error,
        hca,
    })
}

fn number_behind(text: &[u8], word: &[u8]) -> Option<u32> {
    let at = memmem::find(text, word)?;
    dec_u32(&text[at + word.len()..]).ok().map(|(_, n)| n)
}

/// Words in front of an error of a GPU's library.
const GPU_ERROR_MARKERS: [(&[u8], GpuLibrary); 7] = [
    (b"Cuda failure", GpuLibrary::Cuda),
    (b"CUDA failure", GpuLibrary::Cuda),
    (b"CUDA error", GpuLibrary::Cuda),
    (b"CUDA initialization failure with error", GpuLibrary::Cuda),
    (b"HIP failure", GpuLibrary::Hip),
    (b"HIP error", GpuLibrary::Hip),
    (b"Hip failure", GpuLibrary::Hip),
];

/// `Cuda failure 'x'`, `Cuda failure 2 'x'`, `HIP failure: 'x'`, `CUDA error: x`; nccl-tests has its source line
/// in front of the words, `CUDA failure common.cu:1030 'x'`.
fn find_gpu_error(text: &[u8]) -> Option<GpuError<'_>> {
    let marked = GPU_ERROR_MARKERS
        .iter()
        .find_map(|(word, library)| Some((memmem::find(text, word)? + word.len(), *library)));
    let returned = || Some((find_cuda_return(text)?.end, GpuLibrary::Cuda));
    let (at, library) = marked.or_else(returned)?;
    let rest = text[at..].trim_ascii_start();
    let after_colon = rest.strip_prefix(b":");
    let rest = after_colon.unwrap_or(rest).trim_ascii_start();
    let rest = skip_source_place(rest.strip_prefix(b"at ").unwrap_or(rest));
    let rest = rest.strip_prefix(b"code=").unwrap_or(rest);
    let (rest, number) = match dec_i32(rest) {
        Ok((rest, number)) => (rest.trim_ascii_start(), u32::try_from(number).ok()),
        Err(_) => (rest, None),
    };
    let quoted = rest.strip_prefix(b"'");
    let words = match quoted {
        Some(inner) => memchr::memchr(b'\'', inner).map_or(inner, |end| &inner[..end]),
        None => rest.strip_prefix(b":").unwrap_or(rest).trim_ascii(),
    };
    // "CUDA error" may also be two words of a sentence.
    let is_stated = number.is_some() || quoted.is_some() || after_colon.is_some();
    is_stated.then_some(GpuError {
        library,
        number,
        words,
    })
}

/// Finds a function of CUDA's with the words after it that announce its result: `cudaGetDeviceCount returned `.
pub(crate) fn find_cuda_return(text: &[u8]) -> Option<Range<usize>> {
    let words = b" returned ";
    memmem::find_iter(text, words).find_map(|at| {
        let begin = memchr::memrchr(b' ', &text[..at]).map_or(0, |space| space + 1);
        let is_cuda = matches!(
            &text[begin..at],
            [b'c', b'u', b'd', b'a', b'A'..=b'Z', ..] | [b'c', b'u', b'A'..=b'Z', ..]
        );
        let end = at + words.len();
        let is_error = matches!(text.get(end), Some(b'1'..=b'9'));
        (is_cuda && is_error).then_some(begin..end)
    })
}

/// Returns the text after a source file and a line number, `common.cu:1030 `, if it begins with them.
fn skip_source_place(text: &[u8]) -> &[u8] {
    let Some(end) = memchr::memchr(b' ', text) else {
        return text;
    };
    let line = text[..end].rsplit(|&b| b == b':').next();
    let is_place = line.is_some_and(|line| {
        line.len() < end && !line.is_empty() && line.iter().all(u8::is_ascii_digit)
    });
    match is_place {
        true => text[end..].trim_ascii_start(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_has_peer_and_status() {
        let of = |text: &'static str| match parse_warn(text.as_bytes()).cause {
            WarnCause::IbCompletion(completion) => completion,
            other => panic!("{other:?}"),
        };
        let old = of("NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129");
        let (status, vendor_error) = (12, Some(129));
        let (peer, hca) = (None, None);
        assert_eq!(
            old,
            CompletionError {
                peer,
                status,
                vendor_error,
                hca
            }
        );
        let peer = Some(&b"10.0.0.1<51161>"[..]);
        let between = of(
            "NET/IB : Got completion from peer 10.0.0.1<51161> with error 12, opcode 1, len 0, \
                      vendor err 129 (Recv)",
        );
        assert_eq!(between, CompletionError { peer, ..old });
        let new = of(
            "NET/IB: Got completion from peer 10.0.0.1<51161> with status=12 opcode=0 \
                      len=0 vendor err 129 (Recv) localGid fd00::1 remoteGidsfd00::2 hca mlx5_1",
        );
        let hca = Some(&b"mlx5_1"[..]);
        assert_eq!(
            new,
            CompletionError {
                peer,
                status,
                vendor_error,
                hca
            }
        );
        let named = of("NET/IB: Got completion from peer 10.0.0.1<51161> with \
                        status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129  \
                        hca mlx5_1");
        assert_eq!(
            named,
            CompletionError {
                peer,
                status,
                vendor_error,
                hca
            }
        );
        let cut = parse_warn(b"NET/IB: Got completion from peer 10.0.0.1<5> with status=1");
        assert_eq!(cut.cause, WarnCause::Other);
    }

    #[test]
    fn a_peer_stands_in_front_of_its_port() {
        for (text, peer) in [
            (
                "socketProgress: Connection closed by remote peer node2<42830>",
                Some("node2"),
            ),
            (
                "Got completion from peer fe80::1%ib0<5> with",
                Some("fe80::1%ib0"),
            ),
            (
                "nic 0, enp12s0, 10.0.0.1<39187><-10.0.0.2<46723> rx rx ctrl timeout",
                Some("10.0.0.2"),
            ),
            ("peer 10.0.0.1<51", None),
            ("a < b, <5>", None),
        ] {
            let got = parse_warn(text.as_bytes()).peer();
            assert_eq!(got, peer.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn an_error_of_a_gpu_has_number_and_words() {
        use GpuLibrary::{Cuda, Hip};
        for (text, library, number, words) in [
            (
                "Cuda failure 2 'out of memory'",
                Cuda,
                Some(2),
                "out of memory",
            ),
            ("Cuda failure 'x'", Cuda, None, "x"),
            (
                "n1: Test CUDA failure common.cu:1030 'x y'",
                Cuda,
                None,
                "x y",
            ),
            ("Cuda failure common.cu:891 'x'", Cuda, None, "x"),
            ("Cuda failure 217", Cuda, Some(217), ""),
            (
                "Cuda failure 700 'an illegal mem",
                Cuda,
                Some(700),
                "an illegal mem",
            ),
            ("size 2 : CUDA error 401 'y'. It", Cuda, Some(401), "y"),
            ("CUDA error: out of memory", Cuda, None, "out of memory"),
            ("HIP failure: 'z'", Hip, None, "z"),
            ("HIP failure 100: z", Hip, Some(100), "z"),
        ] {
            let words = words.as_bytes();
            let error = GpuError {
                library,
                number,
                words,
            };
            assert_eq!(
                parse_warn(text.as_bytes()).cause,
                WarnCause::Gpu(error),
                "{text}"
            );
        }
        for text in ["something new", "see the CUDA error codes", "Cuda failure"] {
            assert_eq!(
                parse_warn(text.as_bytes()).cause,
                WarnCause::Other,
                "{text}"
            );
        }
    }
}
