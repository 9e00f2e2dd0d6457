//! Ranks that run ahead of each other, as those of real jobs do: a simulation of events.
//!
//! A host hands its calls to its GPU in program order and at its own pace. It waits only where
//! real hosts wait: where it reads a value (the loss that it prints, an evaluation, a save), and
//! where it is as many steps ahead of its GPU as `--lead` allows. A GPU runs its works one after
//! the other, a collective once all members run theirs, a Send once its peer runs the Recv
//! ([`PendingWorks`]). A line is printed when its host makes the call.
//!
//! So a job with a wrong call goes on as far as it can, and hangs by itself.

mod kill;
mod pace;
mod results;
mod script;
#[cfg(test)]
mod tests;

use crate::ahead::kill::KillMoment;
use crate::ahead::pace::{AgendaEvent, EventAgenda, RankPaces};
use crate::ahead::script::{ScriptItem, build_script};
use crate::error::Result;
use crate::fault::{CallCounter, FaultKind, FaultPlan, PendingWorks};
use crate::job::SynthJob;
use crate::job::call::ScheduledCall;
use crate::job::schedule::ProgramStretch;
use crate::run::{StretchPrograms, SynthRun};
use crate::stream::mixer::ProgramCursor;
use crate::trainer::StepFacts;
use crate::trainer::events;
use std::collections::VecDeque;

/// How a life of the job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LifeEnding {
    /// All ranks made all their calls, and all calls ended.
    Whole,
    /// Nothing can go on any more.
    Hangs,
    /// All processes were stopped.
    Stopped,
}

/// The state of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostActivity {
    /// It is about to begin its item.
    Begins,
    /// It makes its calls.
    Calls,
    /// It has made them, and reads their results.
    Reads,
    /// It has read them, and is about to print.
    Prints,
    /// It has done all its items.
    Finished,
    /// It does nothing any more, in the middle of its items.
    Gone,
}

/// A rank's process.
#[derive(Debug)]
struct SimulatedHost {
    item: usize,
    doing: HostActivity,
    /// It waits for its GPU.
    blocked: bool,
    /// Works it handed over, and those of them that ended.
    works: u64,
    ended: u64,
    /// `works` at the end of each training step that may not have ended.
    marks: VecDeque<u64>,
    /// `works` at the end of the training step before.
    before: u64,
    /// Steps since its last step line.
    since: Vec<StepFacts>,
    /// MaxText: the step with a line that is not yet printed.
    queued: Option<StepFacts>,
    evaluated: bool,
}

/// From the start of the processes to their end.
struct LifeSimulation<'r, 'a, 'j> {
    run: &'r mut SynthRun<'a>,
    job: &'j SynthJob,
    lead: usize,
    script: Vec<ScriptItem>,
    /// The script of ranks that make another number of steps.
    uneven: Option<(Vec<usize>, Vec<ScriptItem>)>,
    /// The calls of the rank of the fault, in its step.
    wrong: Option<(FaultPlan, Vec<ScheduledCall>)>,
    hosts: Vec<SimulatedHost>,
    pending: PendingWorks<'j>,
    agenda: EventAgenda,
    pace: RankPaces,
    /// When it is killed.
    stop: Option<KillMoment>,
}

impl SynthRun<'_> {
    /// Runs a job with hosts that may be up to `lead` steps ahead of their GPUs.
    pub(crate) fn run_ahead(&mut self, lead: u64) -> Result<()> {
        self.mixer.truth.place_calls();
        let mut from = self.options.first_step();
        loop {
            self.start_processes()?;
            let job = self.mixer.job.clone();
            self.start_counting();
            let mut life = LifeSimulation::new(self, &job, lead as usize, from);
            let ending = life.simulate()?;
            let (pending, alive) = life.into_leftovers();
            if let Some(at) = self.options.restart_at
                && job.segment == 0
            {
                self.print_restart()?;
                from = self.options.resume_step(at);
                continue;
            }
            self.report_fault(&job, &pending, &alive, ending == LifeEnding::Hangs)?;
            match ending {
                LifeEnding::Whole if self.options.init => self.mixer.write_destroy_lines()?,
                LifeEnding::Stopped => self.print_stopped()?,
                _ => {}
            }
            return Ok(());
        }
    }
}

impl<'r, 'a, 'j> LifeSimulation<'r, 'a, 'j> {
    fn new(run: &'r mut SynthRun<'a>, job: &'j SynthJob, lead: usize, from: u64) -> Self {
        let options = run.options;
        let script = build_script(options, from);
        let (mut uneven, mut wrong) = (None, None);
        if let Some(plan) = run.plan {
            if plan.kind.is_of_steps() {
                let at = |item: &ScriptItem| {
                    item.stretch == ProgramStretch::Train && item.step == plan.step
                };
                let mut items = script.clone();
                if let Some(at) = items.iter().position(at) {
                    match plan.kind {
                        FaultKind::MoreSteps => items.insert(at, items[at]),
                        FaultKind::FewerSteps => {
                            items.remove(at);
                        }
                        FaultKind::LoneSave => items.insert(
                            at + 1,
                            ScriptItem {
                                stretch: ProgramStretch::Checkpoint,
                                reads: true,
                                ..items[at]
                            },
                        ),
                        _ => items[at].calls = false,
                    }
                }
                uneven = Some((plan.ranks_of_other_steps(options), items));
            } else {
                let mut calls = run.programs.train[plan.rank].clone();
                plan.edit_calls(job, &mut calls, &mut run.mixer.cells);
                wrong = Some((plan, calls));
            }
        }
        let hosts = (0..options.ranks).map(|_| SimulatedHost {
            item: 0,
            doing: HostActivity::Begins,
            blocked: false,
            works: 0,
            ended: 0,
            marks: VecDeque::new(),
            before: 0,
            since: Vec::new(),
            queued: None,
            evaluated: false,
        });
        let mut pace = RankPaces::new(options, job.segment);
        let stop = KillMoment::draw_kill(options, job.segment, &run.programs, &mut pace);
        run.mixer.cursors = vec![ProgramCursor::default(); options.ranks];
        Self {
            job,
            lead,
            script,
            uneven,
            wrong,
            hosts: hosts.collect(),
            pending: PendingWorks::new(job),
            agenda: EventAgenda::from(run.mixer.clock.us()),
            pace,
            stop,
            run,
        }
    }

    fn simulate(&mut self) -> Result<LifeEnding> {
        for rank in 0..self.hosts.len() {
            let us = self.pace.small_delay_us();
            self.agenda.schedule(us, AgendaEvent::Host(rank));
        }
        while let Some(event) = self.agenda.pop_next() {
            self.run.mixer.clock.advance_to(self.agenda.now);
            match event {
                AgendaEvent::Host(rank) => match self.hosts[rank].doing {
                    HostActivity::Begins => self.begin_item(rank)?,
                    HostActivity::Calls => self.make_next_call(rank)?,
                    HostActivity::Reads => self.read_results(rank)?,
                    HostActivity::Prints => self.finish_item(rank)?,
                    HostActivity::Finished | HostActivity::Gone => {}
                },
                AgendaEvent::Done(rank) => self.end_first_work(rank),
            }
            if self.stop.as_ref().is_some_and(KillMoment::is_reached) {
                return Ok(LifeEnding::Stopped);
            }
        }
        let whole = self.hosts.iter().all(|h| h.doing == HostActivity::Finished);
        Ok(if whole {
            LifeEnding::Whole
        } else {
            LifeEnding::Hangs
        })
    }

    /// Returns the works that run or wait at the end, and which processes are there.
    fn into_leftovers(self) -> (PendingWorks<'j>, Vec<bool>) {
        let dies = |plan: &FaultPlan| plan.kind == FaultKind::Die;
        let died = |doing| doing == HostActivity::Gone && self.run.plan.as_ref().is_some_and(dies);
        let there =
            |host: &SimulatedHost| host.doing != HostActivity::Finished && !died(host.doing);
        let alive = self.hosts.iter().map(there).collect();
        (self.pending, alive)
    }

    fn current_item(&self, rank: usize) -> Option<ScriptItem> {
        let script = match &self.uneven {
            Some((ranks, script)) if ranks.contains(&rank) => script,
            _ => &self.script,
        };
        script.get(self.hosts[rank].item).copied()
    }

    /// True for the item in which the rank's program is not as it should be.
    fn is_wrong(&self, rank: usize, item: ScriptItem) -> bool {
        self.wrong.as_ref().is_some_and(|(plan, _)| {
            item.stretch == ProgramStretch::Train && (plan.rank, plan.step) == (rank, item.step)
        })
    }

    /// Returns whether the host must wait until `works` of its works have ended.
    fn wait_for_works(&mut self, rank: usize, works: u64) -> bool {
        let host = &mut self.hosts[rank];
        host.blocked = host.ended < works;
        host.blocked
    }

    fn begin_item(&mut self, rank: usize) -> Result<()> {
        let Some(item) = self.current_item(rank) else {
            // A process ends when its GPU has nothing left to do.
            if !self.wait_for_works(rank, self.hosts[rank].works) {
                self.hosts[rank].doing = HostActivity::Finished;
            }
            return Ok(());
        };
        if item.stretch == ProgramStretch::Train {
            while self.hosts[rank].marks.len() > self.lead {
                let first = self.hosts[rank].marks[0];
                if self.wait_for_works(rank, first) {
                    return Ok(());
                }
                self.hosts[rank].marks.pop_front();
            }
            if let Some(stop) = &mut self.stop
                && rank == self.run.printer.marker_rank()
            {
                stop.note_step_begin(item.step);
            }
            let speaker = (item.step / 7) as usize % self.hosts.len();
            if item.step % 7 == 3 && rank == speaker {
                self.run
                    .print_text_line(rank, events::aside_line(item.step / 7))?;
            }
        }
        if item.stretch == ProgramStretch::Checkpoint {
            for (who, text) in events::save_lines(self.run.options, item.step).0 {
                if who == rank {
                    self.run.print_text_line(rank, &text)?;
                }
            }
        }
        let calls = calls_of_item(&self.run.programs, self.wrong.as_ref(), item, rank);
        self.run.mixer.cursors[rank] = ProgramCursor::new(calls, item.step);
        self.hosts[rank].doing = HostActivity::Calls;
        let us = self
            .pace
            .host_call_us(rank, 10.0 * self.mean_call_us(item, rank));
        self.agenda.schedule(us, AgendaEvent::Host(rank));
        Ok(())
    }

    /// Returns the mean time of a call of the item in microseconds.
    fn mean_call_us(&self, item: ScriptItem, rank: usize) -> f64 {
        let calls = calls_of_item(&self.run.programs, self.wrong.as_ref(), item, rank);
        let seconds = match item.stretch {
            ProgramStretch::Train => {
                self.run
                    .printer
                    .draw_facts(item.step, self.job.segment)
                    .seconds
            }
            ProgramStretch::Eval => 0.4,
            ProgramStretch::Checkpoint => 0.9,
            ProgramStretch::Tail => 2.0,
        };
        seconds * 1e6 / (calls.len() as f64 + 1.0)
    }

    /// Makes the next call of the host.
    fn make_next_call(&mut self, rank: usize) -> Result<()> {
        let Some(item) = self.current_item(rank) else {
            return Ok(());
        };
        let program = calls_of_item(&self.run.programs, self.wrong.as_ref(), item, rank);
        let m = &mut self.run.mixer;
        if !m.skip_unmade_calls(program, rank) {
            return self.finish_calls(rank, item);
        }
        m.truth.place_next_call(rank, item.stretch, item.step);
        let at = m.cursors[rank].call;
        while m.cursors[rank].call == at {
            let built = m.build_line(program, rank);
            m.write_whole_line(rank, built)?;
        }
        if let Some(stop) = &mut self.stop {
            stop.count_call();
        }
        for made in m
            .watch
            .as_mut()
            .map(CallCounter::take_new_calls)
            .unwrap_or_default()
        {
            self.hosts[rank].works += u64::from(made.is_last());
            if self.pending.push(made) {
                self.run_first_work(rank);
            }
        }
        let us = self.mean_call_us(item, rank);
        let us = self.pace.host_call_us(rank, us);
        self.agenda.schedule(us, AgendaEvent::Host(rank));
        Ok(())
    }

    /// Runs the first work of a rank's GPU.
    fn run_first_work(&mut self, rank: usize) {
        let met = self.pending.begin_first_work(rank);
        if met.is_empty() {
            return;
        }
        let us = self
            .current_item(rank)
            .map_or(1e3, |item| self.mean_call_us(item, rank));
        let us = self.pace.gpu_work_us(us);
        for rank in met {
            let late = self.pace.small_delay_us();
            self.agenda.schedule(us + late, AgendaEvent::Done(rank));
        }
    }

    /// Ends the first work of a rank's GPU.
    fn end_first_work(&mut self, rank: usize) {
        if self.hosts[rank].doing == HostActivity::Gone && self.pending.is_idle(rank) {
            return;
        }
        self.hosts[rank].ended += 1;
        if self.pending.end_first_work(rank) {
            self.run_first_work(rank);
        }
        if std::mem::take(&mut self.hosts[rank].blocked) {
            let us = self.pace.small_delay_us();
            self.agenda.schedule(us, AgendaEvent::Host(rank));
        }
    }

    /// Goes on after the host has made all calls of its item.
    fn finish_calls(&mut self, rank: usize, item: ScriptItem) -> Result<()> {
        let wrong = self.is_wrong(rank, item);
        let host = &mut self.hosts[rank];
        host.doing = HostActivity::Reads;
        if item.stretch == ProgramStretch::Train {
            host.before = host.marks.back().copied().unwrap_or(0);
            host.marks.push_back(host.works);
        }
        if let Some(watch) = &mut self.run.mixer.watch {
            watch.over |= wrong;
        }
        if let Some((plan, _)) = self
            .wrong
            .as_ref()
            .filter(|(plan, _)| wrong && plan.kind.ends_calls())
        {
            host.doing = HostActivity::Gone;
            if plan.kind == FaultKind::Die {
                self.pending.remove_process(rank);
                self.run.print_closed_peers(self.job, rank)?;
            }
            return Ok(());
        }
        self.read_results(rank)
    }
}

/// Returns the calls of a rank in an item.
fn calls_of_item<'p>(
    programs: &'p StretchPrograms,
    wrong: Option<&'p (FaultPlan, Vec<ScheduledCall>)>,
    item: ScriptItem,
    rank: usize,
) -> &'p [ScheduledCall] {
    let all = match item.stretch {
        _ if !item.calls => return &[],
        ProgramStretch::Train => match wrong {
            Some((plan, calls)) if (plan.rank, plan.step) == (rank, item.step) => return calls,
            _ => &programs.train,
        },
        ProgramStretch::Eval => &programs.eval,
        ProgramStretch::Checkpoint => &programs.checkpoint,
        ProgramStretch::Tail => &programs.tail,
    };
    &all[rank]
}
