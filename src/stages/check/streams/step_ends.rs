//! After how many of its calls each process ended its steps, by the steps that the calls were made in
//! ([`placement`](crate::log::placement)), wherever their lines are.

use crate::count::calls::Options;
use crate::log::placement::{Placer, Recorder};
use crate::log::timeline::{Gap, Timeline, Turn};
use crate::log::{Log, Part};
use crate::members::Merged;
use crate::stages::check::log::old_steps;
use std::collections::{BTreeMap, BTreeSet};

/// A gap of steps that are not looked at: of no timeline.
const OLD: u32 = u32::MAX;

/// One process's steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Own {
    /// How many calls it made.
    pub(crate) made: u64,
    /// How many it had made when each of its steps ended; rising.
    pub(crate) ends: Vec<u64>,
}

/// The steps of all inputs.
#[derive(Debug, Default)]
pub(crate) struct StepEnds {
    /// By input and process.
    of: BTreeMap<u32, Vec<Own>>,
    /// Ranks that print the step lines, and made no call in one of the steps.
    pub(crate) skipped: BTreeSet<u32>,
}

impl StepEnds {
    /// The steps of a process in an input.
    pub(crate) fn of(&self, input: u32, process: u32) -> Option<&Own> {
        self.of.get(&input)?.get(process as usize)
    }

    /// Adds the steps of other inputs.
    pub(super) fn add(&mut self, other: &StepEnds) {
        let of = other.of.iter().map(|(input, own)| (*input, own.clone()));
        self.of.extend(of);
        self.skipped.extend(&other.skipped);
    }
}

/// One input, while it is read.
pub(super) struct Steps<'o> {
    placer: Placer,
    options: &'o Options,
}

impl<'o> Steps<'o> {
    pub(super) fn new(options: &'o Options) -> Steps<'o> {
        let placer = Placer::of(options.log.jobs);
        Steps { placer, options }
    }

    /// Adds a chunk.
    pub(super) fn add(&mut self, calls: Recorder, part: &Part<'_, ()>) {
        self.placer
            .add(calls, part, &self.options.timeline, |_, _| {});
    }

    /// At a turn: places what came up to it, and forgets where calls were made before gap `old`.
    pub(super) fn turn(&mut self, turn: Turn, old: usize, part: &Part<'_, ()>) {
        let steps = &self.options.timeline;
        self.placer.turn(turn, part, steps, |_, _| {});
        let last = old.saturating_sub(1);
        self.placer.forget(u32::try_from(last).unwrap_or(u32::MAX));
    }

    /// The file is read to its end.
    pub(super) fn end(self, (input, log): (u32, &Log), merged: &Merged, to: &mut StepEnds) {
        let timeline = log.timeline(&self.options.timeline);
        self.ended((input, &timeline), merged, to);
    }

    /// The input is read to its end, and these are its steps: those that are looked at count.
    pub(super) fn ended(
        self,
        (input, timeline): (u32, &Timeline),
        merged: &Merged,
        to: &mut StepEnds,
    ) {
        let (mut placement, _) = self.placer.end(timeline, merged, |_, _| {});
        let last = timeline.since(old_steps::kept()).map(|since| {
            placement
                .cuts
                .iter_mut()
                .for_each(|cuts| since_gap(cuts, since.gap));
            timeline.last_steps(since)
        });
        let timeline = last.as_ref().unwrap_or(timeline);
        to.of.insert(input, ends(&placement.cuts, timeline));
        let printer = placement.known.first();
        let cuts = printer.and_then(|&printer| placement.cuts.get(printer as usize));
        if cuts.is_some_and(|cuts| is_one_empty(cuts, timeline)) {
            to.skipped.extend(printer);
        }
    }
}

/// Counts the gaps of a process's cuts from `gap`: of those before it, it counts only how many calls it made.
fn since_gap(cuts: &mut Vec<(u32, u32)>, gap: usize) {
    let gap = u32::try_from(gap).unwrap_or(u32::MAX);
    let old = cuts.partition_point(|cut| cut.0 < gap);
    cuts.drain(..old.saturating_sub(1));
    for (at, _) in cuts {
        *at = at.checked_sub(gap).unwrap_or(OLD);
    }
}

/// True where a rank has calls in all steps between its first and its last, but for one.
fn is_one_empty(cuts: &[(u32, u32)], timeline: &Timeline) -> bool {
    let with_calls = cuts.windows(2).filter(|w| w[1].1 > w[0].1).map(|w| w[1].0);
    let first = cuts.first().map(|cut| cut.0);
    let gaps = first.into_iter().chain(with_calls);
    let steps = gaps.filter_map(|gap| match timeline.gaps.get(gap as usize) {
        Some(Gap::Step(step)) => Some(*step),
        _ => None,
    });
    let mut steps: Vec<u32> = steps.collect();
    steps.dedup();
    let mut missing = steps.windows(2).map(|w| w[1].saturating_sub(w[0] + 1));
    missing.by_ref().find(|&many| many > 0) == Some(1) && missing.all(|many| many == 0)
}

fn ends(cuts: &[Vec<(u32, u32)>], timeline: &Timeline) -> Vec<Own> {
    let own = |cuts: &Vec<(u32, u32)>| {
        let mut own = Own::default();
        let mut before = None;
        for &(gap, made) in cuts {
            let step = timeline.gaps.get(gap as usize).copied();
            if let Some(Gap::Step(_)) = before
                && step != before
            {
                own.ends.push(own.made);
            }
            before = step;
            own.made = made.into();
        }
        own
    };
    cuts.iter().map(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(gaps: &[Gap]) -> Timeline {
        Timeline {
            gaps: gaps.to_vec().into(),
            ..Timeline::default()
        }
    }

    #[test]
    fn steps_end_where_another_begins() {
        let gaps = [
            Gap::Step(0),
            Gap::Step(1),
            Gap::Step(1),
            Gap::Between,
            Gap::Step(2),
        ];
        let cuts = [vec![(0, 4), (1, 6), (2, 8), (3, 9), (4, 11)]];
        let own = Own {
            made: 11,
            ends: vec![4, 8],
        };
        assert_eq!(ends(&cuts, &timeline(&gaps)), [own]);
    }

    #[test]
    fn steps_that_are_not_looked_at_end_nothing() {
        let cuts = vec![(0, 4), (1, 6), (2, 8), (3, 11)];
        let gaps = [Gap::Step(0), Gap::Step(1)];
        let own = Own {
            made: 11,
            ends: vec![8],
        };
        for gone in 0..2 {
            let mut cuts = cuts[gone..].to_vec();
            since_gap(&mut cuts, 2);
            assert_eq!(ends(&[cuts], &timeline(&gaps)), std::slice::from_ref(&own));
        }
        let mut all = cuts.clone();
        since_gap(&mut all, 0);
        assert_eq!(all, cuts);
    }

    #[test]
    fn one_step_without_calls_was_skipped() {
        let gaps: Vec<Gap> = (0..6).map(Gap::Step).collect();
        let is = |cuts: &[(u32, u32)]| is_one_empty(cuts, &timeline(&gaps));
        assert!(is(&[(0, 4), (1, 8), (3, 12), (4, 16)]));
        assert!(is(&[(0, 4), (1, 8), (2, 8), (3, 12)]));
        assert!(!is(&[(0, 4), (1, 8), (2, 12), (3, 16)]));
        // Two of them, or at the end.
        assert!(!is(&[(0, 4), (2, 8), (4, 12)]));
        assert!(!is(&[(0, 4), (3, 8), (4, 12)]));
        assert!(!is(&[]));
    }
}
