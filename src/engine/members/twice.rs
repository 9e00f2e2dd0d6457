//! Whether two inputs hold the same calls: a log and its copy (packed or not), ranks' files and
//! the file they were joined into, a log and a stretch of it.
//!
//! Kept are hashes of a few places of what is read anyway: of the first call of each process on
//! each communicator ([`print()`]), of the lines that make communicators, and of each step line
//! with the first call of its step. Addresses and opCounts are in them, so that another run of
//! the same job shares none. Where NCCL does not count (one node, since 2.27), every step's calls
//! are the same text: a second part of a rotated log may begin with the call that the first began
//! with. So a first call counts only where something else speaks for it: see `Shared::is_twice`.

use crate::grammar::coll;
use crate::grammar::message::communicator::init::{Event, Init};
use crate::members::Process;
use rustc_hash::{FxHashMap, FxHasher};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// By what a call is known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Print {
    /// A hash of what it says; 0 where there is no call.
    pub hash: u64,
    /// Where NCCL counts, the calls of the communicator before it.
    pub count: Count,
}

/// By what a chunk's steps are known again in another input: hashes of
/// text, whatever became of it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Prints {
    /// For each mark: of the first call since the mark before it, if there is one in the chunk,
    /// and of its own text.
    pub marks: Vec<(Option<u64>, u64)>,
    /// Of the first call after the last mark.
    pub call: Option<u64>,
    /// The last call.
    pub last: Option<Count>,
}

/// A communicator's address, and the opCount of a call on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Count {
    /// The address.
    pub comm: u64,
    /// The opCount.
    pub op_count: u64,
}

impl Count {
    /// True where NCCL counted on from here to `last`.
    fn goes_on_to(self, last: Count) -> bool {
        self.comm == last.comm && self.op_count < last.op_count
    }
}

/// By what the call that is first in `text`, up to its line's end, is known again.
#[cold]
pub fn print(text: &[u8]) -> Print {
    let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())];
    let Some(anchor) = coll::FINDER.find(line) else {
        return Print::default();
    };
    match coll::at(line, anchor) {
        Ok((_, call, _)) => Print::of(&CallText {
            op: call.op,
            op_count: call.op_count,
            count: call.count,
            datatype: call.datatype,
            comm: call.comm,
            stream: call.stream,
        }),
        // What is cut is known again too.
        Err(_) => Print {
            hash: hash(line[anchor..].trim_ascii_end()),
            count: Count::default(),
        },
    }
}

/// What a call's line and its row in a table both say of it.
#[derive(Debug, Clone, Copy, Hash)]
pub struct CallText<'a> {
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

impl Print {
    /// Of a call.
    pub fn of(call: &CallText<'_>) -> Print {
        let (comm, op_count) = (call.comm, call.op_count);
        Print {
            hash: hash(call),
            count: Count { comm, op_count },
        }
    }
}

/// A hash of `value`, never 0.
pub(crate) fn hash(value: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish().max(1)
}

/// Inputs that were read, and what places of them are kept.
#[derive(Debug, Default)]
pub struct Twice {
    /// There is one input: nothing is compared.
    is_alone: bool,
    inputs: Vec<Input>,
    /// Those that are read now are one after the other: the first of them, and where each ends.
    begin: usize,
    ends: Vec<u64>,
    /// The first call in them by merged member, and which members have one.
    first: Vec<Option<First>>,
    met: Vec<u32>,
    /// The step line whose step's first call is not met yet is after this one.
    lead: Option<u64>,
    /// A table's rows so far.
    rows: Rows,
    /// The input that had a place first, by the place's hash.
    places: FxHashMap<u64, u32>,
    shared: BTreeMap<(u32, u32), Shared>,
}

#[derive(Debug)]
struct Input {
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
struct Rows {
    any: bool,
    /// The highest step.
    step: Option<u64>,
    /// The first one's call.
    first: Option<Count>,
    /// NCCL counted on in a later one.
    counts: bool,
}

impl Rows {
    fn is_later(&self, step: Option<u64>) -> bool {
        step.is_some() && step > self.step
    }
}

/// By what the rows of a part of a call table are known again: the first one is a call that its log
/// has first too, and the first of each step is one that a copy has first.
#[derive(Debug, Clone, Default)]
pub struct RowPrints {
    any: bool,
    step: Option<u64>,
    first: Option<Count>,
    counts: bool,
    places: Vec<RowPlace>,
    /// It was begun before the table's first call was known.
    is_ahead: bool,
}

/// The first row of a part, or one of a higher step than all before it there.
#[derive(Debug, Clone)]
struct RowPlace {
    step: Option<u64>,
    /// Who made its call, and the call.
    call: Option<(u64, Print)>,
}

impl RowPrints {
    /// Of a part that is read ahead of its turn: nothing is known but the table's `first` call, if
    /// that is known yet.
    pub fn ahead(first: Option<Count>) -> RowPrints {
        RowPrints {
            first,
            is_ahead: first.is_none(),
            ..RowPrints::default()
        }
    }

    /// The next row: its step, its communicator's address and its opCount; `call` gives a hash of
    /// who made its call, and the call.
    #[inline]
    pub fn row(
        &mut self,
        step: Option<u64>,
        (comm, op_count): (Option<u64>, Option<u64>),
        call: impl FnOnce() -> Option<(u64, Print)>,
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
            self.places.push(RowPlace { step, call });
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct First {
    process: u32,
    at: u64,
    print: Print,
}

/// Places that two inputs share.
#[derive(Debug, Default)]
struct Shared {
    /// First calls.
    calls: u64,
    /// Lines that make communicators.
    inits: u64,
    /// Step lines with the first call of their step.
    steps: u64,
}

/// What the kinds of places begin their hash with.
#[derive(Debug, Clone, Copy, Hash)]
enum Kind {
    Call,
    Init,
    Step,
    Row,
}

/// The inputs that have calls which the one in hand has too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    /// The first one's name.
    pub of: String,
    /// How many more there are.
    pub more: usize,
}

/// How an input ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct End {
    /// Its calls.
    pub calls: u64,
    /// The last of them.
    pub last: Option<Count>,
}

impl Twice {
    /// There is one input, which may never end: no place of it is kept.
    pub fn alone(&mut self) {
        self.is_alone = true;
    }

    /// Begins inputs that are read as one: their names, and after which byte each of them ends.
    pub fn begin(&mut self, inputs: impl Iterator<Item = (String, u64)>) {
        // One before it may have broken off.
        for member in self.met.drain(..) {
            self.first[member as usize] = None;
        }
        self.shared.clear();
        self.begin = self.inputs.len();
        (self.ends, self.lead, self.rows) = (Vec::new(), None, Rows::default());
        let is_alone = self.is_alone;
        for (name, end) in inputs.filter(|_| !is_alone) {
            self.ends.push(end);
            self.inputs.push(Input {
                name,
                calls: 0,
                is_table: false,
                has_steps: false,
                counts: false,
            });
        }
    }

    /// The input that a byte is in.
    fn input(&self, at: u64) -> usize {
        let last = self.ends.len().saturating_sub(1);
        self.begin + self.ends.partition_point(|&end| end <= at).min(last)
    }

    /// A merged member's call at `at`, the first of some.
    #[inline]
    pub fn call(&mut self, member: u32, process: u32, at: u64, print: Print) {
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
            *known = Some(First { process, at, print });
        }
    }

    /// A line that makes a communicator of a merged process.
    pub fn init(&mut self, process: u32, init: &Init, at: u64) {
        if self.ends.is_empty() || init.event != Event::Init {
            return;
        }
        let place = hash((Kind::Init, process, init.comm, init.rank, init.comm_id));
        let input = self.input(at);
        if let Some(shared) = self.place(input, place) {
            shared.inits += 1;
        }
    }

    /// A chunk's step lines, which are at `marks`.
    pub fn steps(&mut self, prints: &Prints, marks: impl Iterator<Item = u64>) {
        if self.ends.is_empty() {
            return;
        }
        for (&(call, mark), at) in prints.marks.iter().zip(marks) {
            let Some(call) = self.lead.take().or(call) else {
                continue;
            };
            let input = self.input(at);
            self.inputs[input].has_steps = true;
            if let Some(shared) = self.place(input, hash((Kind::Step, call, mark))) {
                shared.steps += 1;
            }
        }
        self.lead = self.lead.or(prints.call);
    }

    /// What is known of a table's rows, for a part whose turn it is.
    pub fn so_far(&self) -> RowPrints {
        RowPrints {
            any: self.rows.any,
            step: self.rows.step,
            ..RowPrints::ahead(self.first_call())
        }
    }

    /// The call of the first row of a table that has one.
    pub fn first_call(&self) -> Option<Count> {
        self.rows.first
    }

    /// True where a part that was read ahead of its turn must be read again, since it did not know
    /// the table's first call.
    pub fn is_doubtful(&self, part: &RowPrints) -> bool {
        part.is_ahead && (self.rows.first.is_some() || part.first.is_some())
    }

    /// Adds a part of a call table.
    pub fn rows(&mut self, part: RowPrints) {
        self.rows.counts |= part.counts;
        for place in part.places {
            if !self.rows.any || self.rows.is_later(place.step) {
                self.first_row(place);
            }
        }
    }

    fn first_row(&mut self, row: RowPlace) {
        let Some(table) = self.inputs.last_mut() else {
            return;
        };
        (table.is_table, table.has_steps) = (true, row.step.is_some());
        let table = self.inputs.len() - 1;
        let is_first = !std::mem::replace(&mut self.rows.any, true);
        self.rows.step = row.step;
        let Some((who, Print { hash: print, count })) = row.call else {
            return;
        };
        self.rows.first.get_or_insert(count);
        if is_first && let Some(shared) = self.place(table, hash((Kind::Call, who, print))) {
            shared.calls += 1;
        }
        if let Some(step) = row.step
            && let Some(shared) = self.place(table, hash((Kind::Row, who, print, step)))
        {
            shared.steps += 1;
        }
    }

    /// The table in hand is read.
    pub fn end_table(&mut self, calls: u64) -> Option<Again> {
        if let Some(table) = self.inputs.last_mut() {
            table.counts = self.rows.counts;
        }
        let last = None;
        let end = End { calls, last };
        self.end(&[], std::iter::once(end)).pop().flatten()
    }

    /// Notes a place of an input; what that shares with the one that had it first.
    fn place(&mut self, input: usize, place: u64) -> Option<&mut Shared> {
        let input = u32::try_from(input).unwrap_or(u32::MAX);
        let first = *self.places.entry(place).or_insert(input);
        (first != input).then(|| self.shared.entry((input, first)).or_default())
    }

    /// The inputs in hand are read, and these are the merged processes: for each input those
    /// before it that have calls of it, if any have.
    pub fn end(
        &mut self,
        processes: &[Process],
        ends: impl Iterator<Item = End>,
    ) -> Vec<Option<Again>> {
        let mut last = Vec::with_capacity(self.ends.len());
        for (input, end) in self.inputs[self.begin..].iter_mut().zip(ends) {
            input.calls = end.calls;
            last.push(end.last);
        }
        for member in std::mem::take(&mut self.met) {
            let Some(First { process, at, print }) = self.first[member as usize].take() else {
                continue;
            };
            // Nobody's calls are a document's.
            let process = processes.get(process as usize);
            let Some((process, pid)) = process.and_then(|p| Some((p, p.pid?))) else {
                continue;
            };
            let who = hash((&process.host[..], pid));
            let input = self.input(at);
            let last = last.get(input - self.begin).copied().flatten();
            self.inputs[input].counts |= last.is_some_and(|last| print.count.goes_on_to(last));
            if let Some(shared) = self.place(input, hash((Kind::Call, who, print.hash))) {
                shared.calls += 1;
            }
        }
        let shared = std::mem::take(&mut self.shared);
        let again = |input: usize| {
            let of = |first: u32| &self.inputs[first as usize];
            let mut those = shared
                .iter()
                .filter(|((this, _), _)| *this as usize == input)
                .filter(|((_, first), shared)| shared.is_twice(&self.inputs[input], of(*first)))
                .map(|((_, first), _)| of(*first).name.clone());
            let of = those.next()?;
            let more = those.count();
            Some(Again { of, more })
        };
        let all = (self.begin..self.inputs.len()).map(again).collect();
        self.ends.clear();
        all
    }
}

impl Shared {
    /// Whether the two inputs have the same calls. A step line with the first call of its step
    /// shows it by itself, and so does a table's row with its step. First calls alone show it, except where
    /// both have steps (then they are different steps of one log), and only where the lines that made the communicators are in
    /// both too (a log's second part lacks them), where NCCL counts its calls, or where both have
    /// the same number of calls.
    fn is_twice(&self, a: &Input, b: &Input) -> bool {
        let stepped = a.has_steps && b.has_steps && a.is_table == b.is_table;
        let calls = self.calls > 0 && !stepped;
        let sure = self.inits > 0 || (a.counts && b.counts) || a.calls == b.calls;
        self.steps > 0 || (calls && sure)
    }
}
