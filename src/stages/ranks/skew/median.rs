//! Medians of times, most of them of a few.

use super::limits::MAX_VALUES_SORTED_BY_HAND;

/// Sorts a few values; false if they are too many.
#[inline]
pub(super) fn insertion_sort_few(values: &mut [i64]) -> bool {
    if values.len() > MAX_VALUES_SORTED_BY_HAND {
        return false;
    }
    for next in 1..values.len() {
        let mut at = next;
        while at > 0 && values[at - 1] > values[at] {
            values.swap(at - 1, at);
            at -= 1;
        }
    }
    true
}

/// Returns the lower median.
#[inline]
pub(super) fn lower_median(values: &mut [i64]) -> Option<i64> {
    let at = values.len().checked_sub(1)? / 2;
    if insertion_sort_few(values) {
        return values.get(at).copied();
    }
    Some(*values.select_nth_unstable(at).1)
}
