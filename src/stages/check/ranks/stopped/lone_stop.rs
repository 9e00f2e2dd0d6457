//! One rank that stopped in the middle of a step while all others went on to the end of theirs.
//!
//! A host process that waits for its GPU is at the end of a step, as far ahead as it may be. In a
//! job that hangs, all processes but one are there, and some may be a step behind the one that
//! stopped, so the fewest calls mean little. In a job that was killed, ranks are anywhere, and the
//! last one on its way to the end of its step still makes calls. So the others must have gone on
//! without the one, and it must be silent for longer than ever before in the middle of a step. A
//! wait at the end of a step may have any length.
//!
//! The call at the end of a step is each process's own: the stages of a pipeline end with different
//! ones. It is the call with which most of its steps end. Without step lines, many others must have
//! come to one and the same call.

use crate::stages::check::finding::{About, Confidence, Finding, Kind};
use crate::stages::check::log::job_spans::JobCallSpans;
use crate::stages::check::ranks::last_calls::{LastCall, LastCallByProcess};
use crate::stages::check::ranks::limits::{
    MIN_CALLS_OF_LONE_RANK, MIN_OTHERS_AT_SAME_CALL, MIN_STEPS_OF_LONE_RANK,
};
use crate::stages::check::ranks::mismatch::show_call;
use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::streams::last_calls::LastStreamCall;
use crate::stages::check::streams::step_ends::ProcessStepEnds;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// How it is known with which calls the processes end their steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepEndSource {
    /// The steps are those of step lines.
    Steps,
    /// Many others came to the same call.
    Call,
}

/// The process that alone stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoneStop {
    pub(crate) process: u32,
    /// By its steps, it was silent for more than twice as long as ever: no cut's doing.
    pub(crate) is_long: bool,
}

/// The processes in the middle of a step.
#[derive(Debug, Default)]
pub(crate) struct MidStepRanks {
    /// By job, the one that alone is: all others wait for it, however far they came.
    pub(crate) alone: BTreeMap<u32, u32>,
    /// All of those with known ends of steps.
    pub(crate) within: BTreeSet<u32>,
}

/// A call is known by its stream and what it is there.
type StreamCall = (u32, u64);

/// A call of a job's.
#[derive(Clone, Copy)]
struct JobCall {
    process: u32,
    which: StreamCall,
}

/// Looks up the steps of a process in an input.
type ProcessStepsLookup<'s> = Box<dyn Fn(u32, u32) -> Option<&'s ProcessStepEnds> + 's>;

/// The process or call of a number.
type NumberLookup<'s, T> = Box<dyn Fn(u32) -> T + 's>;

/// The last calls to search, and their owners.
pub(crate) struct LoneStopSearch<'s> {
    pub(crate) calls: &'s [LastStreamCall],
    pub(crate) steps: ProcessStepsLookup<'s>,
    /// The process of a stream.
    pub(crate) process_of: NumberLookup<'s, Option<u32>>,
    pub(crate) spans: &'s JobCallSpans,
}

impl LoneStopSearch<'_> {
    /// The process of each job that alone stopped.
    pub(crate) fn find_lone_stops_by_job(&self) -> BTreeMap<u32, LoneStop> {
        self.search_each_job(|calls, input| {
            JobLastCalls::from_calls(calls).find_lone_stop(|process| (self.steps)(input, process))
        })
    }

    /// The processes that are in the middle of a step.
    pub(crate) fn find_mid_step_ranks(&self) -> MidStepRanks {
        let mut within = BTreeSet::new();
        let alone = self.search_each_job(|calls, input| {
            let ends = find_step_end_calls(calls, |process| (self.steps)(input, process));
            let job = JobLastCalls::from_calls(calls);
            let known = job.mid_step_ranks(&ends);
            within.extend(known.filter(|process| ends.contains_key(process)));
            let by_steps = job
                .find_lone_mid_step_rank(&ends)
                .filter(|_| ends.len() == job.last.len());
            by_steps.or_else(|| job.find_lone_mid_step_rank(&job.find_common_end()?))
        });
        MidStepRanks { alone, within }
    }

    /// Returns the lone stop of each job with ordered calls.
    fn search_each_job<T>(
        &self,
        mut find: impl FnMut(&[JobCall], u32) -> Option<T>,
    ) -> BTreeMap<u32, T> {
        let mut jobs: BTreeMap<u32, Vec<(JobCall, LastStreamCall)>> = BTreeMap::new();
        for call in self.calls {
            if let Some(process) = (self.process_of)(call.stream) {
                let made = JobCall {
                    process,
                    which: (call.stream, call.mark),
                };
                let job = self.spans.job_of_process(process);
                jobs.entry(job).or_default().push((made, *call));
            }
        }
        let ordered = jobs
            .into_iter()
            .filter(|(job, _)| self.spans.is_ordered(*job));
        let one = ordered.filter_map(|(job, calls)| {
            let input = calls.first()?.1.input;
            let made: Vec<JobCall> = calls.into_iter().map(|(made, _)| made).collect();
            Some((job, find(&made, input)?))
        });
        one.collect()
    }
}

/// One job's calls.
struct JobLastCalls<'c> {
    calls: &'c [JobCall],
    /// Each process's last.
    last: BTreeMap<u32, JobCall>,
}

impl JobLastCalls<'_> {
    fn from_calls(calls: &[JobCall]) -> JobLastCalls<'_> {
        let last = calls.iter().map(|call| (call.process, *call));
        let last = last.collect();
        JobLastCalls { calls, last }
    }

    /// The process that alone stopped.
    fn find_lone_stop<'s>(
        &self,
        steps: impl Fn(u32) -> Option<&'s ProcessStepEnds>,
    ) -> Option<LoneStop> {
        let by_steps = self.find_lone_stop_by_ends(
            &find_step_end_calls(self.calls, steps),
            StepEndSource::Steps,
        );
        by_steps
            .or_else(|| self.find_lone_stop_by_ends(&self.find_common_end()?, StepEndSource::Call))
    }

    /// The process that alone is not at the call at which it waits.
    fn find_lone_mid_step_rank(&self, ends: &BTreeMap<u32, StreamCall>) -> Option<u32> {
        let mut others = self.mid_step_ranks(ends);
        others.next().filter(|_| others.next().is_none())
    }

    /// The processes that are not at the calls at which they wait.
    fn mid_step_ranks(&self, ends: &BTreeMap<u32, StreamCall>) -> impl Iterator<Item = u32> {
        let is_at_end = |call: &JobCall| ends.get(&call.process) == Some(&call.which);
        let others = self.last.values().filter(move |call| !is_at_end(call));
        others.map(|call| call.process)
    }

    /// The process that alone stopped, where these are the calls at which the processes wait.
    fn find_lone_stop_by_ends(
        &self,
        ends: &BTreeMap<u32, StreamCall>,
        by: StepEndSource,
    ) -> Option<LoneStop> {
        let process = self.find_lone_mid_step_rank(ends)?;
        let paces = measure_paces(self.calls, ends);
        let own = paces.get(&process)?;
        let silence = self.calls.len() - own.last - 1;
        let others = paces.iter().filter(|(other, _)| **other != process);
        let longest = others.map(|(_, pace)| pace.longest).max()?;
        // More than its own: the silences of a healthy job are not all seen in its first steps.
        let is_longest = 4 * silence > 5 * own.longest && silence > longest;
        let is_long = by == StepEndSource::Steps && silence > 2 * own.longest;
        // The others did not only end the call that it is late for.
        let is_it = own.made >= MIN_CALLS_OF_LONE_RANK && silence + 1 >= self.last.len();
        (is_it && (is_long || is_longest)).then_some(LoneStop { process, is_long })
    }

    /// The call that all processes but one came to, where these are many: for each process its own.
    fn find_common_end(&self) -> Option<BTreeMap<u32, StreamCall>> {
        let mut marks: BTreeMap<u64, usize> = BTreeMap::new();
        for call in self.last.values() {
            *marks.entry(call.which.1).or_default() += 1;
        }
        let (&end, &many) = marks.iter().max_by_key(|(_, many)| **many)?;
        let ends = self.calls.iter().filter(|call| call.which.1 == end);
        (many >= MIN_OTHERS_AT_SAME_CALL)
            .then(|| ends.map(|call| (call.process, call.which)).collect())
    }
}

/// The call with which most steps of each process end.
fn find_step_end_calls<'s>(
    calls: &[JobCall],
    steps: impl Fn(u32) -> Option<&'s ProcessStepEnds>,
) -> BTreeMap<u32, StreamCall> {
    let mut all: BTreeMap<u32, Vec<StreamCall>> = BTreeMap::new();
    for call in calls {
        all.entry(call.process).or_default().push(call.which);
    }
    let most = all.into_iter().filter_map(|(process, calls)| {
        let own = steps(process)?;
        let before = usize::try_from(own.made).ok()?.checked_sub(calls.len())?;
        let mut counts: BTreeMap<StreamCall, usize> = BTreeMap::new();
        for &end in &own.ends {
            let at = usize::try_from(end).ok()?.checked_sub(before + 1);
            if let Some(which) = at.and_then(|at| calls.get(at)) {
                *counts.entry(*which).or_default() += 1;
            }
        }
        let known: usize = counts.values().sum();
        let (which, _) = counts.into_iter().max_by_key(|(_, many)| *many)?;
        (known >= MIN_STEPS_OF_LONE_RANK).then_some((process, which))
    });
    most.collect()
}

/// How a process makes its calls.
#[derive(Default)]
struct ProcessPace {
    made: usize,
    /// The place of its last call.
    last: usize,
    /// The most calls of others between two of its own in the middle of a step.
    longest: usize,
}

/// How each process makes its calls, where `ends` are those that end a step.
fn measure_paces(
    calls: &[JobCall],
    ends: &BTreeMap<u32, StreamCall>,
) -> FxHashMap<u32, ProcessPace> {
    let mut paces: FxHashMap<u32, ProcessPace> = FxHashMap::default();
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
pub(crate) const REASON_LOG_STALLED: &str = "no rank wrote anything more while the log was watched, and no other rank is \
                                  in the middle of a step";

/// The others went on without it.
pub(crate) const REASON_RANK_SILENT: &str = "no line reports a failure, but the others went on without it, and no rank was \
                                 silent for as long in the middle of a step before";

/// Connections to a process were lost.
pub(crate) const REASON_CONNECTIONS_LOST: &str = "connections to a process that ended were lost, and all other ranks wait in the same \
                               call; a rank that dies may be ahead of those that wait for it";

/// The finding on the process that alone stopped.
pub(crate) fn report_lone_stop(
    process: u32,
    last: &LastCallByProcess<'_>,
    names: RankNames<'_>,
    why: &str,
) -> Option<Finding> {
    let &LastCall {
        communicator,
        rank,
        call,
    } = last.get(&process)?;
    let named = &names.found.processes[process as usize];
    let mut sides = names.found.communicators[communicator].sides.iter();
    let side = *sides.find(|&&side| names.found.sides[side].process == process)?;
    let says = format!(
        "{} stopped in the middle of a step, and all other ranks of its job wait for it at the end of a \
         step; its last call is {}, call {} of communicator {}; it hangs, or its process is dead",
        names.describe_actor(side),
        names.describe_call_on(call, communicator),
        call.seq,
        names.describe_communicator(communicator),
    );
    Some(Finding {
        about: About {
            host: Some(named.host.clone()),
            pid: named.pid,
            rank,
            comm_id: names.communicator_id(communicator),
            seq: Some(call.seq),
            ..About::default()
        },
        why: why.to_owned(),
        advice:
            "look at this process first: its own output, its host (dmesg), a stack if it is still \
         there (py-spy dump)"
                .to_owned(),
        evidence: vec![show_call(call)],
        ..Finding::of_kind(Kind::RankBehind, Confidence::Medium, says)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::check::log::job_spans::JobsByProcess;

    /// Calls as (process, mark); a process's step ends with every call of its mark in `ends`. The process that
    /// stopped, and the one in the middle of a step.
    fn both(
        calls: impl IntoIterator<Item = (u32, u64)>,
        ends: &[u64],
    ) -> (Option<u32>, Option<u32>) {
        let last = |(stream, mark)| LastStreamCall {
            input: 0,
            stream,
            seq: 0,
            mark,
        };
        let calls: Vec<LastStreamCall> = calls.into_iter().map(last).collect();
        let own = |process: u32| {
            let own = calls.iter().filter(|call| call.stream == process);
            let is_end = |call: &LastStreamCall| ends.get(process as usize) == Some(&call.mark);
            let ends = (1..).zip(own.clone());
            ProcessStepEnds {
                made: own.count() as u64,
                ends: ends.filter(|(_, c)| is_end(c)).map(|(n, _)| n).collect(),
            }
        };
        let steps: Vec<ProcessStepEnds> = (0..8).map(own).collect();
        let steps = |_, process: u32| steps.get(process as usize);
        let mut spans = JobCallSpans::new(JobsByProcess::of_one_job(8));
        let each = calls.iter();
        each.for_each(|call| spans.count_call(call.stream, 0));
        let tail = LoneStopSearch {
            calls: &calls,
            steps: Box::new(steps),
            process_of: Box::new(Some),
            spans: &spans,
        };
        let alone = tail
            .find_lone_stops_by_job()
            .get(&0)
            .map(|lone| lone.process);
        (alone, tail.find_mid_step_ranks().alone.get(&0).copied())
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
        // A rank at the end of a step also waits, even whole steps behind.
        let late = hung.clone().chain(on.clone());
        let late = late.chain(step().filter(|(rank, _)| *rank != 3 && *rank != 0));
        assert_eq!(both(late, &[]), (Some(3), Some(3)));
        // Others that are anywhere.
        let cut = hung.chain(step().take(9));
        assert_eq!(told(cut, &[]), None);
        // There are too few to show its habits.
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
