//! Aligns two members' calls of one sequence that differ: a member left calls out, made more, or other ones,
//! and went on as before. From there on its calls have other numbers.

use super::limits::{
    CALLS_TO_REALIGN, CALLS_TO_REALIGN_AT_END, MAX_CALLS_APART, MAX_DIVERGENCES,
    MAX_OTHER_CALLS_IN_ROW, MIN_ALIKE_PER_OTHER,
};

/// A member's calls from `from` on, up to the next piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AlignedPiece {
    from: u32,
    /// Added to their numbers to get the placed rank's; `None` if it has no such calls.
    shift: Option<i64>,
}

/// A member's calls, piece by piece.
pub(super) type AlignedPieces = Vec<AlignedPiece>;

/// Returns the placed rank's number of the member's call `number`. Numbers must rise; `next` is the piece of
/// the last one.
pub(super) fn shifted_number(pieces: &[AlignedPiece], number: u32, next: &mut u32) -> Option<u32> {
    while pieces
        .get(*next as usize + 1)
        .is_some_and(|piece| piece.from <= number)
    {
        *next += 1;
    }
    let shift = pieces.get(*next as usize)?.shift?;
    u32::try_from(i64::from(number) + shift).ok()
}

/// Matches the calls in `own` with those in `told`.
pub(super) fn align_calls(told: &[u16], own: &[u16]) -> AlignedPieces {
    let mut pieces = vec![AlignedPiece {
        from: 0,
        shift: Some(0),
    }];
    let (mut i, mut j, mut same, mut other, mut places) = (0, 0, 0, 0, 0);
    loop {
        while i < told.len() && j < own.len() && told[i] == own[j] {
            (i, j, same) = (i + 1, j + 1, same + 1);
        }
        if i == told.len() || j == own.len() {
            break;
        }
        let Some((left_out, more)) =
            find_next_match(&told[i..], &own[j..]).filter(|_| pieces.len() < MAX_DIVERGENCES)
        else {
            pieces.push(AlignedPiece {
                from: j as u32,
                shift: None,
            });
            break;
        };
        if left_out == more {
            (i, j) = (i + more, j + more);
            (other, places) = (other + more, places + 1);
            continue;
        }
        if more > 0 {
            pieces.push(AlignedPiece {
                from: j as u32,
                shift: None,
            });
        }
        (i, j) = (i + left_out, j + more);
        let shift = Some(i as i64 - j as i64);
        pieces.push(AlignedPiece {
            from: j as u32,
            shift,
        });
    }
    if 2 * other > same || places > ((same + other) / MIN_ALIKE_PER_OTHER).max(1) {
        return vec![AlignedPiece {
            from: 0,
            shift: None,
        }];
    }
    pieces
}

/// Returns the fewest calls to skip in each list until both go on alike.
fn find_next_match(told: &[u16], own: &[u16]) -> Option<(usize, usize)> {
    let alike = |a: usize, b: usize, least: usize| {
        let (Some(told), Some(own)) = (told.get(a..), own.get(b..)) else {
            return false;
        };
        let n = CALLS_TO_REALIGN.min(told.len()).min(own.len());
        n >= least && told[..n] == own[..n]
    };
    // If both ways match, the one that leaves both lists about as long wins.
    let left = |(a, b): (usize, usize)| {
        (told.len() - a.min(told.len())).abs_diff(own.len() - b.min(own.len()))
    };
    (1..=MAX_CALLS_APART).find_map(|n| {
        if n <= MAX_OTHER_CALLS_IN_ROW && alike(n, n, 1) {
            return Some((n, n));
        }
        let ways = [(n, 0), (0, n)]
            .into_iter()
            .filter(|&(a, b)| alike(a, b, CALLS_TO_REALIGN_AT_END));
        ways.min_by_key(|&way| left(way))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(told: &[u16], own: &[u16]) -> Vec<Option<u32>> {
        let pieces = align_calls(told, own);
        let mut at = 0;
        (0..own.len() as u32)
            .map(|n| shifted_number(&pieces, n, &mut at))
            .collect()
    }

    /// Steps of seven calls.
    fn steps(n: u16) -> Vec<u16> {
        (0..n)
            .flat_map(|step| [1, 2, 2, 2, 3, 4, 10 + step % 3])
            .collect()
    }

    #[test]
    fn who_left_a_call_out_or_made_one_more_goes_on_with_another_number() {
        let told = steps(9);
        let all: Vec<Option<u32>> = (0..63).map(Some).collect();
        assert_eq!(numbers(&told, &told), all);
        let mut own = told.clone();
        own.remove(32);
        assert_eq!(numbers(&told, &own), [&all[..32], &all[33..]].concat());
        assert_eq!(numbers(&own, &told)[33..], all[32..62]);
        let mut own = told.clone();
        own.insert(33, 77);
        let more = [&all[..33], &[None], &all[33..]].concat();
        assert_eq!(numbers(&told, &own), more);
        // Another call at one place.
        let mut own = told.clone();
        own[30] = 77;
        assert_eq!(numbers(&told, &own), all);
    }

    #[test]
    fn of_two_ways_the_one_that_fits_the_ends_counts() {
        let told: Vec<u16> = [1, 2].repeat(20);
        let all: Vec<Option<u32>> = (0..40).map(Some).collect();
        let mut own = told.clone();
        own.remove(18);
        assert_eq!(numbers(&told, &own), [&all[..18], &all[19..]].concat());
        let more = [&all[..18], &[None], &all[18..39]].concat();
        assert_eq!(numbers(&own, &told), more);
    }

    #[test]
    fn of_calls_that_are_never_alike_none_is_known() {
        let told = steps(9);
        let own: Vec<u16> = told.iter().zip(100..).map(|(call, n)| call + n).collect();
        assert!(numbers(&told, &own).iter().all(Option::is_none));
        assert_eq!(numbers(&[], &own[..1]), [Some(0)]);
    }

    #[test]
    fn few_calls_in_another_order_are_at_one_place() {
        let told = steps(2);
        let mut own = told.clone();
        own.swap(7, 8);
        own.extend([50, 51]);
        let mut all: Vec<Option<u32>> = (0..16).map(Some).collect();
        assert_eq!(numbers(&told, &own), all);
        // In each step.
        own.swap(0, 1);
        own.swap(4, 5);
        all.fill(None);
        assert_eq!(numbers(&told, &own), all);
        // Few that are alike.
        assert_eq!(numbers(&[1, 2], &[3, 2]), [None; 2]);
    }

    #[test]
    fn where_two_part_for_good_the_rest_is_not_known() {
        let told = steps(9);
        let mut own = told.clone();
        own[40..]
            .iter_mut()
            .zip(500..)
            .for_each(|(call, n)| *call = n);
        let got = numbers(&told, &own);
        assert_eq!((got[39], got[40], got[62]), (Some(39), None, None));
    }
}
