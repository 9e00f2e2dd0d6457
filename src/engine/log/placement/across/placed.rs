//! The held calls once they are placed, by held input.

use crate::log::placement::bounds::StretchCuts;
use crate::log::placement::streams::StreamsByProcess;
use crate::log::placement::what::CallShape;
use crate::log::placement::{CutsByProcess, Placement, PlacementMethods};
use crate::log::timeline::StepTimeline;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// A process of held inputs without step lines, or of one with them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HeldSlot {
    pub(super) process: u32,
    /// For an input with step lines: its number, the process's place among those known there, and its cuts.
    pub(super) told: Option<(usize, usize, StretchCuts)>,
    /// For inputs without step lines: the input's number, and the calls up to its end.
    pub(super) pieces: Vec<(u32, u32)>,
}

/// The slots of the calls that are held.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct HeldSlots {
    pub(super) by_process: FxHashMap<u32, Vec<u32>>,
    pub(super) list: Vec<HeldSlot>,
}

impl HeldSlots {
    /// Adds a slot and returns its number.
    pub(super) fn add_slot(
        &mut self,
        process: u32,
        told: Option<(usize, usize, StretchCuts)>,
    ) -> u32 {
        let slot = self.list.len() as u32;
        self.list.push(HeldSlot {
            process,
            told,
            pieces: Vec::new(),
        });
        self.by_process.entry(process).or_default().push(slot);
        slot
    }

    /// Returns the slot of a process in files without step lines, known or new.
    pub(super) fn find_held_slot(&mut self, process: u32) -> u32 {
        let mut own = self.by_process.get(&process).into_iter().flatten();
        let held = own.find(|&&slot| self.list[slot as usize].told.is_none());
        match held {
            Some(&slot) => slot,
            None => self.add_slot(process, None),
        }
    }
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
    pub cuts: CutsByProcess,
    pub(super) who: Vec<HeldSlot>,
    /// By held input: its slots.
    pub(super) inputs: Vec<Vec<u32>>,
    /// By input with step lines: its first gap in the timeline of all.
    pub(super) bases: Vec<u32>,
}

impl PlacedCalls {
    /// Returns the parts of a held input: slot, process, range of calls, and their cuts.
    fn pieces_of(&self, input: u32) -> impl Iterator<Item = (u32, u32, Range<u32>, StretchCuts)> {
        let slots = self.inputs.get(input as usize);
        slots.into_iter().flatten().filter_map(move |&at| {
            let slot = &self.who[at as usize];
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

    /// True if some calls of a held input have a step.
    pub fn has_steps(&self, input: u32) -> bool {
        let is_placed = |cuts: StretchCuts| cuts.iter().any(|&(gap, _)| gap > 0);
        self.pieces_of(input).any(|(.., cuts)| is_placed(cuts))
    }

    /// Returns the gaps of the calls of a held input.
    pub fn placement_of(&self, input: u32) -> Placement {
        let mut placement = Placement::default();
        for (_, process, _, cuts) in self.pieces_of(input) {
            *placement.cuts.entry(process) = cuts;
        }
        placement
    }

    /// Gives each call of a held input: its gap, its shape, and its line's position if that was kept.
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
