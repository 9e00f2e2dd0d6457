//! Refuses faults that make no sense in a job, before a byte is written.

use crate::error::Result;
use crate::fault::host::{choose_odd_host, edit_rank_lines, fact};
use crate::fault::{Fault, FaultGroup, FaultKind, FaultPlan, refuse_fault};
use crate::job::SynthJob;
use crate::nccl::init;
use crate::options::{Damage, LogLayout, Nccl, Options, SynthNet};

impl Options {
    /// Refuses contradictions in `--fault`.
    pub(crate) fn check_fault(&self) -> Result<()> {
        let Some(fault) = self.fault else {
            return Ok(());
        };
        let name = fault.kind.name();
        if fault.kind.needs_lead() && self.lead.is_none() {
            return refuse_fault(format!(
                "{name} needs ranks that go on until no rank can: add --lead"
            ));
        }
        if self.restart_at.is_some() || self.size.is_some() {
            return refuse_fault(format!(
                "{name} cannot be combined with --restart-at or --size"
            ));
        }
        if self.damage_rate(Damage::Overwritten) > 0.0 {
            return refuse_fault(format!(
                "{name} cannot be combined with --damage overwritten: the truth of such a file is \
                 unknown"
            ));
        }
        self.check_keys(fault)?;
        if fault.kind.is_of_calls() {
            self.check_wrong_call(fault)
        } else if fault.kind.is_of_host() {
            self.check_odd_host(fault)
        } else {
            self.check_slow_init(fault)
        }
    }

    fn check_keys(&self, fault: Fault) -> Result<()> {
        let (calls, host) = (fault.kind.is_of_calls(), fault.kind.is_of_host());
        for (key, given, means) in [
            ("step", fault.step.is_some(), calls),
            ("rank", fault.rank.is_some(), !host),
            ("host", fault.host.is_some(), host),
            ("comm", fault.comm.is_some(), !host),
            ("watchdog", fault.watchdog.is_some(), calls),
        ] {
            if given && !means {
                return refuse_fault(format!("{} has no {key}", fault.kind.name()));
            }
        }
        let last = self.first_step() + self.steps - 1;
        if let Some(step) = fault.step
            && !(self.first_step()..=last).contains(&step)
        {
            return refuse_fault(format!(
                "step {step} is not one of {} to {last}",
                self.first_step()
            ));
        }
        if let Some(rank) = fault.rank.filter(|&rank| rank >= self.ranks) {
            return refuse_fault(format!("there is no rank {rank} of {}", self.ranks));
        }
        if let Some(host) = fault.host.filter(|&host| host >= self.nodes) {
            return refuse_fault(format!(
                "there is no host {host} of {}, counted from 0",
                self.nodes
            ));
        }
        Ok(())
    }

    fn check_wrong_call(&self, fault: Fault) -> Result<()> {
        let name = fault.kind.name();
        if self.layout == LogLayout::Blocks {
            return refuse_fault(format!(
                "{name} cannot be combined with --layout blocks: the buffer of a killed process is \
                 lost"
            ));
        }
        let recv = fault.kind == FaultKind::Recv;
        if recv && self.pp < 2 {
            return refuse_fault("recv needs a pipeline: --pp 2 or more".to_owned());
        }
        if recv
            && fault
                .comm
                .is_some_and(|group| group != FaultGroup::Pipeline)
        {
            return refuse_fault("recv needs comm=pipeline, or no comm".to_owned());
        }
        let Some(plan) = FaultPlan::plan_fault(self, &SynthJob::new(self, 0))? else {
            return Ok(());
        };
        // Ranks that can still go on would come to it, some before others.
        if let Some(every) = self
            .eval_every
            .filter(|_| plan.hangs && !fault.kind.ends_calls() && self.lead.is_none())
        {
            let last = self.first_step() + self.steps - 1;
            let done = plan.step + 1 - self.trainer.first_number();
            let next = plan.step + (every - done % every) % every;
            if next < last {
                return refuse_fault(format!(
                    "{name} in step {} hangs before the evaluation after step {next} (--eval-every \
                     {every}): choose a step after the last evaluation",
                    plan.step
                ));
            }
        }
        Ok(())
    }

    fn check_odd_host(&self, fault: Fault) -> Result<()> {
        let name = fault.kind.name();
        if self.nodes < 2 {
            return refuse_fault(format!("{name} needs a second host: --nodes 2 or more"));
        }
        self.check_lines(fault)?;
        let infiniband = matches!(self.net, None | Some(SynthNet::Ib | SynthNet::Roce));
        if fault.kind == FaultKind::Sockets && !infiniband {
            return refuse_fault(
                "sockets needs a job with InfiniBand: --net ib or roce".to_owned(),
            );
        }
        let job = SynthJob::new(self, 0);
        let host = choose_odd_host(self, fault);
        let shows = |rank: &usize| {
            let mut lines = init::init_lines(self, &job, *rank);
            edit_rank_lines(self, &job, *rank, &mut lines).is_some()
        };
        let mut ranks = (0..self.ranks).filter(|&rank| job.procs[rank].node == host);
        if !ranks.any(|rank| shows(&rank)) {
            let needs = match fault.kind {
                FaultKind::Gpudirect => "a network with GPUDirect (--net ib or efa)",
                FaultKind::Nvls => {
                    "NVLS (NCCL 2.20 or later, --nvls with --net) and communicators of three or \
                     more ranks within a host"
                }
                FaultKind::Channels => {
                    "communicators of one kind within each of two hosts, of two or more ranks"
                }
                FaultKind::Version => "NCCL 2.22 or later, of which every rank prints its version",
                _ => "other options",
            };
            return refuse_fault(format!(
                "no line of this job would show {name}: it needs {needs}"
            ));
        }
        Ok(())
    }

    fn check_slow_init(&self, fault: Fault) -> Result<()> {
        self.check_lines(fault)?;
        if !self.nccl.since(Nccl::V2_22) || self.nccl.is_rccl() {
            return refuse_fault(
                "slow-init needs lines of `Init timings`: --nccl 2.22 or later, not RCCL".into(),
            );
        }
        if fact(self, &SynthJob::new(self, 0), &[]).is_none() {
            let group = fault.comm.map_or("world", FaultGroup::name);
            return refuse_fault(format!(
                "slow-init: the rank is in no {group} communicator of several ranks"
            ));
        }
        Ok(())
    }

    fn check_lines(&self, fault: Fault) -> Result<()> {
        if !self.init {
            return refuse_fault(format!(
                "{} is visible in NCCL's first lines and cannot be combined with --no-init",
                fault.kind.name()
            ));
        }
        Ok(())
    }
}
