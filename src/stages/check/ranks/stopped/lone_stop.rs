//! One rank that stopped in the middle of a step while all others went on to the end of theirs.
//!
//! A host that waits for its GPU is at the end of a step, as far ahead as it may be. In a job that hangs
//! all hosts but one have come there, and some may be a step behind the one that stopped, so that who
//! made the fewest calls says little. In a job that was killed ranks are anywhere, and the last one on
//! its way to the end of its step still makes calls. So the others must have gone on without the one, and
//! it must have been silent for longer than it ever was in the middle of a step. How long one waited at the
//! end of a step says nothing.
//!
//! The call at the end of a step is each process's own: the stages of a pipeline end with different ones.
//! It is the one with which most of its steps end. Where no line tells of steps, many others must have
//! come to one and the same call.

use crate::stages::check::finding::{About, Finding, Severity, Sure};
use crate::stages::check::ranks::last_calls::LastCalls;
use crate::stages::check::ranks::mismatch::spot;
use crate::stages::check::ranks::names::{self, Names};
use crate::stages::check::streams::last_calls::{Last, one_input};
use crate::stages::check::streams::step_ends::Own;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Where no steps are known, so many others must have come to the same call: fewer may by chance.
const MOST: usize = 5;

/// So many calls of the one must be known for what is usual.
const ENOUGH: usize = 16;

/// And so many of its steps.
const STEPS: usize = 3;

/// How it is known with which calls the processes end their steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// By the steps that lines tell of.
    Steps,
    /// Many others came to the same call.
    Call,
}

/// The process that alone stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lone {
    pub(crate) process: u32,
    /// By its steps, it was silent for more than twice as long as ever: no cut's doing.
    pub(crate) is_long: bool,
}

/// A call is known by its stream and what it is there.
type Which = (u32, u64);

/// A call of a job's.
#[derive(Clone, Copy)]
struct Made {
    process: u32,
    which: Which,
}

/// Of an input and a process its steps.
type StepsOf<'s> = Box<dyn Fn(u32, u32) -> Option<&'s Own> + 's>;

/// What a number stands for.
type Of<'s, T> = Box<dyn Fn(u32) -> T + 's>;

/// What is looked through: the last calls, and whose they are.
pub(crate) struct Tail<'s> {
    pub(crate) calls: Vec<Last>,
    pub(crate) steps: StepsOf<'s>,
    /// The process of a stream.
    pub(crate) process_of: Of<'s, Option<u32>>,
    /// The job of a process.
    pub(crate) job_of: Of<'s, u32>,
}

impl Tail<'_> {
    /// The process of each job that alone stopped.
    pub(crate) fn alone(&self) -> BTreeMap<u32, Lone> {
        self.each(|calls, input| Job::of(calls).alone(|process| (self.steps)(input, process)))
    }

    /// The process of each job that alone is in the middle of a step: all others wait for it, however far
    /// they came.
    pub(crate) fn in_the_middle(&self) -> BTreeMap<u32, u32> {
        self.each(|calls, input| {
            let ends = step_ends(calls, |process| (self.steps)(input, process));
            let job = Job::of(calls);
            let by_steps = job
                .in_the_middle(&ends)
                .filter(|_| ends.len() == job.last.len());
            by_steps.or_else(|| job.in_the_middle(&job.common_end()?))
        })
    }

    /// What is found of each job whose calls have an order: only the lines of one input do.
    fn each<T>(&self, find: impl Fn(&[Made], u32) -> Option<T>) -> BTreeMap<u32, T> {
        let mut jobs: BTreeMap<u32, Vec<(Made, Last)>> = BTreeMap::new();
        for call in &self.calls {
            if let Some(process) = (self.process_of)(call.stream) {
                let made = Made {
                    process,
                    which: (call.stream, call.mark),
                };
                let job = (self.job_of)(process);
                jobs.entry(job).or_default().push((made, *call));
            }
        }
        let one = jobs.into_iter().filter_map(|(job, calls)| {
            let input = calls.first()?.1.input;
            let is_ordered = one_input(calls.iter().map(|(_, call)| call));
            let made: Vec<Made> = calls.into_iter().map(|(made, _)| made).collect();
            let found = is_ordered.then(|| find(&made, input)).flatten();
            Some((job, found?))
        });
        one.collect()
    }
}

/// One job's calls.
struct Job<'c> {
    calls: &'c [Made],
    /// Each process's last.
    last: BTreeMap<u32, Made>,
}

impl Job<'_> {
    fn of(calls: &[Made]) -> Job<'_> {
        let last = calls.iter().map(|call| (call.process, *call));
        let last = last.collect();
        Job { calls, last }
    }

    /// The process that alone stopped.
    fn alone<'s>(&self, steps: impl Fn(u32) -> Option<&'s Own>) -> Option<Lone> {
        let by_steps = self.lone(&step_ends(self.calls, steps), By::Steps);
        by_steps.or_else(|| self.lone(&self.common_end()?, By::Call))
    }

    /// The process that alone is not at the call at which it waits.
    fn in_the_middle(&self, ends: &BTreeMap<u32, Which>) -> Option<u32> {
        let is_at_end = |call: &Made| ends.get(&call.process) == Some(&call.which);
        let mut others = self.last.values().filter(|call| !is_at_end(call));
        let process = others.next().filter(|_| others.next().is_none())?.process;
        Some(process)
    }

    /// The process that alone stopped, where these are the calls at which the processes wait.
    fn lone(&self, ends: &BTreeMap<u32, Which>, by: By) -> Option<Lone> {
        let process = self.in_the_middle(ends)?;
        let paces = paces(self.calls, ends);
        let own = paces.get(&process)?;
        let silence = self.calls.len() - own.last - 1;
        let others = paces.iter().filter(|(other, _)| **other != process);
        let longest = others.map(|(_, pace)| pace.longest).max()?;
        // More than its own: the silences of a healthy job are not all seen in its first steps.
        let is_longest = 4 * silence > 5 * own.longest && silence > longest;
        let is_long = by == By::Steps && silence > 2 * own.longest;
        // The others did not only end the call that it is late for.
        let is_it = own.made >= ENOUGH && silence + 1 >= self.last.len();
        (is_it && (is_long || is_longest)).then_some(Lone { process, is_long })
    }

    /// The call that all processes but one came to, where these are many: for each process its own.
    fn common_end(&self) -> Option<BTreeMap<u32, Which>> {
        let mut marks: BTreeMap<u64, usize> = BTreeMap::new();
        for call in self.last.values() {
            *marks.entry(call.which.1).or_default() += 1;
        }
        let (&end, &many) = marks.iter().max_by_key(|(_, many)| **many)?;
        let ends = self.calls.iter().filter(|call| call.which.1 == end);
        (many >= MOST).then(|| ends.map(|call| (call.process, call.which)).collect())
    }
}

/// The call with which most steps of each process end.
fn step_ends<'s>(calls: &[Made], steps: impl Fn(u32) -> Option<&'s Own>) -> BTreeMap<u32, Which> {
    let mut all: BTreeMap<u32, Vec<Which>> = BTreeMap::new();
    for call in calls {
        all.entry(call.process).or_default().push(call.which);
    }
    let most = all.into_iter().filter_map(|(process, calls)| {
        let own = steps(process)?;
        let before = usize::try_from(own.made).ok()?.checked_sub(calls.len())?;
        let mut counts: BTreeMap<Which, usize> = BTreeMap::new();
        for &end in &own.ends {
            let at = usize::try_from(end).ok()?.checked_sub(before + 1);
            if let Some(which) = at.and_then(|at| calls.get(at)) {
                *counts.entry(*which).or_default() += 1;
            }
        }
        let known: usize = counts.values().sum();
        let (which, _) = counts.into_iter().max_by_key(|(_, many)| *many)?;
        (known >= STEPS).then_some((process, which))
    });
    most.collect()
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

/// Why one is taken to have stopped: nothing more was written while the log was watched.
pub(crate) const WATCHED: &str = "no rank wrote anything more while the log was watched, and no other rank is \
                                  in the middle of a step";

/// The others went on without it.
pub(crate) const SILENT: &str = "no line reports a failure, but the others went on without it, and no rank was \
                                 silent for as long in the middle of a step before";

/// Connections to a process were lost.
pub(crate) const DEAD: &str = "connections to a process that ended were lost, and all other ranks wait in the same \
                               call; a rank that dies may be ahead of those that wait for it";

/// The finding on the process that alone stopped.
pub(crate) fn finding(
    process: u32,
    last: &LastCalls<'_>,
    names: Names<'_>,
    why: &str,
) -> Option<Finding> {
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
        why: why.to_owned(),
        advice: "look at this process first: its own output, its host (dmesg), a stack if it is still there \
                 (py-spy dump)"
            .to_owned(),
        evidence: vec![spot(call)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls as (process, mark); a process's step ends with every call of its mark in `ends`. The process that
    /// stopped, and the one in the middle of a step.
    fn both(
        calls: impl IntoIterator<Item = (u32, u64)>,
        ends: &[u64],
    ) -> (Option<u32>, Option<u32>) {
        let last = |(stream, mark)| Last {
            input: 0,
            stream,
            seq: 0,
            mark,
        };
        let calls: Vec<Last> = calls.into_iter().map(last).collect();
        let own = |process: u32| {
            let own = calls.iter().filter(|call| call.stream == process);
            let is_end = |call: &Last| ends.get(process as usize) == Some(&call.mark);
            let ends = (1..).zip(own.clone());
            Own {
                made: own.count() as u64,
                ends: ends.filter(|(_, c)| is_end(c)).map(|(n, _)| n).collect(),
            }
        };
        let steps: Vec<Own> = (0..8).map(own).collect();
        let steps = |_, process: u32| steps.get(process as usize);
        let tail = Tail {
            calls: calls.clone(),
            steps: Box::new(steps),
            process_of: Box::new(Some),
            job_of: Box::new(|_| 0),
        };
        let alone = tail.alone().get(&0).map(|lone| lone.process);
        (alone, tail.in_the_middle().get(&0).copied())
    }

    fn told(calls: impl IntoIterator<Item = (u32, u64)>, ends: &[u64]) -> Option<u32> {
        both(calls, ends).0
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
        assert_eq!(told(hung.clone().chain(on.clone()), &[]), Some(3));
        // Who is steps behind, at the end of one, waits too.
        let late = hung.clone().chain(on.clone());
        let late = late.chain(step().filter(|(rank, _)| *rank != 3 && *rank != 0));
        assert_eq!(both(late, &[]), (Some(3), Some(3)));
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
        let steps = |n: usize| (0..n).flat_map(move |_| step());
        assert_eq!(told(steps(8), &[3, 1]), None);
        // The second stops after a call, and the first goes on to the end of its step.
        let hung = || steps(8).chain([(0, 0), (1, 4), (0, 1), (0, 2), (0, 3)]);
        assert_eq!(told(hung(), &[3, 1]), Some(1));
        // It is at the end of its step, or the first is not: the log only ends there.
        let at_end = steps(8).chain([(0, 0), (0, 1), (0, 2), (0, 3)]);
        assert_eq!(told(at_end, &[3, 1]), None);
        assert_eq!(told(hung().take(68), &[3, 1]), None);
    }
}
