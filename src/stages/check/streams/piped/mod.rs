//! The calls of a pipe that may be read again, kept while the pipe is read: [`reread`](super::reread) reads a file
//! again, and a pipe can be read only once.
//!
//! A call on which all members agree is dropped with its line ([`PipeSpool`]). The other results of the second
//! walk over a file are gathered here, too. So the memory depends on the distance between ranks, and not on the
//! length of the log.

mod agreed_prefix;
mod call_lines;
#[cfg(test)]
mod tests;

use super::limits::{
    BYTES_BETWEEN_LOOKS, MAX_FEW_TORN_CALLS, MAX_PACKED_PIPE_BYTES, MIN_CALLS_TO_REPACK,
    PIPE_WINDOW_BYTES,
};
use super::reread_chunk::{CallLine, RereadChunk};
use super::step_ends::{InputStepEnds, StepEndTracker};
use super::wanted_streams::{CallDetail, RereadSinks, StreamTakers};
use super::{CallStreams, ProcessComm, StreamKind, caller_of_member};
use crate::count::calls::Options;
use crate::error::{Error, Result};
use crate::log::MergedChunk;
use crate::log::placement::CallRecorder;
use crate::log::timeline::{Checkpoint, StepTimeline};
use crate::members::{MergedMembers, OpInterner};
use crate::source::PipeSpool;
use crate::stages::check::log::job_spans::ProcessCallSpan;
use agreed_prefix::AgreedPrefix;
use call_lines::{PipedCallLines, for_each_noted_call};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;

/// The bytes that are held unpacked; tests set a smaller number.
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
    /// Its number among all calls of the input.
    index: u64,
    /// Its number in its stream.
    seq: u64,
    /// Its number among all calls of its process.
    nth: u64,
    stream: u32,
    op: u32,
    line: CallLine,
}

/// A pipe while it is read.
pub(crate) struct PipeRecorder<'o> {
    name: String,
    steps: StepEndTracker<'o>,
    piped: PipeRecord,
    agreed: AgreedPrefix,
    /// Calls on lines that were not scanned, in order.
    fresh: VecDeque<PipedCall>,
    /// Scanned calls by stream.
    done: Vec<u64>,
    /// Scanned calls of all streams.
    all_done: u64,
    /// Calls on kept lines.
    kept: u64,
    /// Joined calls that were left at the last scan.
    torn: usize,
    /// The bytes that are held unpacked.
    window: u64,
}

/// The kept parts of a pipe that was read.
pub(crate) struct PipeRecord {
    thin: PipeSpool,
    ops: OpInterner,
    /// Calls that were joined from pieces of several lines.
    torn: Vec<PipedCall>,
    /// Calls of each stream, with those of earlier inputs.
    calls: Vec<u64>,
    /// Calls of each process, with those of earlier inputs.
    made: FxHashMap<u32, u64>,
    /// Each process's calls in this input.
    spans: FxHashMap<u32, ProcessCallSpan>,
    /// All calls of this input.
    all: u64,
    /// The ends of the processes' steps.
    ends: InputStepEnds,
}

impl<'o> PipeRecorder<'o> {
    /// Begins with a pipe; `streams` has those of earlier inputs.
    pub(crate) fn new(
        name: String,
        thin: PipeSpool,
        streams: &CallStreams,
        options: &'o Options,
    ) -> Self {
        let mut made: FxHashMap<u32, u64> = FxHashMap::default();
        for ((caller, _), &stream) in &streams.at {
            let process = streams.callers.get(*caller).process;
            *made.entry(process).or_default() += streams.list[stream as usize].hashed.calls;
        }
        let piped = PipeRecord {
            thin,
            ops: OpInterner::default(),
            torn: Vec::new(),
            calls: streams
                .list
                .iter()
                .map(|stream| stream.hashed.calls)
                .collect(),
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

    /// Adds a chunk; `streams` has its calls already.
    pub(crate) fn add_chunk(
        &mut self,
        calls: RereadChunk<'_>,
        placed: CallRecorder,
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
        for small in calls.list {
            let member = small.member as usize;
            let Some(way) = StreamKind::of_call(calls.ops.op_kind(small.op), small.line.root)
            else {
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
                index,
                seq,
                nth,
                stream,
                op: ops[small.op as usize],
                line: small.line,
            };
            // Lines are scanned in order.
            let is_behind = self
                .fresh
                .back()
                .is_some_and(|last| last.line.at > made.line.at);
            match made.line.joined || is_behind {
                true => self.piped.torn.push(made),
                false => self.fresh.push_back(made),
            }
        }
    }

    /// At a checkpoint: drops the steps before gap `old`, which are not needed any more.
    pub(crate) fn drop_steps_before_gap(
        &mut self,
        turn: Checkpoint,
        old: usize,
        part: &MergedChunk<'_, ()>,
    ) {
        self.steps.place_and_forget(turn, old, part);
    }

    /// Drops the calls before byte `until` that will not be read again; all of them are known.
    ///
    /// # Errors
    /// The copy cannot be written.
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
        // The last calls of all ranks may be read again.
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

    /// Marks the lines before `at` as scanned.
    fn pass_lines_before(&mut self, at: u64) {
        self.done.resize(self.piped.calls.len(), 0);
        let many = self.fresh.partition_point(|made| made.line.at < at);
        for made in self.fresh.drain(..many) {
            self.done[made.stream as usize] = made.seq + 1;
            self.all_done = made.index + 1;
        }
    }

    /// Packs the kept lines again if too many of them are not needed any more.
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

    /// Ends the input.
    ///
    /// # Errors
    /// The copy cannot be written.
    pub(crate) fn finish_pipe(
        mut self,
        number: u32,
        timeline: &StepTimeline,
        merged: &MergedMembers,
    ) -> Result<PipeRecord> {
        let mut lines = PipedCallLines::new(&self.fresh, &|_| true);
        let looked = self.piped.thin.scan_to_end(&mut lines);
        looked.map_err(|cause| pipe_copy_error(&self.name, cause))?;
        let ends = &mut self.piped.ends;
        self.steps.finish_input(number, timeline, merged, ends);
        Ok(self.piped)
    }
}

impl PipeRecord {
    /// Numbers the next call: in its stream, in its process, and in the input.
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

    /// Gives the wanted calls of the input `number`, as if a file was read again.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub(super) fn reread_calls(
        &self,
        number: u32,
        takers: &mut StreamTakers<'_>,
        made: &mut FxHashMap<u32, u64>,
        found: &mut RereadSinks<'_>,
    ) -> Result<()> {
        let mut take = |call: PipedCall| {
            let Some(stream) = takers.stream_mut(call.stream) else {
                return;
            };
            stream.take_call(call.seq, || CallDetail {
                seq: call.seq,
                nth: call.nth,
                op: self.ops.name_of_op(call.op).into(),
                input: number,
                line: call.line,
            });
        };
        let noted = self
            .thin
            .for_each_note(|note| for_each_noted_call(note, &mut take));
        noted.map_err(|cause| pipe_copy_error("the copy of the pipe", cause))?;
        self.torn.iter().cloned().for_each(&mut take);
        for (stream, &calls) in (0..).zip(&self.calls) {
            if let Some(stream) = takers.stream_mut(stream) {
                stream.set_calls_made(calls);
            }
        }
        made.extend(&self.made);
        found.spans.count_input_calls(number, &self.spans, self.all);
        if let Some(ends) = &mut found.ends {
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
