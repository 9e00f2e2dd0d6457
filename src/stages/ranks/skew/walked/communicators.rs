//! The communicators of all logs, each with the sequences of its ranks.

use super::members::{LogMembers, SkewOp};
use super::packed::PackedStream;
use super::step_runs::StepRun;
use super::{SkewChunk, SkewLog};
use crate::members::MergedMembers;
use crate::stages::skew::rows::{SkewBuilder, SkewCaller};
use rustc_hash::FxHashMap;

/// A communicator with the sequences of its ranks.
#[derive(Default)]
pub(super) struct SkewComm<'l> {
    /// Its number of ranks.
    pub(super) nranks: Option<u32>,
    pub(super) sides: Vec<RankSequence<'l>>,
}

/// A rank's calls on a communicator.
pub(super) struct RankSequence<'l> {
    pub(super) who: u32,
    pub(super) pieces: Vec<SequencePiece<'l>>,
}

/// A chunk's part of a rank's calls.
#[derive(Clone, Copy)]
pub(super) struct SequencePiece<'l> {
    pub(super) stream: &'l PackedStream,
    pub(super) ops: &'l [SkewOp],
    pub(super) runs: &'l [StepRun],
    /// The number of the chunk.
    pub(super) chunk: usize,
}

/// A chunk and its members.
pub(super) struct ChunkMembers<'l> {
    pub(super) log: &'l SkewLog,
    pub(super) chunk: &'l SkewChunk,
    pub(super) ops: Vec<SkewOp>,
    /// The process of each member.
    pub(super) process_of: Vec<u32>,
    /// The sequence of each member.
    pub(super) sequence_of: Vec<usize>,
    /// The caller of each member that made a call with a time.
    caller_of: Vec<Option<SkewCaller>>,
    /// The calls of the log that each member's process made before.
    pub(super) made: Vec<u64>,
}

/// The caller of a sequence of calls, known from its first call with a time, and its pieces.
type MemberSequence<'l> = (Option<Option<SkewCaller>>, Vec<SequencePiece<'l>>);

/// Communicator and rank of each sequence.
pub(super) type SequencePlaces = Vec<Option<(usize, usize)>>;

/// Resolves the members of all chunks, in the order of their lines.
pub(super) fn resolve_chunk_members<'l>(
    logs: &'l [SkewLog],
    merged: &MergedMembers,
    taken: &mut SkewBuilder,
) -> Vec<ChunkMembers<'l>> {
    let mut members = LogMembers::new(merged);
    let mut all = Vec::new();
    for log in logs {
        members.begin_log();
        let mut made: FxHashMap<u32, u64> = FxHashMap::default();
        for chunk in &log.chunks {
            let ops = chunk.resolve_ops(taken);
            let numbers = &chunk.members;
            let known = numbers
                .iter()
                .map(|&number| members.member_by_number(number));
            let known: Vec<_> = known.collect();
            let mut caller_of = vec![None; numbers.len()];
            for &member in chunk.calls.members_with_times() {
                let member = member as usize;
                if let (Some(&number), Some(caller)) =
                    (numbers.get(member), caller_of.get_mut(member))
                {
                    *caller = members.caller_of_member(number, &log.renamed, taken);
                }
            }
            let process_of = || known.iter().map(|member| member.process);
            let before = process_of().map(|process| made.get(&process).copied().unwrap_or(0));
            let before = before.collect();
            for (process, stream) in process_of().zip(chunk.calls.streams()) {
                *made.entry(process).or_default() += stream.len() + stream.message_count();
            }
            all.push(ChunkMembers {
                log,
                chunk,
                ops,
                process_of: process_of().collect(),
                sequence_of: known.iter().map(|member| member.sequence).collect(),
                caller_of,
                made: before,
            });
        }
    }
    all
}

/// Builds the communicators; `None` if one has a rank twice, more ranks than its size, or members that disagree on
/// its size.
pub(super) fn build_communicators<'l>(
    chunks: &'l [ChunkMembers<'l>],
    steps: &'l [Vec<Vec<StepRun>>],
) -> Option<(Vec<SkewComm<'l>>, SequencePlaces)> {
    let mut sequences: Vec<MemberSequence<'l>> = Vec::new();
    for (number, (about, steps)) in chunks.iter().zip(steps).enumerate() {
        for (member, stream) in about.chunk.calls.streams().iter().enumerate() {
            let (Some(&sequence), true) = (about.sequence_of.get(member), stream.len() > 0) else {
                continue;
            };
            if sequences.len() <= sequence {
                sequences.resize_with(sequence + 1, Default::default);
            }
            let (known, pieces) = &mut sequences[sequence];
            if stream.timed_count() > 0 {
                let caller = about.caller_of[member];
                if *known.get_or_insert(caller) != caller {
                    return None;
                }
            }
            pieces.push(SequencePiece {
                stream,
                ops: &about.ops,
                runs: &steps[member],
                chunk: number,
            });
        }
    }
    let mut comms: Vec<SkewComm<'_>> = Vec::new();
    let mut places = vec![None; sequences.len()];
    for (place, (caller, pieces)) in places.iter_mut().zip(sequences) {
        let Some(SkewCaller { who, comm, nranks }) = caller.flatten() else {
            continue;
        };
        let at = comm as usize;
        if comms.len() <= at {
            comms.resize_with(at + 1, SkewComm::default);
        }
        let comm = &mut comms[at];
        if !comm.sides.is_empty() && comm.nranks != nranks {
            return None;
        }
        comm.nranks = nranks;
        *place = Some((at, comm.sides.len()));
        comm.sides.push(RankSequence { who, pieces });
    }
    comms
        .iter()
        .all(SkewComm::has_each_rank_once)
        .then_some((comms, places))
}

impl SkewComm<'_> {
    /// True if no rank is there twice, and no more ranks than its size.
    fn has_each_rank_once(&self) -> bool {
        let mut who: Vec<u32> = self.sides.iter().map(|side| side.who).collect();
        who.sort_unstable();
        let distinct = who.windows(2).all(|pair| pair[0] != pair[1]);
        distinct && self.nranks.is_none_or(|n| who.len() <= n as usize)
    }
}
