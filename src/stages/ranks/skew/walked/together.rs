//! The calls of all logs by communicator: each rank's sequence is read in order, and calls of the same
//! number are matched. The result is that of all calls in line order, as long as
//!
//! - all ranks are of one host, or make the same calls with a time each: clocks are aligned by what came
//!   one after the other (`stretches`);
//! - no rank is on a communicator twice, and there are no more of them than its size;
//! - no call would have been given up there, because too many parts of calls waited.
//!
//! Otherwise there is no result, and the calls are met in line order.

use super::aligned::{Aligned, Hosts, aligned};
use super::members::Members;
use super::packed::Stream;
use super::part::{Part, Task, tasks};
use super::steps::{Run, runs};
use super::stretches::stretches;
use super::{Chunk, Log, Op};
use crate::members::Merged;
use crate::pool;
use crate::stages::skew::rows::{Caller, Taken};
use crate::stages::skew::{Found, Options};
use rustc_hash::FxHashMap;

/// A communicator with the sequences of its ranks.
#[derive(Default)]
pub(super) struct Comm<'l> {
    /// How many ranks it has.
    pub(super) nranks: Option<u32>,
    pub(super) sides: Vec<Side<'l>>,
}

/// A rank's calls on a communicator.
pub(super) struct Side<'l> {
    pub(super) who: u32,
    pub(super) pieces: Vec<Piece<'l>>,
}

/// A chunk's part of these.
#[derive(Clone, Copy)]
pub(super) struct Piece<'l> {
    pub(super) stream: &'l Stream,
    pub(super) ops: &'l [Op],
    pub(super) runs: &'l [Run],
    /// The number of the chunk.
    chunk: usize,
}

/// What is known of a chunk.
pub(super) struct About<'l> {
    log: &'l Log,
    pub(super) chunk: &'l Chunk,
    ops: Vec<Op>,
    /// By the chunk's members: process, sequence, and who it is where it made a call with a time.
    process_of: Vec<u32>,
    pub(super) sequence_of: Vec<usize>,
    caller_of: Vec<Option<Caller>>,
    /// How many calls of the log each one's process made before.
    made: Vec<u64>,
}

/// The member that made a sequence of calls, once one with a time was met, and its pieces.
type Sequence<'l> = (Option<Option<Caller>>, Vec<Piece<'l>>);

/// Communicator and rank there, by the number of a sequence.
pub(super) type Places = Vec<Option<(usize, usize)>>;

/// What all calls show; `None` where that would depend on the order of the lines.
pub(super) fn found(
    logs: &[Log],
    merged: &Merged,
    jobs: usize,
    options: &Options,
) -> Option<Found> {
    let mut taken = Taken::default();
    let chunks = chunks(logs, merged, &mut taken);
    let mut steps: Vec<Vec<Vec<Run>>> = Vec::new();
    let each = |about: &About<'_>| runs((about.log, about.chunk), &about.process_of, &about.made);
    let put = |runs| {
        steps.push(runs);
        Ok(())
    };
    pool::ordered(jobs, chunks.iter(), each, put).ok()?;
    let (comms, places) = comms(&chunks, &steps)?;
    match taken.is_of_one_host() {
        true => one_host(&chunks, &comms, &mut taken, (jobs, options))?,
        false => hosts(&chunks, (&comms, &places), &mut taken, (jobs, options))?,
    }
    taken.timed(timed(&chunks), 0);
    let found = taken.end(options);
    // Of ranks with the same name the rows are in the order in which they came.
    found.late.are_distinct().then_some(found)
}

/// How many calls have a time.
fn timed(chunks: &[About<'_>]) -> u64 {
    let timed = chunks.iter().flat_map(|about| about.chunk.calls.streams());
    timed.map(Stream::timed).sum()
}

/// Adds the calls of ranks that have one clock.
fn one_host(
    chunks: &[About<'_>],
    comms: &[Comm<'_>],
    taken: &mut Taken,
    (jobs, options): (usize, &Options),
) -> Option<()> {
    let window = options.window as u64;
    let fits = timed(chunks) <= window;
    let most = if fits {
        0
    } else {
        most_held(comms, chunks.len())
    };
    if most > window {
        return None;
    }
    let mut open = 0;
    let each = |task| run(task, options);
    pool::ordered(jobs, tasks(comms).into_iter(), each, |(comm, part)| {
        open += part.open;
        taken.add(part, comm.sides.iter().map(|side| side.who));
        Ok(())
    })
    .ok()?;
    (fits || most + open <= window).then_some(())
}

/// How many stretches are aligned by one thread, one after the other: so few that how late a rank is to
/// them is mostly a list, which is added to others at less cost than a histogram.
const SOME: usize = 4;

/// Adds the calls of ranks of several hosts.
fn hosts(
    chunks: &[About<'_>],
    (comms, places): (&[Comm<'_>], &Places),
    taken: &mut Taken,
    (jobs, options): (usize, &Options),
) -> Option<()> {
    let sides = comms.iter().flat_map(|comm| &comm.sides);
    let mut pieces = sides.flat_map(|side| &side.pieces);
    if pieces.any(|piece| piece.stream.timed() < piece.stream.len()) {
        return None;
    }
    let found = stretches(chunks, (comms, places), options.window as u64)?;
    let hosts = comms.iter().map(|comm| Hosts::of(comm, taken.host_of()));
    let hosts: Vec<Hosts> = hosts.collect();
    let ranks = taken.host_of().len();
    let each = |some| aligned(some, (comms, &hosts), (ranks, options.late_ns));
    let mut is_whole = true;
    pool::ordered(jobs, found.all.chunks(SOME), each, |aligned| {
        is_whole &= aligned.is_some();
        if let Some(Aligned { reached, own }) = aligned {
            reached.into_iter().for_each(|ahead| taken.reached(ahead));
            (0..)
                .zip(own)
                .for_each(|(who, own)| taken.found_mut().late.merge(who, own));
        }
        Ok(())
    })
    .ok()?;
    let all = taken.found_mut();
    all.matched += found.matched;
    all.partly += found.partly;
    all.alone += found.alone;
    is_whole.then_some(())
}

/// What a part of a communicator's calls shows.
fn run<'c>(task: Task<'c>, options: &Options) -> (&'c Comm<'c>, Part) {
    (task.comm, task.run(options.late_ns))
}

impl Taken {
    /// Adds what calls of a communicator show; `who` are its ranks.
    fn add(&mut self, part: Part, who: impl Iterator<Item = u32>) {
        let found = self.found_mut();
        found.matched += part.matched;
        found.partly += part.partly;
        found.alone += part.alone;
        for (who, own) in who.zip(part.own) {
            found.late.merge(who, own);
        }
    }
}

/// Who the chunks' members are, in the order in which they came.
fn chunks<'l>(logs: &'l [Log], merged: &Merged, taken: &mut Taken) -> Vec<About<'l>> {
    let mut members = Members::new(merged);
    let mut all = Vec::new();
    for log in logs {
        members.next_log();
        let mut made: FxHashMap<u32, u64> = FxHashMap::default();
        for chunk in &log.chunks {
            let ops = chunk.ops(taken);
            let numbers = &chunk.members;
            let known = numbers.iter().map(|&number| members.get(number));
            let known: Vec<_> = known.collect();
            let mut caller_of = vec![None; numbers.len()];
            for &member in chunk.calls.timed() {
                let member = member as usize;
                if let (Some(&number), Some(caller)) =
                    (numbers.get(member), caller_of.get_mut(member))
                {
                    *caller = members.caller(number, &log.aliases, taken);
                }
            }
            let process_of = || known.iter().map(|member| member.process);
            let before = process_of().map(|process| made.get(&process).copied().unwrap_or(0));
            let before = before.collect();
            for (process, stream) in process_of().zip(chunk.calls.streams()) {
                *made.entry(process).or_default() += stream.len() + stream.messages();
            }
            all.push(About {
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
fn comms<'l>(
    chunks: &'l [About<'l>],
    steps: &'l [Vec<Vec<Run>>],
) -> Option<(Vec<Comm<'l>>, Places)> {
    let mut sequences: Vec<Sequence<'l>> = Vec::new();
    for (number, (about, steps)) in chunks.iter().zip(steps).enumerate() {
        for (member, stream) in about.chunk.calls.streams().iter().enumerate() {
            let (Some(&sequence), true) = (about.sequence_of.get(member), stream.len() > 0) else {
                continue;
            };
            if sequences.len() <= sequence {
                sequences.resize_with(sequence + 1, Default::default);
            }
            let (known, pieces) = &mut sequences[sequence];
            if stream.timed() > 0 {
                let caller = about.caller_of[member];
                if *known.get_or_insert(caller) != caller {
                    return None;
                }
            }
            pieces.push(Piece {
                stream,
                ops: &about.ops,
                runs: &steps[member],
                chunk: number,
            });
        }
    }
    let mut comms: Vec<Comm<'_>> = Vec::new();
    let mut places = vec![None; sequences.len()];
    for (place, (caller, pieces)) in places.iter_mut().zip(sequences) {
        let Some(Caller { who, comm, nranks }) = caller.flatten() else {
            continue;
        };
        let at = comm as usize;
        if comms.len() <= at {
            comms.resize_with(at + 1, Comm::default);
        }
        let comm = &mut comms[at];
        if !comm.sides.is_empty() && comm.nranks != nranks {
            return None;
        }
        comm.nranks = nranks;
        *place = Some((at, comm.sides.len()));
        comm.sides.push(Side { who, pieces });
    }
    comms.iter().all(Comm::is_plain).then_some((comms, places))
}

impl Comm<'_> {
    /// No rank is there twice, and there are not too many.
    fn is_plain(&self) -> bool {
        let mut who: Vec<u32> = self.sides.iter().map(|side| side.who).collect();
        who.sort_unstable();
        let distinct = who.windows(2).all(|pair| pair[0] != pair[1]);
        distinct && self.nranks.is_none_or(|n| who.len() <= n as usize)
    }
}

/// How many parts of calls wait for others at most: in each chunk those that came up to its end, without
/// those of calls that all ranks had made before it. Calls that are not the same on all ranks wait
/// longer; they are counted where they are met.
fn most_held(comms: &[Comm<'_>], chunks: usize) -> u64 {
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
