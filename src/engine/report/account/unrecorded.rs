//! Calls without a record, by the recorder's own counters or by the numbers of its records.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The owner of records: the id of the communicator, and the rank in it.
pub type RecordStream = (u64, u32);

/// Numbers of records, which rise from 0 without gaps if none is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordNumbers {
    most: u64,
    records: u64,
}

impl RecordNumbers {
    /// Adds a record's number.
    #[inline]
    pub fn add_number(&mut self, number: u64) {
        self.most = self.most.max(number);
        self.records = self.records.saturating_add(1);
    }

    fn merge(&mut self, other: RecordNumbers) {
        self.most = self.most.max(other.most);
        self.records = self.records.saturating_add(other.records);
    }

    /// Counts the numbers up to the last one that have no record.
    fn count_missing(self) -> u64 {
        let all = self.most.saturating_add(u64::from(self.records > 0));
        all.saturating_sub(self.records)
    }
}

/// Calls that were left out, of each kind: collectives, Sends and Recvs, steps and operations of
/// the proxy.
pub type RecordDrops = [u64; 4];

/// Calls without a record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnrecordedCalls {
    /// The input has a recorder's operations, not a log's lines.
    pub is_recorded: bool,
    /// The numbers of collectives, by owner and name.
    series: BTreeMap<(RecordStream, Vec<u8>), RecordNumbers>,
    /// The recorder's own counters.
    drops: BTreeMap<RecordStream, RecordDrops>,
}

impl UnrecordedCalls {
    /// Adds the numbers of collectives of a name.
    pub fn add_series(&mut self, whose: RecordStream, name: &[u8], numbers: RecordNumbers) {
        let known = self.series.entry((whose, name.to_vec())).or_default();
        known.merge(numbers);
    }

    /// Adds counters, which only rise.
    pub fn add_drops(&mut self, whose: RecordStream, drops: &RecordDrops) {
        let known = self.drops.entry(whose).or_default();
        for (known, drop) in known.iter_mut().zip(drops) {
            *known = (*known).max(*drop);
        }
    }

    /// Adds the counts of another part or input.
    pub fn merge(&mut self, other: &UnrecordedCalls) {
        self.is_recorded |= other.is_recorded;
        for ((whose, name), numbers) in &other.series {
            self.add_series(*whose, name, *numbers);
        }
        for (whose, drops) in &other.drops {
            self.add_drops(*whose, drops);
        }
    }

    /// Counts the collectives up to the last of each name that have no record.
    pub fn count_missing_calls(&self) -> u64 {
        let all = self.series.values().map(|numbers| numbers.count_missing());
        all.fold(0, u64::saturating_add)
    }

    /// Returns the recorder's own counts of dropped calls.
    pub fn sum_drops(&self) -> RecordDrops {
        let mut all = RecordDrops::default();
        for drops in self.drops.values() {
            for (all, drop) in all.iter_mut().zip(drops) {
                *all = all.saturating_add(*drop);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_show_what_is_missing_up_to_the_last() {
        let numbers = |list: &[u64]| {
            let mut numbers = RecordNumbers::default();
            list.iter().for_each(|&number| numbers.add_number(number));
            numbers
        };
        assert_eq!(RecordNumbers::default().count_missing(), 0);
        assert_eq!(numbers(&[0, 1, 2]).count_missing(), 0);
        assert_eq!(numbers(&[5, 3]).count_missing(), 4);
        assert_eq!(numbers(&[0, 0]).count_missing(), 0);
        assert_eq!(numbers(&[u64::MAX]).count_missing(), u64::MAX - 1);
        let mut all = UnrecordedCalls::default();
        all.add_series((1, 0), b"AllReduce", numbers(&[0, 2]));
        all.add_series((1, 0), b"AllReduce", numbers(&[4]));
        all.add_series((1, 1), b"AllReduce", numbers(&[1]));
        assert_eq!(all.count_missing_calls(), 3);
        all.add_drops((1, 0), &[4, 0, 0, 1]);
        all.add_drops((1, 0), &[7, 0, 0, 0]);
        all.add_drops((1, 1), &[1, 0, 0, 0]);
        assert_eq!(all.sum_drops(), [8, 0, 0, 1]);
    }
}
