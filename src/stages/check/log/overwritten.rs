//! Lines partly overwritten by another process, where processes share one NCCL_DEBUG_FILE: each
//! writes at the end of its own bytes.
//!
//! A line that is longer than the text over it keeps its end, as a line without the beginning of
//! its header. Quoted lines lack headers too, but not a single one among lines with headers.

use crate::log::walk::MessageLine;
use crate::stages::check::log::limits::{MAX_HEADER_END_BYTES, MAX_OVERWRITTEN_PLACES};
use crate::stages::net::net_stage::FirstReportLine;
use memchr::memmem;
use serde::{Deserialize, Serialize};

/// A chunk's lines that lack the beginning of their header, or all.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct HeaderRemains {
    /// How many there are.
    pub(crate) count: u64,
    /// Where the first few are.
    pub(crate) places: Vec<FirstReportLine>,
    /// The last line with a header.
    last: Option<FirstReportLine>,
    /// The chunk begins with such a line: whether the line before it has a header is not known.
    first: bool,
}

impl HeaderRemains {
    /// Takes a message of NCCL's.
    pub(crate) fn take_message(&mut self, said: &MessageLine<'_>) {
        let at = FirstReportLine::in_chunk(said.line);
        if said.tid.is_some() {
            self.last = Some(at);
        } else if is_rest_of_header(said.text) {
            match said.line.checked_sub(1) {
                None => self.first = true,
                Some(before) if self.last.is_some_and(|last| last.line == before) => {
                    self.note_place(at);
                }
                Some(_) => {}
            }
        }
    }

    fn note_place(&mut self, at: FirstReportLine) {
        self.count += 1;
        if self.places.len() < MAX_OVERWRITTEN_PLACES {
            self.places.push(at);
        }
    }

    /// Adds a chunk's that follow; `line` is the chunk's first line in the input `input`.
    pub(crate) fn add_chunk(&mut self, part: HeaderRemains, input: u32, line: u64) {
        let placed = |at: FirstReportLine| at.place_in_input(input, line);
        let before = line
            .checked_sub(1)
            .map(|line| FirstReportLine { input, line });
        if part.first && before.is_some() && before == self.last {
            self.note_place(FirstReportLine { input, line });
        }
        self.count += part.count;
        let room = MAX_OVERWRITTEN_PLACES.saturating_sub(self.places.len());
        let places = part.places.into_iter().map(placed);
        self.places.extend(places.take(room));
        self.last = part.last.map(placed).or(self.last);
    }
}

/// True where a line begins with the end of a header: `61:1618221 [2] NCCL INFO`, `NCCL INFO`.
fn is_rest_of_header(line: &[u8]) -> bool {
    let Some(at) = memmem::find(line, b"NCCL INFO ") else {
        return false;
    };
    let before = &line[..at];
    at <= MAX_HEADER_END_BYTES
        && before
            .iter()
            .all(|b| b.is_ascii_digit() || b":[] ".contains(b))
}
