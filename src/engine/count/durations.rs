//! How long calls took, one by one.
//!
//! The number of calls, their sum, the least and the most are exact. Percentiles have three
//! significant digits: they are those of an hdrhistogram.

use super::spread;
use super::tally::key::three_digits;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// A clock: the columns `src` and `clock`.
pub type Clock = (Box<[u8]>, Box<[u8]>);

/// Whose clocks measured durations: the columns `src` and `clock`. Times of different ones must not be
/// compared, so it is enough to know a few.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    clocks: Vec<Clock>,
    /// The column `quality`, and how many durations are of it.
    qualities: Vec<(Box<[u8]>, u64)>,
}

/// How many clocks, and how many qualities, are kept.
const CLOCKS: usize = 4;

impl Clocks {
    /// Adds a duration.
    pub fn add(&mut self, src: &[u8], clock: &[u8], quality: &[u8]) {
        self.clock(src, clock);
        self.quality(quality, 1);
    }

    fn clock(&mut self, src: &[u8], clock: &[u8]) {
        let mut clocks = self.clocks.iter();
        let known = clocks.any(|(s, c)| **s == *src && **c == *clock);
        if !known && self.clocks.len() < CLOCKS {
            self.clocks.push((src.into(), clock.into()));
        }
    }

    fn quality(&mut self, quality: &[u8], more: u64) {
        let has_room = self.qualities.len() < CLOCKS;
        let mut known = self.qualities.iter_mut();
        match known.find(|(known, _)| **known == *quality) {
            Some((_, calls)) => *calls = calls.saturating_add(more),
            None if has_room => self.qualities.push((quality.into(), more)),
            None => {}
        }
    }

    /// Adds clocks that were met apart.
    pub fn merge(&mut self, other: &Clocks) {
        let clocks = other.clocks.iter();
        clocks.for_each(|(src, clock)| self.clock(src, clock));
        let qualities = other.qualities.iter();
        qualities.for_each(|(quality, calls)| self.quality(quality, *calls));
    }

    /// The clocks, as source and name.
    pub fn list(&self) -> &[Clock] {
        &self.clocks
    }

    /// The column `quality` of the durations, each with how many are of it.
    pub fn qualities(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.qualities
            .iter()
            .map(|(quality, calls)| (&**quality, *calls))
    }
}

/// The durations of calls, in ns.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Durations {
    calls: u64,
    sum: u128,
    least: Option<u64>,
    most: u64,
    kept: Kept,
}

/// The durations of a few calls as they are, of many as a histogram: which of both depends only on
/// how many there are.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Kept {
    List(Vec<u64>),
    Counted(#[serde(with = "counted")] Box<Histogram<u64>>),
}

/// A table may have a key for every few calls, and a histogram of calls of up to a second takes
/// 180 kB, of any calls 450 kB. After a list of 64 kB that is about 55 bytes for each call at most.
const LISTED: usize = 8192;

impl Default for Kept {
    fn default() -> Kept {
        Kept::List(Vec::new())
    }
}

impl Kept {
    fn add(&mut self, ns: u64) {
        match self {
            Kept::List(list) => {
                list.push(ns);
                self.settle();
            }
            Kept::Counted(histogram) => counted::add(histogram, ns, 1),
        }
    }

    /// The same duration so many times.
    fn add_times(&mut self, ns: u64, calls: u64) {
        match self {
            Kept::List(list) if calls <= LISTED as u64 => {
                list.resize(list.len() + calls as usize, ns);
                self.settle();
            }
            Kept::List(list) => {
                if let Some(mut histogram) = counted::none() {
                    list.iter()
                        .for_each(|&ns| counted::add(&mut histogram, ns, 1));
                    counted::add(&mut histogram, ns, calls);
                    *self = Kept::Counted(histogram);
                }
            }
            Kept::Counted(histogram) => counted::add(histogram, ns, calls),
        }
    }

    fn merge(&mut self, other: &Kept) {
        match (&mut *self, other) {
            (Kept::List(list), Kept::List(more)) => {
                list.extend_from_slice(more);
                self.settle();
            }
            (Kept::Counted(histogram), Kept::List(more)) => {
                more.iter().for_each(|&ns| counted::add(histogram, ns, 1));
            }
            (Kept::Counted(histogram), Kept::Counted(more)) => counted::merge(histogram, more),
            (Kept::List(list), Kept::Counted(more)) => {
                let mut histogram = more.clone();
                list.iter()
                    .for_each(|&ns| counted::add(&mut histogram, ns, 1));
                *self = Kept::Counted(histogram);
            }
        }
    }

    /// Counts a list that has become too long.
    fn settle(&mut self) {
        if let Kept::List(list) = self
            && list.len() > LISTED
            && let Some(mut histogram) = counted::none()
        {
            list.iter()
                .for_each(|&ns| counted::add(&mut histogram, ns, 1));
            *self = Kept::Counted(histogram);
        }
    }

    /// The durations to three significant digits, rising, each with its calls.
    fn counts(&self) -> Vec<(u64, u64)> {
        match self {
            Kept::List(list) => {
                let mut list: Vec<u64> = list.iter().map(|&ns| three_digits(ns.into())).collect();
                list.sort_unstable();
                list.into_iter().map(|ns| (ns, 1)).collect()
            }
            Kept::Counted(histogram) => counted::list(histogram).collect(),
        }
    }
}

/// A histogram of three significant digits that grows with its values, so that each has room in it.
mod counted {
    use hdrhistogram::Histogram;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(super) fn none() -> Option<Box<Histogram<u64>>> {
        let mut histogram = Histogram::new(3).ok()?;
        histogram.auto(true);
        Some(Box::new(histogram))
    }

    pub(super) fn add(histogram: &mut Histogram<u64>, ns: u64, calls: u64) {
        let _has_room = histogram.record_n(ns, calls);
    }

    pub(super) fn merge(histogram: &mut Histogram<u64>, more: &Histogram<u64>) {
        let _has_room = histogram.add(more);
    }

    pub(super) fn list(histogram: &Histogram<u64>) -> impl Iterator<Item = (u64, u64)> {
        let lowest = |value| histogram.lowest_equivalent(value);
        let recorded = histogram.iter_recorded();
        recorded.map(move |at| (lowest(at.value_iterated_to()), at.count_at_value()))
    }

    /// It travels as what it counted: few of its places are used.
    pub(super) fn serialize<S: Serializer>(
        histogram: &Histogram<u64>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(list(histogram))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(
        from: D,
    ) -> Result<Box<Histogram<u64>>, D::Error> {
        let mut histogram = none().ok_or_else(|| D::Error::custom("there is no histogram"))?;
        for (ns, calls) in Vec::<(u64, u64)>::deserialize(from)? {
            add(&mut histogram, ns, calls);
        }
        Ok(histogram)
    }
}

impl Durations {
    /// Adds a call.
    pub fn add(&mut self, ns: u64) {
        self.calls = self.calls.saturating_add(1);
        self.sum = self.sum.saturating_add(ns.into());
        self.least = Some(self.least.map_or(ns, |least| least.min(ns)));
        self.most = self.most.max(ns);
        self.kept.add(ns);
    }

    /// Adds so many calls that all took as long.
    pub fn add_times(&mut self, ns: u64, calls: u64) {
        if calls == 0 {
            return;
        }
        self.calls = self.calls.saturating_add(calls);
        self.sum = (self.sum).saturating_add(u128::from(ns).saturating_mul(calls.into()));
        self.least = Some(self.least.map_or(ns, |least| least.min(ns)));
        self.most = self.most.max(ns);
        self.kept.add_times(ns, calls);
    }

    /// Adds calls that were counted apart.
    pub fn merge(&mut self, other: &Durations) {
        self.calls = self.calls.saturating_add(other.calls);
        self.sum = self.sum.saturating_add(other.sum);
        self.least = self.least.into_iter().chain(other.least).min();
        self.most = self.most.max(other.most);
        self.kept.merge(&other.kept);
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

    /// For each share the ns at or below which that share of the calls are, to three significant
    /// digits.
    pub fn percentiles<const N: usize>(&self, shares: [f64; N]) -> [Option<u64>; N] {
        let counts = self.kept.counts();
        shares.map(|share| {
            let at = spread::nearest(counts.iter().copied(), self.calls, share)?;
            Some(at.clamp(self.least?, self.most))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sent;
    use proptest::prelude::*;

    proptest! {
        /// Files shared out over machines, each state sent after each file: the same as one run, as a
        /// sorted list to three digits, and as an hdrhistogram; below and above the length of a list.
        #[test]
        fn durations_are_those_of_a_sorted_list(
            files in proptest::collection::vec((
                0..3_usize,
                proptest::collection::vec(
                    (any::<u64>(), 0..64_u32).prop_map(|(ns, small)| ns >> small),
                    0..40,
                ),
                prop_oneof![Just(1_usize), Just(LISTED / 80), Just(LISTED / 20)],
            ), 0..8),
            share in 0.0..=1.0_f64,
        ) {
            let mut whole = Durations::default();
            let mut machines = [const { None::<Durations> }; 3];
            let mut list = Vec::new();
            for (machine, file, times) in &files {
                let own = machines[*machine].get_or_insert_default();
                for ns in file {
                    (0..*times).for_each(|_| whole.add(*ns));
                    own.add_times(*ns, *times as u64);
                    list.resize(list.len() + times, *ns);
                }
                *own = sent(own);
            }
            let mut all = Durations::default();
            machines.iter().flatten().for_each(|own| all.merge(own));
            list.sort_unstable();
            let mut histogram = Histogram::<u64>::new(3).unwrap();
            histogram.auto(true);
            list.iter().for_each(|&ns| histogram.record(ns).unwrap());

            for of in [&all, &whole] {
                prop_assert_eq!(of.calls(), list.len() as u64);
                prop_assert_eq!(of.sum(), list.iter().map(|&ns| u128::from(ns)).sum::<u128>());
                prop_assert_eq!((of.least(), of.most()), (list.first().copied(), list.last().copied()));
                prop_assert_eq!(matches!(of.kept, Kept::List(_)), list.len() <= LISTED);
            }
            let shares = [share, 0.5, 0.95, 0.99];
            let found = all.percentiles(shares);
            prop_assert_eq!(found, whole.percentiles(shares));
            for (share, found) in shares.into_iter().zip(found) {
                let rank = ((share * list.len() as f64).ceil() as usize).max(1) - 1;
                let exact = list.get(rank).copied();
                prop_assert_eq!(found.is_some(), exact.is_some());
                let (Some(found), Some(exact)) = (found, exact) else { continue };
                prop_assert!(found.abs_diff(exact) <= exact / 1024, "{found} {exact}");
                let twin = histogram.lowest_equivalent(histogram.value_at_quantile(share));
                prop_assert_eq!(found, twin.clamp(list[0], list[list.len() - 1]));
            }
        }
    }
}
