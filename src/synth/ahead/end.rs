//! How a job ends that comes to no end of its own.

use crate::ahead::pace::Pace;
use crate::error::Result;
use crate::fault::{self, Pending, Watch};
use crate::job::Job;
use crate::options::{End, Options, Trainer};
use crate::run::{Programs, Run};

/// All processes are stopped at a moment that nothing in the job foretells.
#[derive(Debug)]
pub(super) struct Stop {
    /// In which step of the rank that prints.
    step: u64,
    /// It has begun.
    begun: bool,
    /// How many calls all ranks make from there on.
    calls: usize,
}

impl Stop {
    /// None for a life that goes on to its end.
    pub(super) fn of(
        options: &Options,
        segment: u64,
        programs: &Programs,
        pace: &mut Pace,
    ) -> Option<Stop> {
        let (first, last) = (options.first(), options.first() + options.steps - 1);
        let step = match options.restart_at {
            Some(at) if segment == 0 => (at + 1).min(last),
            _ if options.end == End::Whole => return None,
            // Behind the first third, and not so late that no call would be left to make.
            _ => {
                let from = (options.steps / 3) as usize;
                let left = (options.steps as usize).saturating_sub(from + 4);
                (first + (from + pace.below(left + 1)) as u64).min(last)
            }
        };
        let calls: usize = programs.train.iter().map(Vec::len).sum();
        Some(Stop {
            step,
            begun: false,
            calls: 1 + pace.below(calls / 2),
        })
    }

    /// The rank that prints begins a step.
    pub(super) fn begins(&mut self, step: u64) {
        self.begun |= step >= self.step;
    }

    /// A rank has made a call.
    pub(super) fn called(&mut self) {
        self.calls = self.calls.saturating_sub(usize::from(self.begun));
    }

    /// The moment has come.
    pub(super) fn is_now(&self) -> bool {
        self.calls == 0
    }
}

impl Run<'_> {
    /// Every call is seen from the beginning on.
    pub(super) fn watch(&mut self) {
        let mut watch = Watch::new(self.plan.as_ref());
        watch.live = true;
        self.mixer.watch = Some(watch);
    }

    /// What is wrong goes into the truth, and PyTorch says of a hang what it knows.
    pub(super) fn report(
        &mut self,
        job: &Job,
        pending: &Pending<'_>,
        alive: &[bool],
        hangs: bool,
    ) -> Result<()> {
        let (Some(plan), Some(watch)) = (self.plan, self.mixer.watch.take()) else {
            return Ok(());
        };
        let (truth, options) = (&mut self.mixer.truth, self.options);
        let row = fault::row(&plan, &watch, job, &truth.communicators, options, hangs);
        truth.fault = Some(row);
        let speaks = options.fault.and_then(|fault| fault.watchdog);
        if hangs && speaks.unwrap_or(options.trainer != Trainer::None) {
            self.watchdog(job, &watch, pending, &|rank: usize| alive[rank])?;
        }
        Ok(())
    }

    /// What is left in the log of a job whose processes were stopped.
    pub(super) fn stopped(&mut self) -> Result<()> {
        match self.options.end {
            End::Cancelled => {
                let clock = &self.mixer.clock;
                let text = format!(
                    "slurmstepd: error: *** STEP 48213.0 ON {} CANCELLED AT {}T{} DUE TO TIME LIMIT ***",
                    self.mixer.job.procs[0].host,
                    clock.date(),
                    clock.time()
                );
                self.say(0, &text)
            }
            End::Cut => self.mixer.cut(),
            End::Whole | End::Killed => Ok(()),
        }
    }
}
