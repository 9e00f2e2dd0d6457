//! A job that stopped, by its lines alone: ranks lag further than ever before, and are silent for
//! longer.
//!
//! Wherever a log ends, some ranks are a few calls behind others: that is how jobs run. One that
//! hangs goes on only until all others wait, which takes more calls of theirs than a healthy
//! job ever lets pass. So both the lag and the silence are held to the largest before.

use super::call_counts::MemberCallCounts;
use super::step_lines::StepLinePositions;
use crate::stages::check::ranks::limits::MIN_CALLS_TO_JUDGE_LAG;
use crate::stages::check::streams::last_calls::{LastStreamCall, count_calls_behind};
use rustc_hash::FxHashMap;

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

    fn count_call(&mut self, member: u32, input: u32, behind: u64) {
        self.is_one &= *self.input.get_or_insert(input) == input;
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

    /// True where the members with fewest calls stopped.
    fn is_stopped(&self, lines: &StepLinePositions) -> bool {
        let fewest = self
            .made
            .iter_counts()
            .filter(|m| m.1 == self.made.fewest_calls());
        // When the last of them made its last call.
        let last = fewest.map(|(member, _)| self.last.get(&member).copied());
        let Some((last, behind)) = last.map(Option::unwrap_or_default).max() else {
            return false;
        };
        if self
            .input
            .is_some_and(|input| lines.are_late(input, behind))
        {
            return false;
        }
        // A quarter more: the lags of a healthy job are not all seen in its first steps.
        4 * self.excess_over_fewest() > 5 * CommLagTracker::largest_up_to(&self.most, last)
            && self.now - last > CommLagTracker::largest_up_to(&self.gaps, last)
    }
}

/// Returns whether a communicator's slowest members stopped, for those with enough calls; `of`
/// gives the communicator and the member of a stream, `begins` each communicator's members with the
/// number of their earlier calls. Only the lines of one input have an order.
pub(crate) fn find_stopped_communicators(
    calls: &[LastStreamCall],
    of: impl Fn(u32) -> Option<(u32, u32)>,
    begins: &[Vec<(u32, u64)>],
    lines: &StepLinePositions,
) -> FxHashMap<u32, bool> {
    let mut all: Vec<CommLagTracker> = begins
        .iter()
        .map(|members| CommLagTracker::new(members))
        .collect();
    for (call, behind) in calls.iter().zip(count_calls_behind(calls)) {
        let lag =
            of(call.stream).and_then(|(at, member)| Some((all.get_mut(at as usize)?, member)));
        if let Some((lag, member)) = lag {
            lag.count_call(member, call.input, behind);
        }
    }
    let tells = |lag: &&CommLagTracker| {
        lag.is_one && lag.made.fewest_calls() >= MIN_CALLS_TO_JUDGE_LAG && lag.now > 0
    };
    let told = (0..).zip(&all).filter(|(_, lag)| tells(lag));
    told.map(|(at, lag)| (at, lag.is_stopped(lines))).collect()
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
        find_stopped_communicators(&calls, |stream| Some((0, stream)), &begins, &lines).get(&0)
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
