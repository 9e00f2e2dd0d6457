//! The columns of calls: what ranks call together gets one column.

use crate::stages::page::limits::MAX_DRAWN_RANKS;
use rustc_hash::FxHashSet;

/// A call that several ranks may make: its sequence, numbered from 0, and its number there.
pub(super) type SharedCall = (u32, u64);

/// Rows, one bit each.
type RowSet = u64;
const _: () = assert!(MAX_DRAWN_RANKS <= RowSet::BITS as usize);

fn iter_set_rows(mut set: RowSet) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let row = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(row)
    })
}

/// A sequence's calls that are not placed yet.
#[derive(Clone, Default)]
struct SequenceRest {
    /// Their numbers, rising, each with the rows that make the call.
    calls: Vec<(u64, RowSet)>,
    /// The first free column.
    free: usize,
}

/// Returns the column of each call of each row, counted from the last column. A call's column is as near to the end as
/// the later calls of its rows and of its sequence allow; `missing` are calls of others that a row has not made: all
/// its own come before them. Where rows have calls in contradicting orders, one gets a column of its own; rows that miss
/// each other's last calls end together.
pub(super) fn place_from_end(
    rows: &[Vec<SharedCall>],
    mut missing: Vec<FxHashSet<SharedCall>>,
) -> Vec<Vec<usize>> {
    let rows = &separate_repeated(rows);
    let mut rest = list_sequences(rows);
    let mut columns: Vec<Vec<usize>> = rows.iter().map(|calls| vec![0; calls.len()]).collect();
    let mut left: Vec<usize> = rows.iter().map(Vec::len).collect();
    let mut free = vec![0; rows.len()];
    let next = |left: &[usize], row: usize| left[row].checked_sub(1).map(|at| rows[row][at]);
    let mut held: Vec<usize> = (0..rows.len()).collect();
    loop {
        held.retain(|&row| !missing[row].is_empty());
        let mut is_changed = false;
        for row in 0..rows.len() {
            while let Some(call) = next(&left, row) {
                let sequence = &mut rest[call.0 as usize];
                let is_next =
                    |row: usize| missing[row].is_empty() && next(&left, row) == Some(call);
                let is_last = |&mut (number, who): &mut (u64, RowSet)| {
                    number == call.1 && iter_set_rows(who).all(is_next)
                };
                let Some((_, who)) = sequence.calls.pop_if(is_last) else {
                    break;
                };
                let column = iter_set_rows(who).map(|row| free[row]).max();
                let column = column.unwrap_or(0).max(sequence.free);
                sequence.free = column + 1;
                for row in iter_set_rows(who) {
                    left[row] -= 1;
                    columns[row][left[row]] = column;
                    free[row] = column + 1;
                }
                for &row in &held {
                    if missing[row].remove(&call) {
                        free[row] = free[row].max(column + 1);
                    }
                }
                is_changed = true;
            }
        }
        if is_changed {
            continue;
        }
        if missing.iter().any(|missing| !missing.is_empty()) {
            missing.iter_mut().for_each(FxHashSet::clear);
            continue;
        }
        // Rows wait for each other: the one that is nearest to the end goes on alone.
        let stuck = (0..rows.len()).filter(|&row| left[row] > 0);
        let Some(row) = stuck.min_by_key(|&row| free[row]) else {
            return columns;
        };
        left[row] -= 1;
        columns[row][left[row]] = free[row];
        free[row] += 1;
        let (sequence, number) = rows[row][left[row]];
        let all = &mut rest[sequence as usize].calls;
        if let Ok(at) = all.binary_search_by_key(&number, |call| call.0) {
            let who = &mut all[at].1;
            *who &= !(1 << row);
            if *who == 0 {
                all.remove(at);
            }
        }
    }
}

/// Lists the calls of each sequence.
fn list_sequences(rows: &[Vec<SharedCall>]) -> Vec<SequenceRest> {
    let mut sequences = vec![SequenceRest::default(); count_sequences(rows)];
    for (row, calls) in rows.iter().enumerate() {
        for &(sequence, number) in calls {
            let all = &mut sequences[sequence as usize].calls;
            // Most sequences have all numbers.
            let first = all.first().map_or(number, |call| call.0);
            let dense = usize::try_from(number.wrapping_sub(first)).unwrap_or(usize::MAX);
            let found = match all.get(dense) {
                Some(call) if call.0 == number => Ok(dense),
                _ => all.binary_search_by_key(&number, |call| call.0),
            };
            match found {
                Ok(at) => all[at].1 |= 1 << row,
                Err(at) => all.insert(at, (number, 1 << row)),
            }
        }
    }
    sequences
}

fn count_sequences(rows: &[Vec<SharedCall>]) -> usize {
    let most = rows.iter().flatten().map(|(sequence, _)| *sequence).max();
    most.map_or(0, |most| most as usize + 1)
}

/// Returns the rows with a sequence of its own for each call that its row has already: the other end of a message to
/// oneself.
fn separate_repeated(rows: &[Vec<SharedCall>]) -> Vec<Vec<SharedCall>> {
    let sequences = count_sequences(rows);
    let mut unused = sequences as u32;
    // By sequence, the last call in it: its row and its number.
    let mut last = vec![(usize::MAX, 0); sequences];
    let separate = |(row, calls): (usize, &Vec<SharedCall>)| {
        let call = |&(sequence, number): &SharedCall| {
            let last = &mut last[sequence as usize];
            if last.0 != row || last.1 < number {
                *last = (row, number);
                return (sequence, number);
            }
            unused += 1;
            (unused - 1, 0)
        };
        calls.iter().map(call).collect()
    };
    rows.iter().enumerate().map(separate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_calls_stand_under_each_other_and_contradictions_end() {
        let calls = |numbers: &[u64]| numbers.iter().map(|&n| (0, n)).collect::<Vec<_>>();
        let place =
            |rows: &[Vec<SharedCall>]| place_from_end(rows, vec![FxHashSet::default(); rows.len()]);
        assert_eq!(
            place(&[calls(&[1, 2, 3]), calls(&[1, 2])]),
            [vec![2, 1, 0], vec![2, 1]]
        );
        // A row far behind comes before the others' first known call.
        assert_eq!(
            place(&[calls(&[90, 91]), calls(&[5])]),
            [vec![1, 0], vec![2]]
        );
        // A rank without the call that others share fills its own columns.
        let mixed = vec![(0, 1), (1, 0), (1, 1), (0, 2)];
        assert_eq!(
            place(&[mixed, calls(&[1, 2])]),
            [vec![3, 2, 1, 0], vec![3, 0]]
        );
        let crossed = [vec![(0, 0), (1, 0)], vec![(1, 0), (0, 0)]];
        let columns = place(&crossed);
        assert!(columns.iter().all(|row| row[0] > row[1]), "{columns:?}");
        // Both ends of a message to oneself.
        assert_eq!(place(&[calls(&[7, 7, 8])]), [vec![2, 1, 0]]);
        assert_eq!(place(&[]), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn the_calls_of_a_rank_come_before_those_that_it_misses() {
        let set = |calls: &[SharedCall]| calls.iter().copied().collect::<FxHashSet<_>>();
        // The second made two calls elsewhere, and not the one that the first waits in.
        let rows = [vec![(0, 1), (0, 2), (0, 3)], vec![(0, 1), (1, 0), (1, 1)]];
        assert_eq!(
            place_from_end(&rows, vec![set(&[]), set(&[(0, 2)])]),
            [vec![4, 1, 0], vec![4, 3, 2]]
        );
        // One waits for the second, which waits for the third.
        let rows = [vec![(0, 1)], vec![(1, 1)], vec![(2, 1)]];
        assert_eq!(
            place_from_end(&rows, vec![set(&[]), set(&[(0, 1)]), set(&[(1, 1)])]),
            [vec![0], vec![1], vec![2]]
        );
        // Each waits for the other.
        let rows = [vec![(0, 1)], vec![(1, 1)]];
        assert_eq!(
            place_from_end(&rows, vec![set(&[(1, 1)]), set(&[(0, 1)])]),
            [vec![0], vec![0]]
        );
    }
}
