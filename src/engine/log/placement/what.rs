//! The shapes of calls, by number.

use crate::grammar::coll::Coll;
use crate::members::recent_interner::{MixedHashKey, RecentInterner};
use serde::{Deserialize, Serialize};

/// All that is held of a call but its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallShape {
    /// The member's number.
    pub member: u32,
    /// The operation's number in [`Streams::ops`](super::StreamsByProcess).
    pub op: u32,
    /// The datatype's code.
    pub datatype: u32,
    /// The communicator's size as the line prints it.
    pub nranks: Option<u32>,
    /// The reduction's code.
    pub redop: u64,
    /// The root, or the peer.
    pub root: i64,
    /// Elements.
    pub count: u64,
}

impl CallShape {
    /// The shape of a call, by the numbers of its member and operation.
    #[inline(always)]
    pub(super) fn from_coll(coll: &Coll<'_>, member: u32, op: u32) -> CallShape {
        CallShape {
            member,
            op,
            datatype: coll.datatype,
            nranks: coll.nranks,
            redop: coll.redop,
            root: coll.root,
            count: coll.count,
        }
    }
}

impl MixedHashKey for CallShape {
    // A product's high bits depend on all lower ones: the fields that differ most are kept low.
    #[inline(always)]
    fn mixed_key(&self) -> u64 {
        let who = u64::from(self.member) << 32 ^ u64::from(self.op) << 26;
        let how = u64::from(self.datatype) << 21 ^ self.redop << 16 ^ self.root.cast_unsigned();
        let mixed = (who ^ how).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ self.count).wrapping_mul(0xc2b2_ae3d_27d4_eb4f)
    }
}

/// The shapes met, by number.
pub(super) type CallShapes = RecentInterner<CallShape>;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_numbered_is_found_and_of_little_nothing_twice(
            list in proptest::collection::vec((0..40_u32, 0..9_u64, -1..2_i64), 0..4000),
        ) {
            let mut whats = CallShapes::default();
            let what = |&(member, count, root): &(u32, u64, i64)| CallShape {
                member, op: 1, datatype: 7, nranks: None, redop: 0, root, count,
            };
            for one in &list {
                let one = what(one);
                let number = whats.intern_value(one);
                prop_assert_eq!(whats.interned_values()[number as usize], one);
            }
            let mut apart = list.clone();
            apart.sort_unstable();
            apart.dedup();
            // A run of places may be full; that is rare.
            prop_assert!(whats.interned_values().len() <= apart.len() + 8);
        }

        #[test]
        fn however_much_there_is_a_number_means_one_thing(n in 0..90_000_u32, step in 1..7_u32) {
            let mut whats = CallShapes::default();
            for at in 0..n {
                let what = CallShape {
                    member: at % 97, op: 0, datatype: 7, nranks: Some(2), redop: 0, root: 0,
                    count: u64::from(at / step),
                };
                let number = whats.intern_value(what);
                prop_assert_eq!(whats.interned_values()[number as usize], what);
            }
        }
    }
}
