//! Which lines are a rank's own, where every rank prints each step and no line names its rank.
//!
//! The first line of a step comes from the rank that ends it first. No other rank is beyond it yet, so
//! what any rank has made by then on a communicator of all is what the step has: the largest number is
//! the printing rank's. Every rank's own line comes when it has made as many. Where several lines do
//! (the rank makes calls on smaller communicators in between), the one is taken after which and before
//! which it mostly does the same.

use super::limits::{CALLS_AROUND_LINE, MAX_RANKS_TRIED, MIN_CLEAR_STEPS_PERCENT};
use crate::log::placement::bounds::{StepBounds, StretchCuts};
use crate::log::placement::keys::{self, Sequences};
use crate::log::placement::streams::{ProcessStream, StreamsByProcess};
use rustc_hash::{FxHashMap, FxHashSet};

/// A rank `among` those of `job` with its cuts by its own lines; `None` where no rank's are clear.
pub(in crate::log::placement) fn find_clear_rank(
    job: &[u32],
    among: &[u32],
    bounds: &StepBounds,
    streams: &StreamsByProcess,
    keys: &Sequences,
) -> Option<(u32, StretchCuts)> {
    let common = common_sequence(job, streams, keys);
    let made = |process: u32| -> Vec<u32> {
        let calls = &streams.streams[process].calls;
        let of = |what: u32| Some(keys.of[what as usize]) == common;
        (0..)
            .zip(calls.all())
            .filter(|&(_, what)| of(what))
            .map(|(at, _)| at)
            .collect()
    };
    let made: Vec<Vec<u32>> = job.iter().map(|&process| made(process)).collect();
    let lines: Vec<StepLineGaps> = bounds
        .every_rank_lines()
        .map(|(stretch, gaps)| StepLineGaps { stretch, gaps })
        .collect();
    let stream = |process: u32| &streams.streams[process];
    let count = |rank: usize, gap: u32| {
        let until = stream(job[rank]).calls_until(gap);
        made[rank].partition_point(|&at| at < until) as u32
    };
    let most = |line: &StepLineGaps<'_>| {
        let first = line.gaps.first().copied().unwrap_or(0);
        (0..job.len())
            .map(|rank| count(rank, first))
            .max()
            .unwrap_or(0)
    };
    let of_step: Vec<u32> = lines.iter().map(most).collect();
    let tried = (0..job.len()).filter(|&rank| among.contains(&job[rank]));
    let tried = tried.take(MAX_RANKS_TRIED).map(|rank| {
        let own = |(line, of): (&StepLineGaps<'_>, &u32)| -> Vec<u32> {
            let here = line.gaps.iter().copied();
            here.filter(|&gap| common.is_none() || count(rank, gap) == *of)
                .collect()
        };
        (rank, lines.iter().zip(&of_step).map(own).collect())
    });
    let tried: Vec<(usize, Vec<Vec<u32>>)> = tried.collect();
    let each = tried
        .iter()
        .map(|(rank, own)| (stream(job[*rank]), &own[..]));
    let looks = LineFingerprints::from_ranks(each, streams);
    let known = |rank: usize, own: &[Vec<u32>]| {
        let is_usual = |gap: &u32| {
            fingerprint_line(stream(job[rank]), *gap, CALLS_AROUND_LINE, streams) == looks.usual
        };
        let usual = own.iter().filter(|gaps| gaps.iter().any(is_usual)).count();
        let by_count = own.iter().filter(|gaps| !gaps.is_empty()).count();
        let known = if common.is_some() { by_count } else { usual };
        (known, usual, std::cmp::Reverse(rank))
    };
    let tried = tried
        .into_iter()
        .map(|(rank, own)| (known(rank, &own), own));
    let ((known, _, rank), own) = tried.max_by_key(|tried| tried.0)?;
    if known * 100 < MIN_CLEAR_STEPS_PERCENT * lines.len() {
        return None;
    }
    let rank = rank.0;
    let stream = stream(job[rank]);
    let until = |at: usize| {
        let own = looks.find_own_line(stream, &own[at], streams);
        // Its line is lost: the step ends with the call that it ends with on all ranks.
        let by_call = || {
            let last = of_step[at].checked_sub(1)? as usize;
            made[rank].get(last).map(|&call| call + 1)
        };
        own.or_else(by_call)
    };
    Some((
        job[rank],
        bounds.cuts_by_own_line(stream, |stretch| {
            let at = lines
                .binary_search_by_key(&stretch, |line| line.stretch)
                .ok()?;
            until(at)
        }),
    ))
}

/// The lines of a step: its stretch, and the gaps that they end.
struct StepLineGaps<'a> {
    stretch: u32,
    gaps: &'a [u32],
}

/// The collectives that all processes of a job make, of the communicator with the most calls.
fn common_sequence(job: &[u32], streams: &StreamsByProcess, keys: &Sequences) -> Option<u32> {
    let mut users: FxHashMap<u32, (usize, u64)> = FxHashMap::default();
    for &process in job {
        let mut own: FxHashSet<u32> = FxHashSet::default();
        for what in streams.streams[process].calls.all() {
            let key = keys.of[what as usize];
            if keys.is_collective.get(key as usize) == Some(&true) {
                let (ranks, calls) = users.entry(key).or_default();
                *ranks += usize::from(own.insert(key));
                *calls += 1;
            }
        }
    }
    let all = users
        .into_iter()
        .filter(|(_, (ranks, _))| *ranks == job.len());
    all.max_by_key(|(key, (_, calls))| (*calls, std::cmp::Reverse(*key)))
        .map(|(key, _)| key)
}

/// What ranks do around the lines that may be their own.
struct LineFingerprints {
    /// The most frequent, and the most frequent of what they do before.
    usual: u64,
    usual_before: u64,
}

impl LineFingerprints {
    /// Of `each` rank and the lines of each step that may be its own. All do the same around their own lines,
    /// and each something else around another's.
    fn from_ranks<'a>(
        each: impl Iterator<Item = (&'a ProcessStream, &'a [Vec<u32>])> + Clone,
        streams: &StreamsByProcess,
    ) -> LineFingerprints {
        LineFingerprints {
            usual: most_frequent_look(each.clone(), |stream, gap| {
                fingerprint_line(stream, gap, CALLS_AROUND_LINE, streams)
            }),
            usual_before: most_frequent_look(each, |stream, gap| {
                fingerprint_line(stream, gap, 0, streams)
            }),
        }
    }

    /// How many calls the rank has made at its own line among `gaps`.
    fn find_own_line(
        &self,
        stream: &ProcessStream,
        gaps: &[u32],
        streams: &StreamsByProcess,
    ) -> Option<u32> {
        let usual =
            |gap: &&u32| fingerprint_line(stream, **gap, CALLS_AROUND_LINE, streams) == self.usual;
        // Before an evaluation, or at the end, it does something else after its line.
        let before = |gap: &&u32| fingerprint_line(stream, **gap, 0, streams) == self.usual_before;
        let gap = gaps.iter().find(usual).or_else(|| gaps.iter().find(before));
        let gap = gap.or_else(|| gaps.first())?;
        Some(stream.calls_until(*gap))
    }
}

/// The most frequent look of a step's lines, of each rank and step once.
fn most_frequent_look<'a>(
    each: impl Iterator<Item = (&'a ProcessStream, &'a [Vec<u32>])>,
    look: impl Fn(&ProcessStream, u32) -> u64,
) -> u64 {
    let mut often: FxHashMap<u64, usize> = FxHashMap::default();
    for (stream, own) in each {
        for gaps in own {
            let mut looks: Vec<u64> = gaps.iter().map(|&gap| look(stream, gap)).collect();
            looks.sort_unstable();
            looks.dedup();
            for look in looks {
                *often.entry(look).or_default() += 1;
            }
        }
    }
    let best = often.into_iter().max_by_key(|&(look, n)| (n, look));
    best.map_or(0, |(look, _)| look)
}

/// Fingerprints the calls of a rank before a line, and up to `after` calls after it.
fn fingerprint_line(
    stream: &ProcessStream,
    gap: u32,
    after: usize,
    streams: &StreamsByProcess,
) -> u64 {
    let at = stream.calls_until(gap) as usize;
    let from = at.saturating_sub(CALLS_AROUND_LINE);
    let near = stream.calls.slice(from..at + after);
    keys::fingerprint_calls((at - from) as u64, near, streams.call_shapes(), 0)
}
