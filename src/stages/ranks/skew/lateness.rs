//! The lateness of each rank, by call and by step.

use super::median::{insertion_sort_few, lower_median};
use super::window::SkewCall;
use crate::count::durations::CallDurations;
use crate::error::phrases::ranges_phrase;
use crate::output::render::{Grid, TableCell};
use crate::stages::skew::limits::{
    MAX_SHARE_LATE_AT_TIMES, MAX_STEPS_TO_NEXT_IN_RHYTHM, MIN_LATE_TO_SPREAD_RATIO,
    MIN_SHARE_ALWAYS_LATE,
};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A rank's name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SkewRankName {
    /// The rank in the job, if it is known.
    pub(super) rank: Option<u32>,
    pub(super) host: Vec<u8>,
    pub(super) pid: Option<u64>,
}

/// The lateness of a rank.
#[derive(Debug, Default)]
struct RankLateness {
    /// Its lateness at each call, ns; 0 if it was not late.
    late: CallDurations,
    /// Calls at which it was late by the threshold or more.
    late_calls: u64,
    /// Calls to which it came last.
    last: u64,
    steps: BTreeMap<u64, StepLateness>,
    /// The current step: most calls belong to the step of the call before.
    now: Option<(u64, StepLateness)>,
}

/// A rank's calls of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
struct StepLateness {
    calls: u64,
    /// Calls at which it was late by the threshold or more.
    late: u64,
    /// Its greatest lateness, ns.
    most: i64,
}

impl Default for StepLateness {
    fn default() -> StepLateness {
        StepLateness::NONE
    }
}

impl StepLateness {
    /// A step without calls.
    const NONE: StepLateness = StepLateness {
        calls: 0,
        late: 0,
        most: i64::MIN,
    };

    #[inline]
    fn merge(&mut self, other: StepLateness) {
        self.calls += other.calls;
        self.late += other.late;
        self.most = other.most.max(self.most);
    }
}

/// A rank's calls on one communicator.
#[derive(Debug, Default)]
pub(super) struct LatenessPartial {
    rank: RankLateness,
    /// Calls to which it came no later than the median.
    in_time: u64,
    /// The calls since the last end of a step.
    now: StepLateness,
}

/// All ranks.
#[derive(Debug, Default)]
pub(super) struct LatenessByRank {
    ranks: Vec<RankLateness>,
    /// The ranks' names, set at the end.
    pub(super) names: Vec<SkewRankName>,
    /// The resolution of the times, ns, set at the end.
    pub(super) resolution_ns: i64,
    /// By how many ns the aligned times may be wrong, set at the end.
    pub(super) error_ns: u64,
    /// Times of the current call's ranks.
    times: Vec<i64>,
}

impl LatenessByRank {
    /// Adds a call with aligned times.
    pub(super) fn add_call(&mut self, call: &SkewCall, late_ns: u64) {
        let times = &mut self.times;
        times.clear();
        times.extend(call.came.iter().map(|came| came.ns));
        let (middle, last) = middle_and_last(times);
        for came in &call.came {
            let who = came.who as usize;
            if self.ranks.len() <= who {
                self.ranks.resize_with(who + 1, RankLateness::default);
            }
            let Some(rank) = self.ranks.get_mut(who) else {
                continue;
            };
            let late = came.ns.saturating_sub(middle);
            let ns = u64::try_from(late).unwrap_or(0);
            rank.late.add_call(ns);
            let counts = u64::from(ns >= late_ns.max(1));
            rank.late_calls += counts;
            rank.last += u64::from(last == Some(came.ns));
            if let Some(step) = call.step {
                rank.step_in_hand(step).merge(StepLateness {
                    calls: 1,
                    late: counts,
                    most: late,
                });
            }
        }
    }

    /// Adds a rank's calls on a communicator.
    pub(super) fn merge_rank(&mut self, who: u32, own: LatenessPartial) {
        let who = who as usize;
        if self.ranks.len() <= who {
            self.ranks.resize_with(who + 1, RankLateness::default);
        }
        if let Some(rank) = self.ranks.get_mut(who) {
            rank.merge_partial(own);
        }
    }

    /// True if no two ranks have equal names.
    pub(super) fn has_distinct_names(&self) -> bool {
        let mut names: Vec<&SkewRankName> = self.names.iter().collect();
        names.sort_unstable();
        names.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// Ends the last step of each rank.
    pub(super) fn close_steps(&mut self) {
        self.ranks.iter_mut().for_each(RankLateness::close_step);
    }

    /// Returns the table with a row for each rank.
    pub(super) fn to_grid(&self, late_ns: u64) -> Grid {
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
            "global_rank",
        ];
        let named = self.names.iter().zip(&self.ranks);
        let mut named: Vec<(&SkewRankName, &RankLateness)> =
            named.filter(|(_, r)| r.late.count_calls() > 0).collect();
        named.sort_by_key(|(name, _)| (name.rank.is_none(), *name));
        Grid {
            columns: columns.map(str::to_owned).to_vec(),
            rows: named
                .iter()
                .map(|(name, rank)| rank.row_of_rank(name, late_ns, self))
                .collect(),
        }
    }
}

/// Returns the lower median of the times at which ranks came, and the last if one rank came after all others.
#[inline]
pub(super) fn middle_and_last(times: &mut [i64]) -> (i64, Option<i64>) {
    if insertion_sort_few(times) {
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
    (lower_median(times).unwrap_or(0), last)
}

impl LatenessPartial {
    /// Adds an arrival at a call with this median and this last time.
    #[inline]
    pub(super) fn add_arrival(&mut self, ns: i64, middle: i64, last: Option<i64>, late_ns: u64) {
        let late = ns.saturating_sub(middle);
        self.now.calls += 1;
        self.now.most = self.now.most.max(late);
        self.rank.last += u64::from(last == Some(ns));
        if late <= 0 {
            self.in_time += 1;
            return;
        }
        let ns = late.unsigned_abs();
        self.rank.late.add_call(ns);
        self.now.late += u64::from(ns >= late_ns);
    }

    /// Assigns the calls since the last end to a step.
    #[inline]
    pub(super) fn end_step(&mut self, step: Option<u64>) {
        if self.now == StepLateness::NONE {
            return;
        }
        self.rank.late_calls += self.now.late;
        if let Some(step) = step {
            self.rank.step_in_hand(step).merge(self.now);
        }
        self.now = StepLateness::NONE;
    }
}

impl RankLateness {
    /// Adds a finished part.
    fn merge_partial(
        &mut self,
        LatenessPartial {
            mut rank, in_time, ..
        }: LatenessPartial,
    ) {
        rank.close_step();
        self.late.add_calls(0, in_time);
        self.late.merge(&rank.late);
        self.late_calls += rank.late_calls;
        self.last += rank.last;
        for (step, own) in rank.steps {
            self.steps
                .entry(step)
                .or_insert(StepLateness::NONE)
                .merge(own);
        }
    }

    /// Returns the current step after changing it to `step`.
    fn step_in_hand(&mut self, step: u64) -> &mut StepLateness {
        if self.now.as_ref().is_none_or(|(now, _)| *now != step) {
            self.close_step();
        }
        &mut self.now.get_or_insert((step, StepLateness::NONE)).1
    }

    /// Ends the current step.
    fn close_step(&mut self) {
        if let Some((step, own)) = self.now.take() {
            self.steps
                .entry(step)
                .or_insert(StepLateness::NONE)
                .merge(own);
        }
    }

    fn row_of_rank(
        &self,
        name: &SkewRankName,
        late_ns: u64,
        all: &LatenessByRank,
    ) -> Vec<TableCell<'static>> {
        let us = |ns: i64| TableCell::from(ns as f64 / 1000.0);
        let is_unsure = all.error_ns > late_ns;
        let sure = |ns: &u64| !is_unsure || *ns > all.error_ns;
        let of_calls = |ns: Option<u64>| ns.filter(sure).map(|ns| ns as f64 / 1000.0).into();
        let tick = u64::try_from(all.resolution_ns).unwrap_or(0).max(1);
        // Two times of one moment may be a tick apart.
        let is_coarse = tick > late_ns;
        let is_below_tick = || self.late.max_ns().is_some_and(|most| most <= tick);
        let is_hidden = is_unsure || is_coarse && is_below_tick();
        let seen = |cell: TableCell<'static>| if is_hidden { TableCell::Empty } else { cell };
        // The histogram's values are near the times, which are whole ticks.
        let nearest = |ns: u64| match is_coarse {
            true => ns.saturating_add(tick / 2) / tick * tick,
            false => ns,
        };
        let [p50, p95] = self
            .late
            .percentiles([0.50, 0.95])
            .map(|ns| ns.map(nearest));
        let steps = LatenessOverSteps::from_steps(&self.steps, late_ns);
        let has_steps = !self.steps.is_empty();
        let share = self.late_calls as f64 / self.late.count_calls() as f64;
        let (always, times) = match has_steps {
            true => (steps.is_always, !steps.late.is_empty()),
            false => (
                share >= MIN_SHARE_ALWAYS_LATE,
                share > 0.0 && share < MAX_SHARE_LATE_AT_TIMES,
            ),
        };
        let pattern = match (always, times) {
            (true, true) => "always, at times more",
            (true, false) => "always",
            (false, true) => "at times",
            (false, false) if share >= MAX_SHARE_LATE_AT_TIMES => "often",
            (false, false) => "",
        };
        let of_steps = |cell: TableCell<'static>| if has_steps { cell } else { TableCell::Empty };
        vec![
            name.rank.map(u64::from).into(),
            match &name.host[..] {
                b"" => TableCell::Empty,
                host => host.to_vec().into(),
            },
            name.pid.into(),
            match pattern {
                "" => TableCell::Empty,
                pattern => seen(pattern.into()),
            },
            self.late.count_calls().into(),
            seen(self.late_calls.into()),
            match is_unsure {
                true => TableCell::Empty,
                false => TableCell::share_of(self.last as f64, self.late.count_calls() as f64),
            },
            seen(of_calls(p50)),
            seen(of_calls(p95)),
            of_calls(self.late.max_ns()),
            of_steps((self.steps.len() as u64).into()),
            seen(of_steps((steps.late.len() as u64).into())),
            seen(steps.more.map(us).into()),
            seen(steps.every.into()),
            match steps.late.is_empty() {
                true => TableCell::Empty,
                false => seen(ranges_phrase(steps.late.iter().copied()).into()),
            },
            name.rank.map(u64::from).into(),
        ]
    }
}

/// The pattern of a rank's lateness over steps.
#[derive(Debug, Default, PartialEq)]
struct LatenessOverSteps {
    /// It is late at most calls of most steps.
    is_always: bool,
    /// Steps in which it is later than usual.
    late: Vec<u64>,
    /// The median lateness of these steps, ns.
    more: Option<i64>,
    /// The distance between most of these steps.
    every: Option<u64>,
}

impl LatenessOverSteps {
    fn from_steps(steps: &BTreeMap<u64, StepLateness>, late_ns: u64) -> LatenessOverSteps {
        let threshold = i64::try_from(late_ns).unwrap_or(i64::MAX);
        let mut most: Vec<i64> = steps.values().map(|step| step.most).collect();
        most.sort_unstable();
        // The lower half of the steps shows the usual lateness.
        let at = |share: usize| most.get(most.len().saturating_sub(1) / share).copied();
        let (Some(usual), Some(low)) = (at(2), at(10)) else {
            return LatenessOverSteps::default();
        };
        let noise = usual
            .saturating_sub(low)
            .saturating_mul(MIN_LATE_TO_SPREAD_RATIO);
        let from = usual.max(0).saturating_add(threshold.max(noise));
        let late = steps.iter().filter(|(_, step)| step.most >= from);
        let late: Vec<u64> = late.map(|(step, _)| *step).collect();
        let mut more: Vec<i64> = late
            .iter()
            .filter_map(|s| Some(steps.get(s)?.most))
            .collect();
        let always = steps.values().filter(|step| 2 * step.late >= step.calls);
        LatenessOverSteps {
            is_always: always.count() as f64 >= MIN_SHARE_ALWAYS_LATE * steps.len() as f64,
            more: lower_median(&mut more),
            every: find_step_interval(&late),
            late,
        }
    }
}

/// Returns the distance at which most steps have another one, if they go on so from the first to the last. A few
/// steps between them, or missing ones, change nothing.
fn find_step_interval(steps: &[u64]) -> Option<u64> {
    let mut links: BTreeMap<u64, usize> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        for next in steps[at + 1..].iter().take(MAX_STEPS_TO_NEXT_IN_RHYTHM) {
            *links.entry(next.saturating_sub(*step)).or_default() += 1;
        }
    }
    let best = links
        .into_iter()
        .max_by_key(|&(distance, links)| (links, Reverse(distance)));
    let (distance, _) = best.filter(|(distance, _)| *distance > 0)?;
    let is_late = |step: Option<u64>| step.is_some_and(|step| steps.binary_search(&step).is_ok());
    // Three in a row: two may be chance.
    let is_in_rhythm = |&&step: &&u64| {
        let twice = distance.saturating_mul(2);
        let before = is_late(step.checked_sub(distance));
        let after = is_late(step.checked_add(distance));
        match (before, after) {
            (true, false) => is_late(step.checked_sub(twice)),
            (false, true) => is_late(step.checked_add(twice)),
            both => both.0,
        }
    };
    let own: Vec<u64> = steps.iter().filter(is_in_rhythm).copied().collect();
    let span = (own.last()? - own.first()?) / distance + 1;
    // Of few steps all must fit.
    let least = if own.len() < steps.len() { 4 } else { 3 };
    let is_most = own.len() >= least && 3 * own.len() >= 2 * steps.len();
    (is_most && 4 * own.len() as u64 >= 3 * span).then_some(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_that_comes_and_goes_is_told_from_what_is_always() {
        let ms = 1_000_000;
        let of = |late: &dyn Fn(u64) -> i64| {
            let step = |step: u64| StepLateness {
                calls: 5,
                late: if late(step) > 0 { 5 } else { 0 },
                most: late(step) * ms,
            };
            LatenessOverSteps::from_steps(&(1..=40).map(|n| (n, step(n))).collect(), ms as u64)
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
        assert_eq!(of(&|_| -3), LatenessOverSteps::default());
        // No step stands out if all differ.
        assert!(of(&|step| (step * 7 % 11) as i64 * 9).late.is_empty());
    }

    #[test]
    fn a_distance_is_that_of_most() {
        assert_eq!(find_step_interval(&[10, 20, 30, 40]), Some(10));
        assert_eq!(find_step_interval(&[10, 20]), None);
        assert_eq!(find_step_interval(&[1, 7, 9, 30]), None);
        // Two others come between, one is missing, and the rhythm moves on by one.
        assert_eq!(find_step_interval(&[5, 7, 10, 15, 18, 20]), Some(5));
        assert_eq!(find_step_interval(&[10, 20, 40, 50, 60, 70]), Some(10));
        assert_eq!(find_step_interval(&[10, 20, 30, 41, 51, 61]), Some(10));
        // Most are others, or chance.
        assert_eq!(find_step_interval(&[5, 7, 10, 15, 16, 18, 23, 29]), None);
        assert_eq!(find_step_interval(&[2, 3, 11, 17, 18, 29, 40]), None);
        assert_eq!(find_step_interval(&[]), None);
    }
}
