//! Ranks that run ahead of each other, as those of real jobs do: a simulation of events.
//!
//! A host hands its calls to its GPU in program order and at its own pace. It waits only where
//! real hosts wait: where it reads a value (the loss that it prints, an evaluation, a save), and
//! where it is as many steps ahead of its GPU as `--lead` allows. A GPU runs its works one behind
//! the other, a collective once all members run theirs, a Send once its peer runs the Recv
//! ([`Pending`]). A line is printed when its host makes the call.
//!
//! So a job with a wrong call goes on as far as it can, and hangs by itself.

mod end;
mod pace;
mod script;
#[cfg(test)]
mod tests;

use crate::ahead::end::Stop;
use crate::ahead::pace::{Agenda, Event, Pace};
use crate::ahead::script::{Item, script};
use crate::error::Result;
use crate::fault::{FaultKind, Pending, Plan, Watch};
use crate::job::Job;
use crate::job::call::Call;
use crate::job::schedule::Stretch;
use crate::options::Trainer;
use crate::run::{Programs, Run, mean};
use crate::stream::stretch::Cursor;
use crate::trainer::StepFacts;
use crate::trainer::events;
use std::collections::VecDeque;

/// How a life of the job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// All ranks made all their calls, and all calls ended.
    Whole,
    /// Nothing can go on any more.
    Hangs,
    /// All processes were stopped.
    Stopped,
}

/// What a host is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// It is about to begin its item.
    Begins,
    /// It makes its calls.
    Calls,
    /// It has made them, and reads what they led to.
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
struct Host {
    item: usize,
    doing: Doing,
    /// It waits for its GPU.
    blocked: bool,
    /// Works it handed over, and those of them that ended.
    works: u64,
    ended: u64,
    /// What `works` was at the end of each training step that may not have ended.
    marks: VecDeque<u64>,
    /// What it was at the end of the training step before.
    before: u64,
    /// Steps since its last step line.
    since: Vec<StepFacts>,
    /// MaxText: the step whose line waits.
    queued: Option<StepFacts>,
    evaluated: bool,
}

/// From the start of the processes to their end.
struct Life<'r, 'a, 'j> {
    run: &'r mut Run<'a>,
    job: &'j Job,
    lead: usize,
    script: Vec<Item>,
    /// The script of ranks that make another number of steps.
    uneven: Option<(Vec<usize>, Vec<Item>)>,
    /// The calls of the rank of the fault, in its step.
    wrong: Option<(Plan, Vec<Call>)>,
    hosts: Vec<Host>,
    pending: Pending<'j>,
    agenda: Agenda,
    pace: Pace,
    /// When it is killed.
    stop: Option<Stop>,
}

impl Run<'_> {
    /// The job whose hosts may be so many steps ahead of their GPUs.
    pub(crate) fn ahead(&mut self, lead: u64) -> Result<()> {
        self.mixer.truth.place_calls();
        let mut from = self.options.first();
        loop {
            self.begin()?;
            let job = self.mixer.job.clone();
            self.watch();
            let mut life = Life::new(self, &job, lead as usize, from);
            let ending = life.go()?;
            let (pending, alive) = life.left();
            if let Some(at) = self.options.restart_at
                && job.segment == 0
            {
                self.restarts()?;
                from = self.options.resume_step(at);
                continue;
            }
            self.report(&job, &pending, &alive, ending == Ending::Hangs)?;
            match ending {
                Ending::Whole if self.options.init => self.mixer.destroy()?,
                Ending::Stopped => self.stopped()?,
                _ => {}
            }
            return Ok(());
        }
    }
}

impl<'r, 'a, 'j> Life<'r, 'a, 'j> {
    fn new(run: &'r mut Run<'a>, job: &'j Job, lead: usize, from: u64) -> Self {
        let options = run.options;
        let script = script(options, from);
        let (mut uneven, mut wrong) = (None, None);
        if let Some(plan) = run.plan {
            if plan.kind.of_steps() {
                let at = |item: &Item| item.stretch == Stretch::Train && item.step == plan.step;
                let mut items = script.clone();
                if let Some(at) = items.iter().position(at) {
                    match plan.kind {
                        FaultKind::MoreSteps => items.insert(at, items[at]),
                        FaultKind::FewerSteps => {
                            items.remove(at);
                        }
                        FaultKind::LoneSave => items.insert(
                            at + 1,
                            Item {
                                stretch: Stretch::Checkpoint,
                                reads: true,
                                ..items[at]
                            },
                        ),
                        _ => items[at].calls = false,
                    }
                }
                uneven = Some((plan.ranks(options), items));
            } else {
                let mut calls = run.programs.train[plan.rank].clone();
                plan.edit(job, &mut calls, &mut run.mixer.cells);
                wrong = Some((plan, calls));
            }
        }
        let hosts = (0..options.ranks).map(|_| Host {
            item: 0,
            doing: Doing::Begins,
            blocked: false,
            works: 0,
            ended: 0,
            marks: VecDeque::new(),
            before: 0,
            since: Vec::new(),
            queued: None,
            evaluated: false,
        });
        let mut pace = Pace::new(options, job.segment);
        let stop = Stop::of(options, job.segment, &run.programs, &mut pace);
        run.mixer.cursors = vec![Cursor::default(); options.ranks];
        Self {
            job,
            lead,
            script,
            uneven,
            wrong,
            hosts: hosts.collect(),
            pending: Pending::new(job),
            agenda: Agenda::from(run.mixer.clock.us()),
            pace,
            stop,
            run,
        }
    }

    fn go(&mut self) -> Result<Ending> {
        for rank in 0..self.hosts.len() {
            let us = self.pace.little();
            self.agenda.after(us, Event::Host(rank));
        }
        while let Some(event) = self.agenda.next() {
            self.run.mixer.clock.reach(self.agenda.now);
            match event {
                Event::Host(rank) => match self.hosts[rank].doing {
                    Doing::Begins => self.begins(rank)?,
                    Doing::Calls => self.calls(rank)?,
                    Doing::Reads => self.reads(rank)?,
                    Doing::Prints => self.over(rank)?,
                    Doing::Finished | Doing::Gone => {}
                },
                Event::Done(rank) => self.done(rank),
            }
            if self.stop.as_ref().is_some_and(Stop::is_now) {
                return Ok(Ending::Stopped);
            }
        }
        let whole = self.hosts.iter().all(|h| h.doing == Doing::Finished);
        Ok(if whole { Ending::Whole } else { Ending::Hangs })
    }

    /// What runs or waits at the end, and which processes are there.
    fn left(self) -> (Pending<'j>, Vec<bool>) {
        let dies = |plan: &Plan| plan.kind == FaultKind::Die;
        let died = |doing| doing == Doing::Gone && self.run.plan.as_ref().is_some_and(dies);
        let there = |host: &Host| host.doing != Doing::Finished && !died(host.doing);
        let alive = self.hosts.iter().map(there).collect();
        (self.pending, alive)
    }

    fn item(&self, rank: usize) -> Option<Item> {
        let script = match &self.uneven {
            Some((ranks, script)) if ranks.contains(&rank) => script,
            _ => &self.script,
        };
        script.get(self.hosts[rank].item).copied()
    }

    /// True for the item in which the rank's program is not as it should be.
    fn is_wrong(&self, rank: usize, item: Item) -> bool {
        self.wrong.as_ref().is_some_and(|(plan, _)| {
            item.stretch == Stretch::Train && (plan.rank, plan.step) == (rank, item.step)
        })
    }

    /// So many of the host's works must have ended before it goes on.
    fn waits(&mut self, rank: usize, works: u64) -> bool {
        let host = &mut self.hosts[rank];
        host.blocked = host.ended < works;
        host.blocked
    }

    fn begins(&mut self, rank: usize) -> Result<()> {
        let Some(item) = self.item(rank) else {
            // A process ends when its GPU has nothing left to do.
            if !self.waits(rank, self.hosts[rank].works) {
                self.hosts[rank].doing = Doing::Finished;
            }
            return Ok(());
        };
        if item.stretch == Stretch::Train {
            while self.hosts[rank].marks.len() > self.lead {
                let first = self.hosts[rank].marks[0];
                if self.waits(rank, first) {
                    return Ok(());
                }
                self.hosts[rank].marks.pop_front();
            }
            if let Some(stop) = &mut self.stop
                && rank == self.run.printer.rank()
            {
                stop.begins(item.step);
            }
            let speaker = (item.step / 7) as usize % self.hosts.len();
            if item.step % 7 == 3 && rank == speaker {
                self.run.say(rank, events::aside(item.step / 7))?;
            }
        }
        if item.stretch == Stretch::Checkpoint {
            for (who, text) in events::saved(self.run.options, item.step).0 {
                if who == rank {
                    self.run.say(rank, &text)?;
                }
            }
        }
        let calls = calls(&self.run.programs, self.wrong.as_ref(), item, rank);
        self.run.mixer.cursors[rank] = Cursor::new(calls, item.step);
        self.hosts[rank].doing = Doing::Calls;
        let us = self.pace.call(rank, 10.0 * self.us(item, rank));
        self.agenda.after(us, Event::Host(rank));
        Ok(())
    }

    /// What a call of the item takes on average.
    fn us(&self, item: Item, rank: usize) -> f64 {
        let calls = calls(&self.run.programs, self.wrong.as_ref(), item, rank);
        let seconds = match item.stretch {
            Stretch::Train => self.run.printer.facts(item.step, self.job.segment).seconds,
            Stretch::Eval => 0.4,
            Stretch::Checkpoint => 0.9,
            Stretch::Tail => 2.0,
        };
        seconds * 1e6 / (calls.len() as f64 + 1.0)
    }

    /// The host makes its next call.
    fn calls(&mut self, rank: usize) -> Result<()> {
        let Some(item) = self.item(rank) else {
            return Ok(());
        };
        let program = calls(&self.run.programs, self.wrong.as_ref(), item, rank);
        let m = &mut self.run.mixer;
        if !m.ready(program, rank) {
            return self.called(rank, item);
        }
        m.truth.call_is_of(rank, item.stretch, item.step);
        let at = m.cursors[rank].call;
        while m.cursors[rank].call == at {
            let built = m.build(program, rank);
            m.whole(rank, built)?;
        }
        if let Some(stop) = &mut self.stop {
            stop.called();
        }
        for made in m.watch.as_mut().map(Watch::news).unwrap_or_default() {
            self.hosts[rank].works += u64::from(made.is_last());
            if self.pending.push(made) {
                self.runs(rank);
            }
        }
        let us = self.us(item, rank);
        let us = self.pace.call(rank, us);
        self.agenda.after(us, Event::Host(rank));
        Ok(())
    }

    /// A rank's GPU runs its first work.
    fn runs(&mut self, rank: usize) {
        let met = self.pending.begin(rank);
        if met.is_empty() {
            return;
        }
        let us = self.item(rank).map_or(1e3, |item| self.us(item, rank));
        let us = self.pace.work(us);
        for rank in met {
            let late = self.pace.little();
            self.agenda.after(us + late, Event::Done(rank));
        }
    }

    /// A rank's GPU has done its first work.
    fn done(&mut self, rank: usize) {
        if self.hosts[rank].doing == Doing::Gone && self.pending.idle(rank) {
            return;
        }
        self.hosts[rank].ended += 1;
        if self.pending.end(rank) {
            self.runs(rank);
        }
        if std::mem::take(&mut self.hosts[rank].blocked) {
            let us = self.pace.little();
            self.agenda.after(us, Event::Host(rank));
        }
    }

    /// The host has made all calls of its item.
    fn called(&mut self, rank: usize, item: Item) -> Result<()> {
        let wrong = self.is_wrong(rank, item);
        let host = &mut self.hosts[rank];
        host.doing = Doing::Reads;
        if item.stretch == Stretch::Train {
            host.before = host.marks.back().copied().unwrap_or(0);
            host.marks.push_back(host.works);
        }
        if let Some(watch) = &mut self.run.mixer.watch {
            watch.over |= wrong;
        }
        if let Some((plan, _)) = self
            .wrong
            .as_ref()
            .filter(|(plan, _)| wrong && plan.kind.ends())
        {
            host.doing = Doing::Gone;
            if plan.kind == FaultKind::Die {
                self.pending.gone(rank);
                self.run.closed(self.job, rank)?;
            }
            return Ok(());
        }
        self.reads(rank)
    }

    /// It reads what they led to, where something is read.
    fn reads(&mut self, rank: usize) -> Result<()> {
        let Some(item) = self.item(rank) else {
            return Ok(());
        };
        let late = self.run.options.trainer == Trainer::Maxtext;
        let host = &self.hosts[rank];
        let needs = match item.stretch {
            Stretch::Train if !self.run.speaks(rank) => 0,
            Stretch::Train if late => host.before,
            Stretch::Train if self.run.printer.prints(item.step) => host.works,
            _ if item.reads => host.works,
            _ => 0,
        };
        if self.waits(rank, needs) {
            return Ok(());
        }
        if needs == 0 {
            return self.over(rank);
        }
        // Meanwhile others begin the next step.
        self.hosts[rank].doing = Doing::Prints;
        let us = self.us(item, rank);
        let us = self.pace.call(rank, 4.0 * us);
        self.agenda.after(us, Event::Host(rank));
        Ok(())
    }

    /// The item is over, and what there is to print is printed.
    fn over(&mut self, rank: usize) -> Result<()> {
        let Some(item) = self.item(rank) else {
            return Ok(());
        };
        match item.stretch {
            Stretch::Train => self.step_over(rank, item.step)?,
            Stretch::Eval => {
                let (options, clock) = (self.run.options, &self.run.mixer.clock);
                let said = events::evaluated(options, item.step, item.batch, clock);
                for (_, text) in said.iter().filter(|(who, _)| *who == rank) {
                    self.run.say(rank, text)?;
                }
                self.hosts[rank].evaluated = true;
            }
            Stretch::Checkpoint => {
                let said = events::saved(self.run.options, item.step).1;
                for (_, text) in said.iter().filter(|(who, _)| *who == rank) {
                    self.run.say(rank, text)?;
                }
            }
            Stretch::Tail => {}
        }
        let host = &mut self.hosts[rank];
        (host.item, host.doing) = (host.item + 1, Doing::Begins);
        let us = self.pace.little();
        self.agenda.after(us, Event::Host(rank));
        Ok(())
    }

    /// A host prints its step line, if it prints one.
    fn step_over(&mut self, rank: usize, step: u64) -> Result<()> {
        if !self.run.speaks(rank) {
            return Ok(());
        }
        let (segment, last) = (
            self.job.segment,
            self.run.options.first() + self.run.options.steps - 1,
        );
        let facts = self.run.printer.facts(step, segment);
        let host = &mut self.hosts[rank];
        host.since.push(facts);
        let mut lines: Vec<(StepFacts, u64)> = Vec::new();
        if self.run.options.trainer == Trainer::Maxtext {
            lines.extend(host.queued.replace(facts).map(|facts| (facts, 1)));
            if step == last {
                lines.extend(host.queued.take().map(|facts| (facts, 1)));
            }
        } else if self.run.printer.prints(step) {
            let mut mean = mean(&host.since, step);
            mean.evaluated = host.evaluated;
            lines.push((mean, host.since.len() as u64));
        }
        if !lines.is_empty() {
            host.since.clear();
        }
        for (facts, covered) in lines {
            let run = &mut *self.run;
            let mut printed = run.printer.step(&facts, &run.mixer.clock);
            printed.lines.retain(|line| line.rank == rank);
            run.print_step(&printed, facts.step, None)?;
            if rank == run.printer.rank() && !run.silent {
                let (time, tflops) = (printed.time_s, printed.tflops);
                let truth = &mut run.mixer.truth;
                truth.close_step(segment, facts.step, covered, time, tflops);
            }
        }
        Ok(())
    }
}

/// What a rank calls in an item.
fn calls<'p>(
    programs: &'p Programs,
    wrong: Option<&'p (Plan, Vec<Call>)>,
    item: Item,
    rank: usize,
) -> &'p [Call] {
    let all = match item.stretch {
        _ if !item.calls => return &[],
        Stretch::Train => match wrong {
            Some((plan, calls)) if (plan.rank, plan.step) == (rank, item.step) => return calls,
            _ => &programs.train,
        },
        Stretch::Eval => &programs.eval,
        Stretch::Checkpoint => &programs.checkpoint,
        Stretch::Tail => &programs.tail,
    };
    &all[rank]
}

impl Run<'_> {
    /// True for ranks that print step lines.
    fn speaks(&self, rank: usize) -> bool {
        let o = self.options;
        rank == self.printer.rank()
            || o.every_rank
            || (o.trainer == Trainer::MegatronBridge && rank == 0)
    }
}
