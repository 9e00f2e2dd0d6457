//! Sockets: the interfaces that NCCL chose, and connections that it tries again.

mod interfaces;
mod limits;
mod retries;

pub(crate) use interfaces::{InterfaceRole, InterfaceUse};
pub(crate) use retries::{RetriedPeer, RetryLines};

use crate::grammar::message::NcclMessage;
use crate::grammar::message::network::net::NetMessage;
use crate::log::walk::MessageLine;
use crate::members::MergedNumbers;
use crate::stages::setup::first_line::FirstReportLine;
use crate::stages::setup::thread::SpeakerThread;
use interfaces::collect_interfaces;
use limits::{MAX_INTERFACES_KEPT, MAX_RETRIES_KEPT};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Lines about sockets; `L` is a line of a chunk, or of all inputs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SocketLines<L> {
    /// The first line of each interface, by process.
    pub(crate) interfaces: FxHashMap<(u32, InterfaceUse), L>,
    /// Connections that a thread tries again.
    pub(crate) retries: FxHashMap<(SpeakerThread, RetriedPeer), RetryLines<L>>,
    /// The last line of each thread.
    last: FxHashMap<SpeakerThread, L>,
    /// The last time stamp as printed; empty if there is none.
    last_time: Vec<u8>,
}

impl<L> Default for SocketLines<L> {
    fn default() -> SocketLines<L> {
        SocketLines {
            interfaces: FxHashMap::default(),
            retries: FxHashMap::default(),
            last: FxHashMap::default(),
            last_time: Vec::new(),
        }
    }
}

impl SocketLines<u64> {
    /// Takes a message of a chunk.
    pub(crate) fn take_message(&mut self, said: &MessageLine<'_>) {
        let thread = SpeakerThread::new(said.process, said.tid);
        self.last.insert(thread, said.line);
        if !said.time.is_empty() {
            self.last_time.clear();
            self.last_time.extend_from_slice(said.time);
        }
        match &said.message {
            NcclMessage::Net(NetMessage::Retry(retry)) => {
                let lines = RetryLines {
                    count: 1,
                    first: said.line,
                    last: said.line,
                    tries: retry.tries,
                    since: said.time.into(),
                };
                self.add_retry(thread, RetriedPeer::from_retry(retry), lines);
            }
            message => collect_interfaces(message, |used| {
                self.add_interface(said.process, used, said.line);
            }),
        }
    }
}

impl<L: Ord + Copy> SocketLines<L> {
    fn add_interface(&mut self, process: u32, used: InterfaceUse, line: L) {
        let key = (process, used);
        if let Some(first) = self.interfaces.get_mut(&key) {
            *first = line.min(*first);
        } else if self.interfaces.len() < MAX_INTERFACES_KEPT {
            self.interfaces.insert(key, line);
        }
    }

    fn add_retry(&mut self, thread: SpeakerThread, peer: RetriedPeer, lines: RetryLines<L>) {
        let key = (thread, peer);
        if let Some(known) = self.retries.get_mut(&key) {
            known.add_following(lines);
        } else if self.retries.len() < MAX_RETRIES_KEPT {
            self.retries.insert(key, lines);
        }
    }

    fn add_last(&mut self, thread: SpeakerThread, line: L) {
        let last = self.last.entry(thread).or_insert(line);
        *last = line.max(*last);
    }
}

impl SocketLines<FirstReportLine> {
    /// Adds a chunk that follows what was added before; `first` places its lines.
    pub(super) fn add_chunk(
        &mut self,
        chunk: SocketLines<u64>,
        to: &MergedNumbers,
        first: impl Fn(u64) -> FirstReportLine,
    ) {
        let thread = |of: SpeakerThread| of.renumber(to);
        let process = |of: u32| to.processes[of as usize];
        self.add_lines(chunk, thread, process, first);
    }

    /// Adds later inputs that were read elsewhere, after `before` others.
    pub(super) fn merge(
        &mut self,
        other: SocketLines<FirstReportLine>,
        to: &MergedNumbers,
        before: u32,
    ) {
        let thread = |of: SpeakerThread| of.renumber(to);
        let process = |of: u32| to.processes[of as usize];
        self.add_lines(other, thread, process, |at| at.shift_inputs(before));
    }

    /// Gives the lines to the real processes; `aliases` has the real number of each.
    pub(super) fn resolve_aliases(&mut self, aliases: &[u32]) {
        let real = |process: u32| aliases.get(process as usize).copied().unwrap_or(process);
        let thread = |of: SpeakerThread| SpeakerThread::new(real(of.process), of.tid);
        let all = std::mem::take(self);
        self.add_lines(all, thread, real, |at| at);
    }

    fn add_lines<L: Ord + Copy>(
        &mut self,
        other: SocketLines<L>,
        thread: impl Fn(SpeakerThread) -> SpeakerThread,
        process: impl Fn(u32) -> u32,
        place: impl Fn(L) -> FirstReportLine,
    ) {
        // In the order of the lines: where there are too many, the first ones are kept.
        let mut interfaces: Vec<_> = other.interfaces.into_iter().collect();
        interfaces.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
        for ((of, used), line) in interfaces {
            self.add_interface(process(of), used, place(line));
        }
        let mut retries: Vec<_> = other.retries.into_iter().collect();
        retries.sort_by(|a, b| (a.1.first, &a.0).cmp(&(b.1.first, &b.0)));
        for ((of, peer), lines) in retries {
            self.add_retry(thread(of), peer, lines.place_lines(&place));
        }
        for (of, line) in other.last {
            self.add_last(thread(of), place(line));
        }
        if !other.last_time.is_empty() {
            self.last_time = other.last_time;
        }
    }

    /// Returns the last line of each process that is not a call.
    pub(crate) fn last_lines(&self) -> FxHashMap<u32, FirstReportLine> {
        let mut by_process: FxHashMap<u32, FirstReportLine> = FxHashMap::default();
        for (thread, &line) in &self.last {
            let last = by_process.entry(thread.process).or_insert(line);
            *last = line.max(*last);
        }
        by_process
    }

    /// Returns the time stamp of the last message that has one.
    pub(crate) fn last_time(&self) -> &[u8] {
        &self.last_time
    }

    /// Returns the connections that a thread still tries in its last line, in the order of their first lines.
    pub(crate) fn open_retries(
        &self,
    ) -> Vec<(SpeakerThread, &RetriedPeer, &RetryLines<FirstReportLine>)> {
        let is_last =
            |of: &SpeakerThread, lines: &RetryLines<_>| self.last.get(of) == Some(&lines.last);
        let open = self
            .retries
            .iter()
            .filter(|((of, _), lines)| is_last(of, lines));
        let mut open: Vec<_> = open.map(|((of, peer), lines)| (*of, peer, lines)).collect();
        open.sort_by_key(|&(of, _, lines)| (lines.first, of));
        open
    }
}
