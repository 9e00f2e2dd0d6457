//! The calls of a log that comes through a pipe, kept while it is read as far as they may be asked for
//! again: [`reread`](super::reread) reads a file again, and a pipe can be read only once.
//!
//! A call whose members agree is let go, and its line with it ([`Thin`]). What the second walk over a file
//! finds out beside calls is gathered here, too. So what is kept is as long as ranks may be apart, and
//! not as long as the log.

mod agreed_prefix;
mod call_lines;
#[cfg(test)]
mod tests;

use super::reread::{CallDetail, RereadChunk, StreamReread};
use super::step_ends::{InputStepEnds, StepEndTracker};
use super::{CallStreams, ProcessComm, StreamKind, caller_of_member, stream_kind_of};
use crate::count::calls::Options;
use crate::error::{Error, Result};
use crate::log::MergedChunk;
use crate::log::placement::CallRecorder;
use crate::log::timeline::{Checkpoint, StepTimeline};
use crate::members::{MergedMembers, OpInterner};
use crate::source::PipeSpool;
use crate::stages::check::log::job_spans::{JobCallSpans, ProcessCallSpan};
use agreed_prefix::AgreedPrefix;
use call_lines::{PipedCallLines, for_each_noted_call};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;

/// So many bytes of text lie in memory as they are: most of what is let go is let go of these, and never packed.
/// With half of it most lines are packed first.
const PIPE_WINDOW_BYTES: u64 = 16 << 20;

/// And so many more before they are looked through.
const BYTES_BETWEEN_LOOKS: u64 = 4 << 20;

/// What is kept is packed anew once so many calls are kept in vain, and more than are not.
const MIN_CALLS_TO_REPACK: u64 = 1 << 16;

/// So many calls that were put together from pieces are few.
const MAX_FEW_TORN_CALLS: usize = 1 << 10;

/// More of it is not held, packed, of communicators whose members did not all come.
const MAX_PACKED_PIPE_BYTES: u64 = 1 << 30;

/// The bytes that lie in memory as they are; tests let go of all at once.
fn pipe_window_bytes() -> u64 {
    #[cfg(test)]
    if let Some(window) = tests::WINDOW.get() {
        return window;
    }
    PIPE_WINDOW_BYTES
}

/// A call.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PipedCall {
    /// Its line's first byte.
    at: u64,
    /// Its number among all calls of the input.
    index: u64,
    /// Its number in its stream.
    seq: u64,
    /// The same among all of its process.
    nth: u64,
    stream: u32,
    op: u32,
    count: u64,
    datatype: u32,
    redop: u64,
    root: i64,
    op_count: u64,
    joined: bool,
}

/// A pipe while it is read.
pub(crate) struct PipeRecorder<'o> {
    name: String,
    steps: StepEndTracker<'o>,
    piped: PipeRecord,
    agreed: AgreedPrefix,
    /// Calls whose lines were not looked through, in order.
    fresh: VecDeque<PipedCall>,
    /// By stream, how many of its calls were looked through.
    done: Vec<u64>,
    /// The same of all streams.
    all_done: u64,
    /// Calls whose lines are kept.
    kept: u64,
    /// How many calls that were put together were left when they were last gone through.
    torn: usize,
    /// How many bytes lie in memory as they are.
    window: u64,
}

/// What is kept of a pipe that was read.
pub(crate) struct PipeRecord {
    thin: PipeSpool,
    ops: OpInterner,
    /// Calls that were put together from pieces: which lines they are is not clear.
    torn: Vec<PipedCall>,
    /// How many calls each stream has, with those of inputs before.
    calls: Vec<u64>,
    /// The same of each process.
    made: FxHashMap<u32, u64>,
    /// Each process's calls here.
    spans: FxHashMap<u32, ProcessCallSpan>,
    /// All calls.
    all: u64,
    /// When processes ended their steps.
    ends: InputStepEnds,
}

impl<'o> PipeRecorder<'o> {
    /// Begins with a pipe; `streams` are those of the inputs before it.
    pub(crate) fn new(
        name: String,
        thin: PipeSpool,
        streams: &CallStreams,
        options: &'o Options,
    ) -> Self {
        let mut made: FxHashMap<u32, u64> = FxHashMap::default();
        for ((caller, _), &stream) in &streams.at {
            let process = streams.callers.get(*caller).process;
            *made.entry(process).or_default() += streams.list[stream as usize].calls;
        }
        let piped = PipeRecord {
            thin,
            ops: OpInterner::default(),
            torn: Vec::new(),
            calls: streams.list.iter().map(|stream| stream.calls).collect(),
            made,
            spans: FxHashMap::default(),
            all: 0,
            ends: InputStepEnds::default(),
        };
        PipeRecorder {
            name,
            steps: StepEndTracker::new(options),
            done: piped.calls.clone(),
            piped,
            agreed: AgreedPrefix::default(),
            fresh: VecDeque::new(),
            all_done: 0,
            kept: 0,
            torn: 0,
            window: pipe_window_bytes(),
        }
    }

    /// Adds a chunk, of which `streams` has the calls already.
    pub(crate) fn add_chunk(
        &mut self,
        (calls, placed): (RereadChunk<'_>, CallRecorder),
        part: &MergedChunk<'_, ()>,
        streams: &CallStreams,
    ) {
        self.steps.add_chunk(placed, part);
        let callers: Vec<Option<(u32, ProcessComm)>> = part
            .to
            .members
            .iter()
            .map(|&member| {
                let who = caller_of_member(member, part.merged);
                Some((streams.callers.find(&who)?, who))
            })
            .collect();
        let stream = |caller: u32, way: StreamKind| streams.at.get(&(caller, way)).copied();
        let own: Vec<Option<u32>> = callers
            .iter()
            .map(|known| stream(known.as_ref()?.0, StreamKind::Collective))
            .collect();
        let ops: Vec<u32> = calls
            .ops
            .op_names()
            .map(|name| self.piped.ops.intern(name).0)
            .collect();
        self.piped.calls.resize(streams.list.len(), 0);
        for small in &calls.list {
            let member = small.member as usize;
            let Some(way) = stream_kind_of(&small.to_coll(calls.ops.name_of_op(small.op))) else {
                continue;
            };
            let Some(&Some((number, ProcessComm { process, .. }))) = callers.get(member) else {
                continue;
            };
            let known = match way {
                StreamKind::Collective => own[member],
                way => stream(number, way),
            };
            let Some(stream) = known else { continue };
            let (seq, nth, index) = self.piped.number_next_call(stream, process);
            let made = PipedCall {
                at: small.at,
                index,
                seq,
                nth,
                stream,
                op: ops[small.op as usize],
                count: small.count,
                datatype: small.datatype,
                redop: small.redop,
                root: small.root,
                op_count: small.op_count,
                joined: small.joined,
            };
            // Lines are looked through in their order.
            let is_behind = self.fresh.back().is_some_and(|last| last.at > made.at);
            match made.joined || is_behind {
                true => self.piped.torn.push(made),
                false => self.fresh.push_back(made),
            }
        }
    }

    /// At a turn: steps before gap `old` are not asked for any more.
    pub(crate) fn drop_steps_before_gap(
        &mut self,
        turn: Checkpoint,
        old: usize,
        part: &MergedChunk<'_, ()>,
    ) {
        self.steps.place_and_forget(turn, old, part);
    }

    /// The input is read up to there, and all calls before it are known: lets go of what will not be asked
    /// for again.
    ///
    /// # Errors
    /// What is kept cannot be written.
    pub(crate) fn release_agreed_calls(
        &mut self,
        until: u64,
        streams: &mut CallStreams,
        merged: &MergedMembers,
    ) -> Result<()> {
        let waiting = self.piped.thin.unscanned_bytes();
        if waiting < self.window + BYTES_BETWEEN_LOOKS.min(self.window) {
            return Ok(());
        }
        if self.piped.thin.packed_bytes() > MAX_PACKED_PIPE_BYTES {
            self.agreed.stop_waiting();
        }
        self.agreed.compare_new_blocks(streams, merged);
        self.agreed.drop_agreed_hashes(&mut streams.list);
        // What the last calls of all ranks show, they may be asked for.
        let last = self.piped.all.saturating_sub(streams.count_last_calls());
        let until = until.min(self.piped.thin.unscanned_start() + waiting - self.window);
        let agreed = &self.agreed;
        let is_wanted =
            |made: &PipedCall| made.index >= last || agreed.may_be_wanted(made.stream, made.seq);
        if self.piped.torn.len() > 2 * self.torn + MAX_FEW_TORN_CALLS {
            self.piped.torn.retain(is_wanted);
            self.torn = self.piped.torn.len();
        }
        let mut lines = PipedCallLines::new(&self.fresh, &is_wanted);
        let at = self.piped.thin.scan_until(until, &mut lines);
        let at = at.map_err(|cause| pipe_copy_error(&self.name, cause))?;
        self.kept += lines.kept;
        self.pass_lines_before(at);
        self.repack_if_wasteful(last)
    }

    /// The lines before `at` were looked through.
    fn pass_lines_before(&mut self, at: u64) {
        self.done.resize(self.piped.calls.len(), 0);
        let many = self.fresh.partition_point(|made| made.at < at);
        for made in self.fresh.drain(..many) {
            self.done[made.stream as usize] = made.seq + 1;
            self.all_done = made.index + 1;
        }
    }

    /// Packs what is kept anew, if much of it is kept in vain.
    fn repack_if_wasteful(&mut self, last: u64) -> Result<()> {
        let agreed = &self.agreed;
        let streams = (0..).zip(&self.done);
        let wanted: u64 = streams
            .map(|(stream, &done)| agreed.count_kept_calls(stream, done))
            .sum();
        let wanted = wanted + self.all_done.saturating_sub(last);
        let vain = self.kept.saturating_sub(wanted);
        if vain < MIN_CALLS_TO_REPACK.min(self.window) || vain < wanted {
            return Ok(());
        }
        let is_wanted =
            |made: &PipedCall| made.index >= last || agreed.may_be_wanted(made.stream, made.seq);
        let mut kept = 0;
        let sifted = self.piped.thin.drop_unwanted_lines(|note| {
            let (mut is_any, mut all) = (false, 0);
            for_each_noted_call(note, |made| {
                is_any |= is_wanted(&made);
                all += 1;
            });
            kept += if is_any { all } else { 0 };
            is_any
        });
        sifted.map_err(|cause| pipe_copy_error(&self.name, cause))?;
        self.kept = kept;
        Ok(())
    }

    /// The input is read to its end.
    ///
    /// # Errors
    /// What is kept cannot be written.
    pub(crate) fn finish_pipe(
        mut self,
        (number, timeline): (u32, &StepTimeline),
        merged: &MergedMembers,
    ) -> Result<PipeRecord> {
        let mut lines = PipedCallLines::new(&self.fresh, &|_| true);
        let looked = self.piped.thin.scan_to_end(&mut lines);
        looked.map_err(|cause| pipe_copy_error(&self.name, cause))?;
        let ends = &mut self.piped.ends;
        self.steps.finish_input((number, timeline), merged, ends);
        Ok(self.piped)
    }
}

impl PipeRecord {
    /// The numbers of the next call: in its stream, of its process, and in the input.
    fn number_next_call(&mut self, stream: u32, process: u32) -> (u64, u64, u64) {
        let index = self.all;
        self.all += 1;
        let span = self.spans.entry(process).or_insert(ProcessCallSpan {
            first: index,
            ..ProcessCallSpan::default()
        });
        (span.calls, span.last) = (span.calls + 1, index);
        let made = self.made.entry(process).or_default();
        let nth = *made;
        *made += 1;
        let calls = &mut self.calls[stream as usize];
        *calls += 1;
        (*calls - 1, nth, index)
    }

    /// Does for the input `number` what reading a file again does: gives the calls that are wanted;
    /// `which` has the place of a stream among `streams`.
    ///
    /// # Errors
    /// What is kept cannot be read.
    pub(super) fn reread_calls(
        &self,
        number: u32,
        (which, streams): (&FxHashMap<u32, usize>, &mut [StreamReread]),
        made: &mut FxHashMap<u32, u64>,
        (silence, ends): (&mut JobCallSpans, Option<&mut InputStepEnds>),
    ) -> Result<()> {
        let mut take = |call: PipedCall| {
            let stretch = which.get(&call.stream).and_then(|&at| streams.get_mut(at));
            let Some(stretch) = stretch else { return };
            stretch.take_call(call.seq, || CallDetail {
                seq: call.seq,
                nth: call.nth,
                op: self.ops.name_of_op(call.op).into(),
                count: call.count,
                datatype: call.datatype,
                redop: call.redop,
                root: call.root,
                input: number,
                at: call.at,
                op_count: call.op_count,
                joined: call.joined,
            });
        };
        let noted = self
            .thin
            .for_each_note(|note| for_each_noted_call(note, &mut take));
        noted.map_err(|cause| pipe_copy_error("the copy of the pipe", cause))?;
        self.torn.iter().cloned().for_each(take);
        for (stream, &calls) in (0..).zip(&self.calls) {
            if let Some(stretch) = which.get(&stream).and_then(|&at| streams.get_mut(at)) {
                stretch.set_calls_made(calls);
            }
        }
        made.extend(&self.made);
        silence.count_input_calls(number, &self.spans, self.all);
        if let Some(ends) = ends {
            ends.add_inputs(&self.ends);
        }
        Ok(())
    }
}

/// The error of a copy that cannot be written or read.
fn pipe_copy_error(name: &str, cause: io::Error) -> Error {
    Error::Input {
        path: name.into(),
        cause,
    }
}
