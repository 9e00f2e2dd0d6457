//! How long calls took, one by one.
//!
//! The number of calls, their sum, the least and the most are exact. Percentiles have three
//! significant digits: they are those of an hdrhistogram.

use super::limits::{MAX_DURATION_KINDS, MAX_LISTED_DURATIONS};
use super::spread;
use super::tally::key::round_to_three_digits;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// What measured a duration: these columns of the call table. Durations of different kinds must not be added up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DurationKind {
    /// The column `src`.
    pub src: Box<[u8]>,
    /// The column `clock`.
    pub clock: Box<[u8]>,
    /// The column `quality`.
    pub quality: Box<[u8]>,
}

/// The kinds of durations, by number.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DurationKinds(Vec<DurationKind>);

impl DurationKinds {
    /// Returns the number of a kind. Kinds beyond the limit are one, of other qualities.
    pub(super) fn number_of(&mut self, src: &[u8], clock: &[u8], quality: &[u8]) -> u32 {
        let known = self.0.iter().position(|kind| {
            *kind.quality == *quality && *kind.clock == *clock && *kind.src == *src
        });
        let at = known.unwrap_or_else(|| {
            let full = self.0.len() >= MAX_DURATION_KINDS;
            if self.0.len() <= MAX_DURATION_KINDS {
                self.0.push(DurationKind {
                    src: src.into(),
                    clock: if full { b"others" } else { clock }.into(),
                    quality: if full { b"others" } else { quality }.into(),
                });
            }
            self.0.len() - 1
        });
        at as u32
    }

    /// Adds kinds that were met apart; returns the number of each.
    pub(super) fn merge(&mut self, other: &DurationKinds) -> Vec<u32> {
        let kinds = other.0.iter();
        kinds
            .map(|kind| self.number_of(&kind.src, &kind.clock, &kind.quality))
            .collect()
    }

    /// The kinds, by number.
    pub fn all_kinds(&self) -> &[DurationKind] {
        &self.0
    }
}

/// The durations of calls, in ns.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CallDurations {
    calls: u64,
    sum: u128,
    least: Option<u64>,
    most: u64,
    kept: DurationStore,
}

/// The durations of a few calls as they are, of many as a histogram: which of both depends only on
/// how many there are.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum DurationStore {
    List(Vec<u64>),
    Counted(#[serde(with = "counted")] Box<Histogram<u64>>),
}

impl Default for DurationStore {
    fn default() -> DurationStore {
        DurationStore::List(Vec::new())
    }
}

impl DurationStore {
    /// Adds a duration `calls` times.
    fn add_durations(&mut self, ns: u64, calls: u64) {
        match self {
            DurationStore::List(list) if calls <= MAX_LISTED_DURATIONS as u64 => {
                list.resize(list.len() + calls as usize, ns);
                self.convert_long_list();
            }
            DurationStore::List(list) => {
                if let Some(mut histogram) = counted::none() {
                    list.iter()
                        .for_each(|&ns| counted::add(&mut histogram, ns, 1));
                    counted::add(&mut histogram, ns, calls);
                    *self = DurationStore::Counted(histogram);
                }
            }
            DurationStore::Counted(histogram) => counted::add(histogram, ns, calls),
        }
    }

    fn merge(&mut self, other: &DurationStore) {
        match (&mut *self, other) {
            (DurationStore::List(list), DurationStore::List(more)) => {
                list.extend_from_slice(more);
                self.convert_long_list();
            }
            (DurationStore::Counted(histogram), DurationStore::List(more)) => {
                more.iter().for_each(|&ns| counted::add(histogram, ns, 1));
            }
            (DurationStore::Counted(histogram), DurationStore::Counted(more)) => {
                counted::merge(histogram, more);
            }
            (DurationStore::List(list), DurationStore::Counted(more)) => {
                let mut histogram = more.clone();
                list.iter()
                    .for_each(|&ns| counted::add(&mut histogram, ns, 1));
                *self = DurationStore::Counted(histogram);
            }
        }
    }

    /// Turns a long list into a histogram.
    fn convert_long_list(&mut self) {
        if let DurationStore::List(list) = self
            && list.len() > MAX_LISTED_DURATIONS
            && let Some(mut histogram) = counted::none()
        {
            list.iter()
                .for_each(|&ns| counted::add(&mut histogram, ns, 1));
            *self = DurationStore::Counted(histogram);
        }
    }

    /// The durations to three significant digits, rising, each with its calls.
    fn count_rounded(&self) -> Vec<(u64, u64)> {
        match self {
            DurationStore::List(list) => {
                let mut list: Vec<u64> = list
                    .iter()
                    .map(|&ns| round_to_three_digits(ns.into()))
                    .collect();
                list.sort_unstable();
                list.into_iter().map(|ns| (ns, 1)).collect()
            }
            DurationStore::Counted(histogram) => counted::list(histogram).collect(),
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

impl CallDurations {
    /// Adds a call.
    pub fn add_call(&mut self, ns: u64) {
        self.add_calls(ns, 1);
    }

    /// Adds `calls` calls of `ns` each.
    pub fn add_calls(&mut self, ns: u64, calls: u64) {
        if calls == 0 {
            return;
        }
        self.calls = self.calls.saturating_add(calls);
        self.sum = (self.sum).saturating_add(u128::from(ns).saturating_mul(calls.into()));
        self.least = Some(self.least.map_or(ns, |least| least.min(ns)));
        self.most = self.most.max(ns);
        self.kept.add_durations(ns, calls);
    }

    /// Adds calls that were counted apart.
    pub fn merge(&mut self, other: &CallDurations) {
        self.calls = self.calls.saturating_add(other.calls);
        self.sum = self.sum.saturating_add(other.sum);
        self.least = self.least.into_iter().chain(other.least).min();
        self.most = self.most.max(other.most);
        self.kept.merge(&other.kept);
    }

    /// How many calls there are.
    pub fn count_calls(&self) -> u64 {
        self.calls
    }

    /// Their ns together.
    pub fn total_ns(&self) -> u128 {
        self.sum
    }

    /// The least ns of a call.
    pub fn min_ns(&self) -> Option<u64> {
        self.least
    }

    /// The most ns of a call.
    pub fn max_ns(&self) -> Option<u64> {
        self.least.map(|_| self.most)
    }

    /// For each share the ns at or below which that share of the calls are, to three significant
    /// digits.
    pub fn percentiles<const N: usize>(&self, shares: [f64; N]) -> [Option<u64>; N] {
        let counts = self.kept.count_rounded();
        shares.map(|share| {
            let at = spread::nearest_rank(counts.iter().copied(), self.calls, share)?;
            Some(at.clamp(self.least?, self.most))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sent;
    use proptest::prelude::*;

    #[test]
    fn kinds_beyond_the_limit_are_one() {
        let mut kinds = DurationKinds::default();
        let mut number = |n: usize| kinds.number_of(b"x", b"gpu", n.to_string().as_bytes());
        let numbers: Vec<u32> = (0..2 * MAX_DURATION_KINDS).map(&mut number).collect();
        assert_eq!(number(3), 3);
        let full = MAX_DURATION_KINDS as u32;
        assert_eq!(numbers[2 * MAX_DURATION_KINDS - 1], full);
        assert_eq!(*kinds.all_kinds()[MAX_DURATION_KINDS].quality, *b"others");
        let mut other = DurationKinds::default();
        other.number_of(b"x", b"cpu", b"");
        assert_eq!(other.merge(&kinds).len(), MAX_DURATION_KINDS + 1);
    }

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
                prop_oneof![Just(1_usize), Just(MAX_LISTED_DURATIONS / 80), Just(MAX_LISTED_DURATIONS / 20)],
            ), 0..8),
            share in 0.0..=1.0_f64,
        ) {
            let mut whole = CallDurations::default();
            let mut machines = [const { None::<CallDurations> }; 3];
            let mut list = Vec::new();
            for (machine, file, times) in &files {
                let own = machines[*machine].get_or_insert_default();
                for ns in file {
                    (0..*times).for_each(|_| whole.add_call(*ns));
                    own.add_calls(*ns, *times as u64);
                    list.resize(list.len() + times, *ns);
                }
                *own = sent(own);
            }
            let mut all = CallDurations::default();
            machines.iter().flatten().for_each(|own| all.merge(own));
            list.sort_unstable();
            let mut histogram = Histogram::<u64>::new(3).unwrap();
            histogram.auto(true);
            list.iter().for_each(|&ns| histogram.record(ns).unwrap());

            for of in [&all, &whole] {
                prop_assert_eq!(of.count_calls(), list.len() as u64);
                prop_assert_eq!(of.total_ns(), list.iter().map(|&ns| u128::from(ns)).sum::<u128>());
                prop_assert_eq!((of.min_ns(), of.max_ns()), (list.first().copied(), list.last().copied()));
                prop_assert_eq!(matches!(of.kept, DurationStore::List(_)), list.len() <= MAX_LISTED_DURATIONS);
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
