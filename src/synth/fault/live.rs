//! The job from its fault on: ranks go on as far as their calls end.

use crate::error::Result;
use crate::fault::pending::Pending;
use crate::fault::row::{CallSaid, FaultRow, LastCall};
use crate::fault::{FaultKind, Plan, Watch, watchdog};
use crate::job::Job;
use crate::job::call::{Call, Count};
use crate::nccl::said::Said;
use crate::options::{Layout, Nccl, Options, Trainer};
use crate::run::Run;
use crate::stream::stretch::Cursor;
use crate::stream::writer::file_name;

/// How the job goes on behind the step of the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// As if nothing had been.
    GoesOn,
    /// All steps are made.
    Ended,
    /// Calls do not end.
    Hangs,
}

/// Where the ranks are.
struct Places {
    /// The rank has made all calls of its step.
    waits: Vec<bool>,
    /// What the rank of the fault makes in other steps.
    healthy: Option<Vec<Call>>,
    last: u64,
}

impl Run<'_> {
    /// The step of the fault, and if the job cannot go on from there, its end.
    pub(crate) fn wrong_step(&mut self, plan: &Plan) -> Result<Course> {
        let mut calls = self.programs.train[plan.rank].clone();
        plan.edit(&self.mixer.job, &mut calls, &mut self.mixer.cells);
        let healthy = std::mem::replace(&mut self.programs.train[plan.rank], calls);
        let course = if plan.hangs {
            self.live(plan, healthy)?
        } else {
            self.step(plan.step)?;
            self.programs.train[plan.rank] = healthy;
            Course::GoesOn
        };
        if let Some(watch) = &mut self.mixer.watch {
            watch.over = true;
            self.mixer.truth.fault = Some(row(
                plan,
                watch,
                &self.mixer.job,
                &self.mixer.truth.communicators,
                self.options,
                course == Course::Hangs,
            ));
        }
        Ok(course)
    }

    fn live(&mut self, plan: &Plan, healthy: Vec<Call>) -> Result<Course> {
        let job = self.mixer.job.clone();
        let mut pending = Pending::new(&job);
        let seconds = self.printer.facts(plan.step, job.segment).seconds;
        let tick = self
            .mixer
            .start(&self.programs.train, plan.step, (seconds * 1e6) as u64);
        if let Some(watch) = &mut self.mixer.watch {
            watch.live = true;
        }
        let mut places = Places {
            waits: vec![false; job.procs.len()],
            healthy: Some(healthy),
            last: self.options.first() + self.options.steps - 1,
        };
        while !self.mixer.active.is_empty() {
            let m = &mut self.mixer;
            let at = m.rng.below(m.active.len());
            let rank = m.active[at];
            let mut over = Vec::new();
            for _ in 0..=m.rng.below(4) {
                if !m.ready(&self.programs.train[rank], rank) {
                    m.active.swap_remove(at);
                    places.waits[rank] = true;
                    over.push(rank);
                    break;
                }
                m.emit(&self.programs.train, rank)?;
                m.clock.advance(tick);
            }
            for made in m.watch.as_mut().map(Watch::news).unwrap_or_default() {
                if pending.push(made) {
                    pending.settle(rank);
                }
            }
            if over.contains(&plan.rank) && plan.kind == FaultKind::Die {
                self.closed(&job, plan.rank)?;
            }
            over.extend(pending.emptied());
            for rank in over {
                if places.waits[rank] && pending.idle(rank) {
                    self.next_step(plan, rank, &mut places)?;
                }
            }
        }
        let ranks = 0..job.procs.len();
        if !plan.kind.ends() && ranks.clone().all(|rank| pending.idle(rank)) {
            return Ok(Course::Ended);
        }
        let speaks = self.options.fault.and_then(|fault| fault.watchdog);
        if speaks.unwrap_or(self.options.trainer != Trainer::None)
            && let Some(watch) = self.mixer.watch.take()
        {
            let alive = |rank| rank != plan.rank || plan.kind != FaultKind::Die;
            self.watchdog(&job, &watch, &pending, &alive)?;
            self.mixer.watch = Some(watch);
        }
        Ok(Course::Hangs)
    }

    /// PyTorch's watchdog speaks on the ranks that are alive.
    pub(crate) fn watchdog(
        &mut self,
        job: &Job,
        watch: &Watch,
        pending: &Pending<'_>,
        alive: &dyn Fn(usize) -> bool,
    ) -> Result<()> {
        for saying in watchdog::sayings(self.options.seed, job, watch, pending, alive) {
            self.mixer.clock.advance(saying.after_us);
            let text = saying.line(&self.mixer.clock);
            self.print(saying.rank, &text, true)?;
            self.mixer.truth.records.foreign += 1;
        }
        Ok(())
    }

    /// All calls of the rank's step have ended, and its host goes on.
    fn next_step(&mut self, plan: &Plan, rank: usize, places: &mut Places) -> Result<()> {
        let step = self.mixer.cursors[rank].step;
        if rank == plan.rank && step == plan.step {
            if plan.kind.ends() {
                return Ok(());
            }
            if let Some(healthy) = places.healthy.take() {
                self.programs.train[rank] = healthy;
            }
        }
        places.waits[rank] = false;
        if rank == self.printer.rank() {
            let facts = self.printer.facts(step, self.mixer.job.segment);
            self.since.push(facts);
            self.over(facts, None)?;
        }
        if step < places.last {
            self.mixer.cursors[rank] = Cursor::new(&self.programs.train[rank], step + 1);
            self.mixer.active.push(rank);
        }
        Ok(())
    }

    /// Its neighbours on the host see that a process is gone (`testdata/captured/ddp-die`;
    /// `src/proxy.cc`).
    pub(crate) fn closed(&mut self, job: &Job, gone: usize) -> Result<()> {
        if !self.options.init || !self.options.nccl.since(Nccl::V2_16) {
            return Ok(());
        }
        let n = job.procs.len();
        let mut beside = vec![(gone + n - 1) % n, (gone + 1) % n];
        beside.dedup();
        for rank in beside {
            if rank != gone && job.procs[rank].node == job.procs[gone].node {
                let dev = job.procs[gone].dev;
                let text = format!("[Service thread] Connection closed by localRank {dev}");
                self.mixer.nccl_says(rank, &Said::Info(text))?;
            }
        }
        Ok(())
    }
}

fn said(call: &Call, count: u64) -> CallSaid {
    CallSaid {
        op: call.op.name(),
        count,
        datatype: call.dtype.name(),
        redop: call.redop,
        root: call.root,
    }
}

/// The fault, as the truth says it.
pub(crate) fn row(
    plan: &Plan,
    watch: &Watch,
    job: &Job,
    communicators: &[crate::truth::rows::CommRow],
    options: &Options,
    hangs: bool,
) -> FaultRow {
    let proc = &job.procs[plan.rank];
    let count = |call: &Call| match call.count {
        Count::Fixed(count) => count,
        Count::Tokens { .. } => plan.tokens,
    };
    let id = |slot: usize| {
        let row = communicators.get(proc.members[slot].comm);
        row.map(|row| row.comm_id.clone())
    };
    let of_steps = plan.kind.of_steps();
    // What is made beside the calls that should be takes no call's place.
    let beside = matches!(
        plan.kind,
        FaultKind::Extra | FaultKind::Lone | FaultKind::Retry
    );
    let made_on = plan.made.map(|made| made.slot);
    let slot = match made_on {
        Some(slot) if beside => slot,
        _ => plan.expected.slot,
    };
    let line = match plan.made {
        Some(_) => watch.line,
        None => watch.last.map(|last| last.line),
    };
    FaultRow {
        kind: plan.kind.name(),
        rank: Some(plan.rank),
        host: proc.host.clone(),
        pid: Some(proc.pid),
        step: Some(plan.step),
        comm_id: id(slot).filter(|_| !of_steps),
        comm_kind: (!of_steps).then(|| job.comms[proc.members[slot].comm].kind.name()),
        comm_rank: (!of_steps).then(|| proc.members[slot].rank),
        seq: (!of_steps).then(|| watch.next(&plan.expected)),
        expected: (!of_steps && !beside).then(|| said(&plan.expected, count(&plan.expected))),
        made: plan.made.map(|made| said(&made, count(&made))),
        made_comm_id: made_on.filter(|&on| on != slot).and_then(id),
        ranks: if of_steps {
            plan.ranks(options)
        } else {
            Vec::new()
        },
        fact: None,
        line,
        file: (options.layout == Layout::PerRank).then(|| file_name(proc)),
        last_call: watch.last.filter(|_| plan.kind.ends()).and_then(|last| {
            Some(LastCall {
                call: said(&last.call, last.count),
                comm_id: id(last.call.slot)?,
                seq: last.seq,
                line: last.line,
            })
        }),
        hangs,
    }
}
