//! Whether those behind kept pace until the end.

use super::{JobSides, MemberCallCounts, WholeStepSearch};
use crate::stages::check::ranks::limits::KEPT_PACE_FACTOR;
use rustc_hash::{FxHashMap, FxHashSet};

impl<F: Fn(u32) -> Option<(Option<u32>, u32)>> WholeStepSearch<'_, F> {
    /// True where those behind kept pace, and were not behind like this before they last did.
    pub(super) fn kept_pace_before(&self, sides: &JobSides) -> bool {
        let mut paces: FxHashMap<u32, SidePace> = FxHashMap::default();
        for &at in &sides.job {
            paces.insert(at, SidePace::new(&self.begins[at as usize], sides));
        }
        let (mut last, mut at_end): (FxHashMap<u32, u64>, usize) = (FxHashMap::default(), 0);
        let (mut is_behind, mut kept_pace, mut is_new) = (false, false, true);
        for (at, member, call) in self.iter_side_calls(sides) {
            let before = last.insert(member, call.mark);
            at_end -= usize::from(before == Some(sides.mark));
            at_end += usize::from(call.mark == sides.mark);
            let pace = at.and_then(|at| Some((at, paces.get_mut(&at)?)));
            if let Some((at, pace)) = pace {
                pace.count_call(member, sides);
                if let Some((least, most)) = sides.apart.get(&at)
                    && pace.has_caught_up()
                {
                    // They made up for it: so it was how the job runs.
                    is_new &= !is_behind;
                    kept_pace =
                        pace.behind.most_calls() >= KEPT_PACE_FACTOR.saturating_mul(most - least);
                }
            }
            let is_apart = || {
                let mut own = sides.apart.keys().filter_map(|at| paces.get(at));
                own.all(SidePace::is_apart)
            };
            is_behind |= at_end == sides.members.len() && is_apart();
        }
        is_new && kept_pace
    }
}

/// One communicator's calls as they come.
struct SidePace {
    behind: MemberCallCounts,
    ahead: MemberCallCounts,
}

impl SidePace {
    fn new(members: &[(u32, u64)], sides: &JobSides) -> SidePace {
        let made = |of: &FxHashSet<u32>| {
            let members = members.iter().copied();
            MemberCallCounts::new(members.filter(|(member, _)| of.contains(member)))
        };
        SidePace {
            behind: made(&sides.behind),
            ahead: made(&sides.ahead),
        }
    }

    fn count_call(&mut self, member: u32, sides: &JobSides) {
        if sides.behind.contains(&member) {
            self.behind.count_call(member);
        } else {
            self.ahead.count_call(member);
        }
    }

    /// Some of those behind are ahead of some of the others.
    fn has_caught_up(&self) -> bool {
        self.behind.most_calls() > self.ahead.fewest_calls()
    }

    /// All of each side are at one place, and the sides are not.
    fn is_apart(&self) -> bool {
        let is_one = |side: &MemberCallCounts| side.fewest_calls() == side.most_calls();
        is_one(&self.behind)
            && is_one(&self.ahead)
            && self.behind.most_calls() < self.ahead.most_calls()
    }
}
