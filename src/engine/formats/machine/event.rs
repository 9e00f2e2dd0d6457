//! The messages of an input, equal ones together.

use super::limits::{MAX_EVENTS, MAX_TEXT_BYTES};
use crate::grammar::machine::{
    KernelClock, MachineReport, PciAddress, find_machine_message, parse_kernel_line,
};
use std::collections::BTreeMap;

/// A message, or several equal ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineEvent {
    /// What it reports.
    pub report: MachineReport,
    /// The host, if the line names it.
    pub host: Option<Box<[u8]>>,
    /// The device.
    pub device: Option<PciAddress>,
    /// The number of the GPU on its host.
    pub gpu: Option<u32>,
    /// The process.
    pub pid: Option<u64>,
    /// The name of its program.
    pub process: Option<Box<[u8]>>,
    /// The time of the first.
    pub clock: KernelClock,
    /// It is a state that was read, not something that happened at a time.
    pub is_state: bool,
    /// The line of the first, from 0.
    pub line: u64,
    /// The line of the last.
    pub last_line: u64,
    /// The first line.
    pub text: Box<[u8]>,
    /// How many there are.
    pub count: u64,
}

/// The messages of an input, in the order of the first line of each.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MachineMessages {
    /// The messages.
    pub events: Vec<MachineEvent>,
    /// Messages beyond the limit.
    pub omitted: u64,
    known: BTreeMap<EventKey, usize>,
}

type EventKey = (
    MachineReport,
    Option<Box<[u8]>>,
    Option<PciAddress>,
    Option<u32>,
    Option<u64>,
);

impl MachineMessages {
    pub(super) fn add_event(&mut self, event: MachineEvent) {
        let key = (
            event.report,
            event.host.clone(),
            event.device,
            event.gpu,
            event.pid,
        );
        match self.known.get(&key) {
            Some(&at) => {
                self.events[at].count += 1;
                self.events[at].last_line = event.line;
            }
            None if self.events.len() == MAX_EVENTS => self.omitted += 1,
            None => {
                self.known.insert(key, self.events.len());
                self.events.push(event);
            }
        }
    }
}

/// An event of a text that the table of messages has.
pub(super) fn find_event(
    text: &[u8],
    host: Option<&[u8]>,
    clock: KernelClock,
    line: &[u8],
) -> Option<MachineEvent> {
    let found = find_machine_message(text)?;
    Some(MachineEvent {
        device: found.device,
        pid: found.pid,
        process: found.process.map(Into::into),
        clock,
        is_state: false,
        ..new_event(found.report, host, line)
    })
}

/// An event without anything but what it reports, where it is, and its line.
pub(super) fn new_event(report: MachineReport, host: Option<&[u8]>, line: &[u8]) -> MachineEvent {
    let line = line.trim_ascii();
    MachineEvent {
        report,
        host: host.map(Into::into),
        device: None,
        gpu: None,
        pid: None,
        process: None,
        clock: KernelClock::None,
        is_state: true,
        line: 0,
        last_line: 0,
        text: line[..line.len().min(MAX_TEXT_BYTES)].into(),
        count: 1,
    }
}

/// Reads a line of dmesg or syslog.
pub(super) fn parse_event_line(line: &[u8]) -> Option<MachineEvent> {
    let read = parse_kernel_line(line)?;
    if read.is_of_other_program() {
        return None;
    }
    find_event(read.text, read.host, read.clock, line)
}
