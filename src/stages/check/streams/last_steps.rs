//! The trainer's steps in which the last calls of each process were made.

use crate::log::placement::{PlacedCalls, Placement, TakenInput};
use crate::log::timeline::StepTimeline;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// A process's calls in an input, and the steps of the last of them.
#[derive(Debug, Default)]
struct ProcessLastSteps {
    made: u64,
    /// From the last step backwards: how many calls from the end are covered, and the step.
    steps: Vec<(u64, Option<u64>)>,
}

/// The steps of the last calls, by input and process.
#[derive(Debug, Default)]
pub(crate) struct LastCallSteps {
    of: FxHashMap<(u32, u32), ProcessLastSteps>,
    /// Inputs with calls that are placed after all inputs are read, with their numbers there.
    held: Vec<(u32, u32)>,
    /// How many calls of a process are covered.
    calls: u64,
}

impl LastCallSteps {
    /// Begins with nothing; `calls` of each process are covered.
    pub(crate) fn new(calls: usize) -> LastCallSteps {
        LastCallSteps {
            calls: calls as u64,
            ..LastCallSteps::default()
        }
    }

    /// Adds an input that was read, and its processes.
    pub(crate) fn add_input(
        &mut self,
        input: u32,
        processes: &BTreeSet<u32>,
        placed: &(Placement, TakenInput),
        timeline: &StepTimeline,
    ) {
        self.held.extend(placed.1.held.map(|held| (input, held)));
        self.add_placement(input, processes, &placed.0, timeline);
    }

    /// Adds the inputs whose calls were placed after all inputs were read; `processes` are those of each input.
    pub(crate) fn add_held(&mut self, placed: &PlacedCalls, processes: &[BTreeSet<u32>]) {
        for (input, held) in std::mem::take(&mut self.held) {
            if let Some(processes) = processes.get(input as usize) {
                let placement = placed.placement_of(held);
                self.add_placement(input, processes, &placement, &placed.timeline);
            }
        }
    }

    fn add_placement(
        &mut self,
        input: u32,
        processes: &BTreeSet<u32>,
        placement: &Placement,
        timeline: &StepTimeline,
    ) {
        for &process in processes {
            let cuts = placement.cuts_of(process);
            let Some(&(_, made)) = cuts.last() else {
                continue;
            };
            let made = u64::from(made);
            let mut own = ProcessLastSteps {
                made,
                steps: Vec::new(),
            };
            for (at, &(gap, _)) in cuts.iter().enumerate().rev() {
                let before = at.checked_sub(1).map_or(0, |before| cuts[before].1);
                let covered = made.saturating_sub(before.into());
                let step = timeline.step_of(gap as usize).map(|step| step.step);
                own.steps.push((covered, step));
                if covered >= self.calls {
                    break;
                }
            }
            self.of.insert((input, process), own);
        }
    }

    /// Returns the step of a process's call with `later` of its calls after it. Unknown where the process made another
    /// number of calls than `made`: then they are not the same calls.
    pub(crate) fn step_of(&self, input: u32, process: u32, made: u64, later: u64) -> Option<u64> {
        let own = self.of.get(&(input, process))?;
        let at = own.steps.partition_point(|&(covered, _)| covered <= later);
        own.steps.get(at)?.1.filter(|_| own.made == made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::timeline::{GapKind, TrainStep};

    #[test]
    fn calls_are_counted_from_the_end() {
        let mut placement = Placement::default();
        *placement.cuts.entry(1) = vec![(0, 4), (1, 6), (2, 9)];
        let step = |step| TrainStep {
            segment: 0,
            step,
            steps: 1,
            mark: 0,
            time_s: None,
            tflops: None,
        };
        let timeline = StepTimeline {
            gaps: vec![GapKind::Step(0), GapKind::Step(1), GapKind::Unknown].into(),
            steps: vec![step(7), step(8)].into(),
            ..StepTimeline::default()
        };
        let mut last = LastCallSteps::new(5);
        last.add_placement(0, &BTreeSet::from([0, 1]), &placement, &timeline);
        let steps: Vec<_> = (0..6).map(|later| last.step_of(0, 1, 9, later)).collect();
        assert_eq!(steps, [None, None, None, Some(8), Some(8), None]);
        assert_eq!(last.step_of(0, 1, 10, 3), None);
        assert_eq!(last.step_of(0, 0, 0, 0), None);
    }
}
