//! How long equal calls took together.
//!
//! Only the sum is kept, which is all that a row of equal calls has. `durations` keeps how they are
//! spread.

use serde::{Deserialize, Serialize};

/// The durations of equal calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DurationTotal {
    /// How many calls have one.
    calls: u64,
    /// Nanoseconds together.
    ns: u128,
}

impl DurationTotal {
    /// Adds `calls` that took `ns` together.
    pub(super) fn add_calls(&mut self, calls: u64, ns: u64) {
        let ns = ns.into();
        self.merge(&DurationTotal { calls, ns });
    }

    /// Adds another's calls.
    pub(super) fn merge(&mut self, other: &DurationTotal) {
        self.calls = self.calls.saturating_add(other.calls);
        self.ns = self.ns.saturating_add(other.ns);
    }

    /// Nanoseconds of all of `calls`; `None` where one of them has no duration, where there are more
    /// calls than can be counted, and beyond 64 bits.
    pub(super) fn total_ns(&self, calls: u64) -> Option<u64> {
        let all = self.calls == calls && calls < u64::MAX;
        u64::try_from(self.ns).ok().filter(|_| all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Rows of some calls each, with a duration or without, counted in two halves.
        #[test]
        fn a_total_is_the_sum_of_all_or_unknown(
            rows in proptest::collection::vec((
                prop_oneof![9 => 1..9_u64, 1 => Just(u64::MAX)],
                prop_oneof![
                    9 => (0..9_u64).prop_map(Some),
                    1 => (u64::MAX - 9..=u64::MAX).prop_map(Some),
                    1 => Just(None),
                ],
            ), 0..12),
            half in 0..12_usize,
        ) {
            let at = half.min(rows.len());
            let mut all = DurationTotal::default();
            for part in [&rows[..at], &rows[at..]] {
                let mut total = DurationTotal::default();
                let known = part.iter().filter_map(|(calls, ns)| Some((*calls, (*ns)?)));
                known.for_each(|(calls, ns)| total.add_calls(calls, ns));
                all.merge(&total);
            }
            let calls = rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.0));
            // The twin: all of them, in more bits than they take.
            let twin: Option<u128> = rows.iter().map(|(_, ns)| ns.map(u128::from)).sum();
            let twin = twin.filter(|_| calls < u64::MAX).and_then(|ns| u64::try_from(ns).ok());
            prop_assert_eq!(all.total_ns(calls), twin);
        }
    }
}
