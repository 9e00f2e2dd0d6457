//! Times of the kernels of a row.

use crate::formats::stats::StatsSummary;

/// Times of kernels, single or summed up by a profiler.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct KernelTimes {
    /// The ns of each kernel.
    pub(super) each: Vec<u64>,
    /// Summaries that `nsys stats` printed.
    pub(super) parts: Vec<StatsSummary>,
}

/// Values of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct KernelSums {
    /// In ns.
    pub(super) total: u128,
    pub(super) instances: u64,
    pub(super) median: Option<f64>,
    /// In ns.
    pub(super) min: Option<u64>,
    pub(super) max: Option<u64>,
    /// The deviation of a sample (n - 1).
    pub(super) deviation: Option<f64>,
    /// The printed average, if nothing was added.
    pub(super) average: Option<f64>,
}

impl KernelTimes {
    /// Adds other times.
    pub(super) fn append(&mut self, mut other: KernelTimes) {
        self.each.append(&mut other.each);
        self.parts.append(&mut other.parts);
    }

    /// Returns the total in ns.
    pub(super) fn total_ns(&self) -> u128 {
        let each: u128 = self.each.iter().map(|&ns| u128::from(ns)).sum();
        self.parts
            .iter()
            .fold(each, |sum, part| sum.saturating_add(part.total.into()))
    }

    /// Computes the sums. Values that do not follow from several summaries are unknown.
    pub(super) fn compute_sums(&mut self) -> KernelSums {
        let own = self.each.len() as u64;
        let parts = &self.parts;
        let instances = parts
            .iter()
            .fold(own, |n, part| n.saturating_add(part.instances));
        let (least, most) = (
            self.each.iter().min().copied(),
            self.each.iter().max().copied(),
        );
        let min = parts.iter().map(|part| part.min).chain(least).min();
        let max = parts.iter().map(|part| part.max).chain(most).max();
        let (median, deviation, average) = match (&self.parts[..], own) {
            ([], _) => (median(&mut self.each), deviation(&self.each), None),
            ([part], 0) => (part.median, part.deviation, Some(part.average)),
            _ => (None, None, None),
        };
        KernelSums {
            total: self.total_ns(),
            instances,
            median,
            min,
            max,
            deviation,
            average,
        }
    }
}

impl KernelSums {
    /// Returns the mean in ns.
    pub(super) fn mean_ns(&self) -> Option<f64> {
        let mean = (self.instances > 0).then(|| self.total as f64 / self.instances as f64);
        self.average.or(mean)
    }
}

/// Returns the median.
fn median(each: &mut [u64]) -> Option<f64> {
    let at = each.len() / 2;
    if each.is_empty() {
        return None;
    }
    let (below, upper, _) = each.select_nth_unstable(at);
    let upper = *upper;
    if below.len() < at || each.len() % 2 == 1 {
        return Some(upper as f64);
    }
    let lower = each.iter().take(at).max().copied().unwrap_or(upper);
    Some((u128::from(lower) + u128::from(upper)) as f64 / 2.0)
}

/// Returns the deviation of a sample. The sums are exact: only the last division and the root round.
fn deviation(each: &[u64]) -> Option<f64> {
    let n = each.len() as u128;
    if n < 2 {
        return None;
    }
    // Differences from the first value keep the squares small.
    let first = each.first().copied().unwrap_or_default();
    let (mut sum, mut squares) = (0_i128, 0_u128);
    for &ns in each {
        let off = i128::from(ns) - i128::from(first);
        sum = sum.saturating_add(off);
        squares = squares.saturating_add(off.unsigned_abs().saturating_mul(off.unsigned_abs()));
    }
    let of_sum = sum.unsigned_abs().checked_mul(sum.unsigned_abs());
    let exact = n
        .checked_mul(squares)
        .zip(of_sum)
        .and_then(|(a, b)| a.checked_sub(b));
    let above = match exact {
        Some(above) => above as f64,
        None => (n as f64 * squares as f64 - sum as f64 * sum as f64).max(0.0),
    };
    Some((above / (n as f64 * (n - 1) as f64)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sums_are_those_of_the_plain_formulas(each in proptest::collection::vec(0..1_u64 << 40, 1..60)) {
            let mut sorted = each.clone();
            sorted.sort_unstable();
            let n = each.len();
            let (low, high) = (sorted[(n - 1) / 2], sorted[n / 2]);
            let mean = each.iter().map(|&ns| ns as f64).sum::<f64>() / n as f64;
            let squares: f64 = each.iter().map(|&ns| (ns as f64 - mean).powi(2)).sum();
            let mut times = KernelTimes { each: each.clone(), parts: Vec::new() };
            let sums = times.compute_sums();
            prop_assert_eq!(sums.total, each.iter().map(|&ns| u128::from(ns)).sum::<u128>());
            prop_assert_eq!((sums.min, sums.max), (sorted.first().copied(), sorted.last().copied()));
            prop_assert_eq!(sums.median, Some((low as f64 + high as f64) / 2.0));
            match sums.deviation {
                Some(found) => {
                    let expected = (squares / (n - 1) as f64).sqrt();
                    prop_assert!((found - expected).abs() <= 1e-6 * expected.max(1.0), "{} {}", found, expected);
                }
                None => prop_assert_eq!(n, 1),
            }
        }
    }

    #[test]
    fn what_two_summaries_do_not_tell_together_is_not_known() {
        let part = |total, median| StatsSummary {
            total,
            instances: 2,
            average: total as f64 / 2.0,
            median: Some(median),
            min: 1,
            max: 9,
            deviation: Some(3.5),
        };
        let mut one = KernelTimes {
            each: Vec::new(),
            parts: vec![part(10, 5.0)],
        };
        assert_eq!(
            (one.compute_sums().median, one.compute_sums().mean_ns()),
            (Some(5.0), Some(5.0))
        );
        let mut two = KernelTimes {
            each: vec![u64::MAX],
            parts: vec![part(10, 5.0), part(30, 6.0)],
        };
        let sums = two.compute_sums();
        assert_eq!((sums.median, sums.deviation), (None, None));
        assert_eq!(
            (sums.instances, sums.min, sums.max),
            (5, Some(1), Some(u64::MAX))
        );
    }
}
