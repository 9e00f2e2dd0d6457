//! What calls are, by number: of the calls of a job most are like one before them.

use crate::grammar::coll::Coll;
use serde::{Deserialize, Serialize};

/// All that is held of a call but where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct What {
    /// The member's number.
    pub member: u32,
    /// The operation's number in [`Streams::ops`](super::Streams).
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

impl What {
    /// What a call is, by the numbers of its member and operation.
    #[inline(always)]
    pub(super) fn of(coll: &Coll<'_>, member: u32, op: u32) -> What {
        What {
            member,
            op,
            datatype: coll.datatype,
            nranks: coll.nranks,
            redop: coll.redop,
            root: coll.root,
            count: coll.count,
        }
    }

    // A product's high bits depend on all lower ones: what tells calls apart is kept low.
    #[inline(always)]
    fn hash(&self) -> u64 {
        let who = u64::from(self.member) << 32 ^ u64::from(self.op) << 26;
        let how = u64::from(self.datatype) << 21 ^ self.redop << 16 ^ self.root.cast_unsigned();
        let mixed = (who ^ how).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ self.count).wrapping_mul(0xc2b2_ae3d_27d4_eb4f)
    }
}

/// How many places numbers are found again by: few at first, since to clear them takes time. Powers
/// of two.
const PLACES: std::ops::RangeInclusive<usize> = 512..=1 << 16;

/// How many places next to each other something may be at.
const NEAR: usize = 8;

/// No number.
const NONE: u32 = u32::MAX;

/// What was met, by number. Where very much is met something may get a second number: a table that
/// finds everything again would cost more than it saves.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Whats {
    all: Vec<What>,
    places: Vec<u32>,
}

impl Default for Whats {
    fn default() -> Whats {
        Whats {
            all: Vec::new(),
            places: vec![NONE; *PLACES.start()],
        }
    }
}

impl Whats {
    /// The number of `what`.
    #[inline(always)]
    pub(super) fn number(&mut self, what: What) -> u32 {
        let number = self.places[self.first_place(&what)];
        if self.all.get(number as usize) == Some(&what) {
            number
        } else {
            self.further(what)
        }
    }

    #[inline(always)]
    fn first_place(&self, what: &What) -> usize {
        (what.hash() >> 40) as usize & (self.places.len() - 1)
    }

    /// The number of what is not at its first place, or nowhere.
    fn further(&mut self, what: What) -> u32 {
        let first = self.first_place(&what);
        for next in 1..NEAR {
            let number = self.places[(first + next) & (self.places.len() - 1)];
            match self.all.get(number as usize) {
                Some(known) if *known == what => return number,
                Some(_) => {}
                None => break,
            }
        }
        let number = self.all.len() as u32;
        self.all.push(what);
        if self.all.len() > self.places.len() / 4 && self.places.len() < *PLACES.end() {
            self.places = vec![NONE; 4 * self.places.len()];
            (0..number).for_each(|known| self.put(known));
        }
        self.put(number);
        number
    }

    /// Gives a number the nearest free place, or its first one.
    fn put(&mut self, number: u32) {
        let first = self.first_place(&self.all[number as usize]);
        let mut near = (first..first + NEAR).map(|at| at & (self.places.len() - 1));
        let free = near.find(|&at| self.places[at] == NONE);
        self.places[free.unwrap_or(first)] = number;
    }

    /// By number.
    pub(super) fn all(&self) -> &[What] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_numbered_is_found_and_of_little_nothing_twice(
            list in proptest::collection::vec((0..40_u32, 0..9_u64, -1..2_i64), 0..4000),
        ) {
            let mut whats = Whats::default();
            let what = |&(member, count, root): &(u32, u64, i64)| What {
                member, op: 1, datatype: 7, nranks: None, redop: 0, root, count,
            };
            for one in &list {
                let one = what(one);
                let number = whats.number(one);
                prop_assert_eq!(whats.all()[number as usize], one);
            }
            let mut apart = list.clone();
            apart.sort_unstable();
            apart.dedup();
            // A run of places may be full; that is rare.
            prop_assert!(whats.all().len() <= apart.len() + 8);
        }

        #[test]
        fn however_much_there_is_a_number_means_one_thing(n in 0..90_000_u32, step in 1..7_u32) {
            let mut whats = Whats::default();
            for at in 0..n {
                let what = What {
                    member: at % 97, op: 0, datatype: 7, nranks: Some(2), redop: 0, root: 0,
                    count: u64::from(at / step),
                };
                let number = whats.number(what);
                prop_assert_eq!(whats.all()[number as usize], what);
            }
        }
    }
}
