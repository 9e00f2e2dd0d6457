//! The calls of all logs by communicator: each rank's sequence is read in order, and calls of the same
//! number are matched. The result is that of all calls in line order, as long as
//!
//! - all ranks are of one host, or make the same calls with a time each: clocks are aligned by what came
//!   one after the other (`stretches`);
//! - no rank is on a communicator twice, and there are no more of them than its size;
//! - no call would have been given up there, because too many parts of calls waited.
//!
//! Otherwise there is no result, and the calls are met in line order.

use super::aligned::{AlignedLateness, RanksByHost, align_stretches};
use super::clock_stretches::order_stretches;
use super::matching::{MatchPartial, MatchTask, split_into_tasks};
use super::members::LogMembers;
use super::packed::PackedStream;
use super::step_runs::{StepRun, find_step_runs};
use super::{SkewChunk, SkewLog, SkewOp};
use crate::members::MergedMembers;
use crate::pool;
use crate::stages::skew::rows::{SkewBuilder, SkewCaller};
use crate::stages::skew::{Options, SkewSummary};
use rustc_hash::FxHashMap;

/// A communicator with the sequences of its ranks.
#[derive(Default)]
pub(super) struct SkewComm<'l> {
    /// How many ranks it has.
    pub(super) nranks: Option<u32>,
    pub(super) sides: Vec<RankSequence<'l>>,
}

/// A rank's calls on a communicator.
pub(super) struct RankSequence<'l> {
    pub(super) who: u32,
    pub(super) pieces: Vec<SequencePiece<'l>>,
}

/// A chunk's part of these.
#[derive(Clone, Copy)]
pub(super) struct SequencePiece<'l> {
    pub(super) stream: &'l PackedStream,
    pub(super) ops: &'l [SkewOp],
    pub(super) runs: &'l [StepRun],
    /// The number of the chunk.
    chunk: usize,
}

/// What is known of a chunk.
pub(super) struct ChunkMembers<'l> {
    log: &'l SkewLog,
    pub(super) chunk: &'l SkewChunk,
    ops: Vec<SkewOp>,
    /// By the chunk's members: process, sequence, and who it is where it made a call with a time.
    process_of: Vec<u32>,
    pub(super) sequence_of: Vec<usize>,
    caller_of: Vec<Option<SkewCaller>>,
    /// How many calls of the log each one's process made before.
    made: Vec<u64>,
}

/// The member that made a sequence of calls, once one with a time was met, and its pieces.
type MemberSequence<'l> = (Option<Option<SkewCaller>>, Vec<SequencePiece<'l>>);

/// Communicator and rank there, by the number of a sequence.
pub(super) type SequencePlaces = Vec<Option<(usize, usize)>>;

/// What all calls show; `None` where that would depend on the order of the lines.
pub(super) fn match_all_logs(
    logs: &[SkewLog],
    merged: &MergedMembers,
    jobs: usize,
    options: &Options,
) -> Option<SkewSummary> {
    let mut taken = SkewBuilder::default();
    let chunks = resolve_chunk_members(logs, merged, &mut taken);
    let mut steps: Vec<Vec<Vec<StepRun>>> = Vec::new();
    let each = |about: &ChunkMembers<'_>| {
        find_step_runs((about.log, about.chunk), &about.process_of, &about.made)
    };
    let put = |runs| {
        steps.push(runs);
        Ok(())
    };
    pool::map_in_order(jobs, chunks.iter(), each, put).ok()?;
    let (comms, places) = build_communicators(&chunks, &steps)?;
    match taken.is_of_one_host() {
        true => add_on_one_clock(&chunks, &comms, &mut taken, (jobs, options))?,
        false => add_on_host_clocks(&chunks, (&comms, &places), &mut taken, (jobs, options))?,
    }
    taken.count_timed_calls(count_timed_calls(&chunks), 0);
    let found = taken.finish_rows(options);
    // Of ranks with the same name the rows are in the order in which they came.
    found.late.has_distinct_names().then_some(found)
}

/// How many calls have a time.
fn count_timed_calls(chunks: &[ChunkMembers<'_>]) -> u64 {
    let timed = chunks.iter().flat_map(|about| about.chunk.calls.streams());
    timed.map(PackedStream::timed_count).sum()
}

/// Adds the calls of ranks that have one clock.
fn add_on_one_clock(
    chunks: &[ChunkMembers<'_>],
    comms: &[SkewComm<'_>],
    taken: &mut SkewBuilder,
    (jobs, options): (usize, &Options),
) -> Option<()> {
    let window = options.window as u64;
    let fits = count_timed_calls(chunks) <= window;
    let most = if fits {
        0
    } else {
        most_waiting_arrivals(comms, chunks.len())
    };
    if most > window {
        return None;
    }
    let mut open = 0;
    let each = |task| run_match_task(task, options);
    pool::map_in_order(
        jobs,
        split_into_tasks(comms).into_iter(),
        each,
        |(comm, part)| {
            open += part.open;
            taken.add_match(part, comm.sides.iter().map(|side| side.who));
            Ok(())
        },
    )
    .ok()?;
    (fits || most + open <= window).then_some(())
}

/// How many stretches are aligned by one thread, one after the other: so few that how late a rank is to
/// them is mostly a list, which is added to others at less cost than a histogram.
const STRETCHES_PER_THREAD_RUN: usize = 4;

/// Adds the calls of ranks of several hosts.
fn add_on_host_clocks(
    chunks: &[ChunkMembers<'_>],
    (comms, places): (&[SkewComm<'_>], &SequencePlaces),
    taken: &mut SkewBuilder,
    (jobs, options): (usize, &Options),
) -> Option<()> {
    let sides = comms.iter().flat_map(|comm| &comm.sides);
    let mut pieces = sides.flat_map(|side| &side.pieces);
    if pieces.any(|piece| piece.stream.timed_count() < piece.stream.len()) {
        return None;
    }
    let found = order_stretches(chunks, (comms, places), options.window as u64)?;
    let hosts = comms
        .iter()
        .map(|comm| RanksByHost::from_comm(comm, taken.hosts_of_processes()));
    let hosts: Vec<RanksByHost> = hosts.collect();
    let ranks = taken.hosts_of_processes().len();
    let each = |some| align_stretches(some, (comms, &hosts), (ranks, options.late_ns));
    let mut is_whole = true;
    pool::map_in_order(
        jobs,
        found.all.chunks(STRETCHES_PER_THREAD_RUN),
        each,
        |aligned| {
            is_whole &= aligned.is_some();
            if let Some(AlignedLateness { reached, own }) = aligned {
                reached
                    .into_iter()
                    .for_each(|ahead| taken.add_stretch_offsets(ahead));
                (0..)
                    .zip(own)
                    .for_each(|(who, own)| taken.summary_mut().late.merge_rank(who, own));
            }
            Ok(())
        },
    )
    .ok()?;
    let all = taken.summary_mut();
    all.matched += found.matched;
    all.partly += found.partly;
    all.alone += found.alone;
    is_whole.then_some(())
}

/// What a part of a communicator's calls shows.
fn run_match_task<'c>(task: MatchTask<'c>, options: &Options) -> (&'c SkewComm<'c>, MatchPartial) {
    (task.comm, task.match_calls(options.late_ns))
}

impl SkewBuilder {
    /// Adds what calls of a communicator show; `who` are its ranks.
    fn add_match(&mut self, part: MatchPartial, who: impl Iterator<Item = u32>) {
        let found = self.summary_mut();
        found.matched += part.matched;
        found.partly += part.partly;
        found.alone += part.alone;
        for (who, own) in who.zip(part.own) {
            found.late.merge_rank(who, own);
        }
    }
}

/// Who the chunks' members are, in the order in which they came.
fn resolve_chunk_members<'l>(
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
                    *caller = members.caller_of_member(number, &log.aliases, taken);
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

/// The communicators; `None` where one has a rank twice, or ranks that take it for another size, or
/// more ranks than that.
fn build_communicators<'l>(
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
    /// No rank is there twice, and there are not too many.
    fn has_each_rank_once(&self) -> bool {
        let mut who: Vec<u32> = self.sides.iter().map(|side| side.who).collect();
        who.sort_unstable();
        let distinct = who.windows(2).all(|pair| pair[0] != pair[1]);
        distinct && self.nranks.is_none_or(|n| who.len() <= n as usize)
    }
}

/// How many parts of calls wait for others at most: in each chunk those that came up to its end, without
/// those of calls that all ranks had made before it. Calls that are not the same on all ranks wait
/// longer; they are counted where they are met.
fn most_waiting_arrivals(comms: &[SkewComm<'_>], chunks: usize) -> u64 {
    let mut all = vec![0; chunks];
    for comm in comms {
        let n = comm.sides.len() as u64;
        let is_whole = comm.nranks.is_some_and(|ranks| u64::from(ranks) == n);
        // By chunk: what comes in it, and how many calls all ranks have made before it.
        let mut came = vec![0; chunks];
        let mut made = vec![if is_whole { u64::MAX } else { 0 }; chunks];
        for side in &comm.sides {
            let (mut pieces, mut own) = (side.pieces.iter().peekable(), 0);
            for (chunk, made) in made.iter_mut().enumerate() {
                *made = own.min(*made);
                while let Some(piece) = pieces.next_if(|piece| piece.chunk == chunk) {
                    own += piece.stream.len();
                    came[chunk] += piece.stream.len();
                }
            }
        }
        let mut sum = 0;
        for ((all, came), made) in all.iter_mut().zip(came).zip(made) {
            sum += came;
            *all += sum - n * made;
        }
    }
    all.into_iter().max().unwrap_or(0)
}
