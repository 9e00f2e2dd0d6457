//! What the machines of the job report: the kernel's messages, nvidia-smi and DCGM, joined to the job's ranks by host, process
//! and GPU.
//!
//! A message is a cause only if it is about a process, a GPU or a host of the job, and if it is not after the failure. Others are
//! notes.

mod findings;
mod join;
mod limits;
#[cfg(test)]
mod tests;
mod time_order;
mod words;

use super::finding::{Finding, Severity};
use crate::error::Result;
use crate::formats::machine::{self, MachineEvent};
use crate::report::Report;
use crate::source::Input;
use crate::stages::communicators::CommunicatorsSummary;
use findings::MachineJudge;
use join::JobMachines;
use time_order::first_failure_time;

/// The messages of machines among the inputs of a check.
#[derive(Debug, Default)]
pub(super) struct MachineInputs {
    names: Vec<String>,
    events: Vec<NumberedEvent>,
}

/// A message, with the number of its input.
#[derive(Debug)]
struct NumberedEvent {
    input: u32,
    event: MachineEvent,
}

impl MachineInputs {
    /// The names of the inputs.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.iter()
    }

    /// True if there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// True if a message has a time that can be compared with the log's.
    pub(super) fn have_times(&self) -> bool {
        let clocks = self.events.iter().map(|of| of.event.clock);
        clocks.into_iter().any(time_order::is_wall)
    }

    /// Reads messages.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn load_messages(&mut self, input: &Input, report: &mut Report) -> Result<()> {
        let read = machine::load_machine_messages(input)?;
        let name = input.name();
        if read.omitted > 0 {
            let omitted = read.omitted;
            report.warn_damaged(&format!(
                "{name}: {omitted} more messages were only counted"
            ));
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name);
        let numbered = read.events.into_iter();
        self.events.extend(numbered.map(|event| NumberedEvent {
            input: number,
            event,
        }));
        Ok(())
    }

    /// Adds what the messages show to the findings of the log; the numbers of their inputs begin with `first`.
    pub(super) fn merge_machine_findings(
        self,
        first: u32,
        found: &CommunicatorsSummary,
        has_log: bool,
        findings: &mut Vec<Finding>,
    ) {
        if self.is_empty() {
            return;
        }
        let failed = findings.iter().any(|f| f.severity == Severity::Error);
        let judge = MachineJudge {
            job: JobMachines::new(found),
            names: &self.names,
            failed_at: first_failure_time(findings),
            has_failed: failed,
            log_findings: findings,
            first,
        };
        let mut own = judge.find_messages(&self.events);
        let is_wrong = |f: &Finding| f.severity == Severity::Error;
        if !has_log && !own.iter().any(is_wrong) {
            own.push(findings::nothing_found(&own));
        }
        findings.append(&mut own);
    }
}
