//! Comparison of numbers of two runs.

use crate::count::spread::SortedValues;
use crate::output::render::TableCell;

/// A sum over some steps, and its possible error.
///
/// Step lines appear where their rank prints them, so some calls of other ranks are on the wrong side. A
/// call too many in one step is missing in its neighbour: over a range of steps only its two ends matter,
/// and the error is at most the difference between steps. A few steps also miss work that is done every
/// tenth step. If all steps are equal, the number is exact.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Measure {
    /// The sum.
    pub(super) sum: u128,
    /// Number of steps; 1 if it is no mean.
    pub(super) over: u64,
    /// The largest value of a step minus the smallest.
    pub(super) spread: f64,
}

impl Measure {
    /// Makes an exact number.
    pub(super) fn exact(n: u64) -> Measure {
        Measure {
            sum: n.into(),
            over: 1,
            spread: 0.0,
        }
    }

    /// Returns the number.
    pub(super) fn value(&self) -> f64 {
        self.sum as f64 / self.over.max(1) as f64
    }

    /// Returns the cell; whole numbers have no fraction.
    pub(super) fn cell(&self) -> TableCell<'static> {
        let over = u128::from(self.over.max(1));
        if self.sum.is_multiple_of(over) {
            TableCell::Int(self.sum / over)
        } else {
            self.value().into()
        }
    }

    /// True if both differ by more than a share of `tolerance` of the smaller, and by more than their
    /// possible errors.
    pub(super) fn differs(&self, other: &Measure, tolerance: f64) -> bool {
        let (over, others) = (u128::from(self.over.max(1)), u128::from(other.over.max(1)));
        // Steps of either run may differ as much as those of the other.
        let spread = self.spread.max(other.spread);
        let products = (self.sum.checked_mul(others), other.sum.checked_mul(over));
        if let (Some(a), Some(b)) = products
            && (a == b || tolerance == 0.0 && spread == 0.0)
        {
            // Compares exactly: fractions of large sums round.
            return a != b;
        }
        let (a, b) = (self.value(), other.value());
        let off = spread / over as f64 + spread / others as f64;
        is_beyond(a, b, tolerance) && (a - b).abs() > off
    }

    /// Adds a measure of the same steps.
    pub(super) fn add_measure(&mut self, other: &Measure) {
        self.sum = self.sum.saturating_add(other.sum);
        self.over = self.over.max(other.over);
        self.spread += other.spread;
    }
}

/// True if the larger is more than `1 + tolerance` times the smaller, in either order.
pub(super) fn is_beyond(a: f64, b: f64, tolerance: f64) -> bool {
    a.max(b) > a.min(b) * (1.0 + tolerance)
}

/// Distribution of values of steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quartiles {
    low: f64,
    /// The median, which is a printed value.
    pub(super) median: f64,
    high: f64,
}

impl Quartiles {
    /// Computes the quartiles of values in any order; `None` without values.
    pub(super) fn from_values(values: &[f64]) -> Option<Quartiles> {
        let sorted = SortedValues::new(values.iter().copied());
        Some(Quartiles {
            low: sorted.percentile(0.25)?,
            median: sorted.median()?,
            high: sorted.percentile(0.75)?,
        })
    }

    /// True if the medians differ by more than a share of `tolerance`, and neither is within the middle
    /// half of the other's values.
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
