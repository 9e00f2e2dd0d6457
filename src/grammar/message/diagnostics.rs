//! The checks that NCCL runs on request, `NCCL_RUN_DIAGNOSTICS=1` and `NCCL_RUN_RAS_DIAGNOSTICS=1`.
//!
//! ```text
//! === NCCL Diagnostics ===
//! [OK]   p2p: verified P2P access in both directions between every GPU pair (56 peer accesses)
//! [INFO] p2p: only 52/56 GPU-to-GPU peer accesses passed verification
//! [INFO] NVLink: inactive link(s) on rank(s) 3 across 8 ranks in comm 0x5c0f
//! NCCL diagnostics completed in 812.4 ms across 8 ranks
//! ```
//!
//! From `src/diagnostics.cc`, `src/diagnostics/` and `src/ras/diagnostics*.cc` of 2.31 and 2.32. They print
//! two marks only. `[INFO]` is in front of what a check found to be wrong, of what it could not judge,
//! and of remarks: only the text distinguishes them. Another mark than these two is a later version's, and
//! is in front of something that it reports.

use super::warn::{WarnMessage, parse_warn};
use memchr::memmem;

/// What a check found to be wrong, as a WARN; `None` for all other lines of the checks.
pub(super) fn find_failed_check(body: &[u8]) -> Option<WarnMessage<'_>> {
    let marked = body.strip_prefix(b"[")?;
    let end = memchr::memchr(b']', marked)?;
    let (mark, text) = (&marked[..end], marked[end + 1..].trim_ascii());
    let is_mark = !mark.is_empty() && mark.iter().all(u8::is_ascii_uppercase);
    let is_wrong = match mark {
        b"OK" => false,
        b"INFO" => is_failure(text),
        _ => is_mark && !text.is_empty(),
    };
    is_wrong.then(|| parse_warn(text))
}

/// The words of a check's result that is wrong, after its name and a colon.
const FAILURE_WORDS: [(&[u8], &[&[u8]]); 12] = [
    (
        b"p2p",
        &[
            b"mismatch",
            b"passed verification",
            b"import failed",
            b"launch/check failed",
        ],
    ),
    (b"CUDA driver version", &[b"mismatch across"]),
    (b"GPU inventory", &[b"mismatch across"]),
    (
        b"NCCL environment",
        &[b" differ across", b"mismatch across"],
    ),
    (
        b"NVLink",
        &[b"inactive link", b"inconsistent link", b"mismatch across"],
    ),
    (
        b"ECC",
        &[
            b"uncorrected volatile errors on",
            b"corrected volatile errors at",
        ],
    ),
    (b"net bw", &[b"% off median"]),
    (b"rdma_topo check", &[b"failed on rank"]),
    // The right state depends on the machine.
    (b"IOMMU groups", &[]),
    (b"ATS state", &[]),
    (b"Paths", &[]),
    (b"Xid/SXid", &[]),
];

fn is_failure(text: &[u8]) -> bool {
    let contains = |words: &&[u8]| memmem::find(text, words).is_some();
    if text.starts_with(b"Xid ") || text.starts_with(b"SXid ") {
        // The kernel's events have no name of a check in front. NCCL adds which need nothing.
        return contains(&&b" detected "[..]) && !contains(&&b"No user action"[..]);
    }
    let known = FAILURE_WORDS.iter().find(|(check, _)| {
        let rest = text.strip_prefix(*check);
        rest.is_some_and(|rest| rest.starts_with(b":"))
    });
    match known {
        Some((_, words)) => words.iter().any(contains),
        // A check that a later version has.
        None => contains(&&b"mismatch across"[..]) || contains(&&b"failed on rank"[..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_check_found_is_told_from_remarks() {
        for text in [
            "[INFO] p2p: only 52/56 GPU-to-GPU peer accesses passed verification",
            "[INFO] p2p: read mismatch srcRank=0 dstRank=1 path=PIX expected=0x1 got=0x2; check",
            "[INFO] CUDA driver version: mismatch across 8 ranks in comm 0x5, rank(s) 3 differ \
             from rank 0 (13.0)",
            "[INFO] NVLink: inactive link(s) on rank(s) 3 across 8 ranks in comm 0x5",
            "[INFO] Xid 79 detected 1 time on host n1. Restart the affected application.",
            "[INFO] net bw: server rank 3 (n2): 90.1 Gbit/s, >30% off median 380.0 Gbit/s in comm \
             0x5",
            "[INFO] a new check: mismatch across 8 ranks",
            "[FAIL] a new check: anything",
        ] {
            assert!(find_failed_check(text.as_bytes()).is_some(), "{text}");
        }
        for text in [
            "=== NCCL Diagnostics ===",
            "NCCL diagnostics completed in 812.4 ms across 8 ranks",
            "INFO RAS diagnostics skipped: NCCL_RAS_ENABLE=0",
            "[OK]   p2p: verified P2P access in both directions between every GPU pair",
            "[OK] net bw: skipped (single host or no network transport)",
            "[INFO] net bw: required external tool missing in comm 0x5",
            "[INFO] net bw: test unable to complete in allocated time; ran 1 of 2 test phases",
            "[INFO] p2p: temporarily enabled context-wide CUDA peer access rank=0 cudaDev=0",
            "[INFO] ECC: no uncorrected volatile errors across 7 of 8 ranks in comm 0x5",
            "[INFO] Xid 31 detected 1 time on host n1. No user action or further investigation is \
             required for this Xid.",
            "[INFO] Xid/SXid: no kernel-log source was available on host n1",
            "[0] x",
            "[]",
            "",
        ] {
            assert_eq!(find_failed_check(text.as_bytes()), None, "{text}");
        }
    }
}
