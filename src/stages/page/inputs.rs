//! Which stage reads which input, by its content.

use crate::error::Result;
use crate::formats::Provides;
use crate::formats::open;
use crate::report::Report;
use crate::source::{self, InputName};

/// The inputs by what they are.
#[derive(Debug, Default)]
pub(super) struct PageInputs {
    /// Logs, exports with a log in them, and records that lie beside them: dumps of the flight recorder,
    /// NCCL's own records.
    pub(super) checked: Vec<InputName>,
    /// Logs alone.
    pub(super) logs: Vec<InputName>,
    /// What has calls with durations, or may have.
    pub(super) timed: Vec<InputName>,
    /// Timelines of GPUs.
    pub(super) timelines: Vec<InputName>,
    /// One of them has a log in it.
    is_log_inside: bool,
}

impl PageInputs {
    /// Sorts the inputs. What is in a folder and is none of these is left out, and counted.
    ///
    /// # Errors
    /// An input that was named is none of these.
    pub(super) fn sort_inputs(
        origins: &[InputName],
        source: source::Options,
        report: &mut Report,
    ) -> Result<PageInputs> {
        let mut inputs = PageInputs::default();
        for origin in origins {
            if open::open_recorded(origin, source).is_some() {
                inputs.checked.push(origin.clone());
                inputs.timed.push(origin.clone());
                continue;
            }
            let known = match open::open_input::<()>(origin, source, Provides::NOTHING) {
                Ok(known) => known,
                Err(error) if origin.is_listed() => {
                    report.report_skipped(&origin.name(), &error.to_string());
                    continue;
                }
                Err(error) => return Err(error),
            };
            if known.provides(Provides::LINES) {
                inputs.checked.push(origin.clone());
                inputs.logs.push(origin.clone());
                continue;
            }
            if known.provides(Provides::GPU) {
                inputs.timelines.push(origin.clone());
                // An export of nsys may have what the job printed.
                let inside = open::open_input::<()>(origin, source, Provides::LINES);
                if inside.is_ok_and(|log| log.provides(Provides::LINES)) {
                    inputs.checked.push(origin.clone());
                    inputs.is_log_inside = true;
                }
            }
            inputs.timed.push(origin.clone());
        }
        Ok(inputs)
    }

    /// True where there are lines of NCCL or of a trainer.
    pub(super) fn has_lines(&self) -> bool {
        self.is_log_inside || !self.logs.is_empty()
    }

    /// True where the logs are all that nccl-check walks.
    pub(super) fn are_walked(&self) -> bool {
        !self.is_log_inside
    }

    /// True where all that is counted is in logs.
    pub(super) fn are_logs(&self) -> bool {
        !self.logs.is_empty() && self.timelines.is_empty()
    }

    /// What calls are counted of: of records beside a log they would be counted twice.
    pub(super) fn counted_inputs(&self) -> &[InputName] {
        match self.logs.is_empty() {
            true => &self.timed,
            false => &self.logs,
        }
    }
}
