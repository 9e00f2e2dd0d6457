//! Finds inputs that hold the same calls: a log and its copy (packed or not), ranks' files and
//! the file they were joined into, a log and a stretch of it.
//!
//! It compares hashes of a few places: the first call of each process on each communicator
//! ([`fingerprint_call_line`]), the lines that make communicators, and each step line with the first call of
//! its step. They include addresses and opCounts, so that another run of the job shares none. If NCCL does
//! not count (one node, since 2.27), the calls of every step are equal texts: the second part of a rotated
//! log may begin with the first part's first call. So a first call needs other evidence: see
//! `PlaceCounts::is_duplicate`.

pub(super) mod fingerprints;
mod overlaps;
mod places;
mod table_rows;

use fingerprints::hash_process;
pub(crate) use fingerprints::nonzero_hash;
pub use fingerprints::{
    CallFingerprint, CallIdentityText, CommOpCount, InputLastCall, StepFingerprints,
    fingerprint_call_line,
};

pub use table_rows::RowFingerprints;

use super::speakers::Speakers;
use crate::grammar::message::communicator::init::{CommInit, InitEvent};
use overlaps::{CountedStream, StreamStretch, StreamStretches};
use places::{ComparedInput, HashedPlaceKind, SharedPlaces};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::hash::Hash;
use table_rows::{RowFingerprint, TableRowsProgress};

/// The inputs that were read, and hashes of their places.
#[derive(Debug, Default)]
pub struct DuplicateInputs {
    /// There is only one input: nothing is compared.
    is_alone: bool,
    inputs: Vec<ComparedInput>,
    /// The first of the inputs that are read now, one after the other, and where each ends.
    begin: usize,
    ends: Vec<u64>,
    /// Their first calls by merged member, and the members that have one.
    first: Vec<Option<FirstMemberCall>>,
    met: Vec<u32>,
    /// The hash of the first call since the last step line.
    lead: Option<u64>,
    /// The table's rows so far.
    rows: TableRowsProgress,
    /// The input that had a place first, by the place's hash.
    places: FxHashMap<u64, u32>,
    shared: SharedPlaces,
    /// Hashes of two inputs, and of a process and an address that lines of both make a communicator.
    made_twice: FxHashSet<u64>,
    stretches: StreamStretches,
    /// Inputs with the first calls of another one.
    copies: Vec<LikelyCopy>,
}

#[derive(Debug, Clone, Copy)]
struct FirstMemberCall {
    process: u32,
    at: u64,
    print: CallFingerprint,
}

/// The earlier inputs that share calls with an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierInputs {
    /// The name of the first one.
    pub of: String,
    /// How many more there are.
    pub more: usize,
    /// Either of the two has calls that the other may not have.
    pub is_overlap: bool,
}

/// An input that may be part of another one: the first calls of all its processes are also there, and the lines that
/// made their communicators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LikelyCopy {
    /// Its name.
    pub copy: String,
    /// The name of the other.
    pub whole: String,
}

/// How an input ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct InputCallsEnd {
    /// The number of its calls.
    pub calls: u64,
    /// The last call that NCCL counted.
    pub last: Option<InputLastCall>,
}

impl DuplicateInputs {
    /// Keeps no places: there is one input, which may never end.
    pub fn expect_single_input(&mut self) {
        self.is_alone = true;
    }

    /// Begins inputs that are read as one: their names, and after which byte each of them ends.
    pub fn begin_inputs(&mut self, inputs: impl Iterator<Item = (String, u64)>) {
        // The input before may have broken off.
        for member in self.met.drain(..) {
            self.first[member as usize] = None;
        }
        self.shared = SharedPlaces::default();
        self.made_twice.clear();
        self.begin = self.inputs.len();
        (self.ends, self.lead, self.rows) = (Vec::new(), None, TableRowsProgress::default());
        let is_alone = self.is_alone;
        for (name, end) in inputs.filter(|_| !is_alone) {
            self.ends.push(end);
            self.inputs.push(ComparedInput {
                name,
                ..ComparedInput::default()
            });
        }
    }

    /// The inputs that are part of another one, if they have no more calls of any process than it has.
    pub fn likely_copies(&self) -> &[LikelyCopy] {
        &self.copies
    }

    /// The name of an input.
    pub(super) fn input_name(&self, input: usize) -> &str {
        self.inputs.get(input).map_or("", |known| &known.name)
    }

    /// Returns the input that a byte is in.
    pub(super) fn input_at(&self, at: u64) -> usize {
        let last = self.ends.len().saturating_sub(1);
        self.begin + self.ends.partition_point(|&end| end <= at).min(last)
    }

    /// Adds a merged member's call at `at`, the first in its chunk.
    #[inline]
    pub fn add_call(&mut self, member: u32, process: u32, at: u64, print: CallFingerprint) {
        if self.ends.is_empty() || print.hash == 0 {
            return;
        }
        let place = member as usize;
        if self.first.len() <= place {
            self.first.resize(place + 1, None);
        }
        let known = &mut self.first[place];
        if known.is_none() {
            self.met.push(member);
        }
        if known.is_none_or(|known| at < known.at) {
            *known = Some(FirstMemberCall { process, at, print });
        }
    }

    /// Adds a merged process's line that makes a communicator.
    pub fn add_init(&mut self, process: u32, init: &CommInit, at: u64) {
        if self.ends.is_empty() || init.event != InitEvent::Init {
            return;
        }
        let place = (process, init.comm, init.rank, init.comm_id);
        let input = self.input_at(at);
        if let Some(earlier) = self.add_place(input, HashedPlaceKind::Init, place) {
            let made = (input_number(input), earlier, process, init.comm);
            self.made_twice.insert(nonzero_hash(made));
        }
    }

    /// Adds a chunk's step lines, which are at `marks`.
    pub fn add_steps(&mut self, prints: &StepFingerprints, marks: impl Iterator<Item = u64>) {
        if self.ends.is_empty() {
            return;
        }
        for (&(call, mark), at) in prints.marks.iter().zip(marks) {
            let input = self.input_at(at);
            self.add_place(input, HashedPlaceKind::Line, mark);
            let Some(call) = self.lead.take().or(call) else {
                continue;
            };
            self.inputs[input].has_steps = true;
            self.add_place(input, HashedPlaceKind::Step, (call, mark));
        }
        self.lead = self.lead.or(prints.call);
    }

    /// Begins the part after the rows that were added.
    pub fn row_fingerprints_so_far(&self) -> RowFingerprints {
        let mut part = RowFingerprints::of_part_ahead(self.first_call());
        (part.rows.any, part.rows.step) = (self.rows.any, self.rows.step);
        part
    }

    /// Returns the table's first call.
    pub fn first_call(&self) -> Option<CommOpCount> {
        self.rows.first
    }

    /// Returns true if a part that was read ahead of its turn must be read again, since it did not know
    /// the table's first call.
    pub fn is_doubtful(&self, part: &RowFingerprints) -> bool {
        part.is_ahead && (self.rows.first.is_some() || part.rows.first.is_some())
    }

    /// Adds a part of a call table.
    pub fn add_rows(&mut self, part: RowFingerprints) {
        self.rows.counts |= part.rows.counts;
        for place in part.places {
            if self.rows.is_new_place(place.step) {
                self.add_first_row(place);
            }
        }
    }

    fn add_first_row(&mut self, row: RowFingerprint) {
        let Some(table) = self.inputs.last_mut() else {
            return;
        };
        (table.is_table, table.has_steps) = (true, row.step.is_some());
        let table = self.inputs.len() - 1;
        let is_first = !std::mem::replace(&mut self.rows.any, true);
        self.rows.step = row.step;
        let Some((who, CallFingerprint { hash: print, count })) = row.call else {
            return;
        };
        self.rows.first.get_or_insert(count);
        if is_first {
            self.add_place(table, HashedPlaceKind::Call, (who, print));
        }
        if let Some(step) = row.step {
            self.add_place(table, HashedPlaceKind::Row, (who, print, step));
        }
    }

    /// Ends the table: returns the earlier inputs that have its calls, if any do.
    pub fn end_table(&mut self, calls: u64) -> Option<EarlierInputs> {
        if let Some(table) = self.inputs.last_mut() {
            table.counts = self.rows.counts;
        }
        let last = None;
        let end = InputCallsEnd { calls, last };
        self.end_inputs(&Speakers::default(), std::iter::once(end))
            .pop()
            .flatten()
    }

    /// Adds a place of an input; notes it as shared if another input had it first, and returns that.
    fn add_place(&mut self, input: usize, kind: HashedPlaceKind, place: impl Hash) -> Option<u32> {
        self.inputs[input].places.count_place(kind);
        let input = input_number(input);
        let place = nonzero_hash((kind, place));
        let first = *self.places.entry(place).or_insert(input);
        if first == input {
            return None;
        }
        self.shared.between(input, first).count_place(kind);
        Some(first)
    }

    /// Adds a member's first call in one of the inputs; `last` has the last call of each input.
    fn end_member(&mut self, member: u32, merged: &Speakers, last: &[Option<InputLastCall>]) {
        let Some(FirstMemberCall { process, at, print }) = self.first[member as usize].take()
        else {
            return;
        };
        // Calls without a process are a document's.
        let named = merged.processes.items().get(process as usize);
        let Some((named, pid)) = named.and_then(|p| Some((p, p.pid?))) else {
            return;
        };
        let who = hash_process(&named.host, pid);
        let input = self.input_at(at);
        let last = last.get(input - self.begin).copied().flatten();
        self.inputs[input].counts |= last.is_some_and(|last| print.count.counts_on_to(last.call));
        let CommOpCount { comm, op_count } = print.count;
        let earlier = self.add_place(input, HashedPlaceKind::Call, (who, print.hash));
        let input = input_number(input);
        if let Some(earlier) = earlier
            && let made = nonzero_hash((input, earlier, process, comm))
            && self.made_twice.contains(&made)
        {
            self.shared.between(input, earlier).made_calls += 1;
        }
        let ends = last.filter(|last| last.who == who && last.call.comm == comm);
        let stretch = StreamStretch {
            input,
            identity: merged.members.get(member).identity,
            first: op_count,
            last: ends.map(|last| last.call.op_count),
        };
        let shared = &mut self.shared;
        self.stretches
            .add_stretch(CountedStream { who, comm }, stretch, |earlier| {
                shared.between(input, earlier).overlaps += 1;
            });
    }

    /// Ends the inputs that are read now: returns for each the earlier inputs that have its calls, if any
    /// do. `merged` are the speakers of all.
    pub fn end_inputs(
        &mut self,
        merged: &Speakers,
        ends: impl Iterator<Item = InputCallsEnd>,
    ) -> Vec<Option<EarlierInputs>> {
        let mut last = Vec::with_capacity(self.ends.len());
        for (input, end) in self.inputs[self.begin..].iter_mut().zip(ends) {
            input.calls = end.calls;
            last.push(end.last);
        }
        for member in std::mem::take(&mut self.met) {
            self.end_member(member, merged, &last);
        }
        let shared = std::mem::take(&mut self.shared);
        let known = &self.inputs;
        let (begin, of) = (self.begin, |input: u32| &known[input as usize]);
        let copied = shared
            .0
            .into_iter()
            .filter(|&((this, first), shared)| shared.is_duplicate(of(this), of(first)));
        let mut again: Vec<Option<EarlierInputs>> = vec![None; known.len() - begin];
        for ((this, first), shared) in copied {
            let is_overlap = ![this, first]
                .iter()
                .any(|&input| shared.has_all_of(of(input)));
            for (copy, whole) in [(this, first), (first, this)] {
                if shared.has_beginnings_of(of(copy)) {
                    let [copy, whole] = [copy, whole].map(|input| of(input).name.clone());
                    self.copies.push(LikelyCopy { copy, whole });
                }
            }
            match &mut again[this as usize - begin] {
                Some(earlier) => earlier.more += 1,
                earlier => {
                    *earlier = Some(EarlierInputs {
                        of: of(first).name.clone(),
                        more: 0,
                        is_overlap,
                    });
                }
            }
        }
        self.ends.clear();
        again
    }
}

fn input_number(input: usize) -> u32 {
    u32::try_from(input).unwrap_or(u32::MAX)
}
