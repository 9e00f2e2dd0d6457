//! Whether two inputs hold the same calls: a log and its copy (packed or not), ranks' files and
//! the file they were joined into, a log and a stretch of it.
//!
//! Kept are hashes of a few places of what is read anyway: of the first call of each process on
//! each communicator ([`fingerprint_call_line`]), of the lines that make communicators, and of each step line
//! with the first call of its step. Addresses and opCounts are in them, so that another run of
//! the same job shares none. Where NCCL does not count (one node, since 2.27), every step's calls
//! are the same text: a second part of a rotated log may begin with the call that the first began
//! with. So a first call counts only where something else speaks for it: see `Shared::is_twice`.

use super::speakers::SpeakerProcess;
use crate::grammar::coll;
use crate::grammar::message::communicator::init::{CommInit, InitEvent};
use rustc_hash::{FxHashMap, FxHasher};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// By what a call is known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallFingerprint {
    /// A hash of what it says; 0 where there is no call.
    pub hash: u64,
    /// Where NCCL counts, the calls of the communicator before it.
    pub count: CommOpCount,
}

/// By what a chunk's steps are known again in another input: hashes of
/// text, whatever became of it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct StepFingerprints {
    /// For each mark: of the first call since the mark before it, if there is one in the chunk,
    /// and of its own text.
    pub marks: Vec<(Option<u64>, u64)>,
    /// Of the first call after the last mark.
    pub call: Option<u64>,
    /// The last call.
    pub last: Option<CommOpCount>,
}

/// A communicator's address, and the opCount of a call on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CommOpCount {
    /// The address.
    pub comm: u64,
    /// The opCount.
    pub op_count: u64,
}

impl CommOpCount {
    /// True where NCCL counted on from here to `last`.
    fn counts_on_to(self, last: CommOpCount) -> bool {
        self.comm == last.comm && self.op_count < last.op_count
    }
}

/// By what the call that is first in `text`, up to its line's end, is known again.
#[cold]
pub fn fingerprint_call_line(text: &[u8]) -> CallFingerprint {
    // No call is longer. A line may have many calls, and each looks at no more than its own part.
    let text = &text[..text.len().min(4096)];
    let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())];
    let Some(anchor) = coll::COLL_ANCHOR_FINDER.find(line) else {
        return CallFingerprint::default();
    };
    match coll::parse_coll_at(line, anchor) {
        Ok((_, call, _)) => CallFingerprint::of_call_text(&CallIdentityText {
            op: call.op,
            op_count: call.op_count,
            count: call.count,
            datatype: call.datatype,
            comm: call.comm,
            stream: call.stream,
        }),
        // What is cut is known again too.
        Err(_) => CallFingerprint {
            hash: nonzero_hash(line[anchor..].trim_ascii_end()),
            count: CommOpCount::default(),
        },
    }
}

/// What a call's line and its row in a table both say of it.
#[derive(Debug, Clone, Copy, Hash)]
pub struct CallIdentityText<'a> {
    /// The operation.
    pub op: &'a [u8],
    /// The opCount.
    pub op_count: u64,
    /// How many elements.
    pub count: u64,
    /// The datatype's number.
    pub datatype: u32,
    /// The communicator's address.
    pub comm: u64,
    /// The stream's.
    pub stream: u64,
}

impl CallFingerprint {
    /// Of a call.
    pub fn of_call_text(call: &CallIdentityText<'_>) -> CallFingerprint {
        let (comm, op_count) = (call.comm, call.op_count);
        CallFingerprint {
            hash: nonzero_hash(call),
            count: CommOpCount { comm, op_count },
        }
    }
}

/// A hash of `value`, never 0.
pub(crate) fn nonzero_hash(value: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish().max(1)
}

/// Inputs that were read, and what places of them are kept.
#[derive(Debug, Default)]
pub struct DuplicateInputs {
    /// There is one input: nothing is compared.
    is_alone: bool,
    inputs: Vec<ComparedInput>,
    /// Those that are read now are one after the other: the first of them, and where each ends.
    begin: usize,
    ends: Vec<u64>,
    /// The first call in them by merged member, and which members have one.
    first: Vec<Option<FirstMemberCall>>,
    met: Vec<u32>,
    /// The step line whose step's first call is not met yet is after this one.
    lead: Option<u64>,
    /// A table's rows so far.
    rows: TableRowsProgress,
    /// The input that had a place first, by the place's hash.
    places: FxHashMap<u64, u32>,
    shared: BTreeMap<(u32, u32), SharedPlaces>,
}

#[derive(Debug)]
struct ComparedInput {
    name: String,
    /// How many calls it has.
    calls: u64,
    /// It is a call table.
    is_table: bool,
    /// A log's step lines with a call before them, a table's steps.
    has_steps: bool,
    /// NCCL counts its calls.
    counts: bool,
}

/// What is known of a table's rows so far.
#[derive(Debug, Default)]
struct TableRowsProgress {
    any: bool,
    /// The highest step.
    step: Option<u64>,
    /// The first one's call.
    first: Option<CommOpCount>,
    /// NCCL counted on in a later one.
    counts: bool,
}

impl TableRowsProgress {
    fn is_later(&self, step: Option<u64>) -> bool {
        step.is_some() && step > self.step
    }
}

/// By what the rows of a part of a call table are known again: the first one is a call that its log
/// has first too, and the first of each step is one that a copy has first.
#[derive(Debug, Clone, Default)]
pub struct RowFingerprints {
    any: bool,
    step: Option<u64>,
    first: Option<CommOpCount>,
    counts: bool,
    places: Vec<RowFingerprint>,
    /// It was begun before the table's first call was known.
    is_ahead: bool,
}

/// The first row of a part, or one of a higher step than all before it there.
#[derive(Debug, Clone)]
struct RowFingerprint {
    step: Option<u64>,
    /// Who made its call, and the call.
    call: Option<(u64, CallFingerprint)>,
}

impl RowFingerprints {
    /// Of a part that is read ahead of its turn: nothing is known but the table's `first` call, if
    /// that is known yet.
    pub fn of_part_ahead(first: Option<CommOpCount>) -> RowFingerprints {
        RowFingerprints {
            first,
            is_ahead: first.is_none(),
            ..RowFingerprints::default()
        }
    }

    /// The next row: its step, its communicator's address and its opCount; `call` gives a hash of
    /// who made its call, and the call.
    #[inline]
    pub fn add_row(
        &mut self,
        step: Option<u64>,
        (comm, op_count): (Option<u64>, Option<u64>),
        call: impl FnOnce() -> Option<(u64, CallFingerprint)>,
    ) {
        self.counts |= self
            .first
            .is_some_and(|first| comm == Some(first.comm) && op_count > Some(first.op_count));
        let is_later = step.is_some() && step > self.step;
        if !self.any || is_later {
            (self.any, self.step) = (true, step);
            let call = call();
            if let Some((_, print)) = &call {
                self.first.get_or_insert(print.count);
            }
            self.places.push(RowFingerprint { step, call });
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct FirstMemberCall {
    process: u32,
    at: u64,
    print: CallFingerprint,
}

/// Places that two inputs share.
#[derive(Debug, Default)]
struct SharedPlaces {
    /// First calls.
    calls: u64,
    /// Lines that make communicators.
    inits: u64,
    /// Step lines with the first call of their step.
    steps: u64,
}

/// What the kinds of places begin their hash with.
#[derive(Debug, Clone, Copy, Hash)]
enum HashedPlaceKind {
    Call,
    Init,
    Step,
    Row,
}

/// The inputs that have calls which the one in hand has too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierInputs {
    /// The first one's name.
    pub of: String,
    /// How many more there are.
    pub more: usize,
}

/// How an input ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct InputCallsEnd {
    /// Its calls.
    pub calls: u64,
    /// The last of them.
    pub last: Option<CommOpCount>,
}

impl DuplicateInputs {
    /// There is one input, which may never end: no place of it is kept.
    pub fn expect_single_input(&mut self) {
        self.is_alone = true;
    }

    /// Begins inputs that are read as one: their names, and after which byte each of them ends.
    pub fn begin_inputs(&mut self, inputs: impl Iterator<Item = (String, u64)>) {
        // One before it may have broken off.
        for member in self.met.drain(..) {
            self.first[member as usize] = None;
        }
        self.shared.clear();
        self.begin = self.inputs.len();
        (self.ends, self.lead, self.rows) = (Vec::new(), None, TableRowsProgress::default());
        let is_alone = self.is_alone;
        for (name, end) in inputs.filter(|_| !is_alone) {
            self.ends.push(end);
            self.inputs.push(ComparedInput {
                name,
                calls: 0,
                is_table: false,
                has_steps: false,
                counts: false,
            });
        }
    }

    /// The input that a byte is in.
    fn input_at(&self, at: u64) -> usize {
        let last = self.ends.len().saturating_sub(1);
        self.begin + self.ends.partition_point(|&end| end <= at).min(last)
    }

    /// A merged member's call at `at`, the first of some.
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

    /// A line that makes a communicator of a merged process.
    pub fn add_init(&mut self, process: u32, init: &CommInit, at: u64) {
        if self.ends.is_empty() || init.event != InitEvent::Init {
            return;
        }
        let place = nonzero_hash((
            HashedPlaceKind::Init,
            process,
            init.comm,
            init.rank,
            init.comm_id,
        ));
        let input = self.input_at(at);
        if let Some(shared) = self.add_place(input, place) {
            shared.inits += 1;
        }
    }

    /// A chunk's step lines, which are at `marks`.
    pub fn add_steps(&mut self, prints: &StepFingerprints, marks: impl Iterator<Item = u64>) {
        if self.ends.is_empty() {
            return;
        }
        for (&(call, mark), at) in prints.marks.iter().zip(marks) {
            let Some(call) = self.lead.take().or(call) else {
                continue;
            };
            let input = self.input_at(at);
            self.inputs[input].has_steps = true;
            if let Some(shared) =
                self.add_place(input, nonzero_hash((HashedPlaceKind::Step, call, mark)))
            {
                shared.steps += 1;
            }
        }
        self.lead = self.lead.or(prints.call);
    }

    /// What is known of a table's rows, for a part whose turn it is.
    pub fn row_fingerprints_so_far(&self) -> RowFingerprints {
        RowFingerprints {
            any: self.rows.any,
            step: self.rows.step,
            ..RowFingerprints::of_part_ahead(self.first_call())
        }
    }

    /// The call of the first row of a table that has one.
    pub fn first_call(&self) -> Option<CommOpCount> {
        self.rows.first
    }

    /// True where a part that was read ahead of its turn must be read again, since it did not know
    /// the table's first call.
    pub fn is_doubtful(&self, part: &RowFingerprints) -> bool {
        part.is_ahead && (self.rows.first.is_some() || part.first.is_some())
    }

    /// Adds a part of a call table.
    pub fn add_rows(&mut self, part: RowFingerprints) {
        self.rows.counts |= part.counts;
        for place in part.places {
            if !self.rows.any || self.rows.is_later(place.step) {
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
        if is_first
            && let Some(shared) =
                self.add_place(table, nonzero_hash((HashedPlaceKind::Call, who, print)))
        {
            shared.calls += 1;
        }
        if let Some(step) = row.step
            && let Some(shared) = self.add_place(
                table,
                nonzero_hash((HashedPlaceKind::Row, who, print, step)),
            )
        {
            shared.steps += 1;
        }
    }

    /// The table in hand is read.
    pub fn end_table(&mut self, calls: u64) -> Option<EarlierInputs> {
        if let Some(table) = self.inputs.last_mut() {
            table.counts = self.rows.counts;
        }
        let last = None;
        let end = InputCallsEnd { calls, last };
        self.end_inputs(&[], std::iter::once(end)).pop().flatten()
    }

    /// Notes a place of an input; what that shares with the one that had it first.
    fn add_place(&mut self, input: usize, place: u64) -> Option<&mut SharedPlaces> {
        let input = u32::try_from(input).unwrap_or(u32::MAX);
        let first = *self.places.entry(place).or_insert(input);
        (first != input).then(|| self.shared.entry((input, first)).or_default())
    }

    /// The inputs in hand are read, and these are the merged processes: for each input those
    /// before it that have calls of it, if any have.
    pub fn end_inputs(
        &mut self,
        processes: &[SpeakerProcess],
        ends: impl Iterator<Item = InputCallsEnd>,
    ) -> Vec<Option<EarlierInputs>> {
        let mut last = Vec::with_capacity(self.ends.len());
        for (input, end) in self.inputs[self.begin..].iter_mut().zip(ends) {
            input.calls = end.calls;
            last.push(end.last);
        }
        for member in std::mem::take(&mut self.met) {
            let Some(FirstMemberCall { process, at, print }) = self.first[member as usize].take()
            else {
                continue;
            };
            // Nobody's calls are a document's.
            let process = processes.get(process as usize);
            let Some((process, pid)) = process.and_then(|p| Some((p, p.pid?))) else {
                continue;
            };
            let who = nonzero_hash((&process.host[..], pid));
            let input = self.input_at(at);
            let last = last.get(input - self.begin).copied().flatten();
            self.inputs[input].counts |= last.is_some_and(|last| print.count.counts_on_to(last));
            if let Some(shared) = self.add_place(
                input,
                nonzero_hash((HashedPlaceKind::Call, who, print.hash)),
            ) {
                shared.calls += 1;
            }
        }
        let shared = std::mem::take(&mut self.shared);
        let again = |input: usize| {
            let of = |first: u32| &self.inputs[first as usize];
            let mut those = shared
                .iter()
                .filter(|((this, _), _)| *this as usize == input)
                .filter(|((_, first), shared)| shared.is_duplicate(&self.inputs[input], of(*first)))
                .map(|((_, first), _)| of(*first).name.clone());
            let of = those.next()?;
            let more = those.count();
            Some(EarlierInputs { of, more })
        };
        let all = (self.begin..self.inputs.len()).map(again).collect();
        self.ends.clear();
        all
    }
}

impl SharedPlaces {
    /// Whether the two inputs have the same calls. A step line with the first call of its step
    /// shows it by itself, and so does a table's row with its step. First calls alone show it, except where
    /// both have steps (then they are different steps of one log), and only where the lines that made the communicators are in
    /// both too (a log's second part lacks them), where NCCL counts its calls, or where both have
    /// the same number of calls.
    fn is_duplicate(&self, a: &ComparedInput, b: &ComparedInput) -> bool {
        let stepped = a.has_steps && b.has_steps && a.is_table == b.is_table;
        let calls = self.calls > 0 && !stepped;
        let sure = self.inits > 0 || (a.counts && b.counts) || a.calls == b.calls;
        self.steps > 0 || (calls && sure)
    }
}
