//! Calls of a log that is still being written: which steps have all their calls.
//!
//! A step's line is printed by one rank. Other ranks may still make calls of the step, or their lines
//! may come a little later. A step is settled when the members of each communicator have made as many
//! calls in it, each by its own count.

use super::Placement;
use super::keys::{Keys, NO_KEY};
use super::streams::Streams;
use crate::formats::log::timeline::{Gap, Timeline};
use crate::members::Merged;

/// A step whose line came so many steps ago is not waited for any more.
const LATE: usize = 8;

/// So many steps have lines before it is known what they look like: which trainer and which rank
/// prints them, and how many steps apart.
const KNOWN: usize = 3;

/// The cuts of each process: pairs of a gap and the number of its calls up to the gap's end.
type AllCuts = Vec<Vec<(u32, u32)>>;

/// The calls that are held, placed by what has come so far.
pub struct SoFar<'a> {
    /// What they are.
    pub streams: &'a Streams,
    /// How many calls of each process were let go before.
    gone: &'a [u32],
    /// Where these were cut, by process.
    before: &'a AllCuts,
    /// Where they are cut, by process.
    pub cuts: AllCuts,
    /// The last gap that is settled: so are those before it.
    pub settled: Option<u32>,
}

impl<'a> SoFar<'a> {
    pub(super) fn of(
        streams: &'a Streams,
        (gone, before): (&'a [u32], &'a AllCuts),
        (placement, by_position): (Placement, bool),
        (timeline, merged): (&Timeline, &Merged),
    ) -> SoFar<'a> {
        let Placement { cuts, known, .. } = placement;
        let keys = match by_position {
            true => Keys::default(),
            false => Keys::new(streams, merged),
        };
        // Who prints is not known yet.
        let is_open = known.is_empty() && keys.len() > 0;
        let steps = Steps {
            streams,
            keys: &keys,
            cuts: &cuts,
            known: &known,
        };
        let ends = ends(timeline);
        let newest = ends.iter().rev().enumerate();
        let settled = newest
            .filter(|_| timeline.steps.len() >= KNOWN)
            .find(|&(age, &end)| {
                let at = ends.len() - 1 - age;
                let before = at.checked_sub(1).map(|before| ends[before]);
                age >= LATE || !is_open && steps.is_whole(before, end)
            });
        SoFar {
            settled: settled.map(|(_, &end)| end),
            streams,
            gone,
            before,
            cuts,
        }
    }

    /// The gap of a process's call, by its number among all of the process; `None` where it is not
    /// settled.
    pub fn gap(&self, process: u32, number: u32) -> Option<u32> {
        let at = process as usize;
        let gone = self.gone.get(at).copied().unwrap_or(0);
        let gap = match number.checked_sub(gone) {
            Some(number) => gap_of(self.cuts.get(at)?, number)?,
            None => gap_of(self.before.get(at)?, number)?,
        };
        Some(gap).filter(|gap| self.settled.is_some_and(|settled| *gap <= settled))
    }
}

impl SoFar<'_> {
    /// Where the first call is in the input that is not settled, where that was kept.
    pub fn first_open(&self) -> u64 {
        let mut first = u64::MAX;
        for (process, cuts) in self.cuts.iter().enumerate() {
            let settled = cuts.partition_point(|&(gap, _)| Some(gap) <= self.settled);
            let from = settled.checked_sub(1).map_or(0, |at| cuts[at].1);
            first = first.min(self.streams.first_from(process, from));
        }
        first
    }
}

/// The gap of a call by where its process's calls are cut.
pub(super) fn gap_of(cuts: &[(u32, u32)], number: u32) -> Option<u32> {
    let at = cuts.partition_point(|&(_, end)| end <= number);
    cuts.get(at).map(|&(gap, _)| gap)
}

/// The last gaps of the steps whose lines have come, of the last ones.
fn ends(timeline: &Timeline) -> Vec<u32> {
    let gaps = &timeline.gaps;
    let closed = gaps.len().saturating_sub(1);
    let is_end = |gap: &usize| matches!(gaps[*gap], Gap::Step(_)) && gaps[gap + 1] != gaps[*gap];
    let newest = (0..closed).rev().filter(is_end).take(LATE + 2);
    let mut ends: Vec<u32> = newest.map(|gap| gap as u32).collect();
    ends.reverse();
    ends
}

/// What tells whether a step's calls are all there.
struct Steps<'a> {
    streams: &'a Streams,
    keys: &'a Keys,
    cuts: &'a [Vec<(u32, u32)>],
    known: &'a [u32],
}

impl Steps<'_> {
    /// Whether the members that call, or ever called, have made as many calls of each key in the gaps
    /// after `before` up to `end`.
    fn is_whole(&self, before: Option<u32>, end: u32) -> bool {
        let is_in = |gap: u32| gap <= end && before.is_none_or(|before| gap > before);
        // By key: the first process's calls, and those of the process in hand.
        let mut first: Vec<Option<u32>> = vec![None; self.keys.len()];
        let mut made = vec![(u32::MAX, 0_u32); self.keys.len()];
        for &process in self.known {
            let (Some(stream), Some(cuts)) = (
                self.streams.streams.get(process as usize),
                self.cuts.get(process as usize),
            ) else {
                continue;
            };
            let (mut used, mut from) = (Vec::new(), 0);
            for &(gap, to) in cuts {
                let range = std::mem::replace(&mut from, to as usize)..to as usize;
                let calls = u32::from(is_in(gap));
                for &what in stream.calls.get(range).unwrap_or_default() {
                    let key = self.keys.of.get(what as usize).copied().unwrap_or(NO_KEY);
                    let Some(made) = made.get_mut(key as usize) else {
                        continue;
                    };
                    if made.0 != process {
                        *made = (process, 0);
                        used.push(key as usize);
                    }
                    made.1 += calls;
                }
            }
            let is_same = |&key: &usize| *first[key].get_or_insert(made[key].1) == made[key].1;
            if !used.iter().all(is_same) {
                return false;
            }
        }
        true
    }
}
