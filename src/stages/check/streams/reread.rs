//! Reads parts of streams again: the calls and the places of their lines.

use super::piped::PipeRecord;
use super::reread_chunk::RereadChunk;
use super::step_ends::StepEndTracker;
use super::wanted_streams::{CallDetail, RereadSinks, StreamReread, StreamTakers};
use super::{CallStreams, ProcessComm, StreamKind, caller_of_member};
use crate::count::calls::Options;
use crate::error::Result;
use crate::log::placement::CallRecorder;
use crate::log::{self, MergedChunk};
use crate::members::{CommIdentity, MergedMembers, SpeakerProcess};
use crate::pool;
use crate::source::Input;
use crate::stages::check::log::job_spans::JobCallSpans;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// Calls to read again: ranges in order, by stream.
pub(crate) type WantedCalls = FxHashMap<(ProcessComm, StreamKind), Vec<Range<u64>>>;

/// The identity of a stream in every walk; numbers are those of one walk.
type StreamName = (SpeakerProcess, u64, Option<CommIdentity>, StreamKind);

/// The sources of the first walk.
#[derive(Clone, Copy)]
pub(crate) struct RereadSources<'a> {
    pub(crate) options: &'a Options,
    /// The streams of all inputs.
    pub(crate) streams: &'a CallStreams,
    /// The kept calls of inputs that came through a pipe.
    pub(crate) piped: &'a BTreeMap<u32, PipeRecord>,
}

/// Reads the calls of the streams in `wanted` again. `open` opens an input by its number; `inputs` are those to
/// read, in order: all in which the streams' processes have lines.
///
/// # Errors
/// An input cannot be read.
pub(crate) fn reread_wanted(
    wanted: &WantedCalls,
    processes: &[SpeakerProcess],
    inputs: impl Iterator<Item = u32> + Send,
    open: impl Fn(u32) -> Result<Input> + Sync,
    sources: RereadSources<'_>,
    found: &mut RereadSinks<'_>,
) -> Result<FxHashMap<(ProcessComm, StreamKind), Vec<CallDetail>>> {
    let RereadSources { options, piped, .. } = sources;
    let mut all = RereadStreams::from_wanted(wanted, processes);
    let places = sources.place_piped_streams(&all.index, processes);
    // Addresses are compared first, which is cheaper than names.
    let comms: FxHashSet<u64> = wanted.keys().map(|(caller, _)| caller.comm).collect();
    let mut merged = MergedMembers::with_process_names(processes);
    let has_ends = found.ends.is_some();
    let recorder = || has_ends.then(CallRecorder::default);
    let new = || (RereadChunk::new(Some(&comms)), recorder());
    // Small files are walked on all cores.
    let begin = |input: Input| {
        let begun = log::begin_log(&input, &options.log, new)?;
        Ok((input, begun))
    };
    let begin = |number: u32| match piped.get(&number) {
        Some(piped) => (number, Err(piped)),
        None => (number, Ok(open(number).and_then(begin))),
    };
    pool::map_in_order(options.log.jobs, inputs, begin, |(number, begun)| {
        let (input, begun) = match begun {
            Ok(begun) => begun?,
            Err(piped) => {
                let mut takers = StreamTakers {
                    places: &places,
                    streams: &mut all.list,
                };
                return piped.reread_calls(number, &mut takers, &mut all.made, found);
            }
        };
        let mut steps = has_ends.then(|| StepEndTracker::new(options));
        let log = log::continue_log(
            &input,
            begun,
            &options.log,
            &mut merged,
            new,
            |_| {},
            |part| {
                let ((chunk, recorder), part) = part.take_visit();
                if let (Some(steps), Some(recorder)) = (&mut steps, recorder) {
                    steps.add_chunk(recorder, &part);
                }
                all.take_chunk(chunk, &part, number, found.spans);
                Ok(())
            },
        )?;
        if let (Some(steps), Some(ends)) = (steps, &mut found.ends) {
            steps.finish_log(number, &log, &merged, ends);
        }
        Ok(())
    })?;
    let kept = all.list.into_iter().map(StreamReread::into_kept_calls);
    Ok(wanted.keys().copied().zip(kept).collect())
}

/// The streams that are read again.
struct RereadStreams {
    index: FxHashMap<StreamName, usize>,
    list: Vec<StreamReread>,
    /// Calls of each process so far.
    made: FxHashMap<u32, u64>,
    /// The place of a merged member's stream, if it is wanted.
    known: FxHashMap<(u32, StreamKind), Option<usize>>,
}

impl RereadStreams {
    fn from_wanted(wanted: &WantedCalls, processes: &[SpeakerProcess]) -> RereadStreams {
        let names = wanted.keys().map(|key| identify_stream(key, processes));
        RereadStreams {
            index: names.zip(0..).collect(),
            list: wanted
                .values()
                .map(|ranges| StreamReread::from_ranges(ranges))
                .collect(),
            made: FxHashMap::default(),
            known: FxHashMap::default(),
        }
    }

    /// Takes the wanted calls of a chunk of input `number`.
    fn take_chunk(
        &mut self,
        chunk: RereadChunk<'_>,
        part: &MergedChunk<'_, ()>,
        number: u32,
        spans: &mut JobCallSpans,
    ) {
        let RereadChunk { ops, list, .. } = chunk;
        for call in list {
            let member = part.to.members[call.member as usize];
            let Some(way) = StreamKind::of_call(ops.op_kind(call.op), call.line.root) else {
                continue;
            };
            let stream = *self.known.entry((member, way)).or_insert_with(|| {
                let name = name_stream(member, way, part.merged);
                self.index.get(&name).copied()
            });
            if let Some(stream) = stream {
                let process = caller_of_member(member, part.merged).process;
                let nth = self.made.entry(process).or_default();
                self.list[stream].take_next_call(|| CallDetail {
                    seq: 0,
                    nth: *nth,
                    op: ops.name_of_op(call.op).into(),
                    input: number,
                    line: call.line,
                });
                *nth += 1;
                spans.count_call(process, number);
            }
        }
    }
}

impl RereadSources<'_> {
    /// The place of each wanted stream, if any input came through a pipe.
    fn place_piped_streams(
        &self,
        index: &FxHashMap<StreamName, usize>,
        processes: &[SpeakerProcess],
    ) -> FxHashMap<u32, usize> {
        let mut places = FxHashMap::default();
        if self.piped.is_empty() {
            return places;
        }
        for (&(caller, way), &stream) in &self.streams.at {
            let key = (*self.streams.callers.get(caller), way);
            let place = index.get(&identify_stream(&key, processes));
            places.extend(place.map(|&place| (stream, place)));
        }
        places
    }
}

/// The identity of a caller's stream.
fn identify_stream(key: &(ProcessComm, StreamKind), processes: &[SpeakerProcess]) -> StreamName {
    let (caller, way) = key;
    let process = processes[caller.process as usize].clone();
    (process, caller.comm, caller.identity, *way)
}

/// The identity of a merged member's stream.
fn name_stream(member: u32, way: StreamKind, merged: &MergedMembers) -> StreamName {
    let ProcessComm {
        process,
        comm,
        identity,
    } = caller_of_member(member, merged);
    let process = merged.origins.processes.get(process).clone();
    (process, comm, identity, way)
}
