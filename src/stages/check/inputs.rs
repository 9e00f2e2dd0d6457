//! The inputs of a check: logs, and what other tools recorded beside them.

use super::dumps::{self, FlightDumps};
use super::finding::{Finding, Kind, Reason, Severity};
use super::live::LiveStates;
use super::machine::MachineInputs;
use super::records::CollectiveRecords;
use super::walk::CheckGathered;
use super::{actors, evidence};
use crate::count::calls::Options;
use crate::error::Result;
use crate::formats::open::{self, OpenInput, RecorderKind};
use crate::report::Report;
use crate::source::{Input, InputName};
use crate::stages::check::answer::judged::JudgedRecords;

/// The inputs of a check.
#[derive(Debug, Default)]
pub(crate) struct CheckInputs {
    /// Logs, and records that their first bytes do not show.
    pub(super) logs: Vec<InputName>,
    /// The records, read.
    pub(super) beside: RecorderInputs,
}

impl CheckInputs {
    /// Sorts the inputs, and reads the records.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(super) fn sort_inputs(
        origins: &[InputName],
        options: &Options,
        report: &mut Report,
    ) -> Result<CheckInputs> {
        let mut inputs = CheckInputs::default();
        for origin in origins {
            match open::open_recorded(origin, options.source) {
                Some((known, recorder)) => {
                    inputs.add_record(&known, recorder, options, report)?;
                }
                None => inputs.add_log(origin.clone()),
            }
        }
        Ok(inputs)
    }

    /// True without an input.
    pub(crate) fn is_empty(&self) -> bool {
        self.logs.is_empty() && !self.beside.is_read
    }

    /// Adds a log.
    pub(crate) fn add_log(&mut self, origin: InputName) {
        self.logs.push(origin);
    }

    /// Adds a record, and reads it.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn add_record(
        &mut self,
        known: &OpenInput,
        recorder: RecorderKind,
        options: &Options,
        report: &mut Report,
    ) -> Result<()> {
        self.beside.add_recording(known, recorder, options, report)
    }
}

/// Other tools' records of the job's calls.
#[derive(Debug, Default)]
pub(crate) struct RecorderInputs {
    pub(super) dumps: FlightDumps,
    pub(super) records: CollectiveRecords,
    pub(super) live: LiveStates,
    machine: MachineInputs,
    /// One of them was read.
    pub(super) is_read: bool,
}

impl RecorderInputs {
    /// Reads what a tool recorded.
    pub(super) fn add_recording<V>(
        &mut self,
        known: &OpenInput<V>,
        recorder: RecorderKind,
        options: &Options,
        report: &mut Report,
    ) -> Result<()> {
        self.is_read = true;
        match recorder {
            RecorderKind::Flight => self.dumps.load_dump(known.input(), report),
            RecorderKind::Nccl => self.records.read_records(known, options, report),
            RecorderKind::Ras => self.live.load_ras(known.input(), report),
            RecorderKind::Stacks => self.live.load_stacks(known.input(), report),
            RecorderKind::Machine => self.machine.load_messages(known.input(), report),
        }
    }

    /// Merges the findings of the recordings with those of the logs. Returns the recordings' names, and what of them
    /// was judged.
    ///
    /// # Errors
    /// A log cannot be read again.
    pub(super) fn merge_findings(
        self,
        seen: &CheckGathered,
        findings: &mut Vec<Finding>,
        open: impl Fn(u32) -> Result<Input>,
        report: &Report,
    ) -> Result<(Vec<String>, JudgedRecords)> {
        let RecorderInputs {
            dumps,
            records,
            mut live,
            machine,
            ..
        } = self;
        let before = dumps.names().chain(records.names());
        let mut names: Vec<String> = before.cloned().collect();
        let number = |inputs: usize| u32::try_from(inputs).unwrap_or(u32::MAX);
        let (shown, judged) = dumps.into_finding(number(seen.inputs.len()), report);
        let rank = |finding: &Finding| actors::find_rank_in_job(&seen.found, finding);
        dumps::merge_shown_finding(findings, shown, Reason::DumpsShow, rank);
        let sized = records.merge_record_findings(findings, report);
        let first_machine = number(seen.inputs.len() + names.len());
        if machine.have_times() {
            evidence::resolve_evidence(findings, open)?;
        }
        let has_log = first_machine > 0 || live.names().next().is_some();
        names.extend(machine.names().cloned());
        machine.merge_machine_findings(first_machine, &seen.found, has_log, findings);
        live.number_inputs_from(number(seen.inputs.len() + names.len()));
        names.extend(live.names().cloned());
        let is_failed = findings.iter().any(|f| f.severity == Severity::Error);
        if !is_failed {
            live.load_stacks_in_texts(seen)?;
        }
        let live = live.find_causes(&seen.found, is_failed);
        for shown in live.causes {
            dumps::merge_shown_finding(findings, Some(shown), Reason::StatesShow, rank);
        }
        let is_answered = findings.iter().any(|f| f.severity == Severity::Error);
        let is_new = |note: &Finding| note.kind != Kind::NotChecked || !is_answered;
        findings.extend(live.notes.into_iter().filter(is_new));
        let judged = JudgedRecords {
            sizes: sized.sizes,
            enqueued: sized.enqueued,
            ..judged
        };
        Ok((names, judged))
    }
}
