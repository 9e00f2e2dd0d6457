//! The job from its fault on: ranks go on as far as their calls end.

use crate::error::Result;
use crate::fault::pending_works::PendingWorks;
use crate::fault::row::{CallRow, FaultRow, LastCallRow};
use crate::fault::{CallCounter, FaultKind, FaultPlan, watchdog};
use crate::job::SynthJob;
use crate::job::call::{CallCount, ScheduledCall};
use crate::nccl::line::NcclLine;
use crate::options::{LogLayout, Nccl, Options, SynthTrainer};
use crate::run::SynthRun;
use crate::stream::mixer::ProgramCursor;
use crate::stream::writer::file_name;

/// How the job goes on after the step of the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultCourse {
    /// As if nothing had been.
    GoesOn,
    /// All steps are made.
    Ended,
    /// Calls do not end.
    Hangs,
}

/// Where the ranks are.
struct RankProgress {
    /// The rank has made all calls of its step.
    waits: Vec<bool>,
    /// The calls of the rank of the fault in other steps.
    healthy: Option<Vec<ScheduledCall>>,
    last: u64,
}

impl SynthRun<'_> {
    /// The step of the fault, and if the job cannot go on from there, its end.
    pub(crate) fn run_faulty_step(&mut self, plan: &FaultPlan) -> Result<FaultCourse> {
        let mut calls = self.programs.train[plan.rank].clone();
        plan.edit_calls(&self.mixer.job, &mut calls, &mut self.mixer.cells);
        let healthy = std::mem::replace(&mut self.programs.train[plan.rank], calls);
        let course = if plan.hangs {
            self.run_until_stuck(plan, healthy)?
        } else {
            self.run_step(plan.step)?;
            self.programs.train[plan.rank] = healthy;
            FaultCourse::GoesOn
        };
        if let Some(watch) = &mut self.mixer.watch {
            watch.over = true;
            self.mixer.truth.fault = Some(build_fault_row(
                plan,
                watch,
                &self.mixer.job,
                &self.mixer.truth.communicators,
                self.options,
                course == FaultCourse::Hangs,
            ));
        }
        Ok(course)
    }

    fn run_until_stuck(
        &mut self,
        plan: &FaultPlan,
        healthy: Vec<ScheduledCall>,
    ) -> Result<FaultCourse> {
        let job = self.mixer.job.clone();
        let mut pending = PendingWorks::new(&job);
        let seconds = self.printer.draw_facts(plan.step, job.segment).seconds;
        let tick =
            self.mixer
                .start_stretch(&self.programs.train, plan.step, (seconds * 1e6) as u64);
        if let Some(watch) = &mut self.mixer.watch {
            watch.live = true;
        }
        let mut places = RankProgress {
            waits: vec![false; job.procs.len()],
            healthy: Some(healthy),
            last: self.options.first_step() + self.options.steps - 1,
        };
        while !self.mixer.active.is_empty() {
            let m = &mut self.mixer;
            let at = m.rng.below(m.active.len());
            let rank = m.active[at];
            let mut over = Vec::new();
            for _ in 0..=m.rng.below(4) {
                if !m.skip_unmade_calls(&self.programs.train[rank], rank) {
                    m.active.swap_remove(at);
                    places.waits[rank] = true;
                    over.push(rank);
                    break;
                }
                m.write_next_line(&self.programs.train, rank)?;
                m.clock.advance(tick);
            }
            for made in m
                .watch
                .as_mut()
                .map(CallCounter::take_new_calls)
                .unwrap_or_default()
            {
                if pending.push(made) {
                    pending.run_first_work(rank);
                }
            }
            if over.contains(&plan.rank) && plan.kind == FaultKind::Die {
                self.print_closed_peers(&job, plan.rank)?;
            }
            over.extend(pending.take_emptied_ranks());
            for rank in over {
                if places.waits[rank] && pending.is_idle(rank) {
                    self.begin_next_step(plan, rank, &mut places)?;
                }
            }
        }
        let ranks = 0..job.procs.len();
        if !plan.kind.ends_calls() && ranks.clone().all(|rank| pending.is_idle(rank)) {
            return Ok(FaultCourse::Ended);
        }
        let speaks = self.options.fault.and_then(|fault| fault.watchdog);
        if speaks.unwrap_or(self.options.trainer != SynthTrainer::None)
            && let Some(watch) = self.mixer.watch.take()
        {
            let alive = |rank| rank != plan.rank || plan.kind != FaultKind::Die;
            self.print_watchdog(&job, &watch, &pending, &alive)?;
            self.mixer.watch = Some(watch);
        }
        Ok(FaultCourse::Hangs)
    }

    /// PyTorch's watchdog speaks on the ranks that are alive.
    pub(crate) fn print_watchdog(
        &mut self,
        job: &SynthJob,
        watch: &CallCounter,
        pending: &PendingWorks<'_>,
        alive: &dyn Fn(usize) -> bool,
    ) -> Result<()> {
        for saying in watchdog::watchdog_lines(self.options.seed, job, watch, pending, alive) {
            self.mixer.clock.advance(saying.after_us);
            let text = saying.format_line(&self.mixer.clock);
            self.print_text(saying.rank, &text, true)?;
            self.mixer.truth.records.foreign += 1;
        }
        Ok(())
    }

    /// All calls of the rank's step have ended, and its host goes on.
    fn begin_next_step(
        &mut self,
        plan: &FaultPlan,
        rank: usize,
        places: &mut RankProgress,
    ) -> Result<()> {
        let step = self.mixer.cursors[rank].step;
        if rank == plan.rank && step == plan.step {
            if plan.kind.ends_calls() {
                return Ok(());
            }
            if let Some(healthy) = places.healthy.take() {
                self.programs.train[rank] = healthy;
            }
        }
        places.waits[rank] = false;
        if rank == self.printer.marker_rank() {
            let facts = self.printer.draw_facts(step, self.mixer.job.segment);
            self.since.push(facts);
            self.print_step_end(facts, None)?;
        }
        if step < places.last {
            self.mixer.cursors[rank] = ProgramCursor::new(&self.programs.train[rank], step + 1);
            self.mixer.active.push(rank);
        }
        Ok(())
    }

    /// Its neighbours on the host see that a process is gone (`testdata/captured/ddp-die`;
    /// `src/proxy.cc`).
    pub(crate) fn print_closed_peers(&mut self, job: &SynthJob, gone: usize) -> Result<()> {
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
                self.mixer.write_nccl_line(rank, &NcclLine::Info(text))?;
            }
        }
        Ok(())
    }
}

fn describe_call(call: &ScheduledCall, count: u64) -> CallRow {
    CallRow {
        op: call.op.name(),
        count,
        datatype: call.dtype.name(),
        redop: call.redop,
        root: call.root,
    }
}

/// Returns the fault's row of the truth.
pub(crate) fn build_fault_row(
    plan: &FaultPlan,
    watch: &CallCounter,
    job: &SynthJob,
    communicators: &[crate::truth::rows::CommRow],
    options: &Options,
    hangs: bool,
) -> FaultRow {
    let proc = &job.procs[plan.rank];
    let count = |call: &ScheduledCall| match call.count {
        CallCount::Fixed(count) => count,
        CallCount::Tokens { .. } => plan.tokens,
    };
    let id = |slot: usize| {
        let row = communicators.get(proc.members[slot].comm);
        row.map(|row| row.comm_id.clone())
    };
    let of_steps = plan.kind.is_of_steps();
    // An added call does not replace another.
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
        seq: (!of_steps).then(|| watch.next_number(&plan.expected)),
        expected: (!of_steps && !beside)
            .then(|| describe_call(&plan.expected, count(&plan.expected))),
        made: plan.made.map(|made| describe_call(&made, count(&made))),
        made_comm_id: made_on.filter(|&on| on != slot).and_then(id),
        ranks: if of_steps {
            plan.ranks_of_other_steps(options)
        } else {
            Vec::new()
        },
        fact: None,
        line,
        file: (options.layout == LogLayout::PerRank).then(|| file_name(proc)),
        last_call: watch
            .last
            .filter(|_| plan.kind.ends_calls())
            .and_then(|last| {
                Some(LastCallRow {
                    call: describe_call(&last.call, last.count),
                    comm_id: id(last.call.slot)?,
                    seq: last.seq,
                    line: last.line,
                })
            }),
        hangs,
    }
}
