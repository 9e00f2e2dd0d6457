//! Distinct values with their counts, for numbers that trainers print often. A job of a month prints millions
//! of step times, but only thousands of different ones.

use super::limits::MAX_UNSORTED_VALUES;
use std::cmp::Ordering;
use std::iter;

/// Values with how often each came.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueCounts {
    /// In order.
    sorted: Vec<(f64, u64)>,
    /// Values not sorted yet.
    new: Vec<f64>,
    /// The most different values before all are rounded.
    most: usize,
    is_rounded: bool,
}

impl Default for ValueCounts {
    fn default() -> ValueCounts {
        ValueCounts::with_limit(usize::MAX)
    }
}

impl From<Vec<f64>> for ValueCounts {
    fn from(values: Vec<f64>) -> ValueCounts {
        let mut all = ValueCounts::default();
        values.into_iter().for_each(|value| all.add_value(value));
        all.sort();
        all
    }
}

impl ValueCounts {
    /// Starts empty. Beyond `most` different values all are rounded to four digits, in any order of arrival.
    pub fn with_limit(most: usize) -> ValueCounts {
        ValueCounts {
            sorted: Vec::new(),
            new: Vec::new(),
            most,
            is_rounded: false,
        }
    }

    /// Adds a value.
    pub fn add_value(&mut self, value: f64) {
        self.new.push(value);
        // Each sort reads the whole list, so a longer list is sorted less often.
        if self.new.len() >= MAX_UNSORTED_VALUES.max(self.sorted.len() / 2) {
            self.sort();
        }
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: &ValueCounts) {
        self.sort();
        self.merge_sorted(&other.sorted);
        other.new.iter().for_each(|&value| self.add_value(value));
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty() && self.new.is_empty()
    }

    /// Puts all in order.
    pub fn sort(&mut self) {
        let mut new = std::mem::take(&mut self.new);
        if new.is_empty() {
            return;
        }
        if self.is_rounded {
            new.iter_mut()
                .for_each(|value| *value = round_to_four_digits(*value));
        }
        new.sort_unstable_by(f64::total_cmp);
        let new: Vec<(f64, u64)> = merge_equal(new.into_iter().zip(iter::repeat(1)));
        self.merge_sorted(&new);
        if self.sorted.len() > self.most && !self.is_rounded {
            self.is_rounded = true;
            let old = std::mem::take(&mut self.sorted).into_iter();
            // To round leaves the order as it is.
            self.sorted =
                merge_equal(old.map(|(value, count)| (round_to_four_digits(value), count)));
        }
    }

    /// Takes values that are in order.
    fn merge_sorted(&mut self, new: &[(f64, u64)]) {
        let (mut old, mut new) = (self.sorted.iter().peekable(), new.iter().peekable());
        let next = iter::from_fn(|| match (old.peek(), new.peek()) {
            (Some(a), Some(b)) if a.0.total_cmp(&b.0) == Ordering::Greater => new.next().copied(),
            (Some(_), _) => old.next().copied(),
            _ => new.next().copied(),
        });
        self.sorted = merge_equal(next);
    }

    /// The different values in order, with how often each came.
    pub fn sorted_counts(&mut self) -> &[(f64, u64)] {
        self.sort();
        &self.sorted
    }
}

/// Values in order, equal ones as one.
fn merge_equal(values: impl Iterator<Item = (f64, u64)>) -> Vec<(f64, u64)> {
    let mut all: Vec<(f64, u64)> = Vec::new();
    for (value, count) in values {
        match all.last_mut() {
            Some((last, known)) if last.to_bits() == value.to_bits() => *known += count,
            _ => all.push((value, count)),
        }
    }
    all.shrink_to_fit();
    all
}

/// A value to four digits.
fn round_to_four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// In whatever parts values come, they are those of one list.
        #[test]
        fn they_are_the_values_of_a_list(
            parts in proptest::collection::vec(proptest::collection::vec(0..900_u32, 0..40), 0..6),
            most in prop_oneof![Just(usize::MAX), 1..60_usize],
        ) {
            let value = |n: u32| f64::from(n) / 7.0;
            let list: Vec<u32> = parts.concat();
            let mut all = ValueCounts::with_limit(most);
            for part in &parts {
                part.iter().for_each(|&n| all.add_value(value(n)));
                all.sort();
            }
            let mut twin: Vec<f64> = list.iter().map(|&n| value(n)).collect();
            let mut whole = ValueCounts::with_limit(most);
            twin.iter().for_each(|&value| whole.add_value(value));
            twin.sort_by(f64::total_cmp);
            let mut different = twin.clone();
            different.dedup();
            if different.len() > most {
                twin.iter_mut().for_each(|value| *value = round_to_four_digits(*value));
            }
            let got = all.sorted_counts().iter();
            let got: Vec<f64> = got.flat_map(|&(v, n)| iter::repeat_n(v, n as usize)).collect();
            prop_assert_eq!(got, twin);
            prop_assert_eq!(whole.sorted_counts(), all.sorted_counts());
            let mut both = ValueCounts::default();
            for part in &parts {
                let mut own = ValueCounts::default();
                part.iter().for_each(|&n| own.add_value(value(n)));
                both.merge(&own);
            }
            let all: u64 = both.sorted_counts().iter().map(|(_, n)| n).sum();
            prop_assert_eq!(all, list.len() as u64);
            prop_assert!(both.sorted_counts().windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
