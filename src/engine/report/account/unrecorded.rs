//! What a recorder says, or its numbers show, that it has no record of.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Whose records: the id of the communicator, and the rank in it.
pub type Whose = (u64, u32);

/// Numbers of records, which go from 0 up without gaps where nothing is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    most: u64,
    records: u64,
}

impl Numbers {
    /// Adds a record's number.
    #[inline]
    pub fn add(&mut self, number: u64) {
        self.most = self.most.max(number);
        self.records = self.records.saturating_add(1);
    }

    fn merge(&mut self, other: Numbers) {
        self.most = self.most.max(other.most);
        self.records = self.records.saturating_add(other.records);
    }

    /// How many up to the last have no record.
    fn missing(self) -> u64 {
        let all = self.most.saturating_add(u64::from(self.records > 0));
        all.saturating_sub(self.records)
    }
}

/// What was left out in all, of each kind: collectives, Sends and Recvs, steps and operations of
/// the proxy.
pub type Drops = [u64; 4];

/// What there is no record of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unrecorded {
    /// The input has a recorder's operations, not a log's lines.
    pub is_recorded: bool,
    /// The numbers of collectives, by whose and name.
    series: BTreeMap<(Whose, Vec<u8>), Numbers>,
    /// What the recorder's own counters say.
    drops: BTreeMap<Whose, Drops>,
}

impl Unrecorded {
    /// Adds the numbers of collectives of a name.
    pub fn series(&mut self, whose: Whose, name: &[u8], numbers: Numbers) {
        let known = self.series.entry((whose, name.to_vec())).or_default();
        known.merge(numbers);
    }

    /// Adds counters, which only rise.
    pub fn drops(&mut self, whose: Whose, drops: &Drops) {
        let known = self.drops.entry(whose).or_default();
        for (known, drop) in known.iter_mut().zip(drops) {
            *known = (*known).max(*drop);
        }
    }

    /// Adds what another part or input shows.
    pub fn merge(&mut self, other: &Unrecorded) {
        self.is_recorded |= other.is_recorded;
        for ((whose, name), numbers) in &other.series {
            self.series(*whose, name, *numbers);
        }
        for (whose, drops) in &other.drops {
            self.drops(*whose, drops);
        }
    }

    /// Collectives up to the last of each name that have no record.
    pub fn missing(&self) -> u64 {
        let all = self.series.values().map(|numbers| numbers.missing());
        all.fold(0, u64::saturating_add)
    }

    /// What the recorder counted that it left out.
    pub fn dropped(&self) -> Drops {
        let mut all = Drops::default();
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
            let mut numbers = Numbers::default();
            list.iter().for_each(|&number| numbers.add(number));
            numbers
        };
        assert_eq!(Numbers::default().missing(), 0);
        assert_eq!(numbers(&[0, 1, 2]).missing(), 0);
        assert_eq!(numbers(&[5, 3]).missing(), 4);
        assert_eq!(numbers(&[0, 0]).missing(), 0);
        assert_eq!(numbers(&[u64::MAX]).missing(), u64::MAX - 1);
        let mut all = Unrecorded::default();
        all.series((1, 0), b"AllReduce", numbers(&[0, 2]));
        all.series((1, 0), b"AllReduce", numbers(&[4]));
        all.series((1, 1), b"AllReduce", numbers(&[1]));
        assert_eq!(all.missing(), 3);
        all.drops((1, 0), &[4, 0, 0, 1]);
        all.drops((1, 0), &[7, 0, 0, 0]);
        all.drops((1, 1), &[1, 0, 0, 0]);
        assert_eq!(all.dropped(), [8, 0, 0, 1]);
    }
}
