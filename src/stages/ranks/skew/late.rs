//! How late each rank comes, call by call and step by step.

use super::align::{median, sort_few};
use super::window::Call;
use crate::count::durations::Durations;
use crate::error::phrases::ranges;
use crate::output::render::{Cell, Grid};
use std::collections::BTreeMap;

/// Who a rank is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    /// The rank in the communicator of all, where that is known.
    pub(super) rank: Option<u32>,
    pub(super) host: Vec<u8>,
    pub(super) pid: Option<u64>,
}

/// What is known of a rank.
#[derive(Debug, Default)]
struct Rank {
    /// How late it came to each call; 0 where it was not.
    late: Durations,
    /// To how many calls it came late by so much that it counts.
    late_calls: u64,
    /// To how many calls it came last.
    last: u64,
    steps: BTreeMap<u64, Step>,
    /// The step in hand: most calls are of the step of the call before.
    now: Option<(u64, Step)>,
}

/// A rank's calls of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    calls: u64,
    /// Those to which it came late by so much that it counts.
    late: u64,
    /// How late it came at most.
    most: i64,
}

impl Default for Step {
    fn default() -> Step {
        Step::NONE
    }
}

impl Step {
    /// A step without calls.
    const NONE: Step = Step {
        calls: 0,
        late: 0,
        most: i64::MIN,
    };

    #[inline]
    fn merge(&mut self, other: Step) {
        self.calls += other.calls;
        self.late += other.late;
        self.most = other.most.max(self.most);
    }
}

/// A rank's calls of one communicator, added up apart from others.
#[derive(Debug, Default)]
pub(super) struct Own {
    rank: Rank,
    /// To how many calls it came no later than the median.
    in_time: u64,
    /// The calls since the last end of a step.
    now: Step,
}

/// All ranks.
#[derive(Debug, Default)]
pub(super) struct Late {
    ranks: Vec<Rank>,
    /// By number; known at the end.
    pub(super) names: Vec<Name>,
    /// When the ranks of the call in hand came.
    times: Vec<i64>,
}

/// A rank is always late where it is so in as large a share of the steps or calls.
const ALWAYS: f64 = 0.8;

/// Without steps it is late at times where it is so in less than such a share of the calls: one of two
/// ranks that come as they like is late to half of them.
const SELDOM: f64 = 1.0 / 3.0;

impl Late {
    /// Adds a call whose times are on one clock.
    pub(super) fn add(&mut self, call: &Call, late_ns: u64) {
        let times = &mut self.times;
        times.clear();
        times.extend(call.came.iter().map(|came| came.ns));
        let (middle, last) = middle(times);
        for came in &call.came {
            let who = came.who as usize;
            if self.ranks.len() <= who {
                self.ranks.resize_with(who + 1, Rank::default);
            }
            let Some(rank) = self.ranks.get_mut(who) else {
                continue;
            };
            let late = came.ns.saturating_sub(middle);
            let ns = u64::try_from(late).unwrap_or(0);
            rank.late.add(ns);
            let counts = u64::from(ns >= late_ns.max(1));
            rank.late_calls += counts;
            rank.last += u64::from(last == Some(came.ns));
            if let Some(step) = call.step {
                rank.at(step).merge(Step {
                    calls: 1,
                    late: counts,
                    most: late,
                });
            }
        }
    }

    /// Adds a rank's calls that were added up apart.
    pub(super) fn merge(&mut self, who: u32, own: Own) {
        let who = who as usize;
        if self.ranks.len() <= who {
            self.ranks.resize_with(who + 1, Rank::default);
        }
        if let Some(rank) = self.ranks.get_mut(who) {
            rank.merge(own);
        }
    }

    /// True where no two ranks have the same name.
    pub(super) fn are_distinct(&self) -> bool {
        let mut names: Vec<&Name> = self.names.iter().collect();
        names.sort_unstable();
        names.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// All calls were added.
    pub(super) fn end(&mut self) {
        self.ranks.iter_mut().for_each(Rank::close);
    }

    /// A row for each rank.
    pub(super) fn grid(&self, late_ns: u64) -> Grid {
        let columns = [
            "rank",
            "host",
            "pid",
            "pattern",
            "calls",
            "late_calls",
            "last_share",
            "p50_us",
            "p95_us",
            "max_us",
            "steps",
            "late_steps",
            "late_us",
            "every",
            "which_steps",
        ];
        let named = self.names.iter().zip(&self.ranks);
        let mut named: Vec<(&Name, &Rank)> = named.filter(|(_, r)| r.late.calls() > 0).collect();
        named.sort_by_key(|(name, _)| (name.rank.is_none(), *name));
        Grid {
            columns: columns.map(str::to_owned).to_vec(),
            rows: named
                .iter()
                .map(|(name, rank)| rank.row(name, late_ns))
                .collect(),
        }
    }
}

/// The middle one of the times that ranks came at (of two, the earlier), and the last if one rank came
/// after all others.
#[inline]
pub(super) fn middle(times: &mut [i64]) -> (i64, Option<i64>) {
    if sort_few(times) {
        let last = match *times {
            [.., before, last] if before < last => Some(last),
            [last] => Some(last),
            _ => None,
        };
        let middle = times.get(times.len().saturating_sub(1) / 2);
        return (middle.copied().unwrap_or(0), last);
    }
    let most = times.iter().copied().max();
    let last = most.filter(|most| times.iter().filter(|ns| *ns == most).count() == 1);
    (median(times).unwrap_or(0), last)
}

impl Own {
    /// A rank comes to a call of which this is the middle, and this the last.
    #[inline]
    pub(super) fn add(&mut self, ns: i64, middle: i64, last: Option<i64>, late_ns: u64) {
        let late = ns.saturating_sub(middle);
        self.now.calls += 1;
        self.now.most = self.now.most.max(late);
        self.rank.last += u64::from(last == Some(ns));
        if late <= 0 {
            self.in_time += 1;
            return;
        }
        let ns = late.unsigned_abs();
        self.rank.late.add(ns);
        self.now.late += u64::from(ns >= late_ns);
    }

    /// The calls since the last end are of this step.
    #[inline]
    pub(super) fn end(&mut self, step: Option<u64>) {
        if self.now == Step::NONE {
            return;
        }
        self.rank.late_calls += self.now.late;
        if let Some(step) = step {
            self.rank.at(step).merge(self.now);
        }
        self.now = Step::NONE;
    }
}

impl Rank {
    /// Adds what was added up apart, and has ended.
    fn merge(
        &mut self,
        Own {
            mut rank, in_time, ..
        }: Own,
    ) {
        rank.close();
        self.late.add_times(0, in_time);
        self.late.merge(&rank.late);
        self.late_calls += rank.late_calls;
        self.last += rank.last;
        for (step, own) in rank.steps {
            self.steps.entry(step).or_insert(Step::NONE).merge(own);
        }
    }

    /// The step in hand, which is this one from now on.
    fn at(&mut self, step: u64) -> &mut Step {
        if self.now.as_ref().is_none_or(|(now, _)| *now != step) {
            self.close();
        }
        &mut self.now.get_or_insert((step, Step::NONE)).1
    }

    /// Puts the step in hand to the others.
    fn close(&mut self) {
        if let Some((step, own)) = self.now.take() {
            self.steps.entry(step).or_insert(Step::NONE).merge(own);
        }
    }

    fn row(&self, name: &Name, late_ns: u64) -> Vec<Cell<'static>> {
        let us = |ns: i64| Cell::from(ns as f64 / 1000.0);
        let of_calls = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1000.0).into();
        let [p50, p95] = self.late.percentiles([0.50, 0.95]);
        let steps = Steps::of(&self.steps, late_ns);
        let has_steps = !self.steps.is_empty();
        let (always, times) = match has_steps {
            true => (steps.is_always, !steps.late.is_empty()),
            false => {
                let share = self.late_calls as f64 / self.late.calls() as f64;
                (share >= ALWAYS, share > 0.0 && share < SELDOM)
            }
        };
        let pattern = match (always, times) {
            (true, true) => "always, at times more",
            (true, false) => "always",
            (false, true) => "at times",
            (false, false) => "",
        };
        let of_steps = |cell: Cell<'static>| if has_steps { cell } else { Cell::Empty };
        vec![
            name.rank.map(u64::from).into(),
            match &name.host[..] {
                b"" => Cell::Empty,
                host => host.to_vec().into(),
            },
            name.pid.into(),
            match pattern {
                "" => Cell::Empty,
                pattern => pattern.into(),
            },
            self.late.calls().into(),
            self.late_calls.into(),
            Cell::share(self.last as f64, self.late.calls() as f64),
            of_calls(p50),
            of_calls(p95),
            of_calls(self.late.most()),
            of_steps((self.steps.len() as u64).into()),
            of_steps((steps.late.len() as u64).into()),
            steps.more.map(us).into(),
            steps.every.into(),
            match steps.late.is_empty() {
                true => Cell::Empty,
                false => ranges(steps.late.iter().copied()).into(),
            },
        ]
    }
}

/// How late a rank comes in steps.
#[derive(Debug, Default, PartialEq)]
struct Steps {
    /// In most steps it is late to most calls.
    is_always: bool,
    /// The steps in which it comes later than in the others.
    late: Vec<u64>,
    /// How late in the median one of them.
    more: Option<i64>,
    /// The distance of most of them.
    every: Option<u64>,
}

/// How many times what steps differ anyway a late one must be above them.
const CLEAR: i64 = 4;

impl Steps {
    fn of(steps: &BTreeMap<u64, Step>, late_ns: u64) -> Steps {
        let threshold = i64::try_from(late_ns).unwrap_or(i64::MAX);
        let mut most: Vec<i64> = steps.values().map(|step| step.most).collect();
        most.sort_unstable();
        // The lower half of the steps is what it comes like where nothing is wrong.
        let at = |share: usize| most.get(most.len().saturating_sub(1) / share).copied();
        let (Some(usual), Some(low)) = (at(2), at(10)) else {
            return Steps::default();
        };
        let noise = usual.saturating_sub(low).saturating_mul(CLEAR);
        let from = usual.max(0).saturating_add(threshold.max(noise));
        let late = steps.iter().filter(|(_, step)| step.most >= from);
        let late: Vec<u64> = late.map(|(step, _)| *step).collect();
        let mut more: Vec<i64> = late
            .iter()
            .filter_map(|s| Some(steps.get(s)?.most))
            .collect();
        let always = steps.values().filter(|step| 2 * step.late >= step.calls);
        Steps {
            is_always: always.count() as f64 >= ALWAYS * steps.len() as f64,
            more: median(&mut more),
            every: every(&late),
            late,
        }
    }
}

/// The distance of steps, where three or more have one and most have the same.
fn every(steps: &[u64]) -> Option<u64> {
    let mut apart: BTreeMap<u64, usize> = BTreeMap::new();
    for pair in steps.windows(2) {
        if let [a, b] = pair {
            *apart.entry(b.saturating_sub(*a)).or_default() += 1;
        }
    }
    let (&distance, &times) = apart.iter().max_by_key(|(_, times)| **times)?;
    let all = steps.len() - 1;
    (all >= 2 && times as f64 >= ALWAYS * all as f64).then_some(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_that_comes_and_goes_is_told_from_what_is_always() {
        let ms = 1_000_000;
        let of = |late: &dyn Fn(u64) -> i64| {
            let step = |step: u64| Step {
                calls: 5,
                late: if late(step) > 0 { 5 } else { 0 },
                most: late(step) * ms,
            };
            Steps::of(&(1..=40).map(|n| (n, step(n))).collect(), ms as u64)
        };
        let at_times = of(&|step| if step % 10 == 0 { 20 } else { 0 });
        assert!(!at_times.is_always);
        assert_eq!(at_times.late, [10, 20, 30, 40]);
        assert_eq!((at_times.every, at_times.more), (Some(10), Some(20 * ms)));
        let always = of(&|_| 2);
        assert!(always.is_always && always.late.is_empty());
        let both = of(&|step| if step % 10 == 0 { 22 } else { 2 });
        assert_eq!((both.is_always, both.every), (true, Some(10)));
        assert_eq!(
            of(&|step| if step % 2 == 0 { 20 } else { 0 }).every,
            Some(2)
        );
        assert_eq!(of(&|_| -3), Steps::default());
        // Steps that differ anyway have none that is late.
        assert!(of(&|step| (step * 7 % 11) as i64 * 9).late.is_empty());
    }

    #[test]
    fn a_distance_is_that_of_most() {
        assert_eq!(every(&[10, 20, 30, 40]), Some(10));
        assert_eq!(every(&[10, 20]), None);
        assert_eq!(every(&[1, 7, 9, 30]), None);
        assert_eq!(every(&[]), None);
    }
}
