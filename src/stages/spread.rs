//! How values are spread: always by values that were printed, never by one between two.

/// Values in their order.
pub(crate) struct Sorted(Vec<f64>);

impl Sorted {
    pub(crate) fn new(values: impl IntoIterator<Item = f64>) -> Sorted {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Sorted(values)
    }

    /// The nearest rank: the lowest value that `share` of all are not above. `None` of none.
    pub(crate) fn at(&self, share: f64) -> Option<f64> {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.max(1) - 1).copied()
    }

    pub(crate) fn median(&self) -> Option<f64> {
        self.at(0.50)
    }
}

/// How values are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
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

impl Spread {
    /// Of values in any order; `None` of none.
    pub fn of(values: Vec<f64>) -> Option<Spread> {
        let sorted = Sorted::new(values);
        let (values, n) = (&sorted.0, sorted.0.len());
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        Some(Spread {
            n,
            mean,
            sd: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
            min: *values.first()?,
            p50: sorted.at(0.50)?,
            p95: sorted.at(0.95)?,
            p99: sorted.at(0.99)?,
            max: *values.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_of_values_that_were_printed() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0, 10.0]).unwrap();
        let expect = Spread {
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
        assert_eq!(Spread::of(vec![7.0]).unwrap().sd, None);
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn a_share_is_the_nearest_rank() {
        let sorted = Sorted::new((1..=20).map(f64::from));
        assert_eq!(sorted.at(0.0), Some(1.0));
        assert_eq!(sorted.median(), Some(10.0));
        assert_eq!(sorted.at(0.95), Some(19.0));
        assert_eq!(sorted.at(1.0), Some(20.0));
        assert_eq!(Sorted::new([]).median(), None);
    }
}
