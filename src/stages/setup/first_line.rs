//! The place of a line in the inputs.

use serde::{Deserialize, Serialize};

/// The first line that reports something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FirstReportLine {
    /// The input's number.
    pub input: u32,
    /// The line, from 0.
    pub line: u64,
}

impl FirstReportLine {
    /// A line of a chunk, until its input is known.
    pub(crate) fn in_chunk(line: u64) -> FirstReportLine {
        FirstReportLine { input: 0, line }
    }

    /// Places a line of a chunk in the input `input`, where the chunk begins at `line`.
    pub(crate) fn place_in_input(self, input: u32, line: u64) -> FirstReportLine {
        let line = self.line + line;
        FirstReportLine { input, line }
    }

    /// Renumbers the input if `inputs` others come before.
    pub(crate) fn shift_inputs(self, inputs: u32) -> FirstReportLine {
        FirstReportLine {
            input: self.input.saturating_add(inputs),
            ..self
        }
    }
}
