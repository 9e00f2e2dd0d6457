//! Whether those behind kept pace until the end.

use super::{Made, Sides, Tail};
use rustc_hash::{FxHashMap, FxHashSet};

/// Those behind must have kept pace for so many times what they lack.
const PACE: u64 = 4;

impl<F: Fn(u32) -> Option<(Option<u32>, u32)>> Tail<'_, F> {
    /// True where those behind kept pace, and were not behind like this before they last did.
    pub(super) fn is_new(&self, sides: &Sides) -> bool {
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
                    kept_pace = pace.behind.most() >= PACE.saturating_mul(most - least);
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

/// One communicator's calls as they come.
struct Pace {
    behind: Made,
    ahead: Made,
}

impl Pace {
    fn new(members: &[(u32, u64)], sides: &Sides) -> Pace {
        let made = |of: &FxHashSet<u32>| {
            let members = members.iter().copied();
            Made::new(members.filter(|(member, _)| of.contains(member)))
        };
        Pace {
            behind: made(&sides.behind),
            ahead: made(&sides.ahead),
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
        self.behind.most() > self.ahead.least()
    }

    /// All of each side are at one place, and the sides are not.
    fn is_apart(&self) -> bool {
        let is_one = |side: &Made| side.least() == side.most();
        is_one(&self.behind) && is_one(&self.ahead) && self.behind.most() < self.ahead.most()
    }
}
