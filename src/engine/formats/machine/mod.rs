//! What a machine reports of itself: the kernel's messages (dmesg, syslog, the journal), and the texts in which `nvidia-smi`
//! and DCGM show errors. Only messages that explain a failure are kept, equal ones together.

mod event;
mod journal;
mod limits;
mod tools;

pub use event::{MachineEvent, MachineMessages};

use super::ordered;
use super::{InputFormat, InputHead, ProbeAnswer, Provides};
use crate::error::Result;
use crate::grammar::machine::{KernelClock, parse_kernel_line};
use crate::source::Input;
use limits::{MAX_LINE_BYTES, MAX_PROBED_LINES};
use memchr::memmem;
use std::io::BufReader;

/// The kernel's messages.
pub(super) const KERNEL: InputFormat = InputFormat {
    name: "machine",
    what: "the kernel's messages (dmesg, syslog, the journal)",
    tells: Provides::MACHINE,
    probe: probe_kernel,
};

/// The log of NVIDIA's fabric manager.
pub(super) const FABRIC: InputFormat = InputFormat {
    what: "the log of NVIDIA's fabric manager",
    probe: |head| {
        let read = parse_kernel_line(head.first_line());
        let is = read.is_some_and(|line| {
            line.text.starts_with(b"[")
                && has(line.text, b"] [tid ")
                && line.clock != KernelClock::None
        });
        head.probe_recorder(is)
    },
    ..KERNEL
};

/// What `nvidia-smi` or `dcgmi` prints.
pub(super) const TOOLS: InputFormat = InputFormat {
    what: "a report on GPUs (nvidia-smi, dcgmi)",
    probe: |head| {
        let lines: Vec<&[u8]> = head.lines().take(MAX_PROBED_LINES).collect();
        match lines.first() {
            None => head.no_once_closed(true),
            Some(first) if !tools::may_begin(first) || has_nccl_line(&lines) => ProbeAnswer::No,
            Some(_) if lines.iter().any(|line| tools::is_mark(line)) => head.probe_recorder(true),
            Some(_) => head.no_once_closed(lines.len() < MAX_PROBED_LINES),
        }
    },
    ..KERNEL
};

/// Recognises the kernel's messages: the first line has their form, most of the first lines do, and one of them is surely the
/// kernel's. A log with such lines in it is a log, and so is a log with stamps of syslog's form: its first line of NCCL
/// decides.
fn probe_kernel(head: &InputHead<'_>) -> ProbeAnswer {
    if journal::is_journal(head.first_line()) {
        return head.probe_recorder(true);
    }
    let lines: Vec<&[u8]> = head.lines().take(MAX_PROBED_LINES).collect();
    let Some(first) = lines.first() else {
        return head.no_once_closed(true);
    };
    if parse_kernel_line(first).is_none() || has_nccl_line(&lines) {
        return ProbeAnswer::No;
    }
    let formed = || lines.iter().filter_map(|line| parse_kernel_line(line));
    let is_most = 2 * formed().count() > lines.len();
    match is_most && formed().any(|line| line.is_surely_kernel()) {
        true => head.probe_recorder(true),
        false => head.no_once_closed(lines.len() < MAX_PROBED_LINES),
    }
}

/// True for lines of a log of NCCL's.
fn has_nccl_line(lines: &[&[u8]]) -> bool {
    lines.iter().any(|line| has(line, b" NCCL "))
}

/// Reads the messages of some bytes.
pub fn parse_machine_messages(bytes: &[u8]) -> MachineMessages {
    let mut reader = MachineReader::default();
    bytes
        .split(|&b| b == b'\n')
        .for_each(|line| reader.read_line(line));
    reader.messages
}

/// Reads the messages of an input.
///
/// # Errors
/// It cannot be read.
pub fn load_machine_messages(input: &Input) -> Result<MachineMessages> {
    let mut reader = MachineReader::default();
    let mut bytes = BufReader::new(input.open_reader()?);
    ordered::for_each_line(&mut bytes, &input.name(), MAX_LINE_BYTES, &mut |line| {
        reader.read_line(line);
        Ok(())
    })?;
    Ok(reader.messages)
}

/// Reads lines, one after the other.
#[derive(Debug, Default)]
struct MachineReader {
    messages: MachineMessages,
    tools: tools::ToolReader,
    line: u64,
}

impl MachineReader {
    fn read_line(&mut self, line: &[u8]) {
        let number = self.line;
        self.line += 1;
        let found = match line.trim_ascii_start().first() {
            Some(b'{') => journal::parse_journal_line(line),
            _ => event::parse_event_line(line).or_else(|| self.tools.read_line(line)),
        };
        if let Some(event) = found {
            self.messages.add_event(MachineEvent {
                line: number,
                last_line: number,
                ..event
            });
        }
    }
}

/// True for a text that has the word.
fn has(text: &[u8], word: &[u8]) -> bool {
    memmem::find(text, word).is_some()
}

#[cfg(test)]
mod tests;
