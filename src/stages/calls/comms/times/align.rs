//! Which call of a log a recorded call is: by its number, or by the order of the calls. A call is its shape here,
//! the number of its operation and bytes.

use super::super::limits::MAX_OFFSET_COMPARISONS;

/// The result of an alignment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallAlignment {
    /// The place of each recorded call in the log; `None` where it is not there, or could be several.
    Places(Vec<Option<usize>>),
    /// They fit at several places.
    Ambiguous,
    /// They do not fit.
    Other,
}

/// Aligns recorded calls, each with its number and shape, with all calls of a log. The numbers begin with the
/// log if `begins`; otherwise, or where calls differ then, they may be off by one constant.
pub(super) fn align_by_number(
    recorded: &[(u64, u32)],
    logged: &[u32],
    begins: bool,
) -> CallAlignment {
    let place = |offset: i128, number: u64| {
        let at = usize::try_from(i128::from(number) + offset).ok()?;
        (at < logged.len()).then_some(at)
    };
    let differs = |offset: i128, (number, shape): &(u64, u32)| {
        place(offset, *number).is_some_and(|at| logged.get(at) != Some(shape))
    };
    let places = |offset: i128| {
        let numbers = recorded.iter();
        CallAlignment::Places(numbers.map(|(number, _)| place(offset, *number)).collect())
    };
    if begins && !recorded.iter().any(|call| differs(0, call)) {
        return places(0);
    }
    let numbers = || recorded.iter().map(|(number, _)| *number);
    let (Some(first), Some(last)) = (numbers().min(), numbers().max()) else {
        return CallAlignment::Other;
    };
    let Some(spare) = (logged.len() as u64).checked_sub((last - first).saturating_add(1)) else {
        return CallAlignment::Other;
    };
    let (mut found, mut compared) = (None, 0_usize);
    for at in 0..=spare {
        let offset = i128::from(at) - i128::from(first);
        let mut calls = recorded.iter();
        let fits = calls.all(|call| {
            compared += 1;
            !differs(offset, call)
        });
        if compared > MAX_OFFSET_COMPARISONS || (fits && found.is_some()) {
            return CallAlignment::Ambiguous;
        }
        if fits {
            found = Some(offset);
        }
    }
    found.map_or(CallAlignment::Other, places)
}

/// Aligns recorded calls with all calls of a log by their order. A recorder may have missed calls; if
/// `is_contiguous`, only before its first and after its last.
pub(super) fn align_in_order(
    recorded: &[u32],
    logged: &[u32],
    is_contiguous: bool,
) -> CallAlignment {
    if is_contiguous {
        let mut runs = find_runs(recorded, logged);
        return match (runs.next(), runs.next()) {
            (Some(at), None) => {
                CallAlignment::Places((at..at + recorded.len()).map(Some).collect())
            }
            (Some(_), Some(_)) => CallAlignment::Ambiguous,
            (None, _) => CallAlignment::Other,
        };
    }
    let all = logged.iter().copied().enumerate();
    let earliest = first_places(recorded.iter().copied(), all.clone());
    let latest = first_places(recorded.iter().rev().copied(), all.rev());
    let (Some(earliest), Some(mut latest)) = (earliest, latest) else {
        return CallAlignment::Other;
    };
    latest.reverse();
    // Between the two each place is possible.
    let certain = |(early, late): (&usize, &usize)| (early == late).then_some(*early);
    let places: Vec<_> = earliest.iter().zip(&latest).map(certain).collect();
    match places.iter().any(Option::is_some) {
        true => CallAlignment::Places(places),
        false => CallAlignment::Ambiguous,
    }
}

/// Returns the places of `recorded` in the order of `logged`, each as early as possible.
fn first_places(
    recorded: impl Iterator<Item = u32>,
    mut logged: impl Iterator<Item = (usize, u32)>,
) -> Option<Vec<usize>> {
    recorded
        .map(|shape| logged.find(|(_, other)| *other == shape).map(|(at, _)| at))
        .collect()
}

/// Finds where `recorded` is in `logged` without a gap (Knuth, Morris and Pratt).
fn find_runs(recorded: &[u32], logged: &[u32]) -> impl Iterator<Item = usize> {
    // For each prefix the length of its longest proper prefix that also ends it.
    let mut ends = vec![0; recorded.len()];
    let extend = |ends: &[usize], mut n: usize, shape: u32| {
        while n > 0 && recorded.get(n) != Some(&shape) {
            n = ends[n - 1];
        }
        n + usize::from(recorded.get(n) == Some(&shape))
    };
    for at in 1..recorded.len() {
        ends[at] = extend(&ends, ends[at - 1], recorded[at]);
    }
    let mut n = 0;
    logged.iter().enumerate().filter_map(move |(at, shape)| {
        n = extend(&ends, n, *shape);
        (n > 0 && n == recorded.len()).then(|| at + 1 - n)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places(places: &[usize]) -> CallAlignment {
        CallAlignment::Places(places.iter().copied().map(Some).collect())
    }

    #[test]
    fn numbers_are_off_by_one_constant_or_refused() {
        let log = [1, 2, 3, 1, 2, 4];
        let number = |calls: &[(u64, u32)], begins| align_by_number(calls, &log, begins);
        assert_eq!(number(&[(0, 1), (2, 3)], true), places(&[0, 2]));
        // What the log does not have.
        let beyond = CallAlignment::Places(vec![Some(5), None]);
        assert_eq!(number(&[(5, 4), (6, 9)], true), beyond);
        // A log without its beginning.
        assert_eq!(number(&[(12, 3), (14, 2)], false), places(&[2, 4]));
        assert_eq!(number(&[(11, 1), (12, 2)], false), CallAlignment::Ambiguous);
        // All of these operations are numbered by another counter.
        assert_eq!(number(&[(1, 1), (2, 4)], true), CallAlignment::Other);
        assert_eq!(number(&[], false), CallAlignment::Other);
    }

    #[test]
    fn calls_that_could_be_others_are_refused() {
        let order = |calls: &[u32], whole| align_in_order(calls, &[1, 1, 2, 3, 1], whole);
        assert_eq!(order(&[1, 2, 3], true), places(&[1, 2, 3]));
        // Without the certainty that none was missed, it may be either.
        let maybe = CallAlignment::Places(vec![None, Some(2), Some(3)]);
        assert_eq!(order(&[1, 2, 3], false), maybe);
        assert_eq!(order(&[1], true), CallAlignment::Ambiguous);
        assert_eq!(order(&[1], false), CallAlignment::Ambiguous);
        assert_eq!(order(&[2, 2], false), CallAlignment::Other);
        assert_eq!(order(&[2, 1], true), CallAlignment::Other);
    }

    proptest! {
        /// A recorder that misses calls: no recorded call gets another one's place.
        #[test]
        fn no_call_gets_anothers_place(
            calls in proptest::collection::vec((0..3_u32, any::<bool>()), 0..40),
            cut in 0..20_usize,
        ) {
            let logged: Vec<u32> = calls.iter().map(|(shape, _)| *shape).collect();
            let seen: Vec<usize> = (0..calls.len()).filter(|at| calls[*at].1).collect();
            let recorded: Vec<u32> = seen.iter().map(|at| logged[*at]).collect();
            let truth = |found: &[Option<usize>], seen: &[usize]| {
                found.iter().zip(seen).all(|(found, true_place)| found.is_none_or(|at| at == *true_place))
            };
            if let CallAlignment::Places(found) = align_in_order(&recorded, &logged, false) {
                prop_assert!(truth(&found, &seen));
            }
            let from = cut.min(logged.len());
            let window: Vec<usize> = (from..logged.len().min(from + 7)).collect();
            let recorded = &logged[from..from + window.len()];
            let found = align_in_order(recorded, &logged, true);
            prop_assert!(found != CallAlignment::Other || window.is_empty());
            if let CallAlignment::Places(found) = found {
                prop_assert!(truth(&found, &window));
            }
            // The log without its first calls, and the recorder's numbers of some of them.
            let numbered: Vec<(u64, u32)> =
                seen.iter().filter(|at| **at >= from).map(|at| (*at as u64, logged[*at])).collect();
            if let CallAlignment::Places(found) = align_by_number(&numbered, &logged[from..], from == 0) {
                let later: Vec<usize> = seen.iter().filter(|at| **at >= from).map(|at| at - from).collect();
                prop_assert!(truth(&found, &later));
            }
        }
    }
}
