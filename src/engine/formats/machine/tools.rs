//! The texts of `nvidia-smi` (`-q`, `nvlink -e`) and `dcgmi` (`diag`, `health`) where they show errors of a GPU.
//!
//! ```text
//! GPU 00000000:DC:00.0                               nvidia-smi -q
//!     ECC Errors
//!         Volatile
//!             DRAM Uncorrectable            : 2
//!     Remapped Rows
//!         Remapping Failure Occurred        : Yes
//! GPU 3: NVIDIA H100 80GB HBM3 (UUID: GPU-...)       nvidia-smi nvlink -e
//!      Link 0: Replay Errors: 2
//! | GPU ID: 3                 | Failure      |        dcgmi health -c
//! | memory                    | Fail - GPU: 3  |      dcgmi diag
//! ```

use super::event::{MachineEvent, new_event};
use super::has;
use crate::grammar::machine::{MachineClass, MachineReport, PciAddress, find_pci_address};
use crate::grammar::token::dec_u32;
use memchr::memmem;
use std::sync::LazyLock;

/// True for a line that may be the first of such a text.
pub(super) fn may_begin(line: &[u8]) -> bool {
    let begins = [
        &b"=============="[..],
        b"GPU 0",
        b"Unable to determine the device handle for",
        b"Successfully ran diagnostic",
        b"+----",
        b"Timestamp",
    ];
    begins.iter().any(|begin| line.starts_with(begin))
}

/// True for a line that only such a text has.
pub(super) fn is_mark(line: &[u8]) -> bool {
    let marks = [
        &b"==NVSMI LOG=="[..],
        b"Unable to determine the device handle for",
        b"Successfully ran diagnostic for group",
        b"Health Monitor Report",
    ];
    let is_link = line.starts_with(b"Link ") && has(line, b" Errors: ");
    is_link || marks.iter().any(|mark| has(line, mark))
}

/// A value that is an error: its heading, its name, which values are bad, and what it means.
pub(super) struct StateRow {
    heading: &'static str,
    name: &'static str,
    values: &'static str,
    report: MachineReport,
}

const STATES_TEXT: &str = include_str!("states.txt");

static STATES: LazyLock<Vec<StateRow>> =
    LazyLock::new(|| state_rows().filter_map(parse_row).collect());

pub(super) fn state_rows() -> impl Iterator<Item = &'static str> {
    STATES_TEXT
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
}

/// Parses `memory reset | Volatile | Uncorrectable | some | its memory ..`.
pub(super) fn parse_row(row: &'static str) -> Option<StateRow> {
    let mut parts = row.split('|').map(str::trim);
    let (class, action) = parts.next()?.split_once(' ')?;
    Some(StateRow {
        heading: parts.next()?,
        name: parts.next()?,
        values: parts.next()?,
        report: MachineReport {
            class: MachineClass::parse_word(class)?,
            action,
            number: None,
            means: parts.next()?,
        },
    })
}

impl StateRow {
    fn is_bad(&self, value: &[u8]) -> bool {
        let digits = value.iter().take_while(|b| b.is_ascii_digit());
        match self.values {
            "some" => digits.into_iter().any(|&b| b != b'0'),
            "set" => !value.is_empty() && value != b"None" && value != b"N/A",
            exact => value == exact.as_bytes(),
        }
    }
}

/// Reads such a text, line by line.
#[derive(Debug, Default)]
pub(super) struct ToolReader {
    is_begun: bool,
    device: Option<PciAddress>,
    gpu: Option<u32>,
    /// The headings above a line, each with its indent.
    headings: Vec<(usize, Box<[u8]>)>,
}

impl ToolReader {
    /// Reads a line; nothing counts before a mark of such a text.
    pub(super) fn read_line(&mut self, line: &[u8]) -> Option<MachineEvent> {
        let text = line.trim_ascii();
        self.is_begun |= is_mark(text) || text.starts_with(b"GPU 0: ");
        if !self.is_begun || text.is_empty() {
            return None;
        }
        let is_lost = |row: &&StateRow| row.heading == "lost" && has(text, row.name.as_bytes());
        if let Some(row) = STATES.iter().find(is_lost) {
            return Some(MachineEvent {
                device: find_pci_address(text),
                ..new_event(row.report, None, line)
            });
        }
        match text.first() {
            Some(b'|') => self.read_table_line(text),
            _ => self.read_state_line(line, text),
        }
    }

    /// Reads `DRAM Uncorrectable : 2`, `Link 0: Replay Errors: 2`, a heading, or a GPU's.
    fn read_state_line(&mut self, line: &[u8], text: &[u8]) -> Option<MachineEvent> {
        let indent = line.len() - line.trim_ascii_start().len();
        if indent == 0 && text.starts_with(b"GPU ") {
            self.headings.clear();
            self.device = find_pci_address(text);
            let number = dec_u32(&text[4..]).ok();
            let number = number.filter(|(rest, _)| rest.starts_with(b": "));
            self.gpu = number.map(|(_, gpu)| gpu);
            return None;
        }
        self.headings.retain(|(of, _)| *of < indent);
        let Some(colon) = memmem::rfind(text, b": ") else {
            let kept = &text[..text.len().min(64)];
            self.headings.push((indent, kept.into()));
            self.headings.truncate(8);
            return None;
        };
        let (name, value) = (text[..colon].trim_ascii(), text[colon + 2..].trim_ascii());
        let is_under = |heading: &str| {
            let begins = |text: &[u8]| text.starts_with(heading.as_bytes());
            begins(name) || self.headings.iter().any(|(_, text)| begins(text))
        };
        let is_row = |row: &&StateRow| {
            has(name, row.name.as_bytes()) && row.is_bad(value) && is_under(row.heading)
        };
        Some(self.make_row_event(STATES.iter().find(is_row)?, line))
    }

    /// Reads `| GPU ID: 3 | Failure |`, `| memory | Fail - GPU: 3 |`, `| | GPU3: Fail |`.
    fn read_table_line(&mut self, text: &[u8]) -> Option<MachineEvent> {
        let mut cells = text.split(|&b| b == b'|').map(<[u8]>::trim_ascii).skip(1);
        let (first, value) = (cells.next()?, cells.next()?);
        let number = |text: &[u8]| dec_u32(text.trim_ascii_start()).ok().map(|(_, gpu)| gpu);
        let after =
            |text: &[u8], word: &[u8]| number(&text[memmem::find(text, word)? + word.len()..]);
        self.gpu = after(first, b"GPU ID:")
            .or_else(|| after(first, b"->"))
            .or(self.gpu);
        let named = [&b"GPU:"[..], b"GPU"]
            .iter()
            .find_map(|word| after(value, word));
        let is_row = |row: &&StateRow| {
            let result = value
                .rsplit(|&b| b == b':')
                .next()
                .unwrap_or(value)
                .trim_ascii();
            let begins = |text: &[u8]| text.starts_with(row.name.as_bytes());
            row.heading == "table" && (begins(value) || begins(result))
        };
        let row = STATES
            .iter()
            .find(is_row)
            .filter(|_| !first.starts_with(b"Warning") && !has(value, b"Overall Health"))?;
        let event = self.make_row_event(row, text);
        Some(MachineEvent {
            gpu: named.or(event.gpu),
            device: None,
            ..event
        })
    }

    fn make_row_event(&self, row: &StateRow, line: &[u8]) -> MachineEvent {
        MachineEvent {
            device: self.device,
            gpu: self.gpu,
            ..new_event(row.report, None, line)
        }
    }
}
