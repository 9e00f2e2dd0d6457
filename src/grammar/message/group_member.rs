//! The rank and the process group that a line of PyTorch names.

use crate::rank_label::find_rank_label;
use crate::token::dec_u32;
use memchr::memmem;

/// A process in a process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupMember<'a> {
    /// The process group as printed: `ID 0 GUID 0(default_pg)`, `0`; printed since 2.2.
    pub group: Option<&'a [u8]>,
    /// The rank in it.
    pub rank: Option<u32>,
    /// The rank in the job: `[rank3]:` in front of the line; printed since 2.3.
    pub global: Option<u32>,
}

impl GroupMember<'_> {
    /// True if the line names no rank.
    pub fn names_nobody(&self) -> bool {
        self.rank.is_none() && self.global.is_none()
    }
}

/// The longest text that is searched for a process group, in bytes before the message.
const MAX_MEMBER_PREFIX_BYTES: usize = 400;

/// The last `[... Rank 1]` in a text.
pub(super) fn find_group_member(text: &[u8]) -> GroupMember<'_> {
    // A web page may have lost the colon.
    let global = find_rank_label(&text[..text.len().min(MAX_MEMBER_PREFIX_BYTES)], b"]");
    let none = GroupMember {
        group: None,
        rank: None,
        global,
    };
    let text = &text[text.len().saturating_sub(MAX_MEMBER_PREFIX_BYTES)..];
    let (mut from, mut found) = (text.len(), none);
    while let Some(open) = memchr::memrchr(b'[', &text[..from]) {
        let inner = &text[open + 1..];
        let inner = &inner[..memchr::memchr(b']', inner).unwrap_or(0)];
        // The label of another process: its line is glued in front of this one.
        if found.rank.is_some() && inner.starts_with(b"rank") {
            break;
        }
        if let Some(at) = memmem::rfind(inner, b"Rank ")
            && let Ok((b"", rank)) = dec_u32(&inner[at + b"Rank ".len()..])
        {
            let group = inner[..at].trim_ascii().strip_prefix(b"PG ");
            let member = GroupMember {
                group,
                rank: Some(rank),
                global,
            };
            if group.is_some() {
                return member;
            }
            // A text that another line quotes names no group, and the line around it may.
            if found.rank.is_none() {
                found = member;
            }
        }
        from = open;
    }
    found
}
