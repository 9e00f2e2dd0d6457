//! Which places of their logs two inputs share, and what that shows of their calls.

use std::collections::BTreeMap;

/// An input that was read.
#[derive(Debug, Default)]
pub(super) struct ComparedInput {
    pub(super) name: String,
    pub(super) calls: u64,
    /// It is a call table.
    pub(super) is_table: bool,
    /// The log has step lines after calls, or the table has steps.
    pub(super) has_steps: bool,
    /// NCCL counts its calls.
    pub(super) counts: bool,
    /// All its places.
    pub(super) places: PlaceCounts,
}

/// The numbers of places of an input, or of those that it shares with another.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PlaceCounts {
    pub(super) calls: u64,
    pub(super) inits: u64,
    pub(super) steps: u64,
    pub(super) lines: u64,
    /// Calls on communicators that lines of both inputs make.
    pub(super) made_calls: u64,
    /// Streams that begin in one input with a call of the other, by NCCL's count.
    pub(super) overlaps: u64,
}

/// The kinds of places, the first part of their hash.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) enum HashedPlaceKind {
    /// A first call.
    Call,
    /// A line that makes a communicator.
    Init,
    /// A step line with the first call of its step.
    Step,
    /// A step line alone: where ranks share a file, another rank's call may be the first.
    Line,
    /// The first row of a step.
    Row,
}

/// The places that two inputs share, by the later one's number and the earlier one's.
#[derive(Debug, Default)]
pub(super) struct SharedPlaces(pub(super) BTreeMap<(u32, u32), PlaceCounts>);

impl SharedPlaces {
    /// Those of two inputs.
    pub(super) fn between(&mut self, one: u32, other: u32) -> &mut PlaceCounts {
        self.0.entry((one.max(other), one.min(other))).or_default()
    }
}

impl PlaceCounts {
    pub(super) fn count_place(&mut self, kind: HashedPlaceKind) {
        match kind {
            HashedPlaceKind::Call => self.calls += 1,
            HashedPlaceKind::Init => self.inits += 1,
            HashedPlaceKind::Step | HashedPlaceKind::Row => self.steps += 1,
            HashedPlaceKind::Line => self.lines += 1,
        }
    }

    /// Returns true if an input's first calls of processes on their communicators, and the lines that made these, are
    /// all among the shared places.
    pub(super) fn has_beginnings_of(&self, input: &ComparedInput) -> bool {
        let own = &input.places;
        own.calls > 0 && self.calls >= own.calls && self.inits >= own.inits
    }

    /// Returns true if an input seems to be a part of the other one: its steps, or its beginnings.
    pub(super) fn has_all_of(&self, input: &ComparedInput) -> bool {
        let own = input.places.steps;
        (own > 0 && self.steps >= own) || self.has_beginnings_of(input)
    }

    /// Returns true if the two inputs have the same calls. A shared step line with the first call of its
    /// step proves it, and so do a table's row with its step and NCCL's own count. Shared first calls prove it unless both
    /// have steps, and one of them not all those of the other (then they are different steps of one log), and only
    /// if both also have the lines that made the communicator (a log's second part lacks them), NCCL counts the
    /// calls of a log and of a table, or both have equally many calls.
    pub(super) fn is_duplicate(&self, a: &ComparedInput, b: &ComparedInput) -> bool {
        let is_stepped = a.has_steps && b.has_steps && a.is_table == b.is_table;
        let has_other_steps = is_stepped && self.lines < a.places.lines.min(b.places.lines).max(1);
        let is_counted = (a.is_table || b.is_table) && a.counts && b.counts;
        let sure = self.made_calls > 0 || is_counted || a.calls == b.calls;
        self.steps > 0 || self.overlaps > 0 || (self.calls > 0 && !has_other_steps && sure)
    }
}
