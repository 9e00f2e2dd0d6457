//! A chunk's calls, small, numbered in their sequences, ready to be written as rows.

use super::limits::GAP_OF_ITS_LINE;
use super::order::OrderedChunk;
use super::sequences::{self, CallSequences, CommSequenceKey, MessagePeer, SequenceNumbers};
use crate::count::calls::LOG_SOURCE;
use crate::grammar::values::{Datatype, OpKind, RedOp, has_redop, has_root};
use crate::log::placement::GapCursor;
use crate::log::timeline::StepTimeline;
use crate::log::walk::{LogCall, LogVisitor, RepairedCall, insert_at_places};
use crate::members::OpInterner;
use crate::members::{MergedMembers, MergedNumbers};
use crate::output::table::{Row, Timing};
use crate::stages::setup::thread::SpeakerThread;
use crate::stages::tuning::call_methods::CallMethods;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::mem::{size_of, size_of_val};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A call of a chunk, small.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct CallRecord {
    member: u32,
    op: u32,
    gap: u32,
    datatype: u32,
    count: u64,
    redop: u64,
    root: i64,
    stream: u64,
    op_count: u64,
    tid: Option<u64>,
    /// Where the time stamp is: in the chunk, or in `Records::times` for a torn line and
    /// for one that was unwrapped.
    time: (u32, u32),
    /// Its number among the calls of `sequence` in the chunk.
    seq: u64,
    /// Index into `Records::sequences`.
    sequence: u32,
    /// How it was served: its number in [`CallMethods::method_columns`]; `u32::MAX` if unknown.
    choice: u32,
}

/// A call of the chunk, and the gap that it was made in.
pub(super) type CallInGap = (usize, u32);

/// Buffers of a chunk's calls, for reuse.
#[derive(Default)]
pub(super) struct RecordBuffers {
    list: Vec<CallRecord>,
    gaps: Vec<u32>,
}

/// A chunk's calls, in line order. Once they are numbered they may wait in a file.
#[derive(Serialize, Deserialize)]
pub(super) struct ChunkRecords {
    /// Address of the chunk's first byte, to place time stamps in it; 0 where it is not kept.
    base: usize,
    ops: OpInterner,
    gap: u32,
    list: Vec<CallRecord>,
    /// By call: its process in the chunk; once placed, the gap in which it was made, or [`GAP_OF_ITS_LINE`].
    /// Not part of the calls, so that placing does not touch these.
    gaps: Vec<u32>,
    /// Once placed: the gap of the log at which the chunk begins.
    first_gap: u32,
    /// The sequences that calls of this chunk belong to: by member, and for Send and Recv by
    /// peer. How many calls each has here.
    sequences: Vec<((u32, MessagePeer), u64)>,
    #[serde(skip)]
    sequence_of: FxHashMap<(u32, MessagePeer), u32>,
    /// `sequence_of` collectives, by member: most calls. `u32::MAX` where there is none yet.
    #[serde(skip)]
    collectives: Vec<u32>,
    /// Merged member by the chunk's.
    members: Vec<u32>,
    /// For each slot: its place in `list` and its gap.
    #[serde(skip)]
    slots: Vec<(usize, u32)>,
    /// Some calls' lines were torn: their numbers are not in the order of the calls.
    is_torn: bool,
    /// Stamps of torn and of unwrapped lines, after the chunk's bytes.
    times: Vec<u8>,
    len: usize,
    /// Set behind a shared pointer: a chunk waits for its numbers together with its rows.
    #[serde(with = "sequences::once_set")]
    numbers: OnceLock<SequenceNumbers>,
}

impl LogVisitor for ChunkRecords {
    // A record is made where it is kept: one that is not inlined is copied three times.
    #[inline(always)]
    fn call(&mut self, call: &LogCall<'_>) {
        let (mut record, kind) = self.build_record(call, self.gap);
        self.number_call(&mut record, kind);
        self.list.push(record);
        self.gaps.push(call.process);
    }

    fn mark(&mut self) {
        self.gap += 1;
    }

    fn slot(&mut self) {
        self.slots.push((self.list.len(), self.gap));
    }

    fn unify_processes(&mut self, _first: &[u32]) {}

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        self.is_torn = true;
        let mut torn = Vec::with_capacity(calls.len());
        for RepairedCall { slot, call, .. } in calls {
            let slot = self.slots.get(*slot as usize).copied();
            let (at, gap) = slot.unwrap_or((self.list.len(), self.gap));
            let (mut record, kind) = self.build_record(call, gap);
            self.number_call(&mut record, kind);
            torn.push((at, record));
        }
        let who = torn.iter().zip(calls);
        insert_at_places(
            &mut self.gaps,
            who.map(|((at, _), torn)| (*at, torn.call.process)),
        );
        insert_at_places(&mut self.list, torn);
    }
}

impl ChunkRecords {
    /// No calls of a chunk yet.
    pub(super) fn new(bytes: &[u8], memory: RecordBuffers) -> ChunkRecords {
        let RecordBuffers { mut list, mut gaps } = memory;
        list.clear();
        gaps.clear();
        ChunkRecords {
            base: if bytes.is_empty() {
                0
            } else {
                bytes.as_ptr() as usize
            },
            ops: OpInterner::default(),
            gap: 0,
            list,
            gaps,
            first_gap: 0,
            sequences: Vec::new(),
            sequence_of: FxHashMap::default(),
            collectives: Vec::new(),
            members: Vec::new(),
            slots: Vec::new(),
            is_torn: false,
            times: Vec::new(),
            len: bytes.len(),
            numbers: OnceLock::new(),
        }
    }

    /// Like `new` without the chunk's bytes: all stamps are kept.
    pub(super) fn new_without_bytes() -> ChunkRecords {
        ChunkRecords::new(&[], RecordBuffers::default())
    }

    #[inline(always)]
    fn build_record(&mut self, call: &LogCall<'_>, gap: u32) -> (CallRecord, OpKind) {
        let (op, kind) = self.ops.intern(call.coll.op);
        let from = (call.time.as_ptr() as usize).wrapping_sub(self.base);
        let time = match (u32::try_from(from), call.time.len()) {
            (_, 0) => (0, 0),
            (Ok(start), len) if from < self.len => (start, start.saturating_add(len as u32)),
            _ => self.keep_stamp(call.time),
        };
        let coll = &call.coll;
        let record = CallRecord {
            member: call.member,
            op,
            gap,
            datatype: coll.datatype,
            count: coll.count,
            redop: coll.redop,
            root: coll.root,
            stream: coll.stream,
            op_count: coll.op_count,
            tid: call.tid,
            time,
            seq: 0,
            sequence: 0,
            choice: u32::MAX,
        };
        (record, kind)
    }

    /// Keeps a stamp that is not in the chunk, but in what a line of it was unwrapped to.
    /// A chunk is far below 4 GiB, but for one line of that length: then the stamp is lost.
    #[cold]
    fn keep_stamp(&mut self, time: &[u8]) -> (u32, u32) {
        let from = self.len + self.times.len();
        let Ok(until) = u32::try_from(from + time.len()) else {
            return (0, 0);
        };
        self.times.extend_from_slice(time);
        (from as u32, until)
    }

    /// Gives a call its number in its sequence.
    #[inline(always)]
    fn number_call(&mut self, record: &mut CallRecord, kind: OpKind) {
        let known = match kind {
            OpKind::Send | OpKind::Recv => None,
            _ => self.collectives.get(record.member as usize).copied(),
        };
        let at = known
            .filter(|&at| at != u32::MAX)
            .unwrap_or_else(|| self.find_sequence(record));
        let (_, calls) = &mut self.sequences[at as usize];
        (record.sequence, record.seq) = (at, *calls);
        *calls += 1;
    }

    fn find_sequence(&mut self, record: &CallRecord) -> u32 {
        let peer = match self.ops.op_kind(record.op) {
            OpKind::Send => Some((true, record.root)),
            OpKind::Recv => Some((false, record.root)),
            _ => None,
        };
        let key = (record.member, peer);
        let next = self.sequences.len() as u32;
        let at = *self.sequence_of.entry(key).or_insert(next);
        if at == next {
            self.sequences.push((key, 0));
        }
        let member = record.member as usize;
        if peer.is_none() {
            if self.collectives.len() <= member {
                self.collectives.resize(member + 1, u32::MAX);
            }
            self.collectives[member] = at;
        }
        at
    }

    /// Keeps what the merged numbers of the chunk's members are.
    pub(super) fn set_merged_members(&mut self, to: &MergedNumbers) {
        self.members.clone_from(&to.members);
    }

    /// Numbers the calls in their sequences, after all chunks before. A process whose name has other text glued
    /// to it in `renamed` goes on with the calls of the one that it is.
    pub(super) fn number_in_sequences(
        &self,
        merged: &MergedMembers,
        renamed: &FxHashMap<u32, u32>,
        seqs: &mut CallSequences,
    ) {
        seqs.join_renamed(renamed);
        // A process that changed its device has two members for one communicator.
        let mut keys: FxHashMap<CommSequenceKey, usize> = FxHashMap::default();
        let number_of = |((member, peer), _): &((u32, MessagePeer), u64)| {
            let member = self.members[*member as usize];
            let member = merged.origins.members.get(member);
            let process = merged.origins.places.get(member.place).process;
            let process = renamed.get(&process).copied().unwrap_or(process);
            let next = keys.len();
            let key = (process, member.comm, member.identity, *peer);
            *keys.entry(key).or_insert(next)
        };
        let numbers: Vec<usize> = self.sequences.iter().map(number_of).collect();
        let mut here = vec![0_u64; keys.len()];
        let mut counted_again = Vec::new();
        // A torn call comes in between others.
        if keys.len() < numbers.len() || self.is_torn {
            let count = |record: &CallRecord| {
                let count = &mut here[numbers[record.sequence as usize]];
                *count += 1;
                *count - 1
            };
            counted_again = self.list.iter().map(count).collect();
        } else {
            for (number, (_, calls)) in numbers.iter().zip(&self.sequences) {
                here[*number] = *calls;
            }
        }
        let mut before_of = vec![0; keys.len()];
        for (key, number) in keys {
            let made = seqs.made.entry(key).or_default();
            before_of[number] = *made;
            *made += here[number];
        }
        let before = numbers.iter().map(|number| before_of[*number]).collect();
        let _ = self.numbers.set(SequenceNumbers {
            before,
            counted_again,
        });
    }

    /// Gives each call the gap of the log that it was made in; the chunk's first one is `gap`.
    pub(super) fn place_in_gaps(
        &mut self,
        gap: usize,
        to: &MergedNumbers,
        gaps: &mut GapCursor<'_>,
    ) {
        self.first_gap = gap as u32;
        for who in &mut self.gaps {
            let process = to.processes.get(*who as usize);
            let placed = process.and_then(|&process| gaps.next_gap(process));
            *who = placed.unwrap_or(GAP_OF_ITS_LINE);
        }
    }

    /// Gives each call its process's merged number, in place of the gap; the chunk's first gap is `gap`.
    pub(super) fn set_merged_processes(&mut self, gap: usize, to: &MergedNumbers) {
        self.first_gap = gap as u32;
        for who in &mut self.gaps {
            *who = to.processes.get(*who as usize).copied().unwrap_or(u32::MAX);
        }
    }

    /// Returns the gap in which a placed call was made; `None`: that of its line.
    pub(super) fn gap_of_call(&self, call: usize) -> Option<u32> {
        Some(self.gaps[call]).filter(|gap| *gap != GAP_OF_ITS_LINE)
    }

    /// Returns the gaps of the calls' lines, each with the calls up to its end.
    pub(super) fn line_gaps(&self) -> Vec<(u32, usize)> {
        let (mut lines, mut at) = (Vec::new(), 0);
        while let Some(first) = self.list.get(at) {
            let gap = first.gap;
            at += self.list[at..].partition_point(|record| record.gap <= gap);
            lines.push((self.first_gap + gap, at));
        }
        lines
    }

    /// True once its calls are numbered.
    pub(super) fn is_numbered(&self) -> bool {
        self.numbers.get().is_some()
    }

    /// The calls `range`, each with the gap that it was made in.
    pub(super) fn placed_calls(&self, range: Range<usize>) -> impl Iterator<Item = CallInGap> {
        let gaps = self.gaps[range.clone()].iter().copied();
        range.zip(gaps)
    }

    /// Gives each call the choice that served it.
    pub(super) fn set_served_choices(&mut self, merged: &MergedMembers, served: &mut CallMethods) {
        let ops = 0..self.ops.len();
        let ops: Vec<u32> = ops
            .map(|op| served.op_number(self.ops.name_of_op(op)))
            .collect();
        for record in &mut self.list {
            let member = self.members[record.member as usize];
            let member = merged.origins.members.get(member);
            let process = merged.origins.places.get(member.place).process;
            let thread = SpeakerThread::new(process, record.tid);
            let op = ops[record.op as usize];
            let choice =
                served.next_method((thread, member.comm, op, record.count, record.datatype));
            record.choice = choice.unwrap_or(u32::MAX);
        }
    }

    /// The memory of the calls, which are forgotten.
    pub(super) fn into_memory(self) -> RecordBuffers {
        RecordBuffers {
            list: self.list,
            gaps: self.gaps,
        }
    }

    /// About how many bytes of memory they take.
    pub(super) fn bytes(&self) -> usize {
        size_of::<ChunkRecords>()
            + size_of_val(&self.list[..])
            + size_of_val(&self.gaps[..])
            + self.times.len()
    }

    /// How many calls.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The gap of the log at which the chunk begins, once that is known.
    #[cfg(test)]
    pub(super) fn first_gap(&self) -> u32 {
        self.first_gap
    }

    /// Merged member by the chunk's.
    pub(super) fn members(&self) -> &[u32] {
        &self.members
    }

    /// Returns the rows of these calls, each with its member in the chunk; the speaker's columns are left to be
    /// filled. `bytes` are the chunk's, `timings` those of the choices.
    pub(super) fn build_rows<'a>(
        &'a self,
        calls: impl Iterator<Item = CallInGap> + 'a,
        bytes: &'a [u8],
        timeline: &'a StepTimeline,
        timings: &'a [Timing<'a>],
    ) -> impl Iterator<Item = (usize, Row<'a>)> {
        let op = |op: u32| {
            let name = self.ops.name_of_op(op);
            (name, has_redop(name), has_root(name))
        };
        let ops: Vec<_> = (0..self.ops.len()).map(op).collect();
        let mut step = (u32::MAX, None);
        let numbers = self.numbers.get();
        calls.map(move |(call, gap)| {
            let r = &self.list[call];
            let seq = numbers.map(|numbers| {
                let here = numbers.counted_again.get(call).copied().unwrap_or(r.seq);
                numbers.before[r.sequence as usize] + here
            });
            let (op, has_redop, has_root) = ops[r.op as usize];
            let gap = match gap {
                GAP_OF_ITS_LINE => self.first_gap + r.gap,
                gap => gap,
            };
            if step.0 != gap {
                let of = timeline.step_of(gap as usize);
                step = (gap, of.map(|s| s.step));
            }
            let (from, until) = (r.time.0 as usize, r.time.1 as usize);
            let time = if from >= self.len {
                &self.times[from - self.len..until - self.len]
            } else {
                &bytes[from..until]
            };
            let row = Row {
                step: step.1,
                time,
                tid: r.tid,
                seq,
                op_count: Some(r.op_count),
                op,
                count: Some(r.count),
                datatype: Some(Datatype(r.datatype)),
                redop: has_redop.then_some(RedOp(r.redop)),
                root: has_root.then_some(r.root),
                stream: Some(r.stream),
                calls: 1,
                src: LOG_SOURCE,
                timing: timings.get(r.choice as usize),
                ..Row::default()
            };
            (r.member as usize, row)
        })
    }
}

impl OrderedChunk for Arc<ChunkRecords> {
    fn len(&self) -> usize {
        self.list.len()
    }

    fn gap_of_line(&self, call: usize) -> u32 {
        self.first_gap + self.list[call].gap
    }

    fn process_of_call(&self, call: usize) -> u32 {
        self.gaps[call]
    }
}
