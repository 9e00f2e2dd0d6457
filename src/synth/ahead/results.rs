//! Reads the results of a host's calls and prints its lines at the end of an item.

use super::{HostActivity, LifeSimulation};
use crate::ahead::pace::AgendaEvent;
use crate::error::Result;
use crate::job::schedule::ProgramStretch;
use crate::options::SynthTrainer;
use crate::run::{SynthRun, mean_facts};
use crate::trainer::{StepFacts, events};

impl LifeSimulation<'_, '_, '_> {
    /// Reads the results of the calls, if the item reads any.
    pub(super) fn read_results(&mut self, rank: usize) -> Result<()> {
        let Some(item) = self.current_item(rank) else {
            return Ok(());
        };
        let late = self.run.options.trainer == SynthTrainer::Maxtext;
        let host = &self.hosts[rank];
        let needs = match item.stretch {
            ProgramStretch::Train if !self.run.prints_steps(rank) => 0,
            ProgramStretch::Train if late => host.before,
            ProgramStretch::Train if self.run.printer.prints_after(item.step) => host.works,
            _ if item.reads => host.works,
            _ => 0,
        };
        if self.wait_for_works(rank, needs) {
            return Ok(());
        }
        if needs == 0 {
            return self.finish_item(rank);
        }
        // Meanwhile others begin the next step.
        self.hosts[rank].doing = HostActivity::Prints;
        let us = self.mean_call_us(item, rank);
        let us = self.pace.host_call_us(rank, 4.0 * us);
        self.agenda.schedule(us, AgendaEvent::Host(rank));
        Ok(())
    }

    /// Ends the item and prints its lines.
    pub(super) fn finish_item(&mut self, rank: usize) -> Result<()> {
        let Some(item) = self.current_item(rank) else {
            return Ok(());
        };
        match item.stretch {
            ProgramStretch::Train => self.print_step_line(rank, item.step)?,
            ProgramStretch::Eval => {
                let (options, clock) = (self.run.options, &self.run.mixer.clock);
                let said = events::evaluation_lines(options, item.step, item.batch, clock);
                for (_, text) in said.iter().filter(|(who, _)| *who == rank) {
                    self.run.print_text_line(rank, text)?;
                }
                self.hosts[rank].evaluated = true;
            }
            ProgramStretch::Checkpoint => {
                let said = events::save_lines(self.run.options, item.step).1;
                for (_, text) in said.iter().filter(|(who, _)| *who == rank) {
                    self.run.print_text_line(rank, text)?;
                }
            }
            ProgramStretch::Tail => {}
        }
        let host = &mut self.hosts[rank];
        (host.item, host.doing) = (host.item + 1, HostActivity::Begins);
        let us = self.pace.small_delay_us();
        self.agenda.schedule(us, AgendaEvent::Host(rank));
        Ok(())
    }

    /// Prints the step line of a host that prints any.
    fn print_step_line(&mut self, rank: usize, step: u64) -> Result<()> {
        if !self.run.prints_steps(rank) {
            return Ok(());
        }
        let (segment, last) = (
            self.job.segment,
            self.run.options.first_step() + self.run.options.steps - 1,
        );
        let facts = self.run.printer.draw_facts(step, segment);
        let host = &mut self.hosts[rank];
        host.since.push(facts);
        let mut lines: Vec<(StepFacts, u64)> = Vec::new();
        if self.run.options.trainer == SynthTrainer::Maxtext {
            lines.extend(host.queued.replace(facts).map(|facts| (facts, 1)));
            if step == last {
                lines.extend(host.queued.take().map(|facts| (facts, 1)));
            }
        } else if self.run.printer.prints_after(step) {
            let mut mean = mean_facts(&host.since, step);
            mean.evaluated = host.evaluated;
            lines.push((mean, host.since.len() as u64));
        }
        if !lines.is_empty() {
            host.since.clear();
        }
        for (facts, covered) in lines {
            let run = &mut *self.run;
            let mut printed = run.printer.print_step(&facts, &run.mixer.clock);
            printed.lines.retain(|line| line.rank == rank);
            run.print_step(&printed, facts.step, None)?;
            if rank == run.printer.marker_rank() && !run.silent {
                let (time, tflops) = (printed.time_s, printed.tflops);
                let truth = &mut run.mixer.truth;
                truth.close_step(segment, facts.step, covered, time, tflops);
            }
        }
        Ok(())
    }
}

impl SynthRun<'_> {
    /// True for ranks that print step lines.
    fn prints_steps(&self, rank: usize) -> bool {
        let o = self.options;
        rank == self.printer.marker_rank()
            || o.every_rank
            || (o.trainer == SynthTrainer::MegatronBridge && rank == 0)
    }
}
