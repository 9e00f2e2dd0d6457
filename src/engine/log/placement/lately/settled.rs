//! Calls of a log that is still being written: which steps have all their calls.
//!
//! A step's line is printed by one rank. Other ranks may still make calls of the step, or their lines
//! may come a little later. A step is settled when the members of each communicator have made as many
//! calls in it, each by its own count ([`StepCompleteness`]), and with its line only if they are the same calls,
//! or those of the step before.

use super::limits::{
    MAX_STEPS_BEHIND, MAX_STEPS_SILENT, MIN_STEPS_TO_SETTLE, MIN_STEPS_UNCHECKED,
    MIN_STEPS_UNUSUAL_RANK,
};
use crate::by_number::ByNumber;
use crate::log::placement::CutsByProcess;
use crate::log::placement::call_list::CallSlice;
use crate::log::placement::keys::{Sequences, spread_bits};
use crate::log::placement::streams::StreamsByProcess;
use crate::log::timeline::{GapKind, StepTimeline};
use crate::members::MergedMembers;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// When a step of a growing log is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SettleRule {
    /// No later line changes its calls.
    #[default]
    Usual,
    /// Nothing more comes: all members have made as many calls.
    Whole,
    /// It has a line.
    Lines,
}

/// The last calls, placed by what has come so far.
pub struct LivePlacement<'a> {
    /// The calls.
    pub streams: &'a StreamsByProcess,
    /// How many calls of each process came before them.
    pub(in crate::log::placement) gone: &'a ByNumber<u32>,
    /// Where these were cut, by process.
    pub(in crate::log::placement) before: &'a CutsByProcess,
    /// Where they are cut, by process.
    pub cuts: CutsByProcess,
    /// The last gap that is settled: so are those before it.
    pub settled: Option<u32>,
    /// Calls up to this gap were let go for good, before the last calls were first asked for.
    pub since: Option<u32>,
}

impl LivePlacement<'_> {
    /// The gap of a process's call, by its number among all of the process, and how many calls there are up
    /// to the gap's end; `None` where it is not settled.
    pub fn cut_of_call(&self, process: u32, number: u32) -> Option<(u32, u32)> {
        let gone = self.gone.get(process).copied().unwrap_or(0);
        let (gap, end) = match number.checked_sub(gone) {
            Some(number) => {
                let (gap, end) = cut_at(self.cuts.get(process)?, number)?;
                (gap, end.saturating_add(gone))
            }
            None => cut_at(self.before.get(process)?, number)?,
        };
        Some((gap, end)).filter(|_| self.settled.is_some_and(|settled| gap <= settled))
    }

    /// Returns the position in the input, if that was kept, of the first unsettled call with its line in a gap
    /// that is `wanted`.
    pub fn first_unsettled(&self, wanted: impl Fn(u32) -> bool) -> u64 {
        let mut first = u64::MAX;
        for (process, cuts) in self.cuts.iter_numbered() {
            let settled = cuts.partition_point(|&(gap, _)| Some(gap) <= self.settled);
            let from = settled.checked_sub(1).map_or(0, |at| cuts[at].1);
            first = first.min(self.streams.first_position_from(process, from, &wanted));
        }
        first
    }
}

/// The gap of a call by where its process's calls are cut, and how many there are up to its end.
pub(in crate::log::placement) fn cut_at(cuts: &[(u32, u32)], number: u32) -> Option<(u32, u32)> {
    let at = cuts.partition_point(|&(_, end)| end <= number);
    cuts.get(at).copied()
}

/// Returns the last gaps of the `n` newest printed steps, up to gap `until`, in order.
pub(in crate::log::placement) fn last_step_ends(
    timeline: &StepTimeline,
    until: u32,
    n: usize,
) -> Vec<u32> {
    let gaps = &timeline.gaps;
    let closed = gaps.len().saturating_sub(1);
    let is_end = |gap: &usize| {
        let (own, next) = (gaps.get(*gap), gaps.get(gap + 1));
        matches!(own, Some(GapKind::Step(_))) && next != own
    };
    let until = (until as usize).saturating_add(1).min(closed);
    let newest = (gaps.forgotten_count()..until).rev().filter(is_end).take(n);
    let mut ends: Vec<u32> = newest.map(|gap| gap as u32).collect();
    ends.reverse();
    ends
}

/// Decides whether a step's calls are all there.
pub(in crate::log::placement) struct StepCompleteness<'a> {
    streams: &'a StreamsByProcess,
    keys: &'a Sequences,
    cuts: &'a CutsByProcess,
    /// The processes that are placed by more than the position of their lines, and the keys of
    known: Vec<(u32, Vec<u32>)>,
    /// By key: whether a member has made no call of it yet.
    is_awaited: Vec<bool>,
    /// The number of steps that must have lines.
    lines: usize,
}

impl<'a> StepCompleteness<'a> {
    /// Of `streams` as they are cut; `ever` has by process calls that it made before.
    pub(in crate::log::placement) fn new(
        streams: &'a StreamsByProcess,
        keys: &'a Sequences,
        known: &[u32],
        cuts: &'a CutsByProcess,
        ever: &ByNumber<Vec<u32>>,
        merged: &MergedMembers,
        is_unusual: bool,
    ) -> StepCompleteness<'a> {
        let mut seen = vec![u32::MAX; keys.len()];
        let known = known.iter().map(|&process| {
            let now = streams.streams.get(process).into_iter();
            let now = now.flat_map(|stream| stream.calls.all());
            let ever = ever.get(process).into_iter().flatten().copied();
            let mut used = Vec::new();
            for what in now.chain(ever) {
                let key = keys.key_of(what);
                if let Some(seen) = seen.get_mut(key as usize)
                    && *seen != process
                {
                    *seen = process;
                    used.push(key);
                }
            }
            (process, used)
        });
        let known: Vec<(u32, Vec<u32>)> = known.collect();
        StepCompleteness {
            is_awaited: keys.find_awaited(&known, merged),
            streams,
            keys,
            cuts,
            known,
            lines: match is_unusual {
                true => MIN_STEPS_UNUSUAL_RANK,
                false => MIN_STEPS_TO_SETTLE,
            },
        }
    }

    /// The last gap that is settled.
    pub(in crate::log::placement) fn last_settled_gap(
        &self,
        timeline: &StepTimeline,
        rule: SettleRule,
    ) -> Option<u32> {
        if rule == SettleRule::Lines {
            return last_step_ends(timeline, u32::MAX, 1).pop();
        }
        let is_whole_enough = rule == SettleRule::Whole;
        // The printing rank is not known yet.
        let is_open = self.known.is_empty() && self.keys.len() > 0;
        let ends = last_step_ends(timeline, u32::MAX, MAX_STEPS_SILENT + 2);
        let is_young = timeline.steps.len() < MIN_STEPS_UNCHECKED;
        let awaited = self.first_awaited_gap(timeline);
        let newest = ends.iter().rev().enumerate();
        let settled = newest
            .filter(|_| timeline.steps.len() >= self.lines)
            .find(|&(age, &end)| {
                let at = ends.len() - 1 - age;
                let earlier = |n: usize| at.checked_sub(n).map(|before| ends[before]);
                let before = earlier(1);
                awaited.is_none_or(|awaited| end < awaited)
                    && (age >= MAX_STEPS_SILENT
                        || age >= MAX_STEPS_BEHIND && !self.is_behind(end)
                        || !is_open
                            && (is_whole_enough || self.has_calls(before, end))
                            && self.is_whole(before, end)
                            && (!is_young
                                || is_whole_enough
                                || self.is_alike(earlier(2), before, end)
                                || self.is_in_place(before)
                                    && self.is_in_place(Some(end))
                                    && self.is_agreed(before, end))
                            && (age > 0
                                || is_whole_enough
                                || self.has_all([earlier(3), earlier(2), before], end)
                                    && (self.is_alike(earlier(2), before, end)
                                        || self.is_agreed(before, end))))
            });
        settled.map(|(_, &end)| end)
    }

    /// Whether a process has no call after gap `end`, where others have calls that it must make, too.
    fn is_behind(&self, end: u32) -> bool {
        let is_over = |process: &u32| {
            let all = self.streams.streams.get(*process);
            all.is_some_and(|all| {
                all.len() as usize == self.calls_between(*process, None, end).len()
            })
        };
        let over: Vec<_> = self.known.iter().filter(|(p, _)| is_over(p)).collect();
        if over.is_empty() {
            return false;
        }
        let mut is_called = vec![false; self.keys.len()];
        for (process, _) in &self.known {
            for what in self.calls_between(*process, Some(end), u32::MAX) {
                let key = self.keys.key_of(what);
                if let Some(is_called) = is_called.get_mut(key as usize) {
                    *is_called = true;
                }
            }
        }
        let mut own = over.iter().flat_map(|(_, used)| used);
        own.any(|&key| is_called.get(key as usize) == Some(&true))
    }

    /// How many calls there are in each gap that has some.
    pub(in crate::log::placement) fn calls_by_gap(&self) -> BTreeMap<u32, u64> {
        let mut all = BTreeMap::new();
        for calls in self.streams.each_gap_calls(self.cuts) {
            *all.entry(calls.gap).or_default() += calls.count_calls() as u64;
        }
        all
    }

    /// The first gap with a call of a communicator on which further members are to call.
    fn first_awaited_gap(&self, timeline: &StepTimeline) -> Option<u32> {
        if !self.is_awaited.contains(&true) {
            return None;
        }
        let ends = last_step_ends(timeline, u32::MAX, MAX_STEPS_SILENT + 1);
        let long_ago = ends
            .first()
            .copied()
            .filter(|_| ends.len() > MAX_STEPS_SILENT);
        let is_old = self.keys_called_until(long_ago);
        let is_awaited = |what: u32| {
            let key = self.keys.key_of(what) as usize;
            self.is_awaited.get(key) == Some(&true) && !is_old[key]
        };
        let gap = |&(process, _): &(u32, Vec<u32>)| {
            let calls = &self.streams.streams.get(process)?.calls;
            let first = calls.all().iter().position(is_awaited)?;
            let first = u32::try_from(first).ok()?;
            cut_at(self.cuts.get(process)?, first).map(|(gap, _)| gap)
        };
        self.known.iter().filter_map(gap).min()
    }

    /// By key: whether it has calls up to the end of gap `until`, or such that are not here any more.
    fn keys_called_until(&self, until: Option<u32>) -> Vec<bool> {
        let mut is_called = vec![false; self.keys.len()];
        let mut here = vec![u32::MAX; self.keys.len()];
        for (process, used) in &self.known {
            let key = |what: u32| self.keys.key_of(what);
            let all = self.streams.streams.get(*process);
            for key in all.into_iter().flat_map(|s| s.calls.all()).map(key) {
                if let Some(here) = here.get_mut(key as usize) {
                    *here = *process;
                }
            }
            let before = until.map_or(CallSlice::default(), |until| {
                self.calls_between(*process, None, until)
            });
            let gone = used.iter().copied();
            let gone = gone.filter(|key| here.get(*key as usize) != Some(process));
            for key in gone.chain(before.iter().map(key)) {
                if let Some(is_called) = is_called.get_mut(key as usize) {
                    *is_called = true;
                }
            }
        }
        is_called
    }

    /// Whether there are calls in the gaps after `before` up to `end`.
    fn has_calls(&self, before: Option<u32>, end: u32) -> bool {
        let mut all = self.known.iter();
        self.known.is_empty()
            || all.any(|(process, _)| !self.calls_between(*process, before, end).is_empty())
    }

    /// Whether the members that call, or ever called, have made as many calls of each key in the gaps
    /// after `before` up to `end`.
    pub(in crate::log::placement) fn is_whole(&self, before: Option<u32>, end: u32) -> bool {
        self.are_same(before, end, |_| 1)
    }

    /// Whether these members have made the same calls there, in any order.
    fn is_agreed(&self, before: Option<u32>, end: u32) -> bool {
        let content = |what: u32| self.keys.content.get(what as usize).copied();
        let mixed = |what| spread_bits(u64::from(content(what).unwrap_or(0)) + 1);
        self.are_same(before, end, |what| spread_bits(mixed(what).rotate_left(29)))
    }

    /// Whether the sums of `value` over each key's calls are the same for all that call, or ever called.
    fn are_same(&self, before: Option<u32>, end: u32, value: impl Fn(u32) -> u64) -> bool {
        // By key: the first process's sum, and that of the process in hand.
        let mut first: Vec<Option<u64>> = vec![None; self.keys.len()];
        let mut made = vec![0_u64; self.keys.len()];
        self.known.iter().all(|(process, used)| {
            for what in self.calls_between(*process, before, end) {
                let key = self.keys.key_of(what);
                if let Some(made) = made.get_mut(key as usize) {
                    *made = made.wrapping_add(value(what));
                }
            }
            // Those of one process leave nothing to the next one.
            used.iter().fold(true, |is_same, &key| {
                let made = std::mem::take(&mut made[key as usize]);
                is_same & (*first[key as usize].get_or_insert(made) == made)
            })
        })
    }

    /// Whether each process made the same calls in the gaps after `before` up to `end` as after `first` up to
    /// `before`, in any order.
    fn is_alike(&self, first: Option<u32>, before: Option<u32>, end: u32) -> bool {
        let Some(middle) = before else {
            return self.known.is_empty();
        };
        let sorted = |calls: CallSlice<'_>| {
            let mut calls: Vec<u32> = calls.iter().collect();
            calls.sort_unstable();
            calls
        };
        self.known.iter().all(|(process, _)| {
            let (old, new) = (
                self.calls_between(*process, first, middle),
                self.calls_between(*process, before, end),
            );
            old.len() == new.len() && (old == new || sorted(old) == sorted(new))
        })
    }

    /// Whether all processes are placed by more than the position of their lines, and each made as many calls up to
    /// gap `end` as have lines up to there.
    fn is_in_place(&self, end: Option<u32>) -> bool {
        let Some(end) = end else {
            return true;
        };
        let all = &self.streams.streams;
        let with_calls = all.all_values().filter(|stream| stream.len() > 0).count();
        self.known.len() == with_calls
            && self.known.iter().all(|(process, _)| {
                let until = all
                    .get(*process)
                    .map(|stream| stream.calls_until(end) as usize);
                until == Some(self.calls_between(*process, None, end).len())
            })
    }

    /// Whether each process made in the step up to `end` as many calls of each key as in one of the two steps before
    /// it, which end with `earlier`: what some lack on all members alike may be late.
    fn has_all(&self, earlier: [Option<u32>; 3], end: u32) -> bool {
        let [Some(first), Some(second), Some(third)] = earlier else {
            return true;
        };
        let mut left: FxHashMap<u32, i64> = FxHashMap::default();
        self.known.iter().all(|(process, _)| {
            let own = self.calls_between(*process, Some(third), end);
            let mut has = |old: CallSlice<'_>| {
                left.clear();
                own.iter()
                    .for_each(|what| *left.entry(self.keys.key_of(what)).or_default() += 1);
                old.iter().all(|what| {
                    let left = left.entry(self.keys.key_of(what)).or_default();
                    *left -= 1;
                    *left >= 0
                })
            };
            let old = [(second, third), (first, second)];
            let mut old = old
                .map(|(from, to)| self.calls_between(*process, Some(from), to))
                .into_iter();
            old.any(|old| old == own || has(old))
        })
    }

    /// The calls of a process in the gaps after `before` up to `end`.
    pub(super) fn calls_between(
        &self,
        process: u32,
        before: Option<u32>,
        end: u32,
    ) -> CallSlice<'_> {
        let Some((stream, cuts)) = self
            .streams
            .streams
            .get(process)
            .zip(self.cuts.get(process))
        else {
            return CallSlice::default();
        };
        let until = |gap: u32| {
            let last = cuts.partition_point(|cut| cut.0 <= gap).checked_sub(1);
            last.map_or(0, |last| cuts[last].1 as usize)
        };
        let from = before.map_or(0, until);
        stream.calls.slice(from..until(end))
    }
}
