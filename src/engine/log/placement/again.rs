//! A step that is like the steps before.
//!
//! Most steps are the same calls again. If the printing rank made the same calls in a step as in the one
//! before, and another rank made the same calls in the two steps before and has made them again since, its
//! step is over there, even if its next call is a new one.

use super::call_list::{CallList, CallSlice};
use super::limits::UNKNOWN_STRETCH;

/// The stretches in which the printing rank made the same calls as in the one before, in order.
#[derive(Debug, Default)]
pub(super) struct RepeatedSteps {
    stretches: Vec<u32>,
}

impl RepeatedSteps {
    /// Finds the repeated steps in the printing rank's calls.
    pub(super) fn find_repeated(calls: &CallList, cuts: &[(u32, u32)]) -> RepeatedSteps {
        let mut before = CallSlice::default();
        let mut stretches = Vec::new();
        let mut from = (0, UNKNOWN_STRETCH);
        for &(stretch, end) in cuts {
            let own = calls.slice(from.0..end as usize);
            if stretch.checked_sub(1) == Some(from.1) && own == before && !own.is_empty() {
                stretches.push(stretch);
            }
            (from, before) = ((end as usize, stretch), own);
        }
        RepeatedSteps { stretches }
    }

    /// Returns how many calls another rank has made at the end of its step `stretch`, if this repeats the two steps
    /// before it; `cuts` end with these.
    pub(super) fn expected_end(
        &self,
        calls: &CallList,
        cuts: &[(u32, u32)],
        stretch: u32,
    ) -> Option<u32> {
        let &[.., first, second, third] = cuts else {
            return None;
        };
        let is_next = stretch.checked_sub(1) == Some(third.0);
        if !is_next || self.stretches.binary_search(&stretch).is_err() {
            return None;
        }
        let of = |from: u32, to: u32| calls.slice(from as usize..to as usize);
        let own = of(second.1, third.1);
        let end = third.1.checked_add(third.1.checked_sub(second.1)?)?;
        let is_again = of(first.1, second.1) == own && of(third.1, end) == own;
        (is_again && !own.is_empty()).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(calls: &[u32]) -> CallList {
        CallList::from(calls)
    }

    /// Four steps of the calls 1, 2, the printing rank's.
    fn again() -> RepeatedSteps {
        RepeatedSteps::find_repeated(
            &list(&[1, 2, 1, 2, 1, 2, 1, 2]),
            &[(0, 2), (1, 4), (2, 6), (3, 8)],
        )
    }

    #[test]
    fn a_step_is_over_where_its_calls_were_made_again() {
        let cuts = [(0, 3), (1, 5), (2, 7)];
        let end = |calls: &[u32]| again().expected_end(&list(calls), &cuts, 3);
        // The first step has one more.
        assert_eq!(end(&[9, 7, 8, 7, 8, 7, 8, 7, 8, 3, 7]), Some(9));
        assert_eq!(end(&[9, 7, 8, 7, 8, 7, 8, 7, 8]), Some(9));
        // It is not whole, or has another call.
        assert_eq!(end(&[9, 7, 8, 7, 8, 7, 8, 7]), None);
        assert_eq!(end(&[9, 7, 8, 7, 8, 7, 8, 7, 3]), None);
        // The two before it differ.
        assert_eq!(end(&[9, 7, 8, 7, 3, 7, 8, 7, 8]), None);
    }

    #[test]
    fn nothing_is_told_where_the_printing_rank_made_other_calls() {
        let calls = list(&[7, 7, 7, 7, 7]);
        let cuts = [(0, 1), (1, 2), (2, 3)];
        assert_eq!(again().expected_end(&calls, &cuts, 3), Some(4));
        let other = RepeatedSteps::find_repeated(
            &list(&[1, 2, 1, 2, 1, 2, 1, 3]),
            &[(0, 2), (1, 4), (2, 6), (3, 8)],
        );
        assert_eq!(other.expected_end(&calls, &cuts, 3), None);
        // A stretch without calls lies between: which of them are alike is not known.
        let apart = RepeatedSteps::find_repeated(&list(&[1, 2, 1, 2]), &[(0, 2), (3, 4)]);
        assert_eq!(apart.expected_end(&calls, &cuts, 3), None);
        assert_eq!(again().expected_end(&calls, &[(0, 1), (1, 3)], 3), None);
    }
}
