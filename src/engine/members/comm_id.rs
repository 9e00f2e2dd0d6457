//! The id that all members of a communicator share.

use super::limits::MAX_SPLIT_DEPTH;
use crate::grammar::token::{PResult, dec_i64, dec_u32, hex_u64, word};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A communicator's id: as NCCL prints it, `0x9f3b`. For a split without a printed id (NCCL 2.23 to 2.28)
/// it is the parent's id, the number among the parent's children, and the color: `0x9f3b/2.7`. All the
/// parent's ranks make the call that splits, so all members have equal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CommId {
    printed: u64,
    /// The child's number and color, from the outermost on; unused ones are 0.
    splits: [(u32, i64); MAX_SPLIT_DEPTH],
    depth: u8,
}

// Most ids have no splits, and rows are looked up by them.
impl std::hash::Hash for CommId {
    #[inline]
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let used = self.splits.get(..usize::from(self.depth));
        (self.printed, used).hash(state);
    }
}

impl CommId {
    /// Returns the id that NCCL prints as this number.
    pub fn from_printed(id: u64) -> CommId {
        CommId {
            printed: id,
            splits: [(0, 0); MAX_SPLIT_DEPTH],
            depth: 0,
        }
    }

    /// Returns true for the id that NCCL prints as this number.
    pub fn is_printed(&self, id: u64) -> bool {
        *self == CommId::from_printed(id)
    }

    /// Returns the id as NCCL Inspector prints it: without its last one or two digits, since the buffer
    /// has room for 14 (`NCCL_COMM_HASH_LENGTH` in `inspector.h`, 2.28.3 to 2.30.7).
    pub fn as_inspector_prints(self) -> CommId {
        let digits = (64 - self.printed.leading_zeros()).div_ceil(4);
        let printed = self.printed >> (4 * digits.saturating_sub(14));
        CommId { printed, ..self }
    }

    /// Returns the id of this communicator's child of that number and color.
    pub fn split_child(mut self, child: u32, color: i64) -> Option<CommId> {
        *self.splits.get_mut(usize::from(self.depth))? = (child, color);
        self.depth += 1;
        Some(self)
    }

    /// Returns the id of the communicator that this one was split from, and the color.
    pub fn split_parent(mut self) -> Option<(CommId, i64)> {
        let last = usize::from(self.depth).checked_sub(1)?;
        let (_, color) = std::mem::take(self.splits.get_mut(last)?);
        self.depth -= 1;
        Some((self, color))
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &[u8]) -> Option<CommId> {
        let (mut rest, mut id) = parse_root_id(text).ok()?;
        while !rest.is_empty() {
            let (behind, (child, color)) = parse_split_suffix(rest).ok()?;
            id = id.split_child(child, color)?;
            rest = behind;
        }
        Some(id)
    }
}

fn parse_root_id(input: &[u8]) -> PResult<'_, CommId> {
    let (i, _) = word("0x", "0x")(input)?;
    let (i, id) = hex_u64(i)?;
    Ok((i, CommId::from_printed(id)))
}

fn parse_split_suffix(input: &[u8]) -> PResult<'_, (u32, i64)> {
    let (i, _) = word("/", "a split")(input)?;
    let (i, child) = dec_u32(i)?;
    let (i, _) = word(".", "a color")(i)?;
    let (i, color) = dec_i64(i)?;
    Ok((i, (child, color)))
}

impl fmt::Display for CommId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.printed)?;
        for (child, color) in self.splits.iter().take(usize::from(self.depth)) {
            write!(f, "/{child}.{color}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_as_it_is_written() {
        let root = CommId::from_printed(0x9f3b);
        let split = root.split_child(2, 7).unwrap();
        let deep = split.split_child(1, -3).unwrap();
        for (id, text) in [
            (root, "0x9f3b"),
            (split, "0x9f3b/2.7"),
            (deep, "0x9f3b/2.7/1.-3"),
        ] {
            assert_eq!(id.to_string(), text);
            assert_eq!(CommId::parse(text.as_bytes()), Some(id));
        }
        assert_eq!(deep.split_parent(), Some((split, -3)));
        assert!(root < split && split < deep && root.split_parent().is_none());
        assert!(root.is_printed(0x9f3b) && !split.is_printed(0x9f3b));
        for bad in [
            "",
            "9f3b",
            "0x",
            "0x9f3b/",
            "0x9f3b/2",
            "0x9f3b/2.7x",
            "0xg",
        ] {
            assert_eq!(CommId::parse(bad.as_bytes()), None, "{bad}");
        }
        let mut id = Some(root);
        for _ in 0..100 {
            id = id.and_then(|id| id.split_child(1, 1));
        }
        assert_eq!(id, None);
    }

    #[test]
    fn a_record_has_room_for_14_digits() {
        let of = |id: &[u8]| CommId::parse(id).unwrap().as_inspector_prints().to_string();
        assert_eq!(of(b"0xbd140a80d32c2bcb"), "0xbd140a80d32c2b");
        assert_eq!(of(b"0x849f9a1d6471799"), "0x849f9a1d647179");
        assert_eq!(of(b"0xe62dedaa97644a"), "0xe62dedaa97644a");
        assert_eq!(of(b"0x9f3b/2.7"), "0x9f3b/2.7");
    }
}
