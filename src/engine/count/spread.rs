//! How values are spread: always by values that were printed, never by one between two.

use super::values::ValueCounts;
use std::iter;

/// The nearest rank among counted values: the lowest of `counts`, which rise, that `share` of all are
/// not above. `known` is how many there are. `None` of none.
pub fn nearest_rank(
    counts: impl IntoIterator<Item = (u64, u64)>,
    known: u64,
    share: f64,
) -> Option<u64> {
    let wanted = ((share * known as f64).ceil() as u64).max(1);
    let (mut so_far, mut last) = (0_u64, None);
    for (value, count) in counts {
        so_far = so_far.saturating_add(count);
        last = Some(value);
        if so_far >= wanted {
            break;
        }
    }
    last
}

/// Values in their order.
pub struct SortedValues(Vec<f64>);

impl SortedValues {
    /// The values in order.
    pub fn new(values: impl IntoIterator<Item = f64>) -> SortedValues {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        SortedValues(values)
    }

    /// The nearest rank: the lowest value that `share` of all are not above. `None` without values.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.max(1) - 1).copied()
    }

    /// The lowest value that half of all are not above. `None` without values.
    pub fn median(&self) -> Option<f64> {
        self.percentile(0.50)
    }
}

/// How values are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueSpread {
    /// How many.
    pub n: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of a sample, over n - 1; one value has none.
    pub sd: Option<f64>,
    /// Lowest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 95 of 100 are not above.
    pub p95: f64,
    /// 99 of 100 are not above.
    pub p99: f64,
    /// Highest.
    pub max: f64,
}

impl ValueSpread {
    /// From values in any order; `None` without values.
    pub fn from_values(values: Vec<f64>) -> Option<ValueSpread> {
        ValueSpread::from_counts(&mut values.into())
    }

    /// From counted values.
    pub fn from_counts(values: &mut ValueCounts) -> Option<ValueSpread> {
        let counted = values.sorted_counts();
        let all = || {
            counted
                .iter()
                .map(|&(value, count)| (value, count as usize))
        };
        let each = || all().flat_map(|(value, count)| iter::repeat_n(value, count));
        let n: usize = all().map(|(_, count)| count).sum();
        let mean = decimal_mean(counted).unwrap_or_else(|| each().sum::<f64>() / n as f64);
        let squares: f64 = each().map(|v| (v - mean).powi(2)).sum();
        let at = |share: f64| {
            let rank = (share * n as f64).ceil() as usize;
            let mut left = rank.max(1);
            let mut values = all();
            values.find(|(_, count)| {
                let is_it = left <= *count;
                left = left.saturating_sub(*count);
                is_it
            })
        };
        let at = |share: f64| at(share).map(|(value, _)| value);
        Some(ValueSpread {
            n,
            mean,
            sd: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
            min: counted.first()?.0,
            p50: at(0.50)?,
            p95: at(0.95)?,
            p99: at(0.99)?,
            max: counted.last()?.0,
        })
    }
}

/// The mean of decimals as they were printed, rounded once: that of 5.9 and 6.1758 is 6.0379, where
/// the sum of the nearest binary numbers gives 6.0379000000000005. `None` where 128 bits do not do.
fn decimal_mean(values: &[(f64, u64)]) -> Option<f64> {
    let decimals: Vec<(i128, i32)> = values
        .iter()
        .map(|&(v, _)| shortest_decimal(v))
        .collect::<Option<_>>()?;
    let mut exponent = decimals.iter().map(|d| d.1).min()?;
    let (mut sum, mut n) = (0_i128, 0_i128);
    for ((digits, of), &(_, count)) in decimals.into_iter().zip(values) {
        let up = 10_i128.checked_pow(of.abs_diff(exponent))?;
        let those = digits.checked_mul(up)?.checked_mul(count.into())?;
        sum = sum.checked_add(those)?;
        n += i128::from(count);
    }
    // More digits than a double has, so that what the division leaves over does not count.
    while let Some(more) = sum.checked_mul(10).filter(|&more| more != 0) {
        (sum, exponent) = (more, exponent - 1);
    }
    let mean = sum / n;
    format!("{mean}e{exponent}").parse().ok()
}

/// The shortest decimal that reads as `value`, as digits and a power of ten: what was printed, if
/// that had up to 15 digits.
fn shortest_decimal(value: f64) -> Option<(i128, i32)> {
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, exponent - i32::try_from(fraction.len()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mean_of_decimals_prints_as_a_decimal() {
        let mean = |values: &[f64]| {
            ValueSpread::from_values(values.to_vec())
                .unwrap()
                .mean
                .to_string()
        };
        assert_eq!(mean(&[5.9, 6.1758]), "6.0379");
        assert_eq!(mean(&[0.1, 0.2]), "0.15");
        assert_eq!(mean(&[0.4, 0.5, 0.4, 0.44]), "0.435");
        assert_eq!(mean(&[1.0, 1.0, 2.0]), "1.3333333333333333");
        assert_eq!(mean(&[0.0, 0.0]), "0");
        // Far apart: the plain sum.
        assert_eq!(
            mean(&[1e300, 1e-300]),
            "5e299".parse::<f64>().unwrap().to_string()
        );
    }

    proptest! {
        /// Decimals of up to six places: the mean is their sum in millionths, divided once.
        #[test]
        fn a_mean_is_that_of_the_printed_decimals(
            millionths in proptest::collection::vec(0..1_000_000_000_i64, 1..50),
        ) {
            let values = millionths.iter().map(|n| *n as f64 / 1e6).collect();
            let sum: i64 = millionths.iter().sum();
            let expect = sum as f64 / (1e6 * millionths.len() as f64);
            prop_assert_eq!(ValueSpread::from_values(values).unwrap().mean, expect);
        }
    }

    #[test]
    fn it_is_of_values_that_were_printed() {
        let spread = ValueSpread::from_values(vec![3.0, 1.0, 2.0, 10.0]).unwrap();
        let expect = ValueSpread {
            n: 4,
            mean: 4.0,
            sd: Some((50.0_f64 / 3.0).sqrt()),
            min: 1.0,
            p50: 2.0,
            p95: 10.0,
            p99: 10.0,
            max: 10.0,
        };
        assert_eq!(spread, expect);
        assert_eq!(ValueSpread::from_values(vec![7.0]).unwrap().sd, None);
        assert_eq!(ValueSpread::from_values(Vec::new()), None);
    }

    #[test]
    fn a_share_is_the_nearest_rank() {
        let sorted = SortedValues::new((1..=20).map(f64::from));
        assert_eq!(sorted.percentile(0.0), Some(1.0));
        assert_eq!(sorted.median(), Some(10.0));
        assert_eq!(sorted.percentile(0.95), Some(19.0));
        assert_eq!(sorted.percentile(1.0), Some(20.0));
        assert_eq!(SortedValues::new([]).median(), None);
    }
}
