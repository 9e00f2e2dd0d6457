use super::*;

/// One communicator's ranks, whose steps are the calls 1 to 5; each entry is a rank and how many
/// steps it makes at once. A file each if they are not `ordered`.
fn told(
    ranks: u32,
    order: impl IntoIterator<Item = (u32, u64)>,
    ordered: bool,
) -> Vec<UnevenSides> {
    let mut made = vec![0; ranks as usize];
    let mut calls = Vec::new();
    for (rank, steps) in order {
        for mark in (0..steps).flat_map(|_| 1..=5) {
            let seq = &mut made[rank as usize];
            calls.push(LastStreamCall {
                input: if ordered { 0 } else { rank },
                stream: rank,
                seq: *seq,
                mark,
            });
            *seq += 1;
        }
    }
    let begins = vec![(0..ranks).map(|rank| (rank, 0)).collect()];
    find_uneven_jobs(&calls, |stream| Some((Some(0), stream)), &begins)
}

/// A number of steps of eight ranks, which are the first to the last in each.
fn steps(n: u32) -> impl Iterator<Item = (u32, u64)> + Clone {
    (0..n).flat_map(|_| (0..8).map(|rank| (rank, 1)))
}

fn stops(order: impl IntoIterator<Item = (u32, u64)>) -> Option<(usize, usize)> {
    match &told(8, order, true)[..] {
        [] => None,
        [one] => one.is_stop(true).then_some(one.sides),
        more => panic!("{more:?}"),
    }
}

#[test]
fn two_sides_whole_steps_apart_are_told() {
    let all_but = |few: &'static [u32]| (0..8).filter(|rank| !few.contains(rank));
    assert_eq!(stops(steps(9)), None);
    // One step less, one more, and a copy of the model, or half of all, with less.
    let one = |few: &'static [u32]| all_but(few).map(|rank| (rank, 1));
    assert_eq!(stops(steps(9).chain(one(&[2]))), Some((1, 7)));
    assert_eq!(stops(steps(9).chain([(2, 1)])), Some((7, 1)));
    assert_eq!(stops(steps(9).chain(one(&[2, 3]))), Some((2, 6)));
    assert_eq!(stops(steps(9).chain(one(&[2, 3, 6, 7]))), Some((4, 4)));
    // Ranks at three places.
    assert_eq!(stops(steps(9).chain(one(&[2])).chain([(5, 1)])), None);
    // Too early: it never kept pace for long.
    assert_eq!(stops(steps(3).chain(one(&[2]))), None);
}

#[test]
fn a_rank_that_is_often_a_step_behind_is_how_the_job_runs() {
    let others = || (0..8).filter(|rank| *rank != 2).map(|rank| (rank, 1));
    // It is behind, and makes up for it.
    let late = || others().chain([(2, 1)]).chain(steps(1));
    assert_eq!(stops(steps(9).chain(others())), Some((1, 7)));
    assert_eq!(stops(steps(9).chain(late()).chain(others())), None);
    // Nor is one that never was ahead of any.
    let last = (0..9).flat_map(|_| (0..8).rev().map(|rank| (rank, 1)));
    let last = last.chain((1..8).map(|rank| (rank, 1)));
    assert_eq!(stops(last), None);
}

#[test]
fn few_ranks_or_files_in_no_order_need_a_majority() {
    let all = |ranks: u32, n: u64| (0..ranks).map(move |rank| (rank, n + u64::from(rank > 0)));
    let is_stop = |ranks: u32, is_ordered: bool| {
        let told = told(ranks, all(ranks, 9), is_ordered);
        told.iter()
            .map(|one| one.is_stop(is_ordered))
            .collect::<Vec<_>>()
    };
    assert_eq!(is_stop(6, false), [true]);
    assert_eq!(is_stop(4, false), [false]);
    assert_eq!(is_stop(4, true), [false]);
}

#[test]
fn what_is_lacking_must_be_steps() {
    // As before, with a call of every third step in between.
    let before = [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 9, 1, 2, 3, 4, 5];
    let with = |more: &[u64]| steps_of(&[&before, more].concat(), more.len());
    assert_eq!(with(&[1, 2, 3, 4, 5]), Some(true));
    assert_eq!(with(&[1, 2, 3, 4, 5, 9, 1, 2, 3, 4, 5]), Some(true));
    assert_eq!(with(&[1, 2, 3]), Some(false));
    assert_eq!(with(&[1, 2, 3, 7, 5]), Some(false));
    // There are too few to distinguish a step from a layer.
    assert_eq!(steps_of(&[1, 1, 1, 1, 1], 2), None);
    assert_eq!(steps_of(&[], 2), Some(false));
}

fn steps_of(marks: &[u64], more: usize) -> Option<bool> {
    steps::are_whole_steps(marks, more)
}
