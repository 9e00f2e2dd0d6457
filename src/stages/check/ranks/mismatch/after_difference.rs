//! What the calls after a difference show of how it came about.

use super::MemberCalls;
use crate::stages::check::ranks::limits::CALLS_READ_PAST_DIFFERENCE;

/// True where a member's calls from `seq` on repeat those of a step before, as they are behind the
/// same calls.
pub(super) fn repeats_earlier_step(seq: u64, calls: &MemberCalls<'_>) -> bool {
    let first = calls.list.first().map_or(seq, |call| call.seq);
    let goes_on = |at: u64| {
        let before = (1..=CALLS_READ_PAST_DIFFERENCE / 2).all(|back| {
            at >= first + back && calls.is_same_call(at - back, calls, seq.saturating_sub(back))
        });
        let mut compared = 0;
        before
            && (0..CALLS_READ_PAST_DIFFERENCE / 2).all(|n| {
                let known = calls.call_at(seq + n).is_some();
                compared += u64::from(known);
                !known || calls.is_same_call(at + n, calls, seq + n)
            })
            && compared > 0
    };
    (first..seq).any(goes_on)
}

/// One made two calls in another order than the other.
pub(super) const CROSSED_ORDER_TEXT: &str = ": two calls in crossed order";

/// Describes how the calls of `wrong` go on, if that shows what became of the missing call.
pub(super) fn explain_missing_call(
    seq: u64,
    right: &MemberCalls<'_>,
    wrong: &MemberCalls<'_>,
) -> Option<&'static str> {
    let equal = |by_right: u64, by_wrong: u64| {
        let mut compared = 0;
        let same = (0..CALLS_READ_PAST_DIFFERENCE / 2).all(|n| {
            let (a, b) = (seq + by_right + n, seq + by_wrong + n);
            let known = right.call_at(a).is_some() && wrong.call_at(b).is_some();
            compared += u64::from(known);
            !known || right.is_same_call(a, wrong, b)
        });
        same && compared > 0
    };
    let swapped =
        right.is_same_call(seq + 1, wrong, seq) && right.is_same_call(seq, wrong, seq + 1);
    let other_order = swapped && (right.call_at(seq + 2).is_none() || equal(2, 2));
    // The two calls alone do not show it.
    let left_out = equal(1, 0) && (!swapped || right.call_at(seq + 2).is_some());
    if other_order && left_out {
        Some(": it may have left this call out, or made two calls in the other order")
    } else if other_order {
        Some(CROSSED_ORDER_TEXT)
    } else if equal(1, 0) {
        Some(": it may have left this call out")
    } else if equal(0, 1) {
        Some(": it may have made this call in addition")
    } else if equal(1, 1) {
        Some("; the calls after it are the same again")
    } else {
        None
    }
}
