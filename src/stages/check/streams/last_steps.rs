//! The trainer's steps in which the last calls of each process were made.

use super::last_calls::LastStreamCall;
use super::limits::LAST_CALLS_PER_PROCESS;
use super::{CallStreams, StreamKind};
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

/// The steps of the last [`LAST_CALLS_PER_PROCESS`] calls, by input and process.
#[derive(Debug, Default)]
pub(crate) struct LastCallSteps {
    of: FxHashMap<(u32, u32), ProcessLastSteps>,
    /// Inputs with calls that are placed after all inputs are read, with their numbers there.
    held: Vec<(u32, u32)>,
}

impl LastCallSteps {
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
                if covered >= LAST_CALLS_PER_PROCESS as u64 {
                    break;
                }
            }
            self.of.insert((input, process), own);
        }
    }

    /// Returns the step of a call. Unknown where the process made another number of calls: then they are not the same
    /// calls.
    pub(crate) fn step_of(&self, placed: &CallFromEnd) -> Option<u64> {
        let own = self.of.get(&(placed.call.input, placed.process))?;
        let at = own.steps.partition_point(|step| step.0 <= placed.later);
        own.steps.get(at)?.1.filter(|_| own.made == placed.made)
    }
}

/// A call at the end of an input, with its caller.
pub(crate) struct CallFromEnd {
    pub(crate) call: LastStreamCall,
    pub(crate) caller: u32,
    pub(crate) way: StreamKind,
    process: u32,
    /// The calls of the process, and those after this one.
    made: u64,
    later: u64,
}

/// Lists the last calls up to the hang, the last one first.
pub(crate) fn list_calls_from_end(streams: &CallStreams) -> impl Iterator<Item = CallFromEnd> {
    let mut of_stream = vec![(0, StreamKind::Collective); streams.list.len()];
    for (&key, &stream) in &streams.at {
        of_stream[stream as usize] = key;
    }
    // By process: its calls, and those after the call that is looked at.
    let mut counts: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
    for (stream, &(caller, _)) in (0..).zip(&of_stream) {
        let all = streams.list[stream as usize].hashed.calls;
        let process = streams.callers.get(caller).process;
        let (made, later) = counts.entry(process).or_default();
        *made += all;
        *later += all - streams.calls_until_hang(stream);
    }
    let calls = streams.list_last_calls().iter().rev();
    let place = move |&call: &LastStreamCall| {
        let (caller, way) = of_stream[call.stream as usize];
        let process = streams.callers.get(caller).process;
        let (made, later) = counts.entry(process).or_default();
        *later += 1;
        CallFromEnd {
            call,
            caller,
            way,
            process,
            made: *made,
            later: *later - 1,
        }
    };
    calls.map(place)
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
        let mut last = LastCallSteps::default();
        last.add_placement(0, &BTreeSet::from([0, 1]), &placement, &timeline);
        let step_of = |process, made, later| {
            last.step_of(&CallFromEnd {
                call: LastStreamCall::default(),
                caller: 0,
                way: StreamKind::Collective,
                process,
                made,
                later,
            })
        };
        let steps: Vec<_> = (0..6).map(|later| step_of(1, 9, later)).collect();
        assert_eq!(steps, [None, None, None, Some(8), Some(8), Some(7)]);
        assert_eq!(step_of(1, 10, 3), None);
        assert_eq!(step_of(0, 0, 0), None);
    }
}
