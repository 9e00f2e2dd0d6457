//! Numbers of two runs held against each other.

use crate::count::spread::SortedValues;
use crate::output::render::TableCell;

/// A number that was counted: a sum over some steps, and how far it may be off.
///
/// A log's step lines are where the rank that prints them is; other ranks' calls lie up to some
/// on the wrong side. What one step has too many its neighbour lacks, so that over a stretch of
/// steps only its two ends count: the sum is off by no more than steps differ among each other. Nor
/// do a few steps show what is done every tenth one. Where all steps are alike the number is exact.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Measure {
    /// The sum.
    pub(super) sum: u128,
    /// Over how many steps; 1 for what is no mean.
    pub(super) over: u64,
    /// The most of a step less the least.
    pub(super) spread: f64,
}

impl Measure {
    /// A whole number that is exact.
    pub(super) fn exact(n: u64) -> Measure {
        Measure {
            sum: n.into(),
            over: 1,
            spread: 0.0,
        }
    }

    /// The number.
    pub(super) fn value(&self) -> f64 {
        self.sum as f64 / self.over.max(1) as f64
    }

    /// The number as it is shown: whole where it is.
    pub(super) fn cell(&self) -> TableCell<'static> {
        let over = u128::from(self.over.max(1));
        if self.sum.is_multiple_of(over) {
            TableCell::Int(self.sum / over)
        } else {
            self.value().into()
        }
    }

    /// True where the two differ by more than a share of `tolerance` of the smaller, and by more
    /// than they may be off.
    pub(super) fn differs(&self, other: &Measure, tolerance: f64) -> bool {
        let (over, others) = (u128::from(self.over.max(1)), u128::from(other.over.max(1)));
        // What one run's steps differ by the other's may too.
        let spread = self.spread.max(other.spread);
        let products = (self.sum.checked_mul(others), other.sum.checked_mul(over));
        if let (Some(a), Some(b)) = products
            && (a == b || tolerance == 0.0 && spread == 0.0)
        {
            // Exactly: a fraction would not tell large sums apart.
            return a != b;
        }
        let (a, b) = (self.value(), other.value());
        let off = spread / over as f64 + spread / others as f64;
        is_beyond(a, b, tolerance) && (a - b).abs() > off
    }

    /// Adds another's to it, of the same steps.
    pub(super) fn add_measure(&mut self, other: &Measure) {
        self.sum = self.sum.saturating_add(other.sum);
        self.over = self.over.max(other.over);
        self.spread += other.spread;
    }
}

/// True where the larger is more than `1 + tolerance` times the smaller: whichever comes first.
pub(super) fn is_beyond(a: f64, b: f64, tolerance: f64) -> bool {
    a.max(b) > a.min(b) * (1.0 + tolerance)
}

/// The distribution of what steps print.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quartiles {
    low: f64,
    /// The median, a value that was printed.
    pub(super) median: f64,
    high: f64,
}

impl Quartiles {
    /// Of values in any order; `None` of none.
    pub(super) fn from_values(values: &[f64]) -> Option<Quartiles> {
        let sorted = SortedValues::new(values.iter().copied());
        Some(Quartiles {
            low: sorted.percentile(0.25)?,
            median: sorted.median()?,
            high: sorted.percentile(0.75)?,
        })
    }

    /// True where the medians differ by more than a share of `tolerance`, and neither is within
    /// the middle half of the other's values.
    pub(super) fn differs(&self, other: &Quartiles, tolerance: f64) -> bool {
        let inside = |a: &Quartiles, b: &Quartiles| (a.low..=a.high).contains(&b.median);
        is_beyond(self.median, other.median, tolerance)
            && !inside(self, other)
            && !inside(other, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(sum: u128, over: u64, spread: f64) -> Measure {
        Measure { sum, over, spread }
    }

    #[test]
    fn equal_means_of_other_lengths_are_equal() {
        let large = u128::from(u64::MAX) * 7;
        assert!(!mean(large * 3, 3, 0.0).differs(&mean(large * 11, 11, 0.0), 0.0));
        assert!(mean(large * 3 + 1, 3, 0.0).differs(&mean(large * 3, 3, 0.0), 0.0));
        assert!(mean(40, 4, 0.0).differs(&mean(11, 1, 0.0), 0.0));
        assert!(!mean(40, 4, 0.0).differs(&mean(11, 1, 0.0), 0.1));
        assert!(mean(0, 4, 0.0).differs(&mean(1, 1, 0.0), 9.0));
    }

    #[test]
    fn what_steps_differ_by_is_no_change_at_the_ends() {
        // One call of the next step came early.
        assert!(!mean(102, 10, 1.0).differs(&mean(100, 10, 0.0), 0.0));
        assert!(mean(103, 10, 1.0).differs(&mean(100, 10, 0.0), 0.0));
        // What is done every fifth step is not missed where there is one step only.
        assert!(!mean(64, 10, 32.0).differs(&mean(0, 1, 0.0), 0.0));
    }

    #[test]
    fn medians_within_the_others_middle_half_are_no_change() {
        let of = |values: &[f64]| Quartiles::from_values(values).unwrap();
        let calm = of(&[1.0, 1.0, 1.0, 1.0]);
        assert!(calm.differs(&of(&[1.1, 1.1, 1.1, 9.0]), 0.05));
        assert!(!calm.differs(&of(&[1.1, 1.1, 1.1, 9.0]), 0.2));
        assert!(!calm.differs(&of(&[0.9, 1.1, 1.2, 1.3]), 0.05));
        assert_eq!(Quartiles::from_values(&[]), None);
    }
}
