//! Ranks that ran whole steps more or less than the others of their job: their data is uneven, or they
//! left a step out.
//!
//! Such a job hangs where the fewer steps end. Every rank is then at the end of a step, so that all made
//! the same call last, and they are at two places: what one side lacks is what the other made before.
//! A log that ends anywhere shows this for a moment only, where one side has done a step that the other
//! has yet to begin. But hosts run ahead of their GPUs, and one may always be a step behind the
//! others. So those behind must have kept pace before, and not have been so far behind then.

mod pace;
mod sides;
mod steps;
#[cfg(test)]
mod tests;

use super::call_counts::MemberCallCounts;
use crate::stages::check::ranks::limits::{
    MIN_RANKS_AT_ONE_PLACE, MIN_RANKS_OF_UNEVEN_JOB, MIN_RANKS_WITHOUT_ORDER,
};
use crate::stages::check::streams::last_calls::LastStreamCall;
use rustc_hash::FxHashMap;
use sides::{JobSides, MemberPositions, group_into_jobs};

/// Two sides of a job, whole steps apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnevenSides {
    /// The job's communicators.
    pub(crate) communicators: Vec<u32>,
    /// How many ranks made fewer calls, and how many made more.
    pub(crate) sides: (usize, usize),
    /// Many ranks are at two places, and those behind kept pace until then.
    kept_pace: bool,
    /// Many are at one place, and fewer at the other.
    has_majority: bool,
}

impl UnevenSides {
    /// True if the lines alone show that the job stopped there. Without an order of lines the majority is right.
    pub(crate) fn is_stop(&self, is_ordered: bool) -> bool {
        match is_ordered {
            true => self.kept_pace,
            false => self.has_majority,
        }
    }
}

/// Returns the jobs with two sides that are whole steps apart. `of` gives the communicator of a
/// stream, if it is of collectives, and the member; `begins` each communicator's members with the
/// number of their earlier calls.
pub(crate) fn find_uneven_jobs(
    calls: &[LastStreamCall],
    of: impl Fn(u32) -> Option<(Option<u32>, u32)>,
    begins: &[Vec<(u32, u64)>],
) -> Vec<UnevenSides> {
    let members = begins.iter().map(|members| members.iter().copied());
    let mut end = MemberPositions {
        made: members.map(MemberCallCounts::new).collect(),
        last: FxHashMap::default(),
    };
    for call in calls {
        let Some((at, member)) = of(call.stream) else {
            continue;
        };
        end.last.insert(member, call.mark);
        if let Some(made) = at.and_then(|at| end.made.get_mut(at as usize)) {
            made.count_call(member);
        }
    }
    let sides = group_into_jobs(begins)
        .into_iter()
        .filter_map(|job| end.find_sides(job));
    let tail = WholeStepSearch { calls, of, begins };
    sides.filter_map(|sides| tail.judge_sides(&sides)).collect()
}

/// The last calls, and their owners.
struct WholeStepSearch<'a, F> {
    calls: &'a [LastStreamCall],
    of: F,
    begins: &'a [Vec<(u32, u64)>],
}

impl<F: Fn(u32) -> Option<(Option<u32>, u32)>> WholeStepSearch<'_, F> {
    fn judge_sides(&self, sides: &JobSides) -> Option<UnevenSides> {
        let (less, more) = (sides.behind.len(), sides.ahead.len());
        if !self.lacks_whole_steps(sides) {
            return None;
        }
        let are_many =
            less.max(more) >= MIN_RANKS_AT_ONE_PLACE && less + more >= MIN_RANKS_OF_UNEVEN_JOB;
        Some(UnevenSides {
            communicators: sides.job.clone(),
            sides: (less, more),
            kept_pace: are_many && self.kept_pace_before(sides),
            has_majority: less.max(more) >= MIN_RANKS_WITHOUT_ORDER && less != more,
        })
    }

    /// Their calls in order: the communicator, the member, the mark.
    fn iter_side_calls<'s>(
        &'s self,
        sides: &'s JobSides,
    ) -> impl Iterator<Item = (Option<u32>, u32, &'s LastStreamCall)> + 's {
        self.calls.iter().filter_map(move |call| {
            let (at, member) = (self.of)(call.stream)?;
            let is_own = sides.members.contains(&member);
            is_own.then_some((at, member, call))
        })
    }
}
