//! Which ranks are to blame for a circle.

use super::limits::{
    CALLS_TO_JUDGE_HABIT, MAX_PROGRAM_CALLS_COMPARED, MIN_CALLS_WENT_ON, MIN_COMMON_WAITERS,
};
use super::wait::{CollectiveId, CollectiveReplay, ProgramCall, ReplayOutcome, WaitCircle};
use std::cmp::Ordering;

/// How much of what a rank called before a call it also called before such a call before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ContextHabit {
    /// A number of calls.
    alike: usize,
    /// All that are known.
    is_whole: bool,
}

impl ContextHabit {
    fn capped_calls_alike(self) -> usize {
        self.alike.min(CALLS_TO_JUDGE_HABIT)
    }
}

/// A rank that waits in a collective, and the place of its call in its program.
type WaitingRank = (u32, usize);

/// The ranks to blame for a circle, their collective, and that of the others.
#[derive(Debug)]
pub struct CircleBlame {
    /// The ranks to blame, by number of their program.
    pub ranks: Vec<u32>,
    /// The collective in which they wait.
    pub own: CollectiveId,
    /// The one in which the others wait.
    pub others: CollectiveId,
    /// The others.
    pub waiting: Vec<u32>,
    /// It is known which side is wrong.
    pub is_sure: bool,
}

impl CollectiveReplay<'_> {
    /// Returns the circle that the ranks did not leave. A circle of calls that were all made counts only if
    /// there is no other, and the ranks did not go on for long or the job `failed`.
    pub fn find_lasting_circle<'s>(
        &self,
        stuck: &'s ReplayOutcome,
        failed: bool,
    ) -> Option<&'s WaitCircle> {
        let circles = &stuck.circles;
        if let Some(circle) = circles.iter().find(|circle| !circle.is_made) {
            return Some(circle);
        }
        let [circle] = &circles[..] else { return None };
        let went_on = |&(rank, at): &(u32, usize)| {
            let rest = self.programs[rank as usize].len() - at;
            !failed && rest > at / 4 + MIN_CALLS_WENT_ON
        };
        (!circle.waits.values().flatten().any(went_on)).then_some(circle)
    }

    /// Returns the ranks to blame for a circle, as far as that is known.
    pub fn find_circle_blame(&self, circle: &WaitCircle) -> Option<CircleBlame> {
        self.blame_in_circle(circle)
            .or_else(|| self.blame_longer_circle(circle))
    }

    /// How many of the calls before a rank's next one came before such a call before; `None` for a
    /// call that is the first of its kind.
    fn measure_habit(&self, rank: u32, at: usize) -> Option<ContextHabit> {
        let program = self.programs.get(rank as usize)?;
        let kind = |step: &ProgramCall| (step.event.0, step.mark);
        let head = kind(program.get(at)?);
        let alike = |end: usize| {
            let pairs = program[..end].iter().rev().zip(program[..at].iter().rev());
            let same = pairs.take_while(|(a, b)| kind(a) == kind(b));
            let same = same.take(MAX_PROGRAM_CALLS_COMPARED).count();
            ContextHabit {
                alike: same,
                is_whole: same == end,
            }
        };
        let before = (0..at).filter(|&end| kind(&program[end]) == head);
        before.map(alike).max()
    }

    /// The least of these ranks.
    fn least_habit_of(&self, ranks: &[WaitingRank]) -> Option<ContextHabit> {
        let all = ranks.iter().map(|&(rank, at)| self.measure_habit(rank, at));
        all.min().flatten()
    }

    /// Blames, in a longer circle, the ranks with a call at an unusual place, else those in the
    /// collective with the fewest waiting ranks.
    fn blame_longer_circle(&self, circle: &WaitCircle) -> Option<CircleBlame> {
        let mut waits: Vec<(&CollectiveId, &Vec<WaitingRank>)> = circle.waits.iter().collect();
        waits.sort_by_key(|(event, ranks)| (ranks.len(), **event));
        let habit = |(_, ranks): &(&CollectiveId, &Vec<WaitingRank>)| self.least_habit_of(ranks);
        let habits: Vec<Option<ContextHabit>> = waits.iter().map(habit).collect();
        let least = habits.iter().min().filter(|least| least.is_some());
        let is_least = |at: &usize| Some(&habits[*at]) == least;
        let mut those = (0..waits.len()).filter(is_least);
        let odd = those.next().filter(|_| those.next().is_none());
        let (own, least) = waits.remove(odd.unwrap_or(0).min(waits.len().checked_sub(1)?));
        let (others, waiting) = waits.last()?;
        Some(CircleBlame {
            ranks: ranks_of_waiters(least),
            own: *own,
            others: **others,
            waiting: ranks_of_waiters(waiting),
            is_sure: false,
        })
    }

    /// Takes the pair of collectives in which the most ranks wait for few.
    fn blame_in_circle(&self, circle: &WaitCircle) -> Option<CircleBlame> {
        let mut best: Option<CircleBlame> = None;
        for (&a, at_a) in &circle.waits {
            for (&b, at_b) in circle.waits.range((a.0, a.1 + 1)..) {
                let Some(blamed) = self.blame_of_two_collectives(a, at_a, b, at_b) else {
                    continue;
                };
                let rank = |b: &CircleBlame| (b.is_sure, b.waiting.len());
                if best.as_ref().is_none_or(|best| rank(&blamed) > rank(best)) {
                    best = Some(blamed);
                }
            }
        }
        best
    }

    /// Returns the ranks to blame: of two collectives that wait for each other, those in the one
    /// with fewer ranks.
    fn blame_of_two_collectives(
        &self,
        a: CollectiveId,
        at_a: &[WaitingRank],
        b: CollectiveId,
        at_b: &[WaitingRank],
    ) -> Option<CircleBlame> {
        let shared = |ranks: &[WaitingRank], of: CollectiveId| -> Vec<WaitingRank> {
            let members = self.members.get(of.0 as usize);
            let is = |rank: &u32| members.is_some_and(|all| all.contains(rank));
            ranks.iter().filter(|(rank, _)| is(rank)).copied().collect()
        };
        let (in_a, in_b) = (shared(at_a, b), shared(at_b, a));
        if in_a.is_empty() || in_b.is_empty() {
            return None;
        }
        let habit = |ranks: &[WaitingRank]| self.least_habit_of(ranks);
        let fewer = match in_a.len().cmp(&in_b.len()) {
            Ordering::Equal => None,
            order => Some(order.is_lt()),
        };
        // A call of a new kind ends what the others go on with.
        let habits = match fewer {
            Some(_) => (None, None),
            None => (habit(&in_a), habit(&in_b)),
        };
        let is_clear = matches!(habits, (Some(a), Some(b)) if a.capped_calls_alike().abs_diff(b.capped_calls_alike()) >= CALLS_TO_JUDGE_HABIT / 4);
        let is_unused = match habits {
            (Some(a), Some(b)) if a != b => Some(a < b),
            // Unless most are still busy with what it ends.
            (Some(_), None) => Some(self.is_majority_waiting(b, at_b)),
            (None, Some(_)) => Some(!self.is_majority_waiting(a, at_a)),
            _ => None,
        };
        // One side never made such a call on its communicator before, so it has the wrong one.
        let mark = |ranks: &[WaitingRank]| {
            let &(rank, at) = ranks.first()?;
            Some(self.programs.get(rank as usize)?.get(at)?.mark)
        };
        let is_astray = match habits {
            _ if fewer.is_some() || mark(&in_a) != mark(&in_b) => None,
            (None, Some(_)) => Some(true),
            (Some(_), None) => Some(false),
            _ => None,
        };
        // A rank that came to a collective as all others that wait there did is in the right place.
        let is_alone = match fewer {
            Some(_) => None,
            None => match (
                self.is_usual_among_waiters(&in_a, at_a),
                self.is_usual_among_waiters(&in_b, at_b),
            ) {
                (false, true) => Some(true),
                (true, false) => Some(false),
                _ => None,
            },
        };
        let whose = fewer.or(is_astray).or(is_alone);
        let (own, others, waiting) = match whose.or(is_unused) {
            Some(false) => ((b, in_b), a, at_a),
            _ => ((a, in_a), b, at_b),
        };
        Some(CircleBlame {
            ranks: ranks_of_waiters(&own.1),
            own: own.0,
            others,
            waiting: ranks_of_waiters(waiting),
            is_sure: fewer.is_some() || is_astray.is_some() || is_clear && is_alone.is_none(),
        })
    }

    /// True where others wait in the same collective, and `ranks` came to it by as usual a way as they.
    fn is_usual_among_waiters(&self, ranks: &[WaitingRank], all: &[WaitingRank]) -> bool {
        let near = |rank: &WaitingRank| {
            self.measure_habit(rank.0, rank.1)
                .map_or(0, ContextHabit::capped_calls_alike)
        };
        let own = ranks.iter().map(near).min().unwrap_or(0);
        let others = all.iter().filter(|rank| !ranks.contains(rank));
        let (many, usual) = others.fold((0, 0), |(many, usual), rank| {
            (many + 1, near(rank).max(usual))
        });
        many >= MIN_COMMON_WAITERS && own + CALLS_TO_JUDGE_HABIT / 4 > usual
    }

    /// True where several of a collective's members came to it, and no fewer than did not.
    fn is_majority_waiting(&self, event: CollectiveId, at: &[WaitingRank]) -> bool {
        let all = self.members.get(event.0 as usize);
        at.len() > 1 && all.is_some_and(|all| 2 * at.len() >= all.len())
    }
}

fn ranks_of_waiters(waiters: &[WaitingRank]) -> Vec<u32> {
    waiters.iter().map(|(rank, _)| *rank).collect()
}
