//! WARN lines by their cause. A WARN is not a failure: most are printed by jobs that end well.
//!
//! ```text
//! NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129                         up to 2.9
//! NET/IB : Got completion from peer 10.0.0.1<51161> with error 12, opcode 1, len 0, vendor err 129 (Recv)   2.10+
//! NET/IB: Got completion from peer 10.0.0.1<51161> with status=12 opcode=0 len=0 vendor err 129  2.20+
//! NET/IB: Got completion from peer 10.0.0.1<51161> with status=X(12) opcode=Y(0) vendor_err=129  2.29+
//! [Service thread] Could not receive type from localRank 6, res=3, closed=0
//! [Proxy Service 511] Failed to execute operation Close from rank 510, retcode 3
//! Cuda failure 'out of memory', Cuda failure 2 'out of memory'
//! ```
//!
//! From `src/transport/net_ib`, `src/proxy.cc`, `src/misc/socket.cc`, `src/include/checks.h` of those
//! versions; the SHARP lines from nccl-rdma-sharp-plugins.

use crate::token::{dec_i32, dec_u32, whole};
use memchr::memmem;

/// A WARN's cause, and its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarnMessage<'a> {
    /// What it is about.
    pub cause: WarnCause<'a>,
    /// All of it.
    pub text: &'a [u8],
}

/// What a WARN is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarnCause<'a> {
    /// A work request of a NIC ended with an error.
    IbCompletion(CompletionError<'a>),
    /// The NIC or its port reports an event.
    IbAsync,
    /// Both ends of a message have other sizes: the ranks do not call the same thing.
    CollectiveMismatch,
    /// A NIC cannot be opened.
    IbOpen,
    /// Another call of the verbs library failed.
    Ibv,
    /// CUDA reports an error.
    Cuda {
        /// Its words.
        error: &'a [u8],
    },
    /// A proxy's thread lost its peer. Thousands at the end of a job that finished.
    ProxyPeer,
    /// The other end closed its connection.
    PeerClosed,
    /// A socket could not be connected, accepted, read or written.
    Socket,
    /// Something took too long.
    Timeout,
    /// The switches do not reduce.
    Sharp,
    /// RCCL's MSCCL++ is not used.
    Msccl,
    /// aws-ofi-nccl.
    Ofi,
    /// No memory of the host, or of `/dev/shm`.
    Memory,
    /// The caller's arguments are wrong.
    Argument,
    /// Something else.
    Other,
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

/// The first word of `text` that ends in a port.
fn find_peer(text: &[u8]) -> Option<&[u8]> {
    memchr::memchr_iter(b'<', text).find_map(|open| {
        let (rest, _) = dec_u32(&text[open + 1..]).ok()?;
        rest.starts_with(b">").then_some(())?;
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

fn contains_word(text: &[u8], word: &str) -> bool {
    memmem::find(text, word.as_bytes()).is_some()
}

fn find_cause(text: &[u8]) -> WarnCause<'_> {
    if let Some(completion) = parse_completion(text) {
        return WarnCause::IbCompletion(completion);
    }
    if let Some(error) = find_cuda_error(text) {
        return WarnCause::Cuda { error };
    }
    WORDS_OF_CAUSES
        .iter()
        .find(|(words, _)| words.iter().any(|word| contains_word(text, word)))
        .map_or(WarnCause::Other, |(_, cause)| *cause)
}

/// Words that only one cause has; the first that fits counts.
const WORDS_OF_CAUSES: [(&[&str], WarnCause<'static>); 13] = [
    (
        &["[Service thread]", "[Proxy Service", "[Proxy Progress"],
        WarnCause::ProxyPeer,
    ),
    (
        &["SHARP", "SHArP", "Cannot initialize CollNet"],
        WarnCause::Sharp,
    ),
    (&["MSCCL"], WarnCause::Msccl),
    (
        &[
            "collective mismatch",
            "Message truncated",
            "Net/IB : collective",
        ],
        WarnCause::CollectiveMismatch,
    ),
    (
        &["ibv_open_device", "Unable to open device"],
        WarnCause::IbOpen,
    ),
    (
        &["async fatal event", "async event", "IBV_EVENT"],
        WarnCause::IbAsync,
    ),
    (&["ibv_"], WarnCause::Ibv),
    (&["NET/OFI"], WarnCause::Ofi),
    (
        &[
            "closed by remote peer",
            "Connection reset by peer",
            "Broken pipe",
        ],
        WarnCause::PeerClosed,
    ),
    (&["imeout", "imed out"], WarnCause::Timeout),
    (
        &[
            "ncclSocket",
            "ncclOsSocket",
            "socketPoll",
            "socketStart",
            "socketTry",
            "NET/Socket",
            "Net :",
            "Call to connect",
            "Call to accept",
            "Call to bind",
            "Call to recv",
            "Call to send",
            "socket interface",
            "UDS:",
        ],
        WarnCause::Socket,
    ),
    (
        &["malloc", "alloc", "shared memory", "/dev/shm"],
        WarnCause::Memory,
    ),
    (
        &["nvalid ", "argument is NULL", "Duplicate GPU"],
        WarnCause::Argument,
    ),
];

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

/// `Cuda failure 'x'`, `Cuda failure 2 'x'`, `HIP failure: 'x'`.
fn find_cuda_error(text: &[u8]) -> Option<&[u8]> {
    let at = [&b"Cuda failure "[..], b"CUDA failure ", b"HIP failure"]
        .iter()
        .find_map(|word| Some(memmem::find(text, word)? + word.len()))?;
    let rest = text[at..].trim_ascii_start();
    let rest = rest.strip_prefix(b":").unwrap_or(rest).trim_ascii_start();
    let rest = match dec_i32(rest) {
        Ok((rest, _)) => rest.trim_ascii_start(),
        Err(_) => rest,
    };
    let inner = rest.strip_prefix(b"'").unwrap_or(rest);
    Some(memchr::memchr(b'\'', inner).map_or(inner, |end| &inner[..end]))
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
            ("peer 10.0.0.1<51", None),
            ("a < b, <5>", None),
        ] {
            let got = parse_warn(text.as_bytes()).peer();
            assert_eq!(got, peer.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn known_words_name_the_cause() {
        for (text, cause) in [
            (
                "[Service thread] Could not receive type from localRank 6",
                WarnCause::ProxyPeer,
            ),
            (
                "[Proxy Service 5] Failed to execute operation Close",
                WarnCause::ProxyPeer,
            ),
            (
                "NET/IB :SHARP coll init error: Cannot create SHArP job(-11)",
                WarnCause::Sharp,
            ),
            ("Call to ibv_open_device failed", WarnCause::IbOpen),
            ("NET/IB : Unable to open device mlx5_10", WarnCause::IbOpen),
            (
                "Call to ibv_modify_qp failed with error Connection timed out",
                WarnCause::Ibv,
            ),
            (
                "NET/IB : collective mismatch error local size 1 remote 2",
                WarnCause::CollectiveMismatch,
            ),
            (
                "Net : Connection closed by remote peer h<1>",
                WarnCause::PeerClosed,
            ),
            (
                "socketStartConnect: Connect to 10.0.0.1<5> failed : No route",
                WarnCause::Socket,
            ),
            ("NET/OFI Couldn't open AV. RC: -22", WarnCause::Ofi),
            (
                "Cuda failure 2 'out of memory'",
                WarnCause::Cuda {
                    error: b"out of memory",
                },
            ),
            ("Cuda failure 'x'", WarnCause::Cuda { error: b"x" }),
            ("something new", WarnCause::Other),
        ] {
            assert_eq!(parse_warn(text.as_bytes()).cause, cause, "{text}");
        }
    }
}
