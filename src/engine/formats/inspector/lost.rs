//! Which operations a dump has no record of.

use super::record::Record;
use crate::report::account::Account;
use crate::report::account::unrecorded::{Numbers, Whose};
use rustc_hash::FxHashMap;

/// Whose collectives, and their name as far as that has room.
type Series = (Whose, [u8; NAME]);

/// The longest name of a collective has 13 letters.
const NAME: usize = 24;

/// What the records of a chunk tell of those that are not there.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// The numbers of collectives that are there.
    series: FxHashMap<Series, Numbers>,
    /// How many were left out in all, by whose.
    drops: FxHashMap<Whose, [u64; 4]>,
}

impl Lost {
    /// A collective's record.
    #[inline]
    pub(super) fn coll(&mut self, whose: Whose, record: &Record<'_>) {
        let Some(number) = record.sn else {
            return;
        };
        let mut name = [0; NAME];
        name.iter_mut().zip(record.op).for_each(|(to, &b)| *to = b);
        self.series.entry((whose, name)).or_default().add(number);
    }

    /// What a dump says was left out so far.
    pub(super) fn stats(&mut self, whose: Whose, drops: &[Option<u64>; 4]) {
        let known = self.drops.entry(whose).or_default();
        for (known, drop) in known.iter_mut().zip(drops) {
            *known = (*known).max(drop.unwrap_or(0));
        }
    }

    /// Adds it to an account.
    pub(super) fn say(self, account: &mut Account) {
        let all = &mut account.unrecorded;
        all.is_recorded = true;
        for ((whose, name), numbers) in self.series {
            all.series(whose, &name, numbers);
        }
        for (whose, drops) in self.drops {
            all.drops(whose, &drops);
        }
    }
}
