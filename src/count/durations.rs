//! How long calls took, one by one.
//!
//! The counts are those of an hdrhistogram of three significant digits, kept sparse: it takes 16 to
//! 90 kB for each key, where a table may have a key for every few calls, and a key has few durations
//! that differ. The number of calls, their sum, the least and the most are exact.

use super::spread;
use super::tally::key::three_digits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A clock: the columns `src` and `clock`.
pub type Clock = (Box<[u8]>, Box<[u8]>);

/// Whose clocks measured durations: the columns `src` and `clock`. Times of different ones must not be
/// compared, so it is enough to know a few.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks(Vec<Clock>);

/// How many clocks are kept.
const CLOCKS: usize = 4;

impl Clocks {
    /// Adds a clock.
    pub fn add(&mut self, src: &[u8], clock: &[u8]) {
        let known = self.0.iter().any(|(s, c)| **s == *src && **c == *clock);
        if !known && self.0.len() < CLOCKS {
            self.0.push((src.into(), clock.into()));
        }
    }

    /// Adds clocks that were met apart.
    pub fn merge(&mut self, other: &Clocks) {
        other.0.iter().for_each(|(src, clock)| self.add(src, clock));
    }

    /// The clocks, as source and name.
    pub fn list(&self) -> &[Clock] {
        &self.0
    }
}

/// The durations of calls, in ns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durations {
    calls: u64,
    sum: u128,
    least: Option<u64>,
    most: u64,
    /// Calls by their duration to three significant digits.
    counts: BTreeMap<u64, u64>,
}

impl Durations {
    /// Adds a call.
    pub fn add(&mut self, ns: u64) {
        self.calls = self.calls.saturating_add(1);
        self.sum = self.sum.saturating_add(ns.into());
        self.least = Some(self.least.map_or(ns, |least| least.min(ns)));
        self.most = self.most.max(ns);
        let count = self.counts.entry(three_digits(ns.into())).or_default();
        *count = count.saturating_add(1);
    }

    /// Adds calls that were counted apart.
    pub fn merge(&mut self, other: &Durations) {
        self.calls = self.calls.saturating_add(other.calls);
        self.sum = self.sum.saturating_add(other.sum);
        self.least = self.least.into_iter().chain(other.least).min();
        self.most = self.most.max(other.most);
        for (ns, calls) in &other.counts {
            let count = self.counts.entry(*ns).or_default();
            *count = count.saturating_add(*calls);
        }
    }

    /// How many calls there are.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Their ns together.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The least ns of a call.
    pub fn least(&self) -> Option<u64> {
        self.least
    }

    /// The most ns of a call.
    pub fn most(&self) -> Option<u64> {
        self.least.map(|_| self.most)
    }

    /// The ns at or below which a share of the calls are, to three significant digits.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let counts = self.counts.iter().map(|(ns, calls)| (*ns, *calls));
        let at = spread::nearest(counts, self.calls, share)?;
        Some(at.clamp(self.least?, self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::pieces::sent;
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    proptest! {
        /// Files shared out over machines, each state sent after each file: the same as one run, as a
        /// sorted list to three digits, and as an hdrhistogram.
        #[test]
        fn durations_are_those_of_a_sorted_list(
            files in proptest::collection::vec((
                0..3_usize,
                proptest::collection::vec(
                    (any::<u64>(), 0..64_u32).prop_map(|(ns, small)| ns >> small),
                    0..40,
                ),
            ), 0..8),
            share in 0.0..=1.0_f64,
        ) {
            let mut whole = Durations::default();
            let mut machines = [const { None::<Durations> }; 3];
            for (machine, file) in &files {
                let own = machines[*machine].get_or_insert_default();
                file.iter().for_each(|&ns| {
                    whole.add(ns);
                    own.add(ns);
                });
                *own = sent(own);
            }
            let mut all = Durations::default();
            machines.iter().flatten().for_each(|own| all.merge(own));
            prop_assert_eq!(&all, &whole);

            let mut list: Vec<u64> = files.iter().flat_map(|(_, file)| file).copied().collect();
            list.sort_unstable();
            prop_assert_eq!(all.calls(), list.len() as u64);
            prop_assert_eq!(all.sum(), list.iter().map(|&ns| u128::from(ns)).sum::<u128>());
            prop_assert_eq!((all.least(), all.most()), (list.first().copied(), list.last().copied()));
            let mut histogram = Histogram::<u64>::new(3).unwrap();
            histogram.auto(true);
            list.iter().for_each(|&ns| histogram.record(ns).unwrap());
            for share in [share, 0.5, 0.95, 0.99] {
                let rank = ((share * list.len() as f64).ceil() as usize).max(1) - 1;
                let exact = list.get(rank).copied();
                let found = all.percentile(share);
                prop_assert_eq!(found.is_some(), exact.is_some());
                let (Some(found), Some(exact)) = (found, exact) else { continue };
                prop_assert!(found.abs_diff(exact) <= exact / 1024, "{found} {exact}");
                let twin = histogram.lowest_equivalent(histogram.value_at_quantile(share));
                prop_assert_eq!(found, twin.clamp(list[0], list[list.len() - 1]));
            }
        }
    }
}
