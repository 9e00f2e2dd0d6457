//! Stretches of streams, read again: what the calls are and where they stand.

use super::piped::PipeRecord;
use super::step_ends::{InputStepEnds, StepEndTracker};
use super::{CallStreams, ProcessComm, StreamKind, caller_of_member, stream_kind_of};
use crate::count::calls::Options;
use crate::error::Result;
use crate::grammar::coll::Coll;
use crate::log;
use crate::log::placement::CallRecorder;
use crate::log::walk::{LogCall, LogVisitor, RepairedCall, insert_at_places};
use crate::members::OpInterner;
use crate::members::{CommIdentity, MergedMembers, SpeakerProcess};
use crate::source::Input;
use crate::stages::check::log::job_spans::JobCallSpans;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// A call of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallDetail {
    /// Its number in the stream.
    pub(crate) seq: u64,
    /// Its number among all of the process's calls on the communicators that are read.
    pub(crate) nth: u64,
    /// The operation.
    pub(crate) op: Box<[u8]>,
    /// Elements.
    pub(crate) count: u64,
    /// The datatype's code.
    pub(crate) datatype: u32,
    /// The reduction's code.
    pub(crate) redop: u64,
    /// The root, or the peer.
    pub(crate) root: i64,
    /// The input.
    pub(crate) input: u32,
    /// Its line's first byte.
    pub(crate) at: u64,
    /// The number that NCCL gave it; all 0 in some versions.
    pub(crate) op_count: u64,
    /// It was put together from pieces: another call's line stands between them, and which of the
    /// two was made first is not known.
    pub(crate) joined: bool,
}

/// Which calls of which streams; ranges in order.
pub(crate) type WantedCalls = FxHashMap<(ProcessComm, StreamKind), Vec<Range<u64>>>;

/// A stream as it is known in every walk: a walk's own numbers mean nothing in another.
type StreamName = (SpeakerProcess, u64, Option<CommIdentity>, StreamKind);

/// Reads the calls of the streams in `wanted` again. `open` opens an input by its number; `inputs`
/// are those to read, in order: all that the streams' processes have lines in. Of those that came through
/// a pipe `piped` has what was kept. `silence` hears of every call.
///
/// # Errors
/// An input cannot be read.
pub(crate) fn reread_wanted(
    wanted: &WantedCalls,
    processes: &[SpeakerProcess],
    inputs: impl Iterator<Item = u32>,
    open: impl Fn(u32) -> Result<Input>,
    (options, all, piped): (&Options, &CallStreams, &BTreeMap<u32, PipeRecord>),
    (silence, mut ends): (&mut JobCallSpans, Option<&mut InputStepEnds>),
) -> Result<FxHashMap<(ProcessComm, StreamKind), Vec<CallDetail>>> {
    let name = |(caller, way): &(ProcessComm, StreamKind)| -> StreamName {
        let process = processes[caller.process as usize].clone();
        (process, caller.comm, caller.identity, *way)
    };
    let mut streams: Vec<StreamReread> = Vec::with_capacity(wanted.len());
    let mut index: FxHashMap<StreamName, usize> = FxHashMap::default();
    for (key, ranges) in wanted {
        index.insert(name(key), streams.len());
        streams.push(StreamReread::from_ranges(ranges));
    }
    let place = |(&(caller, way), &stream): (&(u32, StreamKind), &u32)| {
        let at = index.get(&name(&(*all.callers.get(caller), way)))?;
        Some((stream, *at))
    };
    let which: FxHashMap<u32, usize> = match piped.is_empty() {
        true => FxHashMap::default(),
        false => all.at.iter().filter_map(place).collect(),
    };
    // Who has any is found by the address, before anything of a name is looked at.
    let comms: FxHashSet<u64> = wanted.keys().map(|(caller, _)| caller.comm).collect();
    let mut merged = MergedMembers::with_process_names(processes);
    // How many calls each process made.
    let mut made: FxHashMap<u32, u64> = FxHashMap::default();
    // The stream of a merged member's calls of a way, if it is wanted.
    let mut known: FxHashMap<(u32, StreamKind), Option<usize>> = FxHashMap::default();
    for number in inputs {
        if let Some(piped) = piped.get(&number) {
            let streams = (&which, &mut streams[..]);
            piped.reread_calls(number, streams, &mut made, (silence, ends.as_deref_mut()))?;
            continue;
        }
        let input = open(number)?;
        let mut steps = ends.is_some().then(|| StepEndTracker::new(options));
        let recorder = || ends.is_some().then(CallRecorder::default);
        let log = log::read_log(
            &input,
            &options.log,
            &mut merged,
            || (RereadChunk::new(Some(&comms)), recorder()),
            |_| {},
            |part| {
                let ((RereadChunk { ops, list, .. }, recorder), part) = part.take_visit();
                if let (Some(steps), Some(recorder)) = (&mut steps, recorder) {
                    steps.add_chunk(recorder, &part);
                }
                for call in &list {
                    let coll = call.to_coll(ops.name_of_op(call.op));
                    let member = part.to.members[call.member as usize];
                    let Some(way) = stream_kind_of(&coll) else {
                        continue;
                    };
                    let stream = *known.entry((member, way)).or_insert_with(|| {
                        let name = name_stream(member, way, part.merged);
                        index.get(&name).copied()
                    });
                    if let Some(stream) = stream {
                        let member = part.merged.origins.members.get(member);
                        let process = part.merged.origins.places.get(member.place).process;
                        let nth = made.entry(process).or_default();
                        streams[stream].take_next_call(|| CallDetail {
                            joined: call.joined,
                            ..CallDetail::from_call(&coll, (number, call.at), *nth)
                        });
                        *nth += 1;
                        silence.count_call(process, number);
                    }
                }
                Ok(())
            },
        )?;
        if let (Some(steps), Some(ends)) = (steps, &mut ends) {
            steps.finish_log((number, &log), &merged, ends);
        }
    }
    let kept = streams.into_iter().map(StreamReread::into_kept_calls);
    Ok(wanted.keys().copied().zip(kept).collect())
}

/// What a merged member's stream is called in every walk.
fn name_stream(member: u32, way: StreamKind, merged: &MergedMembers) -> StreamName {
    let ProcessComm {
        process,
        comm,
        identity,
    } = caller_of_member(member, merged);
    let process = merged.origins.processes.get(process).clone();
    (process, comm, identity, way)
}

impl CallDetail {
    fn from_call(coll: &Coll<'_>, (input, at): (u32, u64), nth: u64) -> CallDetail {
        CallDetail {
            seq: 0,
            nth,
            op: coll.op.into(),
            count: coll.count,
            datatype: coll.datatype,
            redop: coll.redop,
            root: coll.root,
            input,
            at,
            op_count: coll.op_count,
            joined: false,
        }
    }
}

/// A stream as it is read: how far it is, and what of it is kept.
#[derive(Debug, Default)]
pub(super) struct StreamReread {
    ranges: Vec<Range<u64>>,
    calls: u64,
    kept: Vec<CallDetail>,
}

impl StreamReread {
    fn from_ranges(ranges: &[Range<u64>]) -> StreamReread {
        StreamReread {
            ranges: ranges.to_vec(),
            ..StreamReread::default()
        }
    }

    fn take_next_call(&mut self, call: impl FnOnce() -> CallDetail) {
        let seq = self.calls;
        self.calls += 1;
        self.take_call(seq, call);
    }

    /// Takes the call of this number.
    pub(super) fn take_call(&mut self, seq: u64, call: impl FnOnce() -> CallDetail) {
        if self.ranges.iter().any(|range| range.contains(&seq)) {
            self.kept.push(CallDetail { seq, ..call() });
        }
    }

    /// So many calls were made by now.
    pub(super) fn set_calls_made(&mut self, calls: u64) {
        self.calls = calls;
    }

    /// What was kept, in order: calls that were put together from pieces may have come late.
    fn into_kept_calls(mut self) -> Vec<CallDetail> {
        self.kept.sort_by_key(|call| call.seq);
        self.kept
    }
}

/// A chunk's calls, all or on some addresses.
pub(crate) struct RereadChunk<'w> {
    comms: Option<&'w FxHashSet<u64>>,
    pub(super) ops: OpInterner,
    pub(super) list: Vec<CompactCall>,
    /// How many there were before each slot.
    slots: Vec<usize>,
}

/// A call, small.
pub(super) struct CompactCall {
    pub(super) member: u32,
    pub(super) op: u32,
    pub(super) count: u64,
    pub(super) datatype: u32,
    pub(super) redop: u64,
    pub(super) root: i64,
    pub(super) at: u64,
    pub(super) op_count: u64,
    pub(super) joined: bool,
}

impl CompactCall {
    pub(super) fn to_coll<'o>(&self, op: &'o [u8]) -> Coll<'o> {
        Coll {
            op,
            op_count: self.op_count,
            count: self.count,
            datatype: self.datatype,
            redop: self.redop,
            root: self.root,
            comm: 0,
            nranks: None,
            stream: 0,
        }
    }
}

impl<'w> RereadChunk<'w> {
    pub(crate) fn new(comms: Option<&'w FxHashSet<u64>>) -> Self {
        RereadChunk {
            comms,
            ops: OpInterner::default(),
            list: Vec::new(),
            slots: Vec::new(),
        }
    }
}

impl RereadChunk<'_> {
    /// A call, if it is on one of the addresses.
    fn compact_call(&mut self, call: &LogCall<'_>, joined: bool) -> Option<CompactCall> {
        let coll = &call.coll;
        let is_wanted = self.comms.is_none_or(|comms| comms.contains(&coll.comm));
        is_wanted.then(|| CompactCall {
            member: call.member,
            op: self.ops.intern(coll.op).0,
            count: coll.count,
            datatype: coll.datatype,
            redop: coll.redop,
            root: coll.root,
            at: call.at,
            op_count: coll.op_count,
            joined,
        })
    }
}

impl LogVisitor for RereadChunk<'_> {
    fn call(&mut self, call: &LogCall<'_>) {
        let small = self.compact_call(call, false);
        self.list.extend(small);
    }

    fn slot(&mut self) {
        self.slots.push(self.list.len());
    }

    fn unify_processes(&mut self, _first: &[u32]) {}

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        let mut torn = Vec::new();
        for RepairedCall { slot, call, .. } in calls {
            let at = self.slots.get(*slot as usize).copied();
            let at = at.unwrap_or(self.list.len());
            torn.extend(self.compact_call(call, true).map(|small| (at, small)));
        }
        insert_at_places(&mut self.list, torn);
    }
}
