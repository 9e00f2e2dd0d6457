//! Matches the calls of all logs by communicator: reads each rank's sequence in order, and compares calls of
//! equal numbers. The result equals that of all calls in line order if
//!
//! - all ranks are on one host, or make equal calls that all have a time: `clock_stretches` aligns clocks by
//!   the order in which calls became whole;
//! - no rank is on a communicator twice, and no communicator has more ranks than its size;
//! - the window of line order would hold all parts of calls that wait.
//!
//! Otherwise there is no result, and the calls are replayed in line order.

use super::SkewLog;
use super::aligned::{AlignedLateness, ClockAligner, RanksByHost};
use super::clock_stretches::order_stretches;
use super::communicators::{
    ChunkMembers, SequencePlaces, SkewComm, build_communicators, resolve_chunk_members,
};
use super::matching::{MatchPartial, MatchTask, split_into_tasks};
use super::packed::PackedStream;
use super::step_runs::{StepRun, find_step_runs};
use crate::members::MergedMembers;
use crate::pool;
use crate::stages::skew::limits::STRETCHES_PER_THREAD_RUN;
use crate::stages::skew::rows::SkewBuilder;
use crate::stages::skew::{Options, SkewSummary};

/// Returns the summary of all calls; `None` if it depends on the order of the lines.
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
        find_step_runs(about.log, about.chunk, &about.process_of, &about.made)
    };
    let put = |runs| {
        steps.push(runs);
        Ok(())
    };
    pool::map_in_order(jobs, chunks.iter(), each, put).ok()?;
    let (comms, places) = build_communicators(&chunks, &steps)?;
    match taken.is_of_one_host() {
        true => add_on_one_clock(&chunks, &comms, &mut taken, jobs, options)?,
        false => add_on_host_clocks(&chunks, &comms, &places, &mut taken, jobs, options)?,
    }
    taken.count_timed_calls(count_timed_calls(&chunks), 0);
    let found = taken.finish_rows(options);
    // Rows of ranks with equal names are in the order in which the ranks appeared.
    found.late.has_distinct_names().then_some(found)
}

/// Counts the calls with a time.
fn count_timed_calls(chunks: &[ChunkMembers<'_>]) -> u64 {
    let timed = chunks.iter().flat_map(|about| about.chunk.calls.streams());
    timed.map(PackedStream::timed_count).sum()
}

/// Adds the calls of ranks that have one clock.
fn add_on_one_clock(
    chunks: &[ChunkMembers<'_>],
    comms: &[SkewComm<'_>],
    taken: &mut SkewBuilder,
    jobs: usize,
    options: &Options,
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

/// Adds the calls of ranks of several hosts.
fn add_on_host_clocks(
    chunks: &[ChunkMembers<'_>],
    comms: &[SkewComm<'_>],
    places: &SequencePlaces,
    taken: &mut SkewBuilder,
    jobs: usize,
    options: &Options,
) -> Option<()> {
    let sides = comms.iter().flat_map(|comm| &comm.sides);
    let mut pieces = sides.flat_map(|side| &side.pieces);
    if pieces.any(|piece| piece.stream.timed_count() < piece.stream.len()) {
        return None;
    }
    let found = order_stretches(chunks, comms, places, options.window as u64)?;
    let hosts = comms
        .iter()
        .map(|comm| RanksByHost::from_comm(comm, taken.hosts_of_processes()));
    let hosts: Vec<RanksByHost> = hosts.collect();
    let aligner = ClockAligner {
        comms,
        hosts: &hosts,
        ranks: taken.hosts_of_processes().len(),
        late_ns: options.late_ns,
    };
    let each = |some| aligner.align_stretches(some);
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

/// Matches a part of a communicator's calls.
fn run_match_task<'c>(task: MatchTask<'c>, options: &Options) -> (&'c SkewComm<'c>, MatchPartial) {
    (task.comm, task.match_calls(options.late_ns))
}

impl SkewBuilder {
    /// Adds matched calls of a communicator with these ranks.
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

/// Returns the most parts of calls that wait for others: at the end of each chunk, the parts that came so far
/// without those of calls that all ranks had made before the chunk. Calls that differ between ranks wait longer;
/// matching counts them.
fn most_waiting_arrivals(comms: &[SkewComm<'_>], chunks: usize) -> u64 {
    let mut all = vec![0; chunks];
    for comm in comms {
        let n = comm.sides.len() as u64;
        let is_whole = comm.nranks.is_some_and(|ranks| u64::from(ranks) == n);
        // By chunk: the calls in it, and the calls that all ranks have made before it.
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
