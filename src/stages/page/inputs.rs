//! Sorts the inputs by content to the stages that read them.

use crate::count::calls::Options;
use crate::error::Result;
use crate::formats::Provides;
use crate::formats::open::{self, OpenInput, SortedInput};
use crate::log::first_damage_error;
use crate::report::Report;
use crate::source::InputName;
use crate::stages::check::CheckInputs;
use crate::stages::matrix::snoopie;

/// The inputs by kind.
#[derive(Debug, Default)]
pub(super) struct PageInputs {
    /// Logs, exports with a log in them, and records that lie beside them: dumps of the flight recorder,
    /// NCCL's own records.
    pub(super) checked: CheckInputs,
    /// Logs alone.
    pub(super) logs: Vec<InputName>,
    /// Inputs with calls that have durations, or may have.
    pub(super) timed: Vec<InputName>,
    /// Timelines of GPUs.
    pub(super) timelines: Vec<InputName>,
    /// Accesses that Snoopie recorded: only the matrix has them.
    pub(super) accessed: Vec<InputName>,
    /// The parts that any of them provides.
    pub(super) parts: Provides,
    /// One of them has a log in it.
    is_log_inside: bool,
}

impl PageInputs {
    /// Sorts the inputs. A file of a folder that is none of these is reported as skipped.
    ///
    /// # Errors
    /// An input that the user named is none of these; damage under `--strict`.
    pub(super) fn sort_inputs(
        origins: &[InputName],
        options: &Options,
        report: &mut Report,
    ) -> Result<PageInputs> {
        let mut inputs = PageInputs::default();
        for origin in origins {
            match open::sort_input(origin, options.source) {
                SortedInput::Record(record, recorder) => {
                    inputs.parts = inputs.parts.and(record.parts());
                    let checked = &mut inputs.checked;
                    checked.add_record(&record, recorder, options, report)?;
                    inputs.timed.push(origin.clone());
                }
                SortedInput::NcclLog(parts) => {
                    inputs.parts = inputs.parts.and(parts);
                    inputs.add_log(origin);
                }
                SortedInput::Other => inputs.add_other(origin, options, report)?,
            }
        }
        Ok(inputs)
    }

    /// Adds an input that is neither plainly a log nor a record of calls.
    fn add_other(
        &mut self,
        origin: &InputName,
        options: &Options,
        report: &mut Report,
    ) -> Result<()> {
        let open = |needs| open::open_input::<()>(origin, options.source, needs);
        // A topology has nothing for the page: its reader is named.
        let is_topology = |known: &OpenInput| known.provides(Provides::TOPOLOGY);
        let known = open(Provides::NOTHING).and_then(|known| match is_topology(&known) {
            true => open(Provides::LINES),
            false => Ok(known),
        });
        let known = match known {
            Ok(known) => known,
            Err(_) if snoopie::is_packed_run(origin) => {
                self.parts = self.parts.and(Provides::ACCESSES);
                self.accessed.push(origin.clone());
                return Ok(());
            }
            Err(error) if origin.is_listed() => {
                report.report_skipped(&origin.name(), &error.to_string());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.parts = self.parts.and(known.parts());
        if known.provides(Provides::ACCESSES) {
            self.accessed.push(origin.clone());
            return Ok(());
        } else if known.recorder().is_some() {
            // Its first bytes may be the rest of a record's line.
            self.checked.add_log(origin.clone());
        } else if known.provides(Provides::LINES) {
            self.add_log(origin);
            return Ok(());
        } else if let Some(account) = known.read_account_of_sums()? {
            // No section has them, but their damage counts.
            if options.log.strict {
                first_damage_error(&known.name(), &account)?;
            }
            report.report_input(&known.name(), &account);
        } else if known.provides(Provides::GPU) {
            self.timelines.push(origin.clone());
            // An export of nsys may have the job's output.
            let inside = open::open_input::<()>(origin, options.source, Provides::LINES);
            if inside.is_ok_and(|log| log.provides(Provides::LINES)) {
                self.checked.add_log(origin.clone());
                self.is_log_inside = true;
            }
        }
        self.timed.push(origin.clone());
        Ok(())
    }

    fn add_log(&mut self, origin: &InputName) {
        self.checked.add_log(origin.clone());
        self.logs.push(origin.clone());
    }

    /// True if there are lines of NCCL or of a trainer.
    pub(super) fn has_lines(&self) -> bool {
        self.is_log_inside || !self.logs.is_empty()
    }

    /// True if nccl-check walks plain logs only.
    pub(super) fn are_walked(&self) -> bool {
        !self.is_log_inside
    }

    /// True if all calls and copies are in logs.
    pub(super) fn are_logs(&self) -> bool {
        !self.logs.is_empty() && self.timelines.is_empty()
    }

    /// The inputs to count calls of: with records beside a log they would be counted twice.
    pub(super) fn counted_inputs(&self) -> &[InputName] {
        match self.logs.is_empty() {
            true => &self.timed,
            false => &self.logs,
        }
    }
}
