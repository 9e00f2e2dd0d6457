//! Which ranks wait for which others.
//!
//! [`CollectiveReplay`] lets the ranks' collectives meet: a collective is done once all its members come to
//! it. The collectives of a healthy job have one order that every rank keeps, across all communicators. So
//! wherever its log ends, the replay ends only at ranks that have no further call, and the others wait
//! for those. If ranks wait for each other in a circle, or come to one collective with different calls, no
//! such order exists: that is a deadlock or a mismatch, and the first of its kind, since all that is done
//! before has met.
//!
//! Sends and receives are left out: they are made ahead, in groups, and in any order.

use super::limits::MAX_CIRCLE_RELEASES;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// A collective: the communicator and the number of the call on it.
pub type CollectiveId = (u32, u64);

/// A rank's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramCall {
    /// The collective.
    pub event: CollectiveId,
    /// What all members must agree on.
    pub mark: u64,
}

/// Ranks that wait for each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitCircle {
    /// The collectives, with the ranks that wait in each and the place of their call in their program.
    pub waits: BTreeMap<CollectiveId, Vec<(u32, usize)>>,
    /// All members of all these collectives made them, in any order.
    pub is_made: bool,
}

/// How far the ranks come, and what keeps them there.
#[derive(Debug, Default)]
pub struct ReplayOutcome {
    /// Collectives to which members came with different calls.
    pub different: FxHashSet<CollectiveId>,
    /// Circles, in the order in which ranks came to them. If all their calls were made, the ranks may have gone
    /// on, and the replay goes on.
    pub circles: Vec<WaitCircle>,
    /// How far each rank came in its program.
    pub at: Vec<usize>,
}

/// The calls that are to meet.
pub struct CollectiveReplay<'a> {
    /// The members of each communicator, by number of their program.
    pub members: &'a [Vec<u32>],
    /// Each rank's collectives in order.
    pub programs: &'a [Vec<ProgramCall>],
    /// Collectives that are known to have ended: they hold no rank.
    pub ended: &'a FxHashSet<CollectiveId>,
}

/// A replay in progress.
struct ReplayState<'a> {
    job: &'a CollectiveReplay<'a>,
    stuck: ReplayOutcome,
    /// Ranks at each collective that is not done.
    here: FxHashMap<CollectiveId, Vec<u32>>,
    /// Collectives that no longer hold their ranks.
    open: FxHashSet<CollectiveId>,
}

impl CollectiveReplay<'_> {
    /// Lets all calls meet that can.
    pub fn replay_calls(&self) -> ReplayOutcome {
        let at = vec![0; self.programs.len()];
        let mut run = ReplayState {
            job: self,
            stuck: ReplayOutcome {
                at,
                ..ReplayOutcome::default()
            },
            here: FxHashMap::default(),
            open: self.ended.clone(),
        };
        let all = 0..u32::try_from(self.programs.len()).unwrap_or(u32::MAX);
        run.advance_ranks(all.collect());
        for _ in 0..MAX_CIRCLE_RELEASES {
            let circles = run.find_circles();
            let mut free = Vec::new();
            for circle in circles {
                if circle.is_made {
                    free.extend(circle.waits.keys().copied());
                }
                if !run.stuck.circles.contains(&circle) {
                    run.stuck.circles.push(circle);
                }
            }
            if free.is_empty() {
                break;
            }
            run.release_waiters(&free);
        }
        run.stuck
    }

    fn call_at(&self, rank: u32, at: usize) -> Option<&ProgramCall> {
        self.programs.get(rank as usize)?.get(at)
    }
}

impl ReplayState<'_> {
    fn next_call(&self, rank: u32) -> Option<&ProgramCall> {
        self.job.call_at(rank, self.stuck.at[rank as usize])
    }

    /// Advances these ranks, and the ranks that they meet, as far as possible.
    fn advance_ranks(&mut self, mut ranks: Vec<u32>) {
        while let Some(rank) = ranks.pop() {
            let Some(&ProgramCall { event, mark }) = self.next_call(rank) else {
                continue;
            };
            if self.open.contains(&event) {
                self.stuck.at[rank as usize] += 1;
                ranks.push(rank);
                continue;
            }
            let here = self.here.entry(event).or_default();
            here.push(rank);
            // Two different calls are enough: the others may never come.
            let first = self.job.call_at(here[0], self.stuck.at[here[0] as usize]);
            if first.is_some_and(|first| first.mark != mark) {
                self.stuck.different.insert(event);
            }
            let members = self.job.members.get(event.0 as usize).map_or(0, Vec::len);
            if here.len() < members || self.stuck.different.contains(&event) {
                continue;
            }
            for rank in self.here.remove(&event).unwrap_or_default() {
                self.stuck.at[rank as usize] += 1;
                ranks.push(rank);
            }
        }
    }

    /// Lets the ranks go that wait in these collectives.
    fn release_waiters(&mut self, events: &[CollectiveId]) {
        let mut ranks = Vec::new();
        for event in events {
            self.open.insert(*event);
            for rank in self.here.remove(event).unwrap_or_default() {
                self.stuck.at[rank as usize] += 1;
                ranks.push(rank);
            }
        }
        self.advance_ranks(ranks);
    }

    /// Groups of collectives in which ranks wait for each other.
    fn find_circles(&self) -> Vec<WaitCircle> {
        // For each collective those in which its missing members wait.
        let mut kept: BTreeMap<CollectiveId, Vec<CollectiveId>> = BTreeMap::new();
        for &event in self.here.keys() {
            if self.stuck.different.contains(&event) {
                continue;
            }
            let members = self.job.members.get(event.0 as usize);
            let heads = members
                .into_iter()
                .flatten()
                .filter_map(|&m| self.next_call(m));
            let mut by: Vec<CollectiveId> = heads.map(|step| step.event).collect();
            by.retain(|other| *other != event && !self.stuck.different.contains(other));
            by.sort_unstable();
            by.dedup();
            kept.insert(event, by);
        }
        // A collective without a predecessor or a successor is in no circle.
        loop {
            let keeps: FxHashSet<CollectiveId> = kept.values().flatten().copied().collect();
            let before = kept.len();
            kept.retain(|event, by| !by.is_empty() && keeps.contains(event));
            let rest: FxHashSet<CollectiveId> = kept.keys().copied().collect();
            for by in kept.values_mut() {
                by.retain(|event| rest.contains(event));
            }
            if kept.len() == before && kept.values().all(|by| !by.is_empty()) {
                break;
            }
        }
        let mut circles = Vec::new();
        while let Some(&first) = kept.keys().next() {
            let mut those = vec![first];
            let mut next = 0;
            while let Some(&event) = those.get(next) {
                next += 1;
                let by = kept.get(&event).cloned().unwrap_or_default();
                let keeps = kept.iter().filter(|(_, by)| by.contains(&event));
                let keeps: Vec<CollectiveId> = keeps.map(|(&other, _)| other).collect();
                for other in by.into_iter().chain(keeps) {
                    if !those.contains(&other) {
                        those.push(other);
                    }
                }
            }
            those.iter().for_each(|event| drop(kept.remove(event)));
            circles.push(self.build_circle(&those));
        }
        circles
    }

    fn build_circle(&self, events: &[CollectiveId]) -> WaitCircle {
        let at = |rank: &u32| (*rank, self.stuck.at[*rank as usize]);
        let waits = events.iter().map(|event| {
            let mut here: Vec<(u32, usize)> =
                self.here.get(event).into_iter().flatten().map(at).collect();
            here.sort_unstable();
            (*event, here)
        });
        let made = |event: &CollectiveId| {
            let members = self.job.members.get(event.0 as usize);
            members.into_iter().flatten().all(|&rank| {
                let rest = self.job.programs[rank as usize].get(self.stuck.at[rank as usize]..);
                rest.into_iter().flatten().any(|step| step.event == *event)
            })
        };
        WaitCircle {
            waits: waits.collect(),
            is_made: events.iter().all(made),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(all: &[&[(u32, u64)]]) -> Vec<Vec<ProgramCall>> {
        let steps = |list: &&[(u32, u64)]| {
            let mut next = [0; 4];
            let step = |&(comm, mark): &(u32, u64)| {
                let seq = next[comm as usize];
                next[comm as usize] += 1;
                let event = (comm, seq);
                ProgramCall { event, mark }
            };
            list.iter().map(step).collect()
        };
        all.iter().map(steps).collect()
    }

    fn run(members: &[Vec<u32>], all: &[&[(u32, u64)]]) -> ReplayOutcome {
        let programs = programs(all);
        CollectiveReplay {
            members,
            programs: &programs,
            ended: &FxHashSet::default(),
        }
        .replay_calls()
    }

    const A: (u32, u64) = (0, 1);
    const B: (u32, u64) = (1, 1);

    #[test]
    fn a_log_that_ends_anywhere_has_no_circle() {
        let members = [vec![0, 1, 2], vec![0, 1], vec![1, 2]];
        let whole: [&[(u32, u64)]; 3] = [&[A, B, A, B], &[A, (2, 5), B, A, B], &[A, (2, 5), A]];
        for ends in 0..5 * 6 * 4 {
            let end = [ends % 5, ends / 5 % 6, ends / 30];
            let cut: Vec<&[(u32, u64)]> = (0..3).map(|r| &whole[r][..end[r]]).collect();
            let stuck = run(&members, &cut);
            assert!(stuck.circles.is_empty() && stuck.different.is_empty());
        }
    }

    #[test]
    fn crossed_order_is_a_circle_whether_the_ranks_went_on_or_not() {
        let members = [vec![0, 1, 2], vec![0, 1, 2]];
        let stuck = run(&members, &[&[A, A, B], &[A, A, B], &[A, B, A]]);
        let [circle] = &stuck.circles[..] else {
            panic!("{stuck:?}");
        };
        assert!(circle.is_made);
        assert_eq!(circle.waits[&(0, 1)], [(0, 1), (1, 1)]);
        assert_eq!(circle.waits[&(1, 0)], [(2, 1)]);
        assert_eq!(stuck.at, [3, 3, 3]);
        let stuck = run(&members, &[&[A, A], &[A, A, B], &[A, B]]);
        assert!(!stuck.circles[0].is_made);
        assert_eq!(stuck.at, [1, 1, 1]);
    }

    #[test]
    fn a_different_call_keeps_all_behind_it() {
        let members = [vec![0, 1], vec![0, 1]];
        let stuck = run(&members, &[&[A, A, B], &[A, (0, 2), A, B]]);
        assert!(stuck.different.contains(&(0, 1)) && stuck.circles.is_empty());
        assert_eq!(stuck.at, [1, 1]);
        // A third rank that waits elsewhere for one of the two makes no circle.
        let members = [vec![0, 1, 2], vec![0, 2]];
        let stuck = run(&members, &[&[A, (0, 2), B], &[A, A], &[A, B]]);
        assert!(stuck.different.contains(&(0, 1)) && stuck.circles.is_empty());
    }
}
