//! Finds the missing message among many equal ones by the rhythm of the rank's own calls.

use crate::stages::check::ranks::difference_context::DifferenceContext;
use crate::stages::check::streams::compare::UnpairedMessages;
use crate::stages::check::streams::wanted_streams::CallDetail;
use std::cmp::{Ordering, Reverse};

/// Which call of `pair` the rank that made fewer of them left out, if it went on after it; `None`
/// where it may only have stopped. `counts` are those sent and received, `last` is the place of its last call among
/// all it made.
pub(super) fn find_omitted_message(
    pair: &UnpairedMessages,
    counts: (u64, u64),
    case: &DifferenceContext<'_>,
    last: u64,
) -> Option<u64> {
    let [_, fewer] = pair.more_and_fewer(counts);
    let calls = case.calls_of(fewer);
    let made = counts.0.min(counts.1);
    let mut before: Vec<&CallDetail> = calls.list.iter().filter(|call| call.seq < made).collect();
    // Only what was read without a gap has distances.
    let gap = before.windows(2).rposition(|w| w[1].seq != w[0].seq + 1);
    before.drain(..gap.map_or(0, |gap| gap + 1));
    let places: Vec<u64> = before.iter().map(|call| call.nth).collect();
    Some(before.first()?.seq + find_rhythm_gap(&places, last)?)
}

/// Finds the number of the missing call. Calls of one kind are at `places` among all calls of a
/// process, up to `last`, and their distances repeat; where a call is missing, two distances are
/// one.
fn find_rhythm_gap(places: &[u64], last: u64) -> Option<u64> {
    let apart: Vec<u64> = places
        .windows(2)
        .map(|w| w[1].saturating_sub(w[0]))
        .collect();
    let n = apart.len();
    let tail = last.saturating_sub(*places.last()?);
    // A few calls more or less are a step's own.
    let like = |a: u64, b: u64| a.abs_diff(b) <= 2.max(a.min(b) / 4);
    let fits = |p: usize| {
        (p..n)
            .find(|&at| !like(apart[at], apart[at - p]))
            .unwrap_or(n)
    };
    let period = (1..=n / 2).max_by_key(|&p| (fits(p), Reverse(p)));
    let Some(p) = period.filter(|&p| fits(p) >= 2 * p) else {
        let most = apart.iter().max()?;
        return (tail > *most).then_some(n as u64 + 1);
    };
    let at = fits(p);
    let is_missing = if at == n {
        tail > apart[n - p] + 2
    } else {
        apart[at] > apart[at - p] + apart[at + 1 - p] / 2
    };
    // All distances together show it: where they begin to differ, or at the end.
    let near = (at + 1 - p..=at + 1 + p).chain(n + 1 - p..=n + 1);
    let near = near.filter(|&k| k > p && k <= n + 1);
    let best = near
        .map(|k| (deviation_from_rhythm(&apart, tail, p, k), Reverse(k)))
        .min();
    let none = deviation_from_rhythm(&apart, tail, p, n + 2);
    let is_better = best.is_some_and(|(off, _)| off.saturating_add(2) < none);
    (is_missing || is_better).then(|| best.map_or(at + 1, |(_, k)| k.0) as u64)
}

/// Sums how far the distances `apart`, and the `tail` after them, are from those expected if the
/// `missing`th call was left out (none, if that is after the next) and all else is as in the
/// periods of `p` before.
fn deviation_from_rhythm(apart: &[u64], tail: u64, p: usize, missing: usize) -> u64 {
    let n = apart.len();
    // The usual distance after a call: the median of its kind before the missing one.
    let middle = |kind: usize| {
        let kinds = apart[..n.min(missing - 1)].iter().skip(kind).step_by(p);
        let mut all: Vec<u64> = kinds.copied().collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    };
    let kinds: Vec<u64> = (0..p).map(middle).collect();
    let usual = |nth: usize| kinds[nth % p];
    let both = |nth: usize| (usual(nth) + usual(nth + 1)).saturating_sub(1);
    let mut off = 0_u64;
    for (at, &seen) in apart.iter().enumerate().skip(p) {
        let expected = match (at + 1).cmp(&missing) {
            Ordering::Less => usual(at),
            Ordering::Equal => both(at),
            Ordering::Greater => usual(at + 1),
        };
        off = off.saturating_add(seen.abs_diff(expected));
    }
    // How long the rank went on after its last call without the next.
    let (least, most) = match missing.cmp(&(n + 1)) {
        Ordering::Less => (0, usual(n + 1)),
        Ordering::Equal => (usual(n), both(n)),
        Ordering::Greater => (0, usual(n)),
    };
    let away = least.saturating_sub(tail) + tail.saturating_sub(most);
    off.saturating_add(away)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_left_out_makes_two_distances_one() {
        // Two a step: 10 calls apart, then 30.
        let whole: Vec<u64> = vec![0, 10, 40, 50, 80, 90, 120, 130];
        assert_eq!(find_rhythm_gap(&whole, 140), None);
        assert_eq!(find_rhythm_gap(&whole, 159), None);
        // The step's first is missing, the second made.
        let mut first = whole.clone();
        first.remove(6);
        assert_eq!(find_rhythm_gap(&first, 140), Some(6));
        // The second is missing, and the rank went on.
        assert_eq!(find_rhythm_gap(&whole[..7], 135), Some(7));
        // It stopped.
        assert_eq!(find_rhythm_gap(&whole[..7], 125), None);
        assert_eq!(find_rhythm_gap(&[], 5), None);
        assert_eq!(find_rhythm_gap(&[3], 5), None);
        // The first of a step's two is missing, which makes one distance little more than usual;
        // the second is, and all are as usual.
        let two = [2, 8, 38, 44, 73, 79, 108, 114, 148];
        assert_eq!(find_rhythm_gap(&two, 175), Some(8));
        let two = [2, 8, 38, 44, 73, 79, 108, 114, 143];
        assert_eq!(find_rhythm_gap(&two, 175), Some(9));
        // The rank went on for several steps without the call.
        let went_on = [2, 8, 38, 44, 73, 79, 108, 114, 148, 177, 183, 212, 218];
        assert_eq!(find_rhythm_gap(&went_on, 225), Some(8));
        // A call more was made in the step before.
        let two = [10, 13, 31, 34, 51, 54, 71, 74, 91, 94, 112, 115, 134];
        assert_eq!(find_rhythm_gap(&two, 140), Some(12));
    }
}
