//! A job that stopped, by its lines alone: ranks lag further than ever before, and are silent for
//! longer.
//!
//! Wherever a log ends, some ranks are a few calls behind others: that is how jobs run. One that
//! hangs goes on only until all others wait, which takes more calls of theirs than a healthy
//! job ever lets pass. So both the lag and the silence are held to the largest before.

use super::call_counts::MemberCallCounts;
use super::step_lines::StepLinePositions;
use crate::stages::check::ranks::limits::{MIN_CALLS_OF_LONE_RANK, MIN_CALLS_TO_JUDGE_LAG};
use crate::stages::check::streams::last_calls::{LastStreamCall, count_calls_behind};
use rustc_hash::{FxHashMap, FxHashSet};

/// One communicator's calls as they come.
#[derive(Debug, Default)]
struct CommLagTracker {
    /// How many calls each member made.
    made: MemberCallCounts,
    /// When each made its last, and how many calls of its input follow.
    last: FxHashMap<u32, (u64, u64)>,
    /// Calls of all members together.
    all: u64,
    /// Calls so far.
    now: u64,
    /// By how many calls the others are ahead of those with fewest, all together: each that was
    /// larger than all before, with when it was.
    most: Vec<(u64, u64)>,
    /// The number of calls between two of one member, likewise.
    gaps: Vec<(u64, u64)>,
    /// The input, if it is one.
    input: Option<u32>,
    is_one: bool,
}

impl CommLagTracker {
    /// Members by the number of calls that they made before.
    fn new(members: &[(u32, u64)]) -> CommLagTracker {
        CommLagTracker {
            made: MemberCallCounts::new(members.iter().copied()),
            all: members.iter().map(|(_, made)| made).sum(),
            is_one: true,
            ..CommLagTracker::default()
        }
    }

    fn count_call(&mut self, member: u32, call: &LastStreamCall, behind: u64) {
        self.is_one &= *self.input.get_or_insert(call.input) == call.input;
        if !self.made.count_call(member) {
            return;
        }
        self.now += 1;
        self.all += 1;
        let last = self.last.insert(member, (self.now, behind));
        let gap = self.now - last.map_or(0, |last| last.0);
        let ahead = self.excess_over_fewest();
        let larger = |list: &[(u64, u64)], value: u64| list.last().is_none_or(|l| value > l.1);
        if larger(&self.most, ahead) {
            self.most.push((self.now, ahead));
        }
        if larger(&self.gaps, gap) {
            self.gaps.push((self.now, gap));
        }
    }

    fn excess_over_fewest(&self) -> u64 {
        self.all - self.made.fewest_calls() * self.made.member_count()
    }

    /// The largest up to a call.
    fn largest_up_to(list: &[(u64, u64)], call: u64) -> u64 {
        let at = list.partition_point(|(at, _)| *at <= call);
        at.checked_sub(1).map_or(0, |at| list[at].1)
    }

    /// Returns the last of the members with fewest calls and when it made its last call, if they stopped.
    fn find_stopped(&self, lines: &StepLinePositions) -> Option<LastOfSlowest> {
        let fewest = self.made.fewest_calls();
        let slowest = self.made.iter_counts().filter(|m| m.1 == fewest);
        let last = slowest.map(|(member, _)| (self.last.get(&member).copied(), member));
        let last = last.map(|(last, member)| (last.unwrap_or_default(), member));
        let ((last, behind), member) = last.max()?;
        if self
            .input
            .is_some_and(|input| lines.are_late(input, behind))
        {
            return None;
        }
        // A quarter more: the lags of a healthy job are not all seen in its first steps.
        let is_stopped = 4 * self.excess_over_fewest()
            > 5 * CommLagTracker::largest_up_to(&self.most, last)
            && self.now - last > CommLagTracker::largest_up_to(&self.gaps, last);
        is_stopped.then_some(LastOfSlowest { member, last })
    }
}

/// The member that went furthest of those with fewest calls.
#[derive(Clone, Copy)]
struct LastOfSlowest {
    member: u32,
    /// The number of its last call among those of the communicator.
    last: u64,
}

/// Returns whether a communicator's slowest members stopped; `of` gives the communicator and the member of a stream,
/// `begins` each communicator's members with the number of their earlier calls. Only the lines of one input have an
/// order. A log that `is_watched` and stalled has no end that a copy could have.
pub(crate) fn find_stopped_communicators(
    calls: &[LastStreamCall],
    of: impl Fn(u32) -> Option<(u32, u32)>,
    begins: &[Vec<(u32, u64)>],
    lines: &StepLinePositions,
    is_watched: bool,
) -> FxHashMap<u32, bool> {
    let mut all: Vec<CommLagTracker> = begins
        .iter()
        .map(|members| CommLagTracker::new(members))
        .collect();
    for (call, behind) in calls.iter().zip(count_calls_behind(calls)) {
        let lag =
            of(call.stream).and_then(|(at, member)| Some((all.get_mut(at as usize)?, member)));
        if let Some((lag, member)) = lag {
            lag.count_call(member, call, behind);
        }
    }
    let told = (0..).zip(&all);
    let is_known = |lag: &CommLagTracker| lag.made.fewest_calls() >= MIN_CALLS_OF_LONE_RANK as u64;
    let told = told.filter(|(_, lag)| lag.is_one && lag.now > 0 && is_known(lag));
    let stopped = told.map(|(at, lag)| (at, lag.find_stopped(lines)));
    let stopped: FxHashMap<u32, Option<LastOfSlowest>> = stopped.collect();
    let familiar = (!is_watched).then(|| find_familiar_lags(calls, of, &stopped));
    let is_familiar = |at: u32| familiar.as_ref().is_none_or(|known| known.contains(&at));
    let told = stopped.iter();
    told.map(|(&at, last)| (at, last.is_some() && is_familiar(at)))
        .collect()
}

/// The communicators with a member that made each call, which the others made after its last one, often enough for its
/// habits there to be known.
fn find_familiar_lags(
    calls: &[LastStreamCall],
    of: impl Fn(u32) -> Option<(u32, u32)>,
    stopped: &FxHashMap<u32, Option<LastOfSlowest>>,
) -> FxHashSet<u32> {
    let mut known: FxHashSet<u32> = FxHashSet::default();
    known.extend(stopped.iter().filter_map(|(at, last)| last.map(|_| *at)));
    let mut now: FxHashMap<u32, u64> = FxHashMap::default();
    let mut times: FxHashMap<(u32, u64), u64> = FxHashMap::default();
    for call in calls {
        let Some((at, member)) = of(call.stream).filter(|(at, _)| known.contains(at)) else {
            continue;
        };
        let Some(&Some(slowest)) = stopped.get(&at) else {
            continue;
        };
        let now = now.entry(at).or_default();
        *now += 1;
        let made = times.entry((at, call.mark)).or_default();
        if member == slowest.member {
            *made += 1;
        } else if *now > slowest.last && *made < MIN_CALLS_TO_JUDGE_LAG {
            known.remove(&at);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_stopped(order: &[u32]) -> bool {
        is_stopped_with(order, &[])
    }

    fn is_stopped_with(order: &[u32], lines: &[u64]) -> bool {
        let calls: Vec<LastStreamCall> = order
            .iter()
            .map(|&stream| LastStreamCall {
                input: 0,
                stream,
                seq: 0,
                mark: 0,
            })
            .collect();
        let begins = vec![(0..3).map(|member| (member, 17)).collect()];
        let lines = StepLinePositions::new(vec![lines.to_vec()]);
        find_stopped_communicators(&calls, |stream| Some((0, stream)), &begins, &lines, false)
            .get(&0)
            == Some(&true)
    }

    #[test]
    fn a_rank_stopped_where_others_never_went_so_far_without_it() {
        let healthy = [0, 1, 2, 1, 0, 2, 2, 1, 0, 0, 1, 2];
        for end in 0..=healthy.len() {
            let is_first_step = end < 3;
            assert!(!is_stopped(&healthy[..end]) || is_first_step, "{end}");
        }
        let hung = [&healthy[..], &[1, 2, 1, 2, 1, 2]].concat();
        assert!(is_stopped(&hung));
        // Steps end without it: its lines are late.
        assert!(is_stopped_with(&hung, &[9, 8, 7, 3]));
        assert!(!is_stopped_with(&hung, &[9, 6, 5, 4, 3, 2, 1, 0]));
    }
}
