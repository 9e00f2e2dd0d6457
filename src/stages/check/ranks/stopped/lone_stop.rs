//! One rank that stopped in the middle of a step while all others went on to the end of theirs.
//!
//! A host that waits for its GPU is at the end of a step, as far ahead as it may be. In a job that hangs
//! all hosts but one have come there, and some may be a step behind the one that stopped, so that who
//! made the fewest calls says little. In a job that was killed ranks are anywhere, and the last one on
//! its way to the end of its step still makes calls. So the others must have gone on without the one, and
//! it must have been silent for longer than it and any other ever were in the middle of a step. How long
//! one waited at the end of a step says nothing.
//!
//! The call at the end of a step is each process's own: the stages of a pipeline end with different ones.
//! It is the one that the process most often made last before a step line. Where step lines do not tell, for
//! there are none, or ranks run ahead of them, many others must have come to one and the same call.

use crate::stages::check::finding::{About, Finding, Severity, Sure};
use crate::stages::check::ranks::last_calls::LastCalls;
use crate::stages::check::ranks::mismatch::spot;
use crate::stages::check::ranks::names::{self, Names};
use crate::stages::check::streams::last_calls::{Last, one_input};
use crate::stages::check::walk::Walked;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Where step lines do not tell, so many others must have come to the same call: fewer may by chance.
const MOST: usize = 5;

/// So many calls of the one must be known for what is usual.
const ENOUGH: usize = 16;

/// A call is known by its stream and what it is there.
type Which = (u32, u64);

/// A call of a job's.
#[derive(Clone, Copy)]
struct Made {
    process: u32,
    which: Which,
    /// How many calls of its input come behind it.
    behind: u64,
}

/// How many calls of an input come behind each of its step lines, in their order.
pub(crate) fn behind_steps(input: &Walked) -> Vec<u64> {
    let all: u64 = input.sums.by_gap.iter().map(|(_, sum)| sum.calls).sum();
    let mut gaps = input.sums.by_gap.iter().peekable();
    let mut before = 0;
    let behind = input.timeline.steps.iter().map(|step| {
        while let Some((_, sum)) = gaps.next_if(|(gap, _)| *gap <= step.mark) {
            before += sum.calls;
        }
        all - before
    });
    behind.collect()
}

/// The process of each job that alone stopped; `steps` is of each input what [`behind_steps`] gives,
/// `process_of` the process of a stream, `job_of` the job of a process. Only the lines of one input have an
/// order.
pub(crate) fn alone(
    calls: &[Last],
    steps: impl Fn(u32) -> Vec<u64>,
    process_of: impl Fn(u32) -> Option<u32>,
    job_of: impl Fn(u32) -> u32,
) -> BTreeMap<u32, u32> {
    let mut jobs: BTreeMap<u32, Vec<(Made, Last)>> = BTreeMap::new();
    let mut left: FxHashMap<u32, u64> = FxHashMap::default();
    for call in calls {
        *left.entry(call.input).or_default() += 1;
    }
    for call in calls {
        let left = left.entry(call.input).or_default();
        *left = left.saturating_sub(1);
        if let Some(process) = process_of(call.stream) {
            let made = Made {
                process,
                which: (call.stream, call.mark),
                behind: *left,
            };
            jobs.entry(job_of(process)).or_default().push((made, *call));
        }
    }
    let one = jobs.into_iter().filter_map(|(job, calls)| {
        let input = calls.first()?.1.input;
        let is_ordered = one_input(calls.iter().map(|(_, call)| call));
        let made: Vec<Made> = calls.into_iter().map(|(made, _)| made).collect();
        Some((job, of_job(&made, &steps(input)).filter(|_| is_ordered)?))
    });
    one.collect()
}

/// The same of one job.
fn of_job(calls: &[Made], lines: &[u64]) -> Option<u32> {
    let mut last: BTreeMap<u32, Which> = BTreeMap::new();
    for call in calls {
        last.insert(call.process, call.which);
    }
    let ends = [Some(step_ends(calls, lines)), common_end(calls, &last)];
    ends.iter()
        .flatten()
        .find_map(|ends| lone(calls, &last, ends))
}

/// The process that alone stopped, where these are the calls at which the processes wait.
fn lone(calls: &[Made], last: &BTreeMap<u32, Which>, ends: &BTreeMap<u32, Which>) -> Option<u32> {
    let mut stopped = last
        .iter()
        .filter(|(process, which)| ends.get(process) != Some(which));
    let (&process, _) = stopped.next().filter(|_| stopped.next().is_none())?;
    let paces = paces(calls, ends);
    let own = paces.get(&process)?;
    let silence = calls.len() - own.last - 1;
    let others = paces.iter().filter(|(other, _)| **other != process);
    let longest = others.map(|(_, pace)| pace.longest).max()?;
    // The others did not only end the call that it is late for. A quarter more than its own: the silences
    // of a healthy job are not all seen in its first steps.
    let is_new = 4 * silence > 5 * own.longest && silence > longest;
    (own.made >= ENOUGH && silence + 1 >= last.len() && is_new).then_some(process)
}

/// The call with which each process most often ends a step: the last one before a step line.
fn step_ends(calls: &[Made], lines: &[u64]) -> BTreeMap<u32, Which> {
    let mut counts: BTreeMap<u32, BTreeMap<Which, u64>> = BTreeMap::new();
    let mut open: BTreeMap<u32, Which> = BTreeMap::new();
    let mut end = |open: &mut BTreeMap<u32, Which>| {
        for (process, which) in std::mem::take(open) {
            *counts.entry(process).or_default().entry(which).or_default() += 1;
        }
    };
    let mut lines = lines.iter().peekable();
    for call in calls {
        while lines.next_if(|line| **line > call.behind).is_some() {
            end(&mut open);
        }
        open.insert(call.process, call.which);
    }
    if lines.next().is_some() {
        end(&mut open);
    }
    let most = counts.into_iter().filter_map(|(process, counts)| {
        let (which, _) = counts.into_iter().max_by_key(|(_, many)| *many)?;
        Some((process, which))
    });
    most.collect()
}

/// The call that all processes but one came to, where these are many: for each process its own.
fn common_end(calls: &[Made], last: &BTreeMap<u32, Which>) -> Option<BTreeMap<u32, Which>> {
    let mut marks: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, mark) in last.values() {
        *marks.entry(*mark).or_default() += 1;
    }
    let (&end, &many) = marks.iter().max_by_key(|(_, many)| **many)?;
    let ends = calls.iter().filter(|call| call.which.1 == end);
    (many >= MOST).then(|| ends.map(|call| (call.process, call.which)).collect())
}

/// How a process makes its calls.
#[derive(Default)]
struct Pace {
    made: usize,
    /// The place of its last call.
    last: usize,
    /// The most calls of others between two of its own in the middle of a step.
    longest: usize,
}

/// How each process makes its calls, where `ends` are those that end a step.
fn paces(calls: &[Made], ends: &BTreeMap<u32, Which>) -> FxHashMap<u32, Pace> {
    let mut paces: FxHashMap<u32, Pace> = FxHashMap::default();
    let mut at_end: FxHashMap<u32, bool> = FxHashMap::default();
    for (at, call) in calls.iter().enumerate() {
        let is_end = ends.get(&call.process) == Some(&call.which);
        let pace = paces.entry(call.process).or_default();
        if at_end.insert(call.process, is_end) == Some(false) {
            pace.longest = pace.longest.max(at - pace.last - 1);
        }
        pace.made += 1;
        pace.last = at;
    }
    paces
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
             the end of a step, and wait: it hangs, or its process is dead",
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
        why: "no line reports a failure, but the others went on without it, and no rank was ever so long silent in \
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

    /// Calls as (process, mark), and how many of them come behind each step line.
    fn told(calls: impl IntoIterator<Item = (u32, u64)>, lines: &[u64]) -> Option<u32> {
        let last = |(stream, mark)| Last {
            input: 0,
            stream,
            seq: 0,
            mark,
        };
        let calls: Vec<Last> = calls.into_iter().map(last).collect();
        alone(&calls, |_| lines.to_vec(), Some, |_| 0)
            .get(&0)
            .copied()
    }

    #[test]
    fn the_one_in_the_middle_of_a_step_stopped() {
        // Eight ranks, four calls a step, rank by rank.
        let step = || (0..8).flat_map(|rank| (0..4).map(move |mark| (rank, mark)));
        let steps = |n: usize| (0..n).flat_map(move |_| step());
        assert_eq!(told(steps(8), &[]), None);
        let is_third = |&(rank, mark): &(u32, u64)| rank == 3 && mark > 1;
        let hung = steps(8).chain(step().filter(|call| !is_third(call)));
        let on = step().filter(|(rank, _)| *rank != 3);
        assert_eq!(told(hung.clone().chain(on), &[]), Some(3));
        // Others that are anywhere.
        let cut = hung.chain(step().take(9));
        assert_eq!(told(cut, &[]), None);
        // Too little to know what is usual.
        let early = steps(2).chain(step().filter(|call| !is_third(call)));
        assert_eq!(told(early, &[]), None);
    }

    #[test]
    fn each_rank_has_its_own_end_of_a_step() {
        // Two ranks, call by call; the second ends with another call than the first.
        let step = || (0..4).flat_map(|at| [(0, at), (1, 4 - at)]);
        let lines = |steps: u64, rest: u64| -> Vec<u64> {
            (1..=steps).map(|step| (steps - step) * 8 + rest).collect()
        };
        let steps = |n: usize| (0..n).flat_map(move |_| step());
        assert_eq!(told(steps(8), &lines(8, 0)), None);
        // The second stops after two calls, and the first goes on to the end of its step.
        let hung = || steps(8).chain([(0, 0), (1, 4), (0, 1), (1, 3), (0, 2), (0, 3)]);
        assert_eq!(told(hung(), &lines(8, 6)), Some(1));
        // It is at the end of its step, or the first is not: the log only ends there.
        let at_end = steps(8).chain([(0, 0), (0, 1), (0, 2), (0, 3)]);
        assert_eq!(told(at_end, &lines(8, 4)), None);
        assert_eq!(told(hung().take(69), &lines(8, 5)), None);
    }
}
