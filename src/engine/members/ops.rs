//! Operations by number.

use super::limits::{MAX_OPS_SEARCHED_LINEARLY, OP_CACHE_SLOTS};
use crate::grammar::values::{OpKind, op_kind};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Numbers operations in the order in which they appear.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct OpInterner {
    names: Vec<(OpNameTag, Box<[u8]>, OpKind)>,
    /// The numbers of operations beyond the first [`MAX_OPS_SEARCHED_LINEARLY`]: a table may have many.
    others: FxHashMap<Box<[u8]>, u32>,
    /// The number of the last name of each slot.
    places: [u8; OP_CACHE_SLOTS],
}

/// A name's length, its first 8 bytes and its last 8. A name of 4 to 7 bytes has its first 4 and last 4, a
/// shorter one all of them: up to 16 bytes the tag is the whole name.
type OpNameTag = (usize, u64, u64);

#[inline]
fn op_name_tag(name: &[u8]) -> OpNameTag {
    let n = name.len();
    if let (Some(first), Some(last)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        return (n, u64::from_le_bytes(*first), u64::from_le_bytes(*last));
    }
    if let (Some(first), Some(last)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        let half = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        return (n, half(first), half(last));
    }
    (
        n,
        name.iter().fold(0, |word, &b| word << 8 | u64::from(b)),
        0,
    )
}

#[inline]
fn cache_slot(tag: OpNameTag) -> usize {
    let (n, first, last) = tag;
    let mixed = (first ^ last.rotate_left(9) ^ n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 59) as usize & (OP_CACHE_SLOTS - 1)
}

impl OpInterner {
    /// Returns the number and kind of `name`.
    #[inline]
    pub fn intern(&mut self, name: &[u8]) -> (u32, OpKind) {
        let tag = op_name_tag(name);
        // Each of NCCL's own names has its slot; a linear search would mispredict a branch for each.
        let place = &mut self.places[cache_slot(tag)];
        if let Some((known, text, kind)) = self.names.get(usize::from(*place))
            && *known == tag
            && (name.len() <= 16 || **text == *name)
        {
            return (u32::from(*place), *kind);
        }
        let (at, kind) = self.find_op(name, tag);
        if let Ok(at) = u8::try_from(at) {
            self.places[cache_slot(tag)] = at;
        }
        (at, kind)
    }

    /// Like `intern`, for a name that was not the last of its slot.
    fn find_op(&mut self, name: &[u8], tag: OpNameTag) -> (u32, OpKind) {
        for (at, (known, text, kind)) in
            (0_u32..).zip(self.names.iter().take(MAX_OPS_SEARCHED_LINEARLY))
        {
            if *known == tag && (name.len() <= 16 || **text == *name) {
                return (at, *kind);
            }
        }
        self.intern_other(name, tag)
    }

    /// Like `intern`, for a name that is none of the first few.
    #[cold]
    fn intern_other(&mut self, name: &[u8], tag: OpNameTag) -> (u32, OpKind) {
        if let Some(&at) = self.others.get(name) {
            return (at, self.names[at as usize].2);
        }
        let at = self.names.len() as u32;
        if self.names.len() >= MAX_OPS_SEARCHED_LINEARLY {
            self.others.insert(name.into(), at);
        }
        let kind = op_kind(name);
        self.names.push((tag, name.into(), kind));
        (at, kind)
    }

    /// Returns all names, by number.
    pub fn op_names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|(_, name, _)| &**name)
    }

    /// Returns the kind of a number.
    pub fn op_kind(&self, op: u32) -> OpKind {
        self.names.get(op as usize).map_or(OpKind::Other, |n| n.2)
    }

    /// Returns how many there are.
    pub fn len(&self) -> u32 {
        self.names.len() as u32
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the name of a number.
    pub fn name_of_op(&self, op: u32) -> &[u8] {
        &self.names[op as usize].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_has_the_number_of_its_first_appearance(
            names in proptest::collection::vec("[ab]{0,3}|[ab]{8}[ab]{0,12}", 0..80),
        ) {
            let mut ops = OpInterner::default();
            let mut naive: Vec<&str> = Vec::new();
            for name in &names {
                let expect = naive.iter().position(|n| n == name).unwrap_or_else(|| {
                    naive.push(name);
                    naive.len() - 1
                });
                prop_assert_eq!(ops.intern(name.as_bytes()).0 as usize, expect);
                prop_assert_eq!(ops.name_of_op(expect as u32), name.as_bytes());
            }
            prop_assert_eq!(ops.len() as usize, naive.len());
        }
    }
}
