//! Which operations a dump has no record of.

use super::record::InspectorRecord;
use crate::report::account::Account;
use crate::report::account::unrecorded::{RecordNumbers, RecordStream};
use rustc_hash::FxHashMap;

/// Whose collectives, and their name as far as that has room.
type CollectiveSeries = (RecordStream, [u8; MAX_COLLECTIVE_NAME]);

/// The longest name of a collective has 13 letters.
const MAX_COLLECTIVE_NAME: usize = 24;

/// What the records of a chunk tell of those that are not there.
#[derive(Debug, Default)]
pub(super) struct MissingRecords {
    /// The numbers of collectives that are there.
    series: FxHashMap<CollectiveSeries, RecordNumbers>,
    /// How many were left out in all, by whose.
    drops: FxHashMap<RecordStream, [u64; 4]>,
}

impl MissingRecords {
    /// A collective's record.
    #[inline]
    pub(super) fn add_collective(&mut self, whose: RecordStream, record: &InspectorRecord<'_>) {
        let Some(number) = record.sn else {
            return;
        };
        let mut name = [0; MAX_COLLECTIVE_NAME];
        name.iter_mut().zip(record.op).for_each(|(to, &b)| *to = b);
        self.series
            .entry((whose, name))
            .or_default()
            .add_number(number);
    }

    /// What a dump says was left out so far.
    pub(super) fn add_drops(&mut self, whose: RecordStream, drops: &[Option<u64>; 4]) {
        let known = self.drops.entry(whose).or_default();
        for (known, drop) in known.iter_mut().zip(drops) {
            *known = (*known).max(drop.unwrap_or(0));
        }
    }

    /// Adds it to an account.
    pub(super) fn add_to_account(self, account: &mut Account) {
        let all = &mut account.unrecorded;
        all.is_recorded = true;
        for ((whose, name), numbers) in self.series {
            all.add_series(whose, &name, numbers);
        }
        for (whose, drops) in self.drops {
            all.add_drops(whose, &drops);
        }
    }
}
