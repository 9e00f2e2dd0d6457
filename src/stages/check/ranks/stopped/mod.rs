//! Whether ranks stopped, or only the log ends.
//!
//! In the middle of a job ranks are at different calls, and a log that was cut, copied, or ended with
//! its job shows just that: to be behind is no fault. A job stopped where
//!
//! - a line reports a failure: PyTorch's watchdog, a WARN, an exception, a launcher; or
//! - one rank alone is in the middle of a step, and silent for longer than any was there before
//!   ([`lone_stop`]); or
//! - one rank holds up all others, and is further behind and silent for longer than any was before,
//!   at calls that it made several times ([`unusual_lag`]); or
//! - some ranks are whole steps apart from the others, and were not before ([`whole_steps`]), or the
//!   rank that prints the step lines made no call in one of them; or
//! - the order of lines is not known (a file for each rank), and one rank alone is far behind
//!   others that are all at the same call.
//!
//! The end of a log shows nothing while its job runs.

mod call_counts;
pub(super) mod lone_stop;
pub(super) mod step_lines;
pub(super) mod unusual_lag;
pub(super) mod whole_steps;

use super::deadlock::Rendezvous;
use crate::stages::check::log::job_processes::JobProcesses;
use crate::stages::check::log::job_spans::JobCallSpans;
use crate::stages::check::ranks::limits::{MIN_CALLS_FAR_BEHIND, MIN_OTHERS_TOGETHER};
use crate::stages::check::streams::compare::{CommMember, DifferingComm};
use crate::stages::check::streams::step_ends::InputStepEnds;
use crate::stages::check::walk::WalkedInput;
use crate::stages::communicators::CommunicatorsSummary;
use crate::stages::net::net_stage::FirstReportLine;
use lone_stop::MidStepRanks;
use std::collections::BTreeMap;
use whole_steps::UnevenSides;

/// What shows that a job stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopEvidence {
    /// A line reports a failure.
    Failed,
    /// One rank is behind all others, further and for longer than any was before.
    Silent,
    /// Some ranks ran whole steps more or less than the others, and all are at the end of a step.
    Steps,
    /// The ranks behind ended their communicators in order.
    Ended,
    /// One rank is behind others that are all at the same call.
    Alone,
    /// Nothing more was written while the log was watched.
    Stalled,
}

/// The state of the job, from outside its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JobLiveness {
    /// Nothing: the end of the log may be the end of the job, or a copy was made while it ran.
    #[default]
    Unknown,
    /// It was running when the log was read, so the end of the log shows nothing.
    Running,
    /// Its log was watched, and nothing more was written for long.
    Stalled,
}

/// How the jobs of a log end.
#[derive(Debug, Default)]
pub(crate) struct JobFailures {
    /// Lines that report a failure.
    pub(crate) lines: Vec<FirstReportLine>,
    /// The first line of each process that has one.
    pub(crate) begins: BTreeMap<u32, FirstReportLine>,
    /// The state of the job, from outside its log.
    pub(crate) now: JobLiveness,
}

/// Distinguishes jobs that stopped from jobs with a log that merely ends.
#[derive(Clone, Copy)]
pub(crate) struct StopDetector<'a> {
    pub(crate) found: &'a CommunicatorsSummary,
    pub(crate) silence: &'a JobCallSpans,
    pub(crate) ranks: &'a JobProcesses,
    pub(crate) failures: &'a JobFailures,
    pub(crate) lags: &'a Rendezvous,
    /// Where each process's own steps end.
    pub(crate) steps: &'a InputStepEnds,
    pub(crate) middle: &'a MidStepRanks,
    /// The inputs, with their step lines.
    pub(crate) walked: &'a [WalkedInput],
}

impl StopDetector<'_> {
    /// True if the step lines end with the last step that they announce.
    pub(crate) fn is_last_step(&self) -> bool {
        self.walked.iter().any(WalkedInput::ends_with_last_step)
    }

    /// Returns the last step of a process's attempt in an input; where the input has no step lines, that of all inputs
    /// of its job that have some. Where step numbers fall within the attempt, the last step may be of another one.
    pub(crate) fn last_step_of_process(&self, process: u32, input: u32) -> Option<u64> {
        let job = self.job_of_process(process);
        let is_next = |other| self.silence.is_before(job, other);
        let (begin, end) = self.ranks.lines_of_job(job, input, is_next);
        let own = self.walked.get(input as usize)?;
        if own.last_step_number().is_some() {
            let fall = own.first_step_fall();
            let fall = fall.and_then(|lines| lines.first().copied());
            let is_whole = fall.is_none_or(|line| line <= begin || end <= line);
            return own.last_step_between(begin, end).filter(|_| is_whole);
        }
        let is_own = |input| {
            let line = u64::MAX;
            self.ranks.has_begun(job, FirstReportLine { input, line })
        };
        let others = (0..).zip(self.walked).filter(|(input, _)| is_own(*input));
        let with_steps = others.filter(|(_, input)| input.last_step_number().is_some());
        let mut last = with_steps.map(|(_, input)| {
            let falls = input.first_step_fall().is_some();
            input.last_step_number().filter(|_| !falls)
        });
        let first = last.next()??;
        last.all(|step| step == Some(first)).then_some(first)
    }

    /// The job of a process.
    pub(crate) fn job_of_process(&self, process: u32) -> u32 {
        self.silence.job_of_process(process)
    }

    /// The job of a communicator.
    pub(crate) fn job_of_communicator(&self, communicator: usize) -> Option<u32> {
        let side = *self.found.communicators[communicator].sides.first()?;
        Some(self.job_of_process(self.found.sides[side].process))
    }

    /// Returns what shows that a job stopped. `laggards` are its processes that are behind some
    /// others and ahead of none, `apart` the communicators on which any are.
    pub(crate) fn find_stop(
        &self,
        job: u32,
        laggards: &[u32],
        apart: &[&DifferingComm],
    ) -> Option<StopEvidence> {
        if self.has_failed_job(job) {
            return Some(StopEvidence::Failed);
        }
        if self.failures.now == JobLiveness::Running {
            return None;
        }
        let apart = apart
            .iter()
            .filter(|a| self.job_of_communicator(a.communicator) == Some(job))
            .copied();
        let is_ordered = self.silence.is_ordered(job);
        // The rank that prints waits for its GPU at the end of each step, and the others do not.
        let may_wait = !is_ordered
            && laggards
                .iter()
                .any(|&process| self.may_print_steps(process));
        // In an evaluation ranks lag by whole rounds of it, which are no steps.
        let is_within = |process| self.middle.within.contains(process);
        let is_between = !may_wait && !laggards.iter().any(is_within);
        let uneven = self.uneven_job_sides(apart.clone()).filter(|_| is_between);
        let skipped = |&process: &u32| self.has_skipped_step(process);
        if uneven.is_some_and(|sides| sides.is_stop(is_ordered) || laggards.iter().any(skipped)) {
            return Some(StopEvidence::Steps);
        }
        if apart
            .clone()
            .any(|apart| self.has_ended_behind(laggards, apart))
        {
            return Some(StopEvidence::Ended);
        }
        match is_ordered {
            true => self.find_silent_laggard(laggards, apart),
            false if may_wait => None,
            false => self.find_lone_laggard(laggards, apart),
        }
    }

    /// True for the rank that prints the step lines; where no step line is known, for each that may.
    pub(crate) fn prints_steps(&self, process: u32) -> bool {
        let printers = &self.steps.printers;
        printers.contains(&process) || printers.is_empty() && self.may_print_steps(process)
    }

    /// True for the first and the last rank of a job: trainers print their step lines on one of them.
    fn may_print_steps(&self, process: u32) -> bool {
        let worlds = self
            .found
            .communicators
            .iter()
            .filter(|c| c.place.has_all_job_ranks());
        let mut sides = worlds.flat_map(|world| {
            let sides = world.sides.iter().map(|&side| &self.found.sides[side]);
            sides.map(|side| (side, world.nranks))
        });
        sides.any(|(side, nranks)| {
            let is_end = side.rank == Some(0) || side.rank.map(|rank| rank + 1) == nranks;
            side.process == process && is_end
        })
    }

    /// True for the rank that prints the step lines where it made no call in one of the steps.
    pub(crate) fn has_skipped_step(&self, process: u32) -> bool {
        self.steps.skipped.contains(&process)
    }

    fn has_ended_behind(&self, laggards: &[u32], apart: &DifferingComm) -> bool {
        let most = apart.members.iter().map(|m| m.before).max();
        apart.members.iter().any(|member| {
            let side = &self.found.sides[member.side];
            let is_behind = Some(member.before) < most && laggards.contains(&side.process);
            is_behind && side.state.is_ended_in_order()
        })
    }

    /// Returns the two sides of a job with uneven data.
    pub(crate) fn uneven_job_sides<'a>(
        &self,
        mut apart: impl Iterator<Item = &'a DifferingComm>,
    ) -> Option<&UnevenSides> {
        apart.find_map(|apart| self.lags.uneven_sides_of(apart.communicator))
    }

    /// Judges a single laggard: on its communicators it is further behind, and for longer, than any
    /// was before.
    fn find_silent_laggard<'a>(
        &self,
        laggards: &[u32],
        apart: impl Iterator<Item = &'a DifferingComm>,
    ) -> Option<StopEvidence> {
        let [laggard] = laggards else { return None };
        // A rank at the end of a step waits for the one that is not.
        let middle = self.middle.alone.get(&self.job_of_process(*laggard));
        if middle.is_some_and(|process| process != laggard) {
            return None;
        }
        let is_it = |member: &CommMember| self.found.sides[member.side].process == *laggard;
        let mut own = apart
            .filter(|apart| apart.members.iter().any(is_it))
            .filter_map(|apart| self.lags.has_stopped(apart.communicator));
        (own.next() == Some(true) && own.all(|stopped| stopped)).then_some(StopEvidence::Silent)
    }

    /// Judges a single laggard that is far behind, with all others at the same call on each
    /// communicator.
    fn find_lone_laggard<'a>(
        &self,
        laggards: &[u32],
        apart: impl Iterator<Item = &'a DifferingComm>,
    ) -> Option<StopEvidence> {
        let [laggard] = laggards else { return None };
        let is_it = |member: &CommMember| self.found.sides[member.side].process == *laggard;
        let mut is_far = false;
        for apart in apart {
            let (it, others): (Vec<CommMember>, Vec<CommMember>) =
                apart.members.iter().partition(|m| is_it(m));
            let (it, first) = (it.first()?, others.first()?);
            if others.iter().any(|other| other.before != first.before) {
                return None;
            }
            is_far |= others.len() >= MIN_OTHERS_TOGETHER
                && first.before >= it.before + MIN_CALLS_FAR_BEHIND;
        }
        // That it was watched shows that the log is no copy of a job that ran on.
        is_far.then_some(match self.failures.now {
            JobLiveness::Stalled => StopEvidence::Stalled,
            JobLiveness::Unknown | JobLiveness::Running => StopEvidence::Alone,
        })
    }

    /// A line reports a failure of this job, and of no attempt before or after it. A line before the first one of
    /// NCCL's, as in a launcher's own file, may be of any.
    fn has_failed_job(&self, job: u32) -> bool {
        self.failures.lines.iter().any(|&line| {
            self.ranks.job_at(line).is_none_or(|at| {
                let is_beside = || !self.silence.is_before(job, at);
                at == job || self.ranks.has_begun(job, line) && is_beside()
            })
        })
    }
}
