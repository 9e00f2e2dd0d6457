//! Errors of HCCL, the library of Ascend NPUs, that a job prints when a rank waits too long for another.
//!
//! ```text
//! EI0002: [PID: 7277] 2024-11-28-11:59:30.645.648 The wait execution of the Notify register times out. Reason: The Notify
//! register has not received the Notify record from remote rank [unknown].base information: [..., tag[AllReduce_...], ...]
//! ... remote rank: [24]. ... group information: [group:[...], rankSize[32], rankId[25 24]]
//! [rank1]: EI0006: [PID: 1292363] 2025-04-08-18:07:20.444.436 Getting socket times out. Reason: Remote Rank did not send
//! the data in time. Please check the reason for the rank being stuck
//! ```
//!
//! From the pages "EI0002" and "EI0006" of Ascend's troubleshooting guide, and reports of torch_npu and vllm-ascend.

use super::group_member::{GroupMember, find_group_member};
use crate::token::dec_u32;
use memchr::memmem::{self, Finder};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// A rank that waited too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HcclTimeout<'a> {
    /// The rank that waited, where the line names it.
    pub who: GroupMember<'a>,
    /// What it waited for.
    pub wait: HcclWait,
    /// The rank that did not come, where the line names it.
    pub missing: Option<u32>,
}

/// What a rank waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HcclWait {
    /// Another rank's part of a call (EI0002).
    Call,
    /// Another rank's connection (EI0006).
    Connection,
}

impl HcclWait {
    /// Returns HCCL's code.
    pub fn code(self) -> &'static str {
        match self {
            HcclWait::Call => "EI0002",
            HcclWait::Connection => "EI0006",
        }
    }
}

static CODE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"EI000"));

/// A line of HCCL's, wherever it begins.
pub(super) fn parse_hccl_timeout(line: &[u8]) -> Option<HcclTimeout<'_>> {
    let at = CODE.find(line)?;
    let before = &line[..at];
    // Not a part of another word, such as TEI0006.
    (!before.last().is_some_and(u8::is_ascii_alphanumeric)).then_some(())?;
    let text = &line[at + CODE.needle().len()..];
    let wait = match text.first()? {
        b'2' => HcclWait::Call,
        b'6' => HcclWait::Connection,
        _ => return None,
    };
    // Only a report, not a page or a name that has the code. In newer versions the code follows its name.
    let rest = text[1..].strip_prefix(b")").unwrap_or(&text[1..]);
    rest.starts_with(b": ").then_some(())?;
    memmem::find(text, b"times out").or_else(|| memmem::find(text, b"remote rank"))?;
    let missing = find_remote_rank(text);
    let mut who = find_group_member(before);
    if who.global.is_none() {
        who.global = missing.and_then(|missing| find_other_rank(text, missing));
    }
    Some(HcclTimeout { who, wait, missing })
}

/// The 24 of `remote rank: [24]`, `remote rank [24]`.
fn find_remote_rank(text: &[u8]) -> Option<u32> {
    let at = memmem::find(text, b"remote rank")? + b"remote rank".len();
    let rest = text[at..].strip_prefix(b":").unwrap_or(&text[at..]);
    let (rest, rank) = dec_u32(rest.trim_ascii_start().strip_prefix(b"[")?).ok()?;
    rest.starts_with(b"]").then_some(rank)
}

/// The 25 of `rankId[25 24]`, of the two ranks 25 and `missing` = 24.
fn find_other_rank(text: &[u8], missing: u32) -> Option<u32> {
    let at = memmem::find(text, b"rankId[")? + b"rankId[".len();
    let ranks = &text[at..at + memchr::memchr(b']', &text[at..])?];
    let mut ranks = ranks.split(|&b| b == b' ').map(|rank| match dec_u32(rank) {
        Ok((b"", rank)) => Some(rank),
        _ => None,
    });
    match (ranks.next()??, ranks.next()??, ranks.next()) {
        (own, other, None) if other == missing => Some(own),
        (other, own, None) if other == missing => Some(own),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_names_the_missing_rank() {
        let of = |text: &'static str| {
            let got = parse_hccl_timeout(text.as_bytes())?;
            Some((got.wait.code(), got.missing, got.who.global))
        };
        for (text, expected) in [
            (
                "EI0002: [PID: 7277] 2024-11-28-11:59:30.645.648 The wait execution of the Notify register times out. \
                 remote rank: [24]. group information: [group:[hccl_world], rankSize[32], rankId[25 24]]",
                Some(("EI0002", Some(24), Some(25))),
            ),
            (
                "EI0002: [PID: 7277] The wait execution of the Notify register times out. Reason: The Notify register has \
                 not received the Notify record from remote rank [unknown].base information: [streamID:[1]]",
                Some(("EI0002", None, None)),
            ),
            (
                "[rank1]: EI0006: [PID: 1292363] 2025-04-08-18:07:20.444.436 Getting socket times out. Reason: Remote Rank",
                Some(("EI0006", None, Some(1))),
            ),
            (
                "[PID: 7] 2025-12-29-03:16:15.7 Get_Socket_Timeout(EI0006): Getting socket times out. Reason: 1.",
                Some(("EI0006", None, None)),
            ),
            ("TEI0006: Deterministic Validation times out", None),
            ("EI0004: The ranktable is invalid", None),
            ("### EI0002: notify wait timeout", None),
            ("EI000", None),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }
}
