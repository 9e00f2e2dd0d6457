//! One rank that stopped while all others went on to the same call.
//!
//! A host that waits for its GPU is at the end of a step, as far ahead as it may be. In a job that hangs
//! all hosts but one have come there, and some may be a step behind the one that stopped, so that who
//! made the fewest calls says little. In a job that was killed ranks are anywhere, and the last one on
//! its way to the end of its step still makes calls. So the others must have gone on without the one, and
//! it must have been silent for longer than ever before in the middle of a step. How long it waited
//! at the end of one says nothing.

use crate::stages::check::finding::{About, Finding, Severity, Sure};
use crate::stages::check::ranks::last_calls::LastCalls;
use crate::stages::check::ranks::mismatch::spot;
use crate::stages::check::ranks::names::{self, Names};
use crate::stages::check::streams::last_calls::{Last, one_input};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// So many others must have come to the same call: fewer may by chance.
const MOST: usize = 5;

/// So many calls of each rank must be known for what is usual.
const ENOUGH: u64 = 32;

/// The process of each job that alone stopped; `process_of` is the process of a stream, `job_of` the
/// job of a process. Only the lines of one input have an order.
pub(crate) fn alone(
    calls: &[Last],
    process_of: impl Fn(u32) -> Option<u32>,
    job_of: impl Fn(u32) -> u32,
) -> BTreeMap<u32, u32> {
    let mut jobs: BTreeMap<u32, Vec<Last>> = BTreeMap::new();
    for call in calls {
        if let Some(process) = process_of(call.stream) {
            jobs.entry(job_of(process)).or_default().push(Last {
                stream: process,
                ..*call
            });
        }
    }
    let ordered = jobs.into_iter().filter(|(_, calls)| one_input(calls));
    ordered
        .filter_map(|(job, calls)| Some((job, of_job(&calls)?)))
        .collect()
}

/// The same of one job, whose calls name their process as their stream.
fn of_job(calls: &[Last]) -> Option<u32> {
    // How many calls each process made, and what its last is.
    let mut all: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
    for call in calls {
        let own = all.entry(call.stream).or_default();
        *own = (own.0 + 1, call.mark);
    }
    let mut ends: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for (&process, (_, mark)) in &all {
        ends.entry(*mark).or_default().push(process);
    }
    let (mut one, mut others) = (None, None);
    for (&mark, those) in &ends {
        match those[..] {
            [process] if one.is_none() => one = Some(process),
            _ if others.is_none() => others = Some((mark, those.len())),
            _ => return None,
        }
    }
    let (process, (end, others)) = one.zip(others)?;
    if others < MOST || all.values().any(|(made, _)| *made < ENOUGH) {
        return None;
    }
    let (silence, longest) = silences(calls, process, end)?;
    // The others did not only end the call that it is late for.
    (silence >= 2 * others && silence > longest).then_some(process)
}

/// How many calls of others came after the last one of a process, and the most of them between two of its
/// own in the middle of a step, which ends with the call `end`.
fn silences(calls: &[Last], process: u32, end: u64) -> Option<(usize, usize)> {
    let own = || {
        let all = calls.iter().enumerate();
        all.filter(|(_, call)| call.stream == process)
    };
    let pairs = own().zip(own().skip(1));
    let inside = pairs.filter(|((_, call), _)| call.mark != end);
    let longest = inside.map(|((at, _), (next, _))| next - at - 1).max();
    let (last, _) = own().next_back()?;
    Some((calls.len() - last - 1, longest.unwrap_or(0)))
}

/// The finding on the process that alone stopped.
pub(crate) fn finding(process: u32, last: &LastCalls<'_>, names: Names<'_>) -> Option<Finding> {
    let &(communicator, rank, call) = last.get(&process)?;
    let named = &names.found.processes[process as usize];
    let mut sides = names.found.communicators[communicator].sides.iter();
    let side = *sides.find(|&&side| names.found.sides[side].process == process)?;
    let place = names::process(named);
    let who = match rank {
        Some(rank) => format!(
            "rank {rank} of communicator {} ({place}{})",
            names.communicator(communicator),
            names.of_job(side, rank)
        ),
        None => place,
    };
    Some(Finding {
        id: "rank_behind",
        severity: Severity::Error,
        says: format!(
            "{who} stopped in the middle of a step, after {}, its call {}; all other ranks of its job are at \
             one and the same call, and wait: it hangs, or its process is dead",
            names::call(call),
            call.seq
        ),
        about: About {
            host: Some(named.host.clone()),
            pid: named.pid,
            rank,
            comm_id: names.id(communicator),
            seq: Some(call.seq),
            step: None,
        },
        sure: Sure::Medium,
        why: "no line reports a failure, but the others went on without it, and it was never so long silent in \
              the middle of a step before"
            .to_owned(),
        advice: "look at this process first: its own output, its host (dmesg), a stack if it is still there \
                 (py-spy dump)"
            .to_owned(),
        evidence: vec![spot(call)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls as (process, mark).
    fn told(calls: impl IntoIterator<Item = (u32, u64)>) -> Option<u32> {
        let last = |(stream, mark)| Last {
            input: 0,
            stream,
            seq: 0,
            mark,
        };
        let calls: Vec<Last> = calls.into_iter().map(last).collect();
        alone(&calls, Some, |_| 0).get(&0).copied()
    }

    #[test]
    fn the_one_in_the_middle_of_a_step_stopped() {
        // Eight ranks, four calls a step, rank by rank.
        let step = || (0..8).flat_map(|rank| (0..4).map(move |mark| (rank, mark)));
        let steps = |n: usize| (0..n).flat_map(move |_| step());
        assert_eq!(told(steps(8)), None);
        let is_third = |&(rank, mark): &(u32, u64)| rank == 3 && mark > 1;
        let hung = steps(8).chain(step().filter(|call| !is_third(call)));
        let on = step().filter(|(rank, _)| *rank != 3);
        assert_eq!(told(hung.clone().chain(on)), Some(3));
        // Others that are anywhere.
        let cut = hung.chain(step().take(9));
        assert_eq!(told(cut), None);
        // Too little to know what is usual.
        let early = steps(2).chain(step().filter(|call| !is_third(call)));
        assert_eq!(told(early), None);
    }
}
