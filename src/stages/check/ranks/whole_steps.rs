//! Ranks that ran whole steps more or less than the others of their job: their data is uneven, or they
//! left a step out.
//!
//! Such a job hangs where the fewer steps end. Every rank is then at the end of a step, so that all made
//! the same call last, and they are at two places: what one side lacks is what the other made before.
//! A log that ends anywhere shows this for a moment only, where one side has done a step that the other
//! has yet to begin. But hosts run ahead of their GPUs, and one may always be a step behind the
//! others. So those behind must have kept pace before, and not have been so far behind then.

use crate::stages::check::streams::last_calls::Last;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// So many ranks do not come to one place of two by chance.
const MANY: usize = 4;

/// Nor does a job of fewer ranks.
const RANKS: usize = 6;

/// Where the order of lines is not known, so many must be at one place, and fewer at the other.
const MOST: usize = 5;

/// Those behind must have kept pace for so many times what they lack.
const PACE: u64 = 4;

/// Calls that repeat sooner are of one layer, not of a step.
const LEAST_STEP: usize = 4;

/// Two sides of a job, whole steps apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Uneven {
    /// The job's communicators.
    pub(crate) communicators: Vec<u32>,
    /// How many ranks made fewer calls, and how many made more.
    pub(crate) sides: (usize, usize),
    /// The lines alone show that the job stopped there.
    pub(crate) is_stop: bool,
}

/// The jobs of which two sides are whole steps apart. `of` gives of a stream the communicator, if it is of
/// collectives, and the member; `begins` each communicator's members with how many calls they made
/// before these.
pub(crate) fn uneven(
    calls: &[Last],
    of: impl Fn(u32) -> Option<(Option<u32>, u32)>,
    begins: &[Vec<(u32, u64)>],
) -> Vec<Uneven> {
    let mut made: Vec<FxHashMap<u32, u64>> = begins
        .iter()
        .map(|members| members.iter().copied().collect())
        .collect();
    let mut last: FxHashMap<u32, u64> = FxHashMap::default();
    for call in calls {
        let Some((at, member)) = of(call.stream) else {
            continue;
        };
        last.insert(member, call.mark);
        let own = at.and_then(|at| made.get_mut(at as usize)?.get_mut(&member));
        own.into_iter().for_each(|made| *made += 1);
    }
    let end = End { made, last };
    let sides = jobs(begins).into_iter().filter_map(|job| end.sides(job));
    let tail = Tail { calls, of, begins };
    sides.filter_map(|sides| tail.judge(&sides)).collect()
}

/// Communicators that share members.
fn jobs(begins: &[Vec<(u32, u64)>]) -> Vec<Vec<u32>> {
    let mut of_member: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for (at, members) in (0..).zip(begins) {
        for (member, _) in members {
            of_member.entry(*member).or_default().push(at);
        }
    }
    let mut seen = vec![false; begins.len()];
    let mut jobs = Vec::new();
    for first in (0..).take(begins.len()) {
        let mut job = Vec::new();
        let mut next = vec![first];
        while let Some(at) = next.pop() {
            if std::mem::replace(&mut seen[at as usize], true) {
                continue;
            }
            job.push(at);
            for (member, _) in &begins[at as usize] {
                next.extend(of_member.remove(member).into_iter().flatten());
            }
        }
        if !job.is_empty() {
            job.sort_unstable();
            jobs.push(job);
        }
    }
    jobs
}

/// How far all members came.
struct End {
    /// Of each communicator, how many calls each member made.
    made: Vec<FxHashMap<u32, u64>>,
    /// Each member's last call.
    last: FxHashMap<u32, u64>,
}

/// Two sides of a job that made the same call last.
struct Sides {
    job: Vec<u32>,
    behind: FxHashSet<u32>,
    ahead: FxHashSet<u32>,
    members: FxHashSet<u32>,
    /// The last call.
    mark: u64,
    /// The communicators on which they are apart, and how many calls each side made there.
    apart: BTreeMap<u32, (u64, u64)>,
}

impl End {
    /// The sides of a job, if there are two.
    fn sides(&self, job: Vec<u32>) -> Option<Sides> {
        let (mut behind, mut ahead) = (FxHashSet::default(), FxHashSet::default());
        let (mut members, mut apart) = (FxHashSet::default(), BTreeMap::new());
        for &at in &job {
            let made = &self.made[at as usize];
            members.extend(made.keys().copied());
            let (least, most) = (*made.values().min()?, *made.values().max()?);
            if least == most {
                continue;
            }
            apart.insert(at, (least, most));
            for (&member, &made) in made {
                let side = match made {
                    made if made == least => &mut behind,
                    made if made == most => &mut ahead,
                    _ => return None,
                };
                side.insert(member);
            }
        }
        if apart.is_empty() || !behind.is_disjoint(&ahead) {
            return None;
        }
        let mark = *self.last.get(members.iter().next()?)?;
        let is_last = |member| self.last.get(member) == Some(&mark);
        members.iter().all(is_last).then_some(Sides {
            job,
            behind,
            ahead,
            members,
            mark,
            apart,
        })
    }
}

/// The last calls, and whose they are.
struct Tail<'a, F> {
    calls: &'a [Last],
    of: F,
    begins: &'a [Vec<(u32, u64)>],
}

impl<F: Fn(u32) -> Option<(Option<u32>, u32)>> Tail<'_, F> {
    fn judge(&self, sides: &Sides) -> Option<Uneven> {
        let (less, more) = (sides.behind.len(), sides.ahead.len());
        if !self.repeats(sides) {
            return None;
        }
        let is_stop = match self.is_one(sides) {
            true => less.max(more) >= MANY && less + more >= RANKS && self.is_new(sides),
            false => less.max(more) >= MOST && less != more,
        };
        Some(Uneven {
            communicators: sides.job.clone(),
            sides: (less, more),
            is_stop,
        })
    }

    /// Their calls in order: the communicator, the member, the mark.
    fn each<'s>(
        &'s self,
        sides: &'s Sides,
    ) -> impl Iterator<Item = (Option<u32>, u32, &'s Last)> + 's {
        self.calls.iter().filter_map(move |call| {
            let (at, member) = (self.of)(call.stream)?;
            let is_own = sides.members.contains(&member);
            is_own.then_some((at, member, call))
        })
    }

    /// Only the lines of one input have an order.
    fn is_one(&self, sides: &Sides) -> bool {
        let mut inputs = self.each(sides).map(|(_, _, call)| call.input);
        let first = inputs.next();
        inputs.all(|input| Some(input) == first)
    }

    /// True where the calls that one side lacks are whole steps, as far as a communicator's calls tell:
    /// they end with the call that is before them, and the same calls came after such a call before.
    fn repeats(&self, sides: &Sides) -> bool {
        let one = |at: &u32| {
            let members = self.begins[*at as usize].iter().map(|(member, _)| *member);
            members.filter(|member| sides.ahead.contains(member)).min()
        };
        let those = sides.apart.keys();
        let one: FxHashMap<u32, u32> = those.filter_map(|at| Some((*at, one(at)?))).collect();
        let mut marks: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (at, member, call) in self.each(sides) {
            if let Some(at) = at.filter(|at| one.get(at) == Some(&member)) {
                marks.entry(at).or_default().push(call.mark);
            }
        }
        let mut is_told = false;
        for (at, (least, most)) in &sides.apart {
            let marks = marks.get(at).map_or(&[][..], |marks| marks);
            match usize::try_from(most - least).map(|more| steps(marks, more)) {
                Ok(Some(true)) => is_told = true,
                Ok(None) => {}
                _ => return false,
            }
        }
        is_told
    }

    /// True where those behind kept pace, and were not behind like this before they last did.
    fn is_new(&self, sides: &Sides) -> bool {
        let mut paces: FxHashMap<u32, Pace> = FxHashMap::default();
        for &at in &sides.job {
            paces.insert(at, Pace::new(&self.begins[at as usize], sides));
        }
        let (mut last, mut at_end): (FxHashMap<u32, u64>, usize) = (FxHashMap::default(), 0);
        let (mut is_behind, mut kept_pace, mut is_new) = (false, false, true);
        for (at, member, call) in self.each(sides) {
            let before = last.insert(member, call.mark);
            at_end -= usize::from(before == Some(sides.mark));
            at_end += usize::from(call.mark == sides.mark);
            let pace = at.and_then(|at| Some((at, paces.get_mut(&at)?)));
            if let Some((at, pace)) = pace {
                pace.push(member, sides);
                if let Some((least, most)) = sides.apart.get(&at)
                    && pace.caught_up()
                {
                    // They made up for it: so it was how the job runs.
                    is_new &= !is_behind;
                    kept_pace = pace.behind.most >= PACE.saturating_mul(most - least);
                }
            }
            let is_apart = || {
                let mut own = sides.apart.keys().filter_map(|at| paces.get(at));
                own.all(Pace::is_apart)
            };
            is_behind |= at_end == sides.members.len() && is_apart();
        }
        is_new && kept_pace
    }
}

/// Whether a member's last calls, so many, are whole steps; `None` where calls repeat too soon to tell.
fn steps(marks: &[u64], more: usize) -> Option<bool> {
    let from = marks.len().checked_sub(more).filter(|&from| from > 0);
    let Some(from) = from else { return Some(false) };
    let (before, extra) = marks.split_at(from);
    let is_end = before.last() == extra.last();
    let again = |at: usize| before[at - 1] == before[from - 1] && before[at..].starts_with(extra);
    if !is_end || !(1..=from.saturating_sub(more)).any(again) {
        return Some(false);
    }
    let sooner = |by: usize| extra.iter().zip(&extra[by..]).all(|(a, b)| a == b);
    (!(1..LEAST_STEP.min(more + 1)).any(sooner)).then_some(true)
}

/// How many calls one side's members of a communicator made.
#[derive(Debug, Default)]
struct Side {
    made: FxHashMap<u32, u64>,
    /// The fewest, and how many members made no more.
    least: (u64, usize),
    most: u64,
}

impl Side {
    fn new(members: &[(u32, u64)], of: &FxHashSet<u32>) -> Side {
        let own = members.iter().filter(|(member, _)| of.contains(member));
        let mut side = Side {
            made: own.copied().collect(),
            ..Side::default()
        };
        side.count();
        side.most = side.made.values().copied().max().unwrap_or(0);
        side
    }

    fn count(&mut self) {
        let least = self.made.values().copied().min().unwrap_or(0);
        let many = self.made.values().filter(|&&made| made == least).count();
        self.least = (least, many);
    }

    fn push(&mut self, member: u32) {
        let Some(made) = self.made.get_mut(&member) else {
            return;
        };
        *made += 1;
        self.most = self.most.max(*made);
        if *made == self.least.0 + 1 {
            self.least.1 -= 1;
            if self.least.1 == 0 {
                self.count();
            }
        }
    }
}

/// One communicator's calls as they come.
struct Pace {
    behind: Side,
    ahead: Side,
}

impl Pace {
    fn new(members: &[(u32, u64)], sides: &Sides) -> Pace {
        Pace {
            behind: Side::new(members, &sides.behind),
            ahead: Side::new(members, &sides.ahead),
        }
    }

    fn push(&mut self, member: u32, sides: &Sides) {
        if sides.behind.contains(&member) {
            self.behind.push(member);
        } else {
            self.ahead.push(member);
        }
    }

    /// Some of those behind are ahead of some of the others.
    fn caught_up(&self) -> bool {
        self.behind.most > self.ahead.least.0
    }

    /// All of each side are at one place, and the sides are not.
    fn is_apart(&self) -> bool {
        let is_one = |side: &Side| side.least.0 == side.most;
        is_one(&self.behind) && is_one(&self.ahead) && self.behind.most < self.ahead.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One communicator's ranks, whose steps are the calls 1 to 5; each entry is a rank and how many steps it
    /// makes at once. A file each if they are not `ordered`.
    fn told(ranks: u32, order: impl IntoIterator<Item = (u32, u64)>, ordered: bool) -> Vec<Uneven> {
        let mut made = vec![0; ranks as usize];
        let mut calls = Vec::new();
        for (rank, steps) in order {
            for mark in (0..steps).flat_map(|_| 1..=5) {
                let seq = &mut made[rank as usize];
                calls.push(Last {
                    input: if ordered { 0 } else { rank },
                    stream: rank,
                    seq: *seq,
                    mark,
                });
                *seq += 1;
            }
        }
        let begins = vec![(0..ranks).map(|rank| (rank, 0)).collect()];
        uneven(&calls, |stream| Some((Some(0), stream)), &begins)
    }

    /// So many steps of eight ranks, which are the first to the last in each.
    fn steps(n: u32) -> impl Iterator<Item = (u32, u64)> + Clone {
        (0..n).flat_map(|_| (0..8).map(|rank| (rank, 1)))
    }

    fn stops(order: impl IntoIterator<Item = (u32, u64)>) -> Option<(usize, usize)> {
        match &told(8, order, true)[..] {
            [] => None,
            [one] => one.is_stop.then_some(one.sides),
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
        let is_stop = |told: Vec<Uneven>| told.iter().map(|one| one.is_stop).collect::<Vec<_>>();
        assert_eq!(is_stop(told(6, all(6, 9), false)), [true]);
        assert_eq!(is_stop(told(4, all(4, 9), false)), [false]);
        assert_eq!(is_stop(told(4, all(4, 9), true)), [false]);
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
        // Too few to tell a step from a layer.
        assert_eq!(steps_of(&[1, 1, 1, 1, 1], 2), None);
        assert_eq!(steps_of(&[], 2), Some(false));
    }

    fn steps_of(marks: &[u64], more: usize) -> Option<bool> {
        super::steps(marks, more)
    }
}
