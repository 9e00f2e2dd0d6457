//! How a job ends that comes to no end of its own.

use crate::ahead::pace::RankPaces;
use crate::error::Result;
use crate::fault::{self, CallCounter, PendingWorks};
use crate::job::SynthJob;
use crate::options::{Options, SynthEnd, SynthTrainer};
use crate::run::{StretchPrograms, SynthRun};

/// All processes are stopped at a moment that nothing in the job foretells.
#[derive(Debug)]
pub(super) struct KillMoment {
    /// In which step of the rank that prints.
    step: u64,
    /// It has begun.
    begun: bool,
    /// How many calls all ranks make from there on.
    calls: usize,
}

impl KillMoment {
    /// None for a life that goes on to its end.
    pub(super) fn draw_kill(
        options: &Options,
        segment: u64,
        programs: &StretchPrograms,
        pace: &mut RankPaces,
    ) -> Option<KillMoment> {
        let (first, last) = (
            options.first_step(),
            options.first_step() + options.steps - 1,
        );
        let step = match options.restart_at {
            Some(at) if segment == 0 => (at + 1).min(last),
            _ if options.end == SynthEnd::Whole => return None,
            // Behind the first third, and not so late that no call would be left to make.
            _ => {
                let from = (options.steps / 3) as usize;
                let left = (options.steps as usize).saturating_sub(from + 4);
                (first + (from + pace.below(left + 1)) as u64).min(last)
            }
        };
        let calls: usize = programs.train.iter().map(Vec::len).sum();
        Some(KillMoment {
            step,
            begun: false,
            calls: 1 + pace.below(calls / 2),
        })
    }

    /// The rank that prints begins a step.
    pub(super) fn note_step_begin(&mut self, step: u64) {
        self.begun |= step >= self.step;
    }

    /// A rank has made a call.
    pub(super) fn count_call(&mut self) {
        self.calls = self.calls.saturating_sub(usize::from(self.begun));
    }

    /// The moment has come.
    pub(super) fn is_reached(&self) -> bool {
        self.calls == 0
    }
}

impl SynthRun<'_> {
    /// Every call is seen from the beginning on.
    pub(super) fn start_counting(&mut self) {
        let mut watch = CallCounter::new(self.plan.as_ref());
        watch.live = true;
        self.mixer.watch = Some(watch);
    }

    /// Records the fault in the truth and writes PyTorch's lines about a hang.
    pub(super) fn report_fault(
        &mut self,
        job: &SynthJob,
        pending: &PendingWorks<'_>,
        alive: &[bool],
        hangs: bool,
    ) -> Result<()> {
        let (Some(plan), Some(watch)) = (self.plan, self.mixer.watch.take()) else {
            return Ok(());
        };
        let (truth, options) = (&mut self.mixer.truth, self.options);
        let row = fault::build_fault_row(&plan, &watch, job, &truth.communicators, options, hangs);
        truth.fault = Some(row);
        let speaks = options.fault.and_then(|fault| fault.watchdog);
        if hangs && speaks.unwrap_or(options.trainer != SynthTrainer::None) {
            self.print_watchdog(job, &watch, pending, &|rank: usize| alive[rank])?;
        }
        Ok(())
    }

    /// Writes the last lines of a job with stopped processes.
    pub(super) fn print_stopped(&mut self) -> Result<()> {
        match self.options.end {
            SynthEnd::Cancelled => {
                let clock = &self.mixer.clock;
                let text = format!(
                    "slurmstepd: error: *** STEP 48213.0 ON {} CANCELLED AT {}T{} DUE TO TIME LIMIT ***",
                    self.mixer.job.procs[0].host,
                    clock.date(),
                    clock.time()
                );
                self.print_text_line(0, &text)
            }
            SynthEnd::Cut => self.mixer.cut_log(),
            SynthEnd::Whole | SynthEnd::Killed => Ok(()),
        }
    }
}
