//! Who is to blame for a circle.

use super::Met;
use super::replay::{Circle, Event, Step};
use std::cmp::Ordering;

/// So many calls before one show clearly whether it is usual there.
const CONTEXT: usize = 16;

/// So many are compared: where evaluations come every few steps, what differs is as far away.
const FAR: usize = 1 << 10;

/// So many that wait in the same collective are there for a reason.
const OTHERS: usize = 2;

/// How much of what a rank called before a call it also called before such a call before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Habit {
    /// So many calls.
    alike: usize,
    /// All that are known.
    is_whole: bool,
}

impl Habit {
    fn near(self) -> usize {
        self.alike.min(CONTEXT)
    }
}

/// A rank that waits in a collective, and the place of its call in its program.
type Waiter = (u32, usize);

/// Who is to blame for a circle: the ranks, what they wait in, and what the others wait in.
pub(super) struct Blamed {
    pub(super) ranks: Vec<u32>,
    pub(super) own: Event,
    pub(super) others: Event,
    pub(super) waiting: Vec<u32>,
    pub(super) is_sure: bool,
}

impl Blamed {
    /// Who is to blame, as far as that can be known.
    pub(super) fn of(met: &Met, circle: &Circle) -> Option<Blamed> {
        met.blamed(circle).or_else(|| met.any_of(circle))
    }
}

impl Met {
    /// How many of the calls before a rank's next one came before such a call before; `None` for a
    /// call that is the first of its kind.
    fn habit(&self, rank: u32, at: usize) -> Option<Habit> {
        let program = self.programs.steps.get(rank as usize)?;
        let kind = |step: &Step| (step.event.0, step.mark);
        let head = kind(program.get(at)?);
        let alike = |end: usize| {
            let pairs = program[..end].iter().rev().zip(program[..at].iter().rev());
            let same = pairs.take_while(|(a, b)| kind(a) == kind(b));
            let same = same.take(FAR).count();
            Habit {
                alike: same,
                is_whole: same == end,
            }
        };
        let before = (0..at).filter(|&end| kind(&program[end]) == head);
        before.map(alike).max()
    }

    /// The least of these ranks.
    fn least_habit(&self, ranks: &[Waiter]) -> Option<Habit> {
        let all = ranks.iter().map(|&(rank, at)| self.habit(rank, at));
        all.min().flatten()
    }

    /// Of a longer circle: those whose call came at an unusual place, else those in the collective that the
    /// fewest wait in, and others.
    fn any_of(&self, circle: &Circle) -> Option<Blamed> {
        let mut waits: Vec<(&Event, &Vec<Waiter>)> = circle.waits.iter().collect();
        waits.sort_by_key(|(event, ranks)| (ranks.len(), **event));
        let habit = |(_, ranks): &(&Event, &Vec<Waiter>)| self.least_habit(ranks);
        let habits: Vec<Option<Habit>> = waits.iter().map(habit).collect();
        let least = habits.iter().min().filter(|least| least.is_some());
        let is_least = |at: &usize| Some(&habits[*at]) == least;
        let mut those = (0..waits.len()).filter(is_least);
        let odd = those.next().filter(|_| those.next().is_none());
        let (own, least) = waits.remove(odd.unwrap_or(0).min(waits.len().checked_sub(1)?));
        let (others, waiting) = waits.last()?;
        Some(Blamed {
            ranks: ranks(least),
            own: *own,
            others: **others,
            waiting: ranks(waiting),
            is_sure: false,
        })
    }

    /// Of all pairs of collectives the one for whose few the most wait.
    fn blamed(&self, circle: &Circle) -> Option<Blamed> {
        let mut best: Option<Blamed> = None;
        for (&a, at_a) in &circle.waits {
            for (&b, at_b) in circle.waits.range((a.0, a.1 + 1)..) {
                let Some(blamed) = self.of_two((a, at_a), (b, at_b)) else {
                    continue;
                };
                let rank = |b: &Blamed| (b.is_sure, b.waiting.len());
                if best.as_ref().is_none_or(|best| rank(&blamed) > rank(best)) {
                    best = Some(blamed);
                }
            }
        }
        best
    }

    /// Who is to blame: of two collectives whose members wait in one for the other, the fewer.
    fn of_two(
        &self,
        (a, at_a): (Event, &[Waiter]),
        (b, at_b): (Event, &[Waiter]),
    ) -> Option<Blamed> {
        let shared = |ranks: &[Waiter], of: Event| -> Vec<Waiter> {
            let is = |rank: &u32| self.member(of, *rank).is_some();
            ranks.iter().filter(|(rank, _)| is(rank)).copied().collect()
        };
        let (in_a, in_b) = (shared(at_a, b), shared(at_b, a));
        if in_a.is_empty() || in_b.is_empty() {
            return None;
        }
        let habit = |ranks: &[Waiter]| self.least_habit(ranks);
        let fewer = match in_a.len().cmp(&in_b.len()) {
            Ordering::Equal => None,
            order => Some(order.is_lt()),
        };
        // A call of a new kind ends what the others go on with.
        let habits = match fewer {
            Some(_) => (None, None),
            None => (habit(&in_a), habit(&in_b)),
        };
        let is_clear =
            matches!(habits, (Some(a), Some(b)) if a.near().abs_diff(b.near()) >= CONTEXT / 4);
        let is_unused = match habits {
            (Some(a), Some(b)) if a != b => Some(a < b),
            // Unless most are still busy with what it ends.
            (Some(_), None) => Some(self.is_most(b, at_b)),
            (None, Some(_)) => Some(!self.is_most(a, at_a)),
            _ => None,
        };
        // The same call, of which one side never made such a one on its communicator: it has the
        // wrong one.
        let mark = |ranks: &[Waiter]| {
            let &(rank, at) = ranks.first()?;
            Some(self.programs.steps.get(rank as usize)?.get(at)?.mark)
        };
        let is_astray = match habits {
            _ if fewer.is_some() || mark(&in_a) != mark(&in_b) => None,
            (None, Some(_)) => Some(true),
            (Some(_), None) => Some(false),
            _ => None,
        };
        // Who came to a collective as all the others did that wait there is where it should be.
        let is_alone = match fewer {
            Some(_) => None,
            None => match (
                self.is_with_others(&in_a, at_a),
                self.is_with_others(&in_b, at_b),
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
        Some(Blamed {
            ranks: ranks(&own.1),
            own: own.0,
            others,
            waiting: ranks(waiting),
            is_sure: fewer.is_some() || is_astray.is_some() || is_clear && is_alone.is_none(),
        })
    }

    /// True where others wait in the same collective, and `ranks` came to it by as usual a way as they.
    fn is_with_others(&self, ranks: &[Waiter], all: &[Waiter]) -> bool {
        let near = |rank: &Waiter| self.habit(rank.0, rank.1).map_or(0, Habit::near);
        let own = ranks.iter().map(near).min().unwrap_or(0);
        let others = all.iter().filter(|rank| !ranks.contains(rank));
        let (many, usual) = others.fold((0, 0), |(many, usual), rank| {
            (many + 1, near(rank).max(usual))
        });
        many >= OTHERS && own + CONTEXT / 4 > usual
    }

    /// True where several of a collective's members came to it, and no fewer than did not.
    fn is_most(&self, event: Event, at: &[Waiter]) -> bool {
        let all = self.roster.members.get(event.0 as usize);
        at.len() > 1 && all.is_some_and(|all| 2 * at.len() >= all.len())
    }
}

fn ranks(waiters: &[Waiter]) -> Vec<u32> {
    waiters.iter().map(|(rank, _)| *rank).collect()
}
