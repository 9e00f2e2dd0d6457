//! Files without step lines, placed against the rank that prints into another file.
//!
//! Their calls are held until all inputs are read: the file with the step lines may be the last. Then
//! they are placed by communicator and sequence as in one log, but never by line position. The inputs
//! with step lines make one timeline, one after the other; its first gap has the calls without a step.

mod placed;

use super::bounds::{StepBounds, StretchCuts};
use super::limits::{MAX_HELD_BYTES, UNKNOWN_STRETCH};
use super::placer::CallPlacer;
use super::resolve::{ReferenceFile, place_other_files};
use super::streams::StreamsByProcess;
use super::{CutsByProcess, NoStepReason, Placement, PlacementMethods};
use crate::log::timeline::{GapKind, StepTimeline};
use crate::members::{MergedMembers, MergedNumbers, SpeakerProcess};
use placed::HeldSlots;
use serde::{Deserialize, Serialize};

pub use placed::PlacedCalls;

/// The calls of a run's inputs that are held until they can place each other.
#[derive(Debug, Serialize, Deserialize)]
pub struct FilesWithoutSteps {
    /// The bytes that held calls may take, and those that they take.
    room: u64,
    bytes: u64,
    /// By slot: a process's calls in all files without step lines, or in one file with them.
    streams: StreamsByProcess,
    slots: HeldSlots,
    /// The inputs with step lines.
    lines: Vec<SteppedInput>,
    /// How many inputs are held.
    inputs: u32,
    /// All their steps.
    timeline: StepTimeline,
    is_over: bool,
    /// Why the inputs with step lines place no other calls.
    silent: Option<NoStepReason>,
}

/// An input with step lines.
#[derive(Debug, Serialize, Deserialize)]
struct SteppedInput {
    bounds: StepBounds,
    steps: usize,
    /// Its first gap in the timeline of all.
    base: u32,
}

/// What became of an input's calls.
#[derive(Debug)]
pub struct TakenInput {
    /// Its number, if its calls are held: they are placed when all inputs are read.
    pub held: Option<u32>,
    /// Its number among the inputs with step lines that place others' calls.
    pub stepped: Option<u32>,
    /// How its calls were placed, and how many are no longer held.
    pub methods: PlacementMethods,
    /// Calls that are no longer held, of this input and others: they have no step.
    pub too_many: Option<StreamsByProcess>,
}

impl FilesWithoutSteps {
    /// Nothing held yet; with one input nothing ever is.
    pub fn for_inputs(inputs: usize) -> FilesWithoutSteps {
        FilesWithoutSteps::with_room(if inputs > 1 { MAX_HELD_BYTES } else { 0 })
    }

    fn with_room(room: u64) -> FilesWithoutSteps {
        FilesWithoutSteps {
            room,
            bytes: 0,
            streams: StreamsByProcess::default(),
            slots: HeldSlots::default(),
            lines: Vec::new(),
            inputs: 0,
            timeline: StepTimeline {
                gaps: vec![GapKind::Unknown].into(),
                ..StepTimeline::default()
            },
            is_over: room == 0,
            silent: None,
        }
    }

    /// True if calls of a log with these steps are held until all inputs are read.
    pub fn holds_calls_of(&self, timeline: &StepTimeline) -> bool {
        !self.is_over && timeline.steps.is_empty() && timeline.by_position.is_none()
    }

    /// Ends an input: places its calls and gives them to `sink`, or holds them until all inputs are read.
    pub fn end_input(
        &mut self,
        placer: CallPlacer,
        timeline: &StepTimeline,
        merged: &MergedMembers,
        sink: impl FnMut(&StreamsByProcess, &CutsByProcess),
    ) -> (Placement, TakenInput) {
        let (placement, calls) = if self.holds_calls_of(timeline) && placer.is_whole() {
            (Placement::default(), placer.into_held_calls())
        } else {
            placer.end_input(timeline, merged, sink)
        };
        let taken = self.take_input(calls, &placement, timeline);
        (placement, taken)
    }

    /// Takes in the calls of an input that is read; they are whole if none was placed before its end.
    pub fn take_input(
        &mut self,
        calls: Option<StreamsByProcess>,
        placement: &Placement,
        timeline: &StepTimeline,
    ) -> TakenInput {
        let mut methods = placement.methods;
        let before = self.lines.len();
        let (held, too_many) = match calls {
            Some(calls) if self.holds_calls_of(timeline) => {
                methods = PlacementMethods::default();
                match self.hold_calls(calls) {
                    Ok(input) => (Some(input), None),
                    Err(calls) => (None, Some(*calls)),
                }
            }
            calls => {
                if timeline.steps.is_empty() {
                    methods = PlacementMethods {
                        without: methods.total_calls(),
                        ..PlacementMethods::default()
                    };
                }
                (None, self.add_stepped_input(calls, placement, timeline))
            }
        };
        methods.without += too_many.as_ref().map_or(0, StreamsByProcess::count_calls);
        methods.apart = self.silent.filter(|_| methods.without > 0);
        TakenInput {
            held,
            stepped: (self.lines.len() > before).then_some(before as u32),
            methods,
            too_many,
        }
    }

    /// Holds the calls of an input without step lines and returns its number. If there are too many, returns
    /// all held calls and holds none any more.
    fn hold_calls(&mut self, calls: StreamsByProcess) -> Result<u32, Box<StreamsByProcess>> {
        let input = self.inputs;
        self.inputs += 1;
        self.bytes += calls.memory_bytes();
        let slots = &mut self.slots;
        let held = |process| slots.find_held_slot(process);
        let got = self.streams.absorb_input(calls, |member| member, held);
        for (slot, end) in got {
            self.slots.list[slot as usize].pieces.push((input, end));
        }
        self.take_if_full()
            .map_or(Ok(input), |all| Err(Box::new(all)))
    }

    /// Adds an input with step lines. Returns the calls that are no longer held, if there are too many.
    fn add_stepped_input(
        &mut self,
        calls: Option<StreamsByProcess>,
        placement: &Placement,
        timeline: &StepTimeline,
    ) -> Option<StreamsByProcess> {
        if self.is_over || timeline.steps.is_empty() {
            return None;
        }
        if placement.known.is_empty() {
            let has_calls = placement.methods.total_calls() > 0;
            let silent = if has_calls {
                NoStepReason::ByPosition
            } else {
                NoStepReason::NoCalls
            };
            self.silent = self.silent.max(Some(silent));
            return None;
        }
        let Some(calls) = calls else {
            return self.give_up_held();
        };
        self.bytes += calls.memory_bytes();
        let which = self.lines.len();
        let bounds = StepBounds::from_timeline(timeline);
        let slots = &mut self.slots;
        let stepped = |process| {
            let place = placement.known.iter().position(|&p| p == process);
            let cuts = placement.cuts.get(process);
            let cuts = place.and(cuts).map(|cuts| bounds.cuts_by_stretch(cuts));
            let told = (which, place.unwrap_or(usize::MAX), cuts.unwrap_or_default());
            slots.add_slot(process, Some(told))
        };
        self.streams.absorb_input(calls, |member| member, stepped);
        let base = self.timeline.gaps.len() as u32;
        self.timeline.append_timeline(timeline);
        self.lines.push(SteppedInput {
            bounds,
            steps: timeline.steps.len(),
            base,
        });
        self.take_if_full()
    }

    /// Adds the held calls of inputs that were read elsewhere and come after these; `to` maps their processes
    /// and members. Returns the calls that are no longer held.
    pub fn merge(
        &mut self,
        other: FilesWithoutSteps,
        to: &MergedNumbers,
    ) -> Option<StreamsByProcess> {
        let here = |numbers: &[u32], at: u32| numbers.get(at as usize).copied().unwrap_or(0);
        let (inputs, lines) = (self.inputs, self.lines.len());
        // The first gap of both has the calls without a step.
        let base = self.timeline.gaps.len() as u32 - 1;
        let slots = &mut self.slots;
        let member = |member: u32| here(&to.members, member);
        self.streams.absorb_input(other.streams, member, |slot| {
            let theirs = &other.slots.list[slot as usize];
            let process = here(&to.processes, theirs.process);
            let slot = match &theirs.told {
                Some((at, place, cuts)) => {
                    slots.add_slot(process, Some((lines + at, *place, cuts.clone())))
                }
                None => slots.find_held_slot(process),
            };
            let pieces = &mut slots.list[slot as usize].pieces;
            let before = pieces.last().map_or(0, |piece| piece.1);
            let further = theirs.pieces.iter();
            pieces.extend(further.map(|(input, end)| (inputs + input, before + end)));
            slot
        });
        self.timeline.append_timeline(&StepTimeline {
            gaps: other.timeline.gaps.into_iter().skip(1).collect(),
            ..other.timeline
        });
        self.lines
            .extend(other.lines.into_iter().map(|lines| SteppedInput {
                base: base + lines.base,
                ..lines
            }));
        self.inputs += other.inputs;
        self.bytes += other.bytes;
        self.silent = self.silent.max(other.silent);
        if self.is_over || other.is_over {
            self.give_up_held()
        } else {
            self.take_if_full()
        }
    }

    /// Returns the held calls if they take too much memory.
    fn take_if_full(&mut self) -> Option<StreamsByProcess> {
        if self.bytes <= self.room {
            return None;
        }
        self.give_up_held()
    }

    /// Returns the held calls, which are too many to place.
    fn give_up_held(&mut self) -> Option<StreamsByProcess> {
        self.is_over = true;
        self.silent = Some(NoStepReason::Many);
        let told = |slot: u32| self.slots.list[slot as usize].told.is_some();
        let mut streams = std::mem::take(&mut self.streams);
        streams.drop_first(|slot| if told(slot) { u32::MAX } else { 0 });
        self.slots = HeldSlots::default();
        Some(streams)
    }

    /// Places the held calls when all inputs are read; `None` if there are none.
    pub fn place_held(&mut self, merged: &MergedMembers, jobs: usize) -> Option<PlacedCalls> {
        if self.slots.list.iter().all(|slot| slot.told.is_some()) {
            return None;
        }
        let FilesWithoutSteps {
            streams,
            slots: HeldSlots {
                by_process,
                list: who,
            },
            lines,
            timeline,
            silent,
            inputs,
            ..
        } = std::mem::replace(self, FilesWithoutSteps::with_room(0));
        let process = |slot: u32| -> &SpeakerProcess {
            let process = who[slot as usize].process;
            merged.origins.processes.get(process)
        };
        let choose = |job: &[u32]| {
            let mut job = job.to_vec();
            // The order of the inputs must not matter.
            job.sort_by_key(|&slot| (&process(slot).host, process(slot).pid, slot));
            let others: Vec<u32> = job
                .iter()
                .copied()
                .filter(|&s| who[s as usize].told.is_none())
                .collect();
            let told = |slot: u32| who[slot as usize].told.as_ref();
            let known = job.iter().filter_map(|&slot| Some((slot, told(slot)?)));
            let mut known: Vec<_> = known.filter(|(_, told)| !told.2.is_empty()).collect();
            let steps = |which: usize| lines[which].steps;
            let most = known.iter().map(|(_, told)| steps(told.0)).max()?;
            let best = known.iter().find(|(_, told)| steps(told.0) == most)?.1.0;
            known.retain(|(_, told)| told.0 == best);
            known.sort_by_key(|(_, told)| told.1);
            let told = ReferenceFile {
                bounds: &lines[best].bounds,
                cuts: known.iter().map(|(s, told)| (*s, told.2.clone())).collect(),
            };
            (!others.is_empty()).then_some((told, best, others))
        };
        let of = |process: u32| by_process.get(&process).cloned().unwrap_or_default();
        let (placed, mut methods) = place_other_files(&streams, merged, of, choose, jobs);
        let mut cuts = CutsByProcess::from(vec![StretchCuts::new(); who.len()]);
        for (slot, which, mut own) in placed {
            let base = lines[which].base;
            for (gap, _) in &mut own {
                let is_known = *gap != UNKNOWN_STRETCH;
                *gap = if is_known { *gap + base } else { 0 };
            }
            cuts[slot] = own;
        }
        for (at, slot) in (0_u32..).zip(&who) {
            let all = slot.pieces.last().map_or(0, |piece| piece.1);
            if cuts[at].is_empty() && all > 0 {
                methods.without += u64::from(all);
                cuts[at] = vec![(0, all)];
            }
        }
        let strangers = (!lines.is_empty()).then_some(NoStepReason::Strangers);
        methods.apart = silent.max(strangers).filter(|_| methods.without > 0);
        let mut of_input = vec![Vec::new(); inputs as usize];
        for (at, slot) in (0_u32..).zip(&who) {
            for (input, _) in &slot.pieces {
                of_input[*input as usize].push(at);
            }
        }
        Some(PlacedCalls {
            inputs: of_input,
            bases: lines.iter().map(|lines| lines.base).collect(),
            timeline: timeline.into(),
            methods,
            streams,
            cuts,
            who,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_calls_are_given_back_and_none_is_held_after() {
        let mut across = FilesWithoutSteps::with_room(0);
        assert!(!across.holds_calls_of(&StepTimeline::default()));
        assert!(across.place_held(&MergedMembers::default(), 1).is_none());
        across = FilesWithoutSteps::with_room(1);
        assert!(across.holds_calls_of(&StepTimeline::default()));
        assert!(across.hold_calls(StreamsByProcess::default()).is_ok());
        let taken = across.take_input(
            Some(StreamsByProcess::of_calls(&[7, 7])),
            &Placement::default(),
            &StepTimeline::default(),
        );
        assert!(taken.held.is_none() && taken.too_many.is_some());
        assert!(!across.holds_calls_of(&StepTimeline::default()));
    }
}
