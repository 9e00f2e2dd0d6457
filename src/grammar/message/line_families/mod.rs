//! Lines that are recognised by their beginning only; their values are not read.
//!
//! The beginnings are those of NCCL 2.3 to 2.32 and RCCL 2.18 to 2.27, from the format strings in
//! their sources and libraries.

mod beginnings;
mod names;

use super::MessageFamily;
use crate::source_place::{PlacedText, split_source_place};
use beginnings::FAMILY_BEGINNINGS;
use memchr::memmem;
pub(super) use names::family_of_file;
use names::family_of_function;

/// The family of a line that is known by its beginning.
pub(super) fn find_family(text: &[u8]) -> Option<MessageFamily> {
    if let Some(family) = find_special_family(text) {
        return Some(family);
    }
    // `[2] Created a QP`, `Rank 3: 2 Net devices`, `Rank 3 ncclRmaProxyPollDesc: ...`.
    let text = strip_speaker(text);
    let first = *text.first()?;
    let known = FAMILY_BEGINNINGS
        .iter()
        .find(|(_, beginnings)| {
            beginnings
                .iter()
                .any(|b| b.as_bytes()[0] == first && text.starts_with(b.as_bytes()))
        })
        .map(|(family, _)| *family);
    known.or_else(|| family_of_function(text))
}

/// Returns true for a text, perhaps cut, that is certainly of a line known by its family only,
/// and with a family without a line with values that are read.
pub(super) fn is_never_read(text: &[u8]) -> bool {
    let is_unread = |family| {
        matches!(
            family,
            MessageFamily::Proxy
                | MessageFamily::Memory
                | MessageFamily::Topology
                | MessageFamily::Ras
        )
    };
    // `ncclOsDlopen(libnccl-net.so) failed: ...` (2.30) has the same in a line of its own.
    text.starts_with(b"ncclOs") || find_family(text).is_some_and(is_unread)
}

/// Takes the rank that some lines begin with off a text.
fn strip_speaker(text: &[u8]) -> &[u8] {
    let number = |rest: &'_ [u8]| rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let after = |rest: &'_ [u8], end: &[u8]| -> Option<usize> {
        let digits = number(rest);
        (digits > 0 && rest[digits..].starts_with(end)).then(|| digits + end.len())
    };
    if let Some(rest) = text.strip_prefix(b"[") {
        return after(rest, b"] ").map_or(text, |at| &rest[at..]);
    }
    let Some(rest) = text.strip_prefix(b"Rank ") else {
        return text;
    };
    let at = after(rest, b" nccl").map(|at| at - b"nccl".len());
    at.map_or(text, |at| &rest[at..])
}

/// Lines that begin with a number or a source file.
fn find_special_family(text: &[u8]) -> Option<MessageFamily> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if digits > 0 {
        // ` 0 : GPU/0 GPU/1`, the graph that a search found.
        if text[digits..].starts_with(b" ring(s) set by") {
            return Some(MessageFamily::Graph);
        }
        let rest = text[digits..].strip_prefix(b" : ")?;
        let node = [&b"GPU/"[..], b"NET/", b"NIC/"];
        return node
            .iter()
            .any(|n| rest.starts_with(n))
            .then_some(MessageFamily::Graph);
    }
    if text.starts_with(b"comm 0x") {
        // `comm 0x55 rank 1 nranks 4`, up to 2.3, and ends that a later version may have.
        return Some(MessageFamily::Init);
    }
    if text.starts_with(b"NET/") && text.get(4).is_some_and(u8::is_ascii_digit) {
        // `NET/0-0 :GPU/0-26000 (3/0.1/PHB)`.
        return Some(MessageFamily::Topology);
    }
    // `init.cc:502 Cuda Host Alloc Size 65536 pointer 0x7f40`.
    let PlacedText { text, .. } = split_source_place(text)?;
    let window = &text[..text.len().min(MAX_ALLOCATION_WORDS_BYTES)];
    if window.starts_with(b"Cuda failure ") || window.starts_with(b"ROCr failure") {
        return Some(MessageFamily::Warn);
    }
    let words = [
        &b"lloc Size "[..],
        b"alloc size ",
        b"async size ",
        b"llocAsync Size ",
        b"memory stack ",
        b" Realloc ",
    ];
    let allocates = words
        .iter()
        .any(|word| memmem::find(window, word).is_some());
    allocates.then_some(MessageFamily::Memory)
}

/// The longest beginning of a text in which the words of an allocation are looked for.
const MAX_ALLOCATION_WORDS_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_values_are_not_among_the_unread() {
        for text in [
            "Check",
            "ncclCommInitRank comm 0x7e rank 1",
            "NET/IB : Using [0]mlx5_0:1/RoCE",
            "Channel 00/0 : 0[0] -> 1[1] via P2P",
            "Init timings - ncclCommInitRank: rank 1",
            "P2P is disabled between NVLINK connected GPUs",
            "NCCL_IB_HCA set",
            "AllReduce: opCo",
            "transport/p2p.cc:9 (f) Cuda failure 2",
            "",
        ] {
            assert!(!is_never_read(text.as_bytes()), "{text}");
        }
        for text in [
            "ncclOsDlopen(libnccl-net.so) failed: libnccl-net.so: cannot open",
            "transport/p2p.cc:9 (f) Cuda Host Alloc Size 6",
            "RAS handling peersUpdate from",
            "+ PCI[24.0] - GPU/1000",
        ] {
            assert!(is_never_read(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn beginnings_name_families() {
        for (text, expected) in [
            ("+ PCI[24.0] - GPU/1000 (0)", MessageFamily::Topology),
            ("NET/0-0 :GPU/0-26000 (3/0.1/PHB)", MessageFamily::Topology),
            ("7 : GPU/0 GPU/1", MessageFamily::Graph),
            (
                "init.cc:502 Cuda Host Alloc Size 65536 pointer 0x7f",
                MessageFamily::Memory,
            ),
            (
                "transport/p2p.cc:9 (p2pMap) Cuda Host Alloc Size 6 pointer 0x7f",
                MessageFamily::Memory,
            ),
            ("+ LOC[24.0] - GPU/0-1", MessageFamily::Topology),
            ("Rank 3: 2 Net devices", MessageFamily::Init),
            (
                "Rank 3 ncclRmaProxyPollDesc: targetRank=1",
                MessageFamily::Net,
            ),
            ("[3] Created a QP: qp_idx=1, qpn=0x1", MessageFamily::Memory),
            (
                "ncclOsDlopen(libx.so) failed: no such file",
                MessageFamily::Plugin,
            ),
            ("ncclNewThing: state 3", MessageFamily::Init),
            (
                "Best tuning, algorithm, RING, protocol, LL",
                MessageFamily::Tuning,
            ),
            ("MNNVL busId 0x41000 fabric UUID 0.0", MessageFamily::Mnnvl),
            ("RAS thread started", MessageFamily::Ras),
            ("ReduceScatter |     0.0/   0.0 |", MessageFamily::Tuning),
        ] {
            assert_eq!(find_family(text.as_bytes()), Some(expected), "{text}");
        }
        for none in [
            "",
            "AllReduce: opCount 1",
            "7 : x",
            "hello",
            "nccl",
            "ncclx: y",
        ] {
            assert_eq!(find_family(none.as_bytes()), None, "{none}");
        }
    }
}
