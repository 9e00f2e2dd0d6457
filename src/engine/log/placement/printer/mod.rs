//! Which rank prints the step lines.
//!
//! Its own calls fit its lines: it does the same just before and just after every line, it makes calls
//! in every step, and the first line does not come after two steps of it. A rank that runs ahead by
//! another lead at each line does not look like that; one with a constant lead does, but for the first
//! step and the last. Where several fit equally well the rank that the trainer's source prints on is
//! taken.

pub(super) mod every_rank_prints;
mod limits;

use super::bounds::StepBounds;
use super::keys::{Sequences, fingerprint_calls};
use super::streams::{ProcessStream, StreamsByProcess};
use crate::grammar::trainer::Trainer;
use crate::members::MergedMembers;
use limits::{
    CALLS_AROUND_BOUND, FEW_STEP_LINES, MAX_BOUNDS_COMPARED, MAX_PROCESSES_COMPARED,
    MIN_FIT_MARGIN, RESTART_MARGIN_FACTOR,
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

/// The ranks that printed the lines so far.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct PrinterHistory {
    processes: FxHashSet<u32>,
    /// The rank of the first of them: a job that is started again prints on the same rank.
    rank: Option<u64>,
    /// One of them is not on the rank that the trainer prints on: few lines may mislead.
    pub(super) is_unusual: bool,
}

impl PrinterHistory {
    /// The process among those of `job` that printed before.
    pub(super) fn printer_among(&self, job: &[u32]) -> Option<u32> {
        job.iter().copied().find(|p| self.processes.contains(p))
    }

    /// Returns these and the ranks that printed later.
    pub(super) fn joined_with(&self, later: &PrinterHistory) -> PrinterHistory {
        PrinterHistory {
            processes: &self.processes | &later.processes,
            rank: self.rank.or(later.rank),
            is_unusual: self.is_unusual || later.is_unusual,
        }
    }

    /// Remembers a printing process; `rank` is called if no rank is known yet.
    pub(super) fn remember_printer(&mut self, process: u32, rank: impl FnOnce() -> Option<u64>) {
        if self.processes.insert(process) && self.rank.is_none() {
            self.rank = rank();
        }
    }
}

/// Returns the process among `processes`, members of one job, that prints the lines; `None` if none fits.
/// `before` has those that printed before; a process on another rank than the usual one is noted there.
pub(super) fn find_printer(
    processes: &[u32],
    bounds: &StepBounds,
    streams: &StreamsByProcess,
    keys: &Sequences,
    merged: &MergedMembers,
    before: &mut PrinterHistory,
) -> Option<u32> {
    let (ranks, world) = ranks_of_largest_comm(processes, streams, keys, merged);
    let lines = line_gaps(processes, bounds, streams);
    let margin = MIN_FIT_MARGIN + MIN_FIT_MARGIN * FEW_STEP_LINES / lines.len().max(1) as i64;
    let late = usize::from(bounds.trainer.is_some_and(Trainer::lags_one_step));
    let fit = |process: u32| {
        let stream = &streams.streams[process];
        score_fit(stream, &lines, late, streams, margin)
    };
    // Where no communicator has all ranks, several have this rank in one.
    let best_of = |rank: Option<u64>| {
        let those = ranks
            .iter()
            .filter(|r| Some(r.0) == rank)
            .take(MAX_PROCESSES_COMPARED);
        those
            .map(|r| r.1)
            .max_by_key(|&process| (fit(process), std::cmp::Reverse(process)))
    };
    let first = best_of(ranks.iter().map(|r| r.0).min())?;
    let last = best_of(ranks.iter().map(|r| r.0).max())?;
    let again = best_of(before.rank).map(|process| (fit(process), process));
    let usual = match printing_rank_rule(bounds.trainer, bounds.stage) {
        PrintingRankRule::First => [first, last],
        PrintingRankRule::Last => [last, first],
        prints @ PrintingRankRule::Stage(_) => {
            let rank = Some(u64::from(prints.rank_among(world)));
            let of_stage = best_of(rank).unwrap_or(last);
            [of_stage, if of_stage == first { last } else { first }]
        }
    };
    let of_usual = fit(usual[0]);
    if of_usual >= 1000 - margin && again.is_none() {
        return Some(usual[0]);
    }
    let all: Vec<(i64, u32)> = processes.iter().map(|&p| (fit(p), p)).collect();
    let best = all.iter().map(|f| f.0).max()?;
    if let Some((of_it, process)) = again
        && of_it >= best - RESTART_MARGIN_FACTOR * margin
    {
        return Some(process);
    }
    if of_usual >= best - margin {
        return Some(usual[0]);
    }
    before.is_unusual = true;
    if fit(usual[1]) >= best - MIN_FIT_MARGIN / 2 {
        return Some(usual[1]);
    }
    let mut those = all.iter().filter(|f| f.0 == best);
    those.next().map(|f| f.1)
}

/// The gaps that end with a step's line while `processes` make calls, and the first one after: lines of another
/// attempt do not count for a job that was started again.
fn line_gaps(processes: &[u32], bounds: &StepBounds, streams: &StreamsByProcess) -> Vec<u32> {
    let gaps = |stream: &ProcessStream| Some((stream.ends.first()?.0, stream.ends.last()?.0));
    let each = processes.iter().map(|&p| &streams.streams[p]);
    let (first, last) = each.filter_map(gaps).fold((u32::MAX, 0), |all, own| {
        (all.0.min(own.0), all.1.max(own.1))
    });
    let own = bounds.step_ends().skip_while(|&gap| gap < first);
    let mut own: Vec<u32> = own.take(MAX_BOUNDS_COMPARED).collect();
    let within = own.partition_point(|&gap| gap < last);
    if let Some(&after) = own.get(within) {
        let mut all = streams.streams.iter_numbered();
        let begins = |own: (u32, u32)| (last..=after).contains(&own.0);
        // The next attempt's first calls come before its line.
        let is_next = all.any(|(p, s)| gaps(s).is_some_and(begins) && !processes.contains(&p));
        own.truncate(within + usize::from(!is_next));
    }
    own
}

/// The process among `processes` that has this rank in the job's largest communicator.
pub(super) fn process_of_rank(
    rank: u32,
    processes: &[u32],
    streams: &StreamsByProcess,
    keys: &Sequences,
    merged: &MergedMembers,
) -> Option<u32> {
    let (ranks, _) = ranks_of_largest_comm(processes, streams, keys, merged);
    let found = ranks.iter().find(|(of, _)| *of == u64::from(rank));
    found.map(|(_, process)| *process)
}

/// The rank of `process` in the job's largest communicator, if it is known.
pub(super) fn rank_of_process(
    process: u32,
    streams: &StreamsByProcess,
    keys: &Sequences,
    merged: &MergedMembers,
) -> Option<u64> {
    let (ranks, _) = ranks_of_largest_comm(&[process], streams, keys, merged);
    let known = ranks.first().map(|(rank, _)| *rank);
    known.filter(|&rank| u32::try_from(rank).is_ok())
}

/// The rank that a trainer prints on, as its source has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrintingRankRule {
    /// Rank 0.
    First,
    /// The last rank.
    Last,
    /// The first rank of this pipeline stage, which is the last one.
    Stage(u32),
}

impl PrintingRankRule {
    /// Returns the rank among `ranks` ranks.
    pub fn rank_among(self, ranks: u32) -> u32 {
        match self {
            PrintingRankRule::First => 0,
            PrintingRankRule::Last => ranks.saturating_sub(1),
            PrintingRankRule::Stage(stage) => {
                let before = u64::from(ranks) * u64::from(stage) / (u64::from(stage) + 1);
                before as u32
            }
        }
    }
}

/// Returns the rank that prints the trainer's lines. nanotron prints on the first rank of the last
/// pipeline stage, which its lines name (`logger_ranks` in `trainer.py` @2411b02); the stages are the
/// outermost dimension of the ranks' order.
pub fn printing_rank_rule(trainer: Option<Trainer>, stage: Option<u32>) -> PrintingRankRule {
    match stage {
        Some(stage) => PrintingRankRule::Stage(stage),
        None if trainer.is_some_and(Trainer::printed_by_last_rank) => PrintingRankRule::Last,
        None => PrintingRankRule::First,
    }
}

/// Each process's rank in the largest communicator it has calls on, (rank, process), and how many ranks
/// that one has.
fn ranks_of_largest_comm(
    processes: &[u32],
    streams: &StreamsByProcess,
    keys: &Sequences,
    merged: &MergedMembers,
) -> (Vec<(u64, u32)>, u32) {
    let mut largest: FxHashMap<u32, (u32, u32)> = FxHashMap::default();
    for (at, what) in streams.call_shapes().iter().enumerate() {
        if keys.comm_of[at].is_none() {
            continue;
        }
        let member = merged.origins.members.get(what.member);
        let process = merged.origins.places.get(member.place).process;
        if let Some(identity) = merged.identity_of(member) {
            let best = largest
                .entry(process)
                .or_insert((identity.nranks, identity.rank));
            if identity.nranks > best.0 {
                *best = (identity.nranks, identity.rank);
            }
        }
    }
    let sizes = largest.values().map(|(size, _)| *size);
    let most = sizes.max().unwrap_or(0);
    let rank = |&p: &u32| {
        let known = largest.get(&p).filter(|(size, _)| *size == most);
        // A process without a known rank has a number beyond all ranks.
        let beyond = u64::from(p) + (1 << 32);
        let rank = known.map_or(beyond, |(_, rank)| u64::from(*rank));
        (rank, p)
    };
    (processes.iter().map(rank).collect(), most)
}

/// Scores how well a process's calls fit the `lines`, which come `late` steps late, in thousandths. Behaviour that
/// no printing rank shows costs more than the `margin`.
fn score_fit(
    stream: &ProcessStream,
    lines: &[u32],
    late: usize,
    streams: &StreamsByProcess,
    margin: i64,
) -> i64 {
    let hash = |range: std::ops::Range<usize>, level: usize| {
        fingerprint_calls(
            level as u64 + 1,
            stream.calls.slice(range),
            streams.call_shapes(),
            level,
        )
    };
    let len = stream.calls.len();
    let lines: Vec<usize> = lines
        .iter()
        .map(|&gap| stream.calls_until(gap) as usize)
        .collect();
    let mut seen: [FxHashMap<u64, u64>; 4] = Default::default();
    let mut both: FxHashMap<u64, u64> = FxHashMap::default();
    let mut n = 0_u64;
    for &at in lines.iter().filter(|&&at| at > 0 && at < len) {
        n += 1;
        let (before, after) = (
            at.saturating_sub(CALLS_AROUND_BOUND)..at,
            at..len.min(at + CALLS_AROUND_BOUND),
        );
        for level in 0..2 {
            *seen[2 * level]
                .entry(hash(before.clone(), level))
                .or_default() += 1;
            *seen[2 * level + 1]
                .entry(hash(after.clone(), level))
                .or_default() += 1;
        }
        *both.entry(hash(before.start..after.end, 0)).or_default() += 1;
    }
    if n == 0 {
        return 0;
    }
    let same =
        |seen: &FxHashMap<u64, u64>| seen.values().map(|v| v * v).sum::<u64>() * 1000 / (n * n);
    let alike: u64 = seen.iter().map(same).sum::<u64>() / 4;
    let mut fit = alike as i64;
    // A step without a call, between lines that have others'.
    let steps = std::iter::once(0).chain(lines.iter().copied()).zip(&lines);
    let empty = steps
        .filter(|(from, to)| from >= *to)
        .count()
        .saturating_sub(late);
    fit -= 1000 * empty as i64 / lines.len().max(1) as i64;
    // The line of the first step comes after more than one. Where lines lag by a step, the first comes
    // after two, and the last two at the end.
    if let (Some(&first), Some(&second)) = (lines.first(), lines.get(1))
        && let Some((&usual, _)) = both.iter().max_by_key(|(hash, n)| (**n, **hash))
    {
        let within = |from: usize, to: usize| {
            (from + 1..to)
                .filter(|&at| at >= CALLS_AROUND_BOUND && at + CALLS_AROUND_BOUND <= len)
                .filter(|&at| hash(at - CALLS_AROUND_BOUND..at + CALLS_AROUND_BOUND, 0) == usual)
                .count()
        };
        if within(0, first) > within(first, second) + late {
            fit -= margin + 50;
        }
        if lines.last() == Some(&len) && lines.iter().filter(|&&at| at == len).count() > 1 + late {
            fit -= margin + 50;
        }
    }
    fit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_is_the_one_that_the_trainer_prints_on() {
        let rank = |trainer, stage| printing_rank_rule(Some(trainer), stage).rank_among(16);
        assert_eq!(rank(Trainer::Torchtitan, None), 0);
        assert_eq!(rank(Trainer::Megatron, None), 15);
        // One stage, two and four.
        let nanotron = [0, 1, 3].map(|stage| rank(Trainer::Nanotron, Some(stage)));
        assert_eq!(nanotron, [0, 8, 12]);
        // A damaged number.
        assert_eq!(rank(Trainer::Nanotron, Some(u32::MAX)), 15);
    }
}
