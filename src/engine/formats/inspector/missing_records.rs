//! Operations without a record in a dump.

use super::limits::MAX_COLLECTIVE_NAME;
use super::record::InspectorRecord;
use crate::report::account::Account;
use crate::report::account::unrecorded::{RecordNumbers, RecordStream};
use rustc_hash::FxHashMap;

/// The owner of collectives, and the first bytes of their name.
type CollectiveSeries = (RecordStream, [u8; MAX_COLLECTIVE_NAME]);

/// Evidence of missing records in the records of a chunk.
#[derive(Debug, Default)]
pub(super) struct MissingRecords {
    /// The numbers of collectives with a record.
    series: FxHashMap<CollectiveSeries, RecordNumbers>,
    /// Operations left out so far, by owner.
    drops: FxHashMap<RecordStream, [u64; 4]>,
}

impl MissingRecords {
    /// Adds a collective's record.
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

    /// Adds a dump's counters of operations left out so far.
    pub(super) fn add_drops(&mut self, whose: RecordStream, drops: &[Option<u64>; 4]) {
        let known = self.drops.entry(whose).or_default();
        for (known, drop) in known.iter_mut().zip(drops) {
            *known = (*known).max(drop.unwrap_or(0));
        }
    }

    /// Adds the evidence to an account.
    pub(super) fn add_to_account(self, account: &mut Account) {
        let all = &mut account.unrecorded;
        for ((whose, name), numbers) in self.series {
            all.add_series(whose, &name, numbers);
        }
        for (whose, drops) in self.drops {
            all.add_drops(whose, &drops);
        }
    }
}
