//! Files without step lines, placed against the rank that prints into another file.
//!
//! Their calls are held until all inputs are read: the file with the step lines may be the last. Then
//! they are placed by communicator and sequence as in one log, but for their lines' positions, which
//! say nothing here. The inputs with step lines make one timeline, one after the other; its first gap
//! has the calls of which no step is known.

use super::bounds::{StepBounds, StretchCuts, UNKNOWN_STRETCH};
use super::limits::MAX_HELD_BYTES;
use super::placer::CallPlacer;
use super::resolve::{ReferenceFile, place_other_files};
use super::streams::StreamsByProcess;
use super::what::CallShape;
use super::{NoStepReason, Placement, PlacementMethods};
use crate::log::timeline::{GapKind, StepTimeline};
use crate::members::{MergedMembers, MergedNumbers, SpeakerProcess};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// The calls of all inputs of a run, as far as they place each other.
#[derive(Debug, Serialize, Deserialize)]
pub struct FilesWithoutSteps {
    /// The bytes that held calls may take, and those that they take.
    room: u64,
    bytes: u64,
    /// By slot: the calls of a process in files without step lines, or in one file with such.
    streams: StreamsByProcess,
    /// By process.
    slots: FxHashMap<u32, Vec<u32>>,
    /// By slot.
    who: Vec<HeldSlot>,
    /// The inputs with step lines.
    lines: Vec<SteppedInput>,
    /// How many inputs are held.
    inputs: u32,
    /// All their steps.
    timeline: StepTimeline,
    is_over: bool,
    /// Why what has step lines tells nothing.
    silent: Option<NoStepReason>,
}

#[derive(Debug, Serialize, Deserialize)]
struct HeldSlot {
    process: u32,
    /// Of an input with step lines: which, at which place among those known there, and its cuts.
    told: Option<(usize, usize, StretchCuts)>,
    /// Of inputs without: which, and how many calls there are up to its end.
    pieces: Vec<(u32, u32)>,
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
    /// How its calls were placed, and how many are not held any more.
    pub methods: PlacementMethods,
    /// Calls that were held and are not any more, of this input and others: they have no step.
    pub too_many: Option<StreamsByProcess>,
}

/// The calls that were held, placed.
#[derive(Debug)]
pub struct PlacedCalls {
    /// The steps of all inputs with step lines.
    pub timeline: Arc<StepTimeline>,
    /// How they were placed.
    pub methods: PlacementMethods,
    /// The calls.
    pub streams: StreamsByProcess,
    /// Their cuts, by stream.
    pub cuts: Vec<Vec<(u32, u32)>>,
    who: Vec<HeldSlot>,
    /// By held input: its slots.
    inputs: Vec<Vec<usize>>,
    /// By input with step lines: its first gap in the timeline of all.
    bases: Vec<u32>,
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
            slots: FxHashMap::default(),
            who: Vec::new(),
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

    /// True where calls of a log with these steps are held until all inputs are read.
    pub fn holds_calls_of(&self, timeline: &StepTimeline) -> bool {
        !self.is_over && timeline.steps.is_empty() && timeline.by_position.is_none()
    }

    /// An input is read: its calls are placed and given to `sink`, or held until all inputs are read.
    pub fn end_input(
        &mut self,
        placer: CallPlacer,
        (timeline, merged): (&StepTimeline, &MergedMembers),
        sink: impl FnMut(&StreamsByProcess, &[StretchCuts]),
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

    /// Holds the calls of an input without step lines; gives its number. Where there are too many, all
    /// that are held are given back, and none are held any more.
    fn hold_calls(&mut self, calls: StreamsByProcess) -> Result<u32, Box<StreamsByProcess>> {
        let input = self.inputs;
        self.inputs += 1;
        self.bytes += calls.memory_bytes();
        let FilesWithoutSteps {
            streams,
            slots,
            who,
            ..
        } = self;
        let got = streams.absorb_input(
            calls,
            |member| member,
            |process| {
                let of = slots.entry(process).or_default();
                let known = of.iter().find(|&&slot| who[slot as usize].told.is_none());
                if let Some(&slot) = known {
                    return slot;
                }
                let slot = who.len() as u32;
                who.push(HeldSlot {
                    process,
                    told: None,
                    pieces: Vec::new(),
                });
                of.push(slot);
                slot
            },
        );
        for (slot, end) in got {
            who[slot as usize].pieces.push((input, end));
        }
        self.take_if_full()
            .map_or(Ok(input), |all| Err(Box::new(all)))
    }

    /// Takes in what the calls of an input with step lines tell. Gives calls that were held and are
    /// not any more: there are too many.
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
        let FilesWithoutSteps {
            streams,
            slots,
            who,
            ..
        } = self;
        streams.absorb_input(
            calls,
            |member| member,
            |process| {
                let slot = who.len() as u32;
                let place = placement.known.iter().position(|&p| p == process);
                let cuts = placement.cuts.get(process as usize);
                let cuts = place.and(cuts).map(|cuts| bounds.cuts_by_stretch(cuts));
                who.push(HeldSlot {
                    process,
                    told: Some((which, place.unwrap_or(usize::MAX), cuts.unwrap_or_default())),
                    pieces: Vec::new(),
                });
                slots.entry(process).or_default().push(slot);
                slot
            },
        );
        let base = self.timeline.gaps.len() as u32;
        self.timeline.append_timeline(timeline);
        self.lines.push(SteppedInput {
            bounds,
            steps: timeline.steps.len(),
            base,
        });
        self.take_if_full()
    }

    /// Adds what is held of inputs that were read elsewhere, and that come after these; `to` is how
    /// processes and members are numbered here. Gives calls that were held and are not any more.
    pub fn merge(
        &mut self,
        other: FilesWithoutSteps,
        to: &MergedNumbers,
    ) -> Option<StreamsByProcess> {
        let here = |numbers: &[u32], at: u32| numbers.get(at as usize).copied().unwrap_or(0);
        let (inputs, lines) = (self.inputs, self.lines.len());
        // The first gap of both has the calls of which no step is known.
        let base = self.timeline.gaps.len() as u32 - 1;
        let FilesWithoutSteps {
            streams,
            slots,
            who,
            ..
        } = self;
        let member = |member: u32| here(&to.members, member);
        streams.absorb_input(other.streams, member, |slot| {
            let theirs = &other.who[slot as usize];
            let process = here(&to.processes, theirs.process);
            let of = slots.entry(process).or_default();
            let is_held = |slot: &&u32| who[**slot as usize].told.is_none();
            let known = of.iter().find(is_held).copied();
            let slot = known.filter(|_| theirs.told.is_none()).unwrap_or_else(|| {
                let slot = who.len() as u32;
                let told = theirs.told.as_ref();
                who.push(HeldSlot {
                    process,
                    told: told.map(|(at, place, cuts)| (lines + at, *place, cuts.clone())),
                    pieces: Vec::new(),
                });
                of.push(slot);
                slot
            });
            let pieces = &mut who[slot as usize].pieces;
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

    /// What is held, if it is too much.
    fn take_if_full(&mut self) -> Option<StreamsByProcess> {
        if self.bytes <= self.room {
            return None;
        }
        self.give_up_held()
    }

    /// Gives back what is held: too much to place.
    fn give_up_held(&mut self) -> Option<StreamsByProcess> {
        self.is_over = true;
        self.silent = Some(NoStepReason::Many);
        let told = |slot: u32| self.who[slot as usize].told.is_some();
        let mut streams = std::mem::take(&mut self.streams);
        streams.drop_first(|slot| if told(slot) { u32::MAX } else { 0 });
        self.who.clear();
        self.slots.clear();
        Some(streams)
    }

    /// All inputs are read: places the calls that are held; `None` where there are none.
    pub fn place_held(&mut self, merged: &MergedMembers, jobs: usize) -> Option<PlacedCalls> {
        if self.who.iter().all(|slot| slot.told.is_some()) {
            return None;
        }
        let FilesWithoutSteps {
            streams,
            slots,
            who,
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
            // Not in the order in which the inputs were read.
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
        let of = |process: u32| slots.get(&process).cloned().unwrap_or_default();
        let (placed, mut methods) = place_other_files(&streams, merged, of, choose, jobs);
        let mut cuts: Vec<StretchCuts> = vec![StretchCuts::new(); who.len()];
        for (slot, which, mut own) in placed {
            let base = lines[which].base;
            for (gap, _) in &mut own {
                *gap = if *gap == UNKNOWN_STRETCH {
                    0
                } else {
                    *gap + base
                };
            }
            cuts[slot as usize] = own;
        }
        for (at, slot) in who.iter().enumerate() {
            let all = slot.pieces.last().map_or(0, |piece| piece.1);
            if cuts[at].is_empty() && all > 0 {
                methods.without += u64::from(all);
                cuts[at] = vec![(0, all)];
            }
        }
        let strangers = (!lines.is_empty()).then_some(NoStepReason::Strangers);
        methods.apart = silent.max(strangers).filter(|_| methods.without > 0);
        let mut of_input = vec![Vec::new(); inputs as usize];
        for (at, slot) in who.iter().enumerate() {
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

impl PlacedCalls {
    /// An input's calls: the slots, the processes, which of their calls, and the cuts of these.
    fn pieces_of(&self, input: u32) -> impl Iterator<Item = (usize, u32, Range<u32>, StretchCuts)> {
        let slots = self.inputs.get(input as usize);
        slots.into_iter().flatten().filter_map(move |&at| {
            let slot = &self.who[at];
            let piece = slot.pieces.iter().position(|piece| piece.0 == input)?;
            let before = piece
                .checked_sub(1)
                .map_or(0, |before| slot.pieces[before].1);
            let range = before..slot.pieces[piece].1;
            let inside = self.cuts[at]
                .iter()
                .map(|&(gap, end)| (gap, end.min(range.end)));
            let mut cuts = StretchCuts::new();
            for (gap, end) in inside {
                if end > before + cuts.last().map_or(0, |c| c.1) {
                    cuts.push((gap, end - before));
                }
            }
            Some((at, slot.process, range, cuts))
        })
    }

    /// Returns the number of the input with step lines that a gap of the common timeline is of, and the
    /// gap's number there; `None` for the gap of calls without a step.
    pub fn own_gap(&self, gap: usize) -> Option<(u32, usize)> {
        let is_before = |&base: &u32| base as usize <= gap;
        let at = self.bases.partition_point(is_before).checked_sub(1)?;
        Some((at as u32, gap - self.bases[at] as usize))
    }

    /// True for a held input some of whose calls have a step.
    pub fn has_steps(&self, input: u32) -> bool {
        let is_placed = |cuts: StretchCuts| cuts.iter().any(|&(gap, _)| gap > 0);
        self.pieces_of(input).any(|(.., cuts)| is_placed(cuts))
    }

    /// The gaps of the calls of a held input.
    pub fn placement_of(&self, input: u32) -> Placement {
        let mut placement = Placement::default();
        for (_, process, _, cuts) in self.pieces_of(input) {
            let at = process as usize;
            if placement.cuts.len() <= at {
                placement.cuts.resize(at + 1, StretchCuts::new());
            }
            placement.cuts[at] = cuts;
        }
        placement.trimmed()
    }

    /// Gives each call of a held input: its gap, what it is, and where its line is if that was kept.
    pub fn each_call(&self, input: u32, mut sink: impl FnMut(u32, &CallShape, Option<u64>)) {
        for (at, _, range, cuts) in self.pieces_of(input) {
            let mut from = range.start;
            for (gap, end) in cuts {
                for number in from..range.start + end {
                    if let Some((what, place)) = self.streams.call_at(at, number) {
                        sink(gap, what, place);
                    }
                }
                from = range.start + end;
            }
        }
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
