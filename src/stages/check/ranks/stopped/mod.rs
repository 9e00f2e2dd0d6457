//! Whether ranks stopped, or only the log ends.
//!
//! In the middle of a job ranks are at different calls, and a log that was cut, copied, or ended with
//! its job shows just that: to be behind is no fault. A job stopped where
//!
//! - a line reports a failure: PyTorch's watchdog, a WARN, an exception, a launcher; or
//! - one rank holds up all others, and is further behind and silent for longer than any was before
//!   ([`unusual_lag`]); or
//! - some ranks are whole steps apart from the others, and were not before ([`whole_steps`]), or the
//!   rank that prints the step lines made no call in one of them; or
//! - the order of lines is not known (a file for each rank), and one rank alone is far behind
//!   others that are all at the same call.
//!
//! Where the log is of a job that runs, its end is no evidence at all.

pub(super) mod lone_stop;
mod made;
pub(super) mod step_lines;
pub(super) mod unusual_lag;
pub(super) mod whole_steps;

use super::deadlock::Met;
use crate::stages::check::log::job_spans::Silence;
use crate::stages::check::streams::compare::{Apart, Ranked};
use crate::stages::check::streams::step_ends::StepEnds;
use crate::stages::communicators::{Found, State};
use crate::stages::net::all::First;
use std::collections::BTreeMap;
use whole_steps::Uneven;

/// By so many calls is a rank far behind.
const FAR: u64 = 4;

/// So many others at one and the same call do not come there by chance.
const MOST: usize = 5;

/// What shows that a job stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A line reports a failure.
    Failed,
    /// One rank is behind all others, further and for longer than any was before.
    Silent,
    /// Some ranks ran whole steps more or less than the others, and all are at the end of a step.
    Steps,
    /// Who is behind ended its communicators in order.
    Ended,
    /// One rank is behind others that are all at the same call.
    Alone,
    /// Nothing more was written while the log was watched.
    Stalled,
}

/// What is known of the job beside its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Now {
    /// Nothing: the end of the log may be the end of the job, or a copy was made while it ran.
    #[default]
    Unknown,
    /// It was running when the log was read, so the end of the log shows nothing.
    Running,
    /// Its log was watched, and nothing more was written for long.
    Stalled,
}

/// What is known of how the jobs of a log end.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Lines that report a failure.
    pub(crate) lines: Vec<First>,
    /// The first line of each process that has one.
    pub(crate) begins: BTreeMap<u32, First>,
    /// What is known of the job beside its log.
    pub(crate) now: Now,
}

/// Tells jobs that stopped from such that the log only ends for.
#[derive(Clone, Copy)]
pub(crate) struct Stops<'a> {
    pub(crate) found: &'a Found,
    pub(crate) silence: &'a Silence,
    pub(crate) failures: &'a Failures,
    pub(crate) lags: &'a Met,
    /// Where each process's own steps end.
    pub(crate) steps: &'a StepEnds,
    /// By job, the process that alone is in the middle of a step.
    pub(crate) middle: &'a BTreeMap<u32, u32>,
    /// The step lines end with the last step that they announce.
    pub(crate) is_last_step: bool,
}

impl Stops<'_> {
    /// The job of a process.
    pub(crate) fn job(&self, process: u32) -> u32 {
        self.silence.job(process)
    }

    /// The job of a communicator.
    pub(crate) fn job_of(&self, communicator: usize) -> Option<u32> {
        let side = *self.found.communicators[communicator].sides.first()?;
        Some(self.job(self.found.sides[side].process))
    }

    /// What shows that a job stopped, where `laggards` of its processes are behind some others and
    /// ahead of none, and `apart` are the communicators on which any are.
    pub(crate) fn stop(&self, job: u32, laggards: &[u32], apart: &[&Apart]) -> Option<Stop> {
        if self.is_failed(job) {
            return Some(Stop::Failed);
        }
        if self.failures.now == Now::Running {
            return None;
        }
        let apart = apart
            .iter()
            .filter(|a| self.job_of(a.communicator) == Some(job))
            .copied();
        let is_ordered = self.silence.is_ordered(job);
        // Who prints waits for its GPU at the end of each step, and the others do not.
        let may_wait = !is_ordered && laggards.iter().any(|&process| self.may_print(process));
        let uneven = self.uneven(apart.clone()).filter(|_| !may_wait);
        let skipped = |&process: &u32| self.has_skipped(process);
        if uneven.is_some_and(|sides| sides.is_stop || laggards.iter().any(skipped)) {
            return Some(Stop::Steps);
        }
        if apart.clone().any(|apart| self.has_ended(laggards, apart)) {
            return Some(Stop::Ended);
        }
        match is_ordered {
            true => self.silent(laggards, apart),
            false if may_wait => None,
            false => self.alone(laggards, apart),
        }
    }

    /// True for the first and the last rank of a job: trainers print their step lines on one of them.
    fn may_print(&self, process: u32) -> bool {
        let worlds = self.found.communicators.iter().filter(|c| c.place.is_all());
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
    pub(crate) fn has_skipped(&self, process: u32) -> bool {
        self.steps.skipped.contains(&process)
    }

    fn has_ended(&self, laggards: &[u32], apart: &Apart) -> bool {
        let most = apart.members.iter().map(|m| m.before).max();
        apart.members.iter().any(|member| {
            let side = &self.found.sides[member.side];
            let is_behind = Some(member.before) < most && laggards.contains(&side.process);
            is_behind && side.state == State::Destroyed
        })
    }

    /// The two sides of a job whose data is uneven.
    pub(crate) fn uneven<'a>(&self, mut apart: impl Iterator<Item = &'a Apart>) -> Option<&Uneven> {
        apart.find_map(|apart| self.lags.uneven(apart.communicator))
    }

    /// One is behind all others, and on its communicators further and for longer than any was before.
    fn silent<'a>(&self, laggards: &[u32], apart: impl Iterator<Item = &'a Apart>) -> Option<Stop> {
        let [laggard] = laggards else { return None };
        // Who is at the end of a step waits, for the one that is not.
        let middle = self.middle.get(&self.job(*laggard));
        if middle.is_some_and(|process| process != laggard) {
            return None;
        }
        let is_it = |member: &Ranked| self.found.sides[member.side].process == *laggard;
        let mut own = apart
            .filter(|apart| apart.members.iter().any(is_it))
            .filter_map(|apart| self.lags.is_stopped(apart.communicator));
        (own.next() == Some(true) && own.all(|stopped| stopped)).then_some(Stop::Silent)
    }

    /// One alone is behind, and far, where all others are at the same call, on each of their communicators.
    fn alone<'a>(&self, laggards: &[u32], apart: impl Iterator<Item = &'a Apart>) -> Option<Stop> {
        let [laggard] = laggards else { return None };
        let is_it = |member: &Ranked| self.found.sides[member.side].process == *laggard;
        let mut is_far = false;
        for apart in apart {
            let (it, others): (Vec<Ranked>, Vec<Ranked>) =
                apart.members.iter().partition(|m| is_it(m));
            let (it, first) = (it.first()?, others.first()?);
            if others.iter().any(|other| other.before != first.before) {
                return None;
            }
            is_far |= others.len() >= MOST && first.before >= it.before + FAR;
        }
        is_far.then_some(Stop::Alone)
    }

    /// A line reports a failure of this job, and of no attempt before or after it.
    fn is_failed(&self, job: u32) -> bool {
        let others: Vec<u32> = self.silence.jobs().filter(|&other| other != job).collect();
        self.failures.lines.iter().any(|&line| {
            let begun = |job: u32| {
                let begins = self.failures.begins.iter();
                let own = begins.filter(|(process, at)| {
                    at.input == line.input && self.silence.job(**process) == job
                });
                own.map(|(_, at)| *at).min().is_some_and(|at| at <= line)
            };
            let next = |&&other: &&u32| self.silence.is_before(job, other);
            let over = others.iter().filter(next).any(|&other| begun(other));
            let before = |&&other: &&u32| self.silence.is_before(other, job);
            let yet = others.iter().any(|other| before(&other)) && !begun(job);
            !over && !yet
        })
    }
}
