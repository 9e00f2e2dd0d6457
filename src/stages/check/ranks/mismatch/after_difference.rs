//! What the calls after a difference show of how it came about.

use super::MemberCalls;
use crate::stages::check::ranks::limits::CALLS_READ_PAST_DIFFERENCE;

/// What a member goes on with at a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextCalls {
    /// A step as before, from its beginning.
    WholeStep,
    /// The rest of a step as before.
    RestOfStep,
    /// Calls that it made before, but not after the same calls.
    KnownCall,
    /// A call that it never made before, as far as its calls are known.
    NewCall,
}

/// What a member goes on with from `seq` on.
pub(super) fn classify_next_calls(seq: u64, calls: &MemberCalls<'_>) -> NextCalls {
    let first = calls.list.first().map_or(seq, |call| call.seq);
    match find_earlier_step(seq, calls) {
        Some(before) if begins_step(seq, seq - before, calls) => NextCalls::WholeStep,
        Some(_) => NextCalls::RestOfStep,
        None if (first..seq).any(|at| calls.is_same_call(at, calls, seq)) => NextCalls::KnownCall,
        None => NextCalls::NewCall,
    }
}

/// True where `wrong` makes a call there that belongs to the step of `right`: it went on with the next.
pub(super) fn makes_call_of_step(
    seq: u64,
    right: &MemberCalls<'_>,
    wrong: &MemberCalls<'_>,
) -> bool {
    let mut step = find_earlier_step(seq, right).unwrap_or(seq)..seq;
    step.any(|at| right.is_same_call(at, wrong, seq))
}

/// True where whole steps of `period` calls lie between the first of the steps that are alike and `seq`. Where
/// the first is not known, nothing is.
fn begins_step(seq: u64, period: u64, calls: &MemberCalls<'_>) -> bool {
    let mut begin = seq - period;
    while begin > 0 && calls.is_same_call(begin - 1, calls, begin - 1 + period) {
        begin -= 1;
    }
    let is_known = begin == 0 || calls.call_at(begin - 1).is_some();
    is_known && (seq - begin).is_multiple_of(period)
}

/// Returns the last place at which a member's calls go on as from `seq` on, after the same calls as there.
fn find_earlier_step(seq: u64, calls: &MemberCalls<'_>) -> Option<u64> {
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
    (first..seq).rev().find(|&at| goes_on(at))
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
    } else if equal(0, 1) && !equal(1, 1) {
        Some(": it may have made this call in addition")
    } else if equal(1, 1) {
        Some("; the calls after it are the same again")
    } else {
        None
    }
}
