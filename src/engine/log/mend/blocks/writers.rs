//! The processes of a log in blocks, and the heads that wait for their tails.

use super::line::{certain_line_kind, header_piece_start_at, opening_header, process_prefix};
use crate::log::mend::limits::MAX_WRITERS;
use memchr::memchr;
use rustc_hash::FxHashMap;

/// `host:pid:`, which every header of a process begins with.
pub(super) type ProcessPrefix = Box<[u8]>;

/// A process, and the head of its last line. The tail begins its next buffer.
#[derive(Debug, Default)]
pub(super) struct BlockWriter {
    pub(super) head: Vec<u8>,
    /// Where the head ended in the log.
    pub(super) head_end: u64,
    /// A whole buffer ended there.
    pub(super) is_full: bool,
    /// Number of the write that was its last.
    turn: u64,
    /// It wrote a whole buffer.
    counted: bool,
}

/// The processes that were met, with their heads.
#[derive(Debug, Default)]
pub(super) struct BlockWriters {
    all: FxHashMap<ProcessPrefix, BlockWriter>,
    /// How many of them have a head.
    heads: usize,
    writes: u64,
}

impl BlockWriters {
    pub(super) fn has_heads(&self) -> bool {
        self.heads > 0
    }

    pub(super) fn is_known(&self, process: &[u8]) -> bool {
        self.all.contains_key(process)
    }

    /// Returns true if a process of this host (`host:`) was met.
    pub(super) fn is_known_host(&self, host: &[u8]) -> bool {
        self.all.keys().any(|process| process.starts_with(host))
    }

    /// Returns the process's writer if it has a head.
    pub(super) fn waiting(&self, process: &[u8]) -> Option<&BlockWriter> {
        self.all
            .get(process)
            .filter(|writer| !writer.head.is_empty())
    }

    /// Iterates over the processes that have a head.
    pub(super) fn all_waiting(&self) -> impl Iterator<Item = (&ProcessPrefix, &BlockWriter)> {
        self.all
            .iter()
            .filter(|(_, writer)| !writer.head.is_empty())
    }

    /// Counts the bytes of all heads.
    pub(super) fn head_bytes(&self) -> usize {
        self.all_waiting()
            .map(|(_, writer)| writer.head.len())
            .sum()
    }

    /// Returns the process of the whole header that opens `line`.
    pub(super) fn header_process<'b>(&self, line: &'b [u8]) -> Option<&'b [u8]> {
        let header = opening_header(line)?;
        let of = process_prefix(line, &header);
        // The header may itself lack its beginning.
        (header_piece_start_at(line, &header) == 0 && self.process_cut_in_host(of).is_none())
            .then_some(of)
    }

    /// Takes the bytes of other text off the host of `of`, if that gives a known process or `next`,
    /// the process of the next line.
    pub(super) fn unglue_process<'b>(&self, of: &'b [u8], next: Option<&[u8]>) -> &'b [u8] {
        let host = memchr(b':', of).unwrap_or(of.len());
        if self.is_known(of) {
            return of;
        }
        let is_known = |of: &[u8]| next == Some(of) || self.is_known(of);
        let mut shorter = (1..host).map(|cut| &of[cut..]);
        shorter.find(|of| is_known(of)).unwrap_or(of)
    }

    /// Returns the process with a header that lost the first bytes of its host to the buffer before.
    pub(super) fn process_cut_in_host(&self, of: &[u8]) -> Option<&ProcessPrefix> {
        if self.heads == 0 || self.waiting(of).is_some() {
            return None;
        }
        let is_it = |(full, writer): &(&ProcessPrefix, &BlockWriter)| {
            let lost = full.len().saturating_sub(of.len());
            lost > 0 && full.ends_with(of) && writer.head.ends_with(&full[..lost])
        };
        self.all_waiting().find(is_it).map(|(full, _)| full)
    }

    /// Returns the part of its name that a process's head lacks.
    pub(super) fn missing_name_part<'w>(&self, process: &'w [u8]) -> Option<&'w [u8]> {
        let head = &self.all.get(process)?.head;
        let has = (1..=process.len())
            .rev()
            .find(|&has| head.ends_with(&process[..has]))?;
        Some(&process[has..])
    }

    /// Returns true if `tail` is certainly the tail that the process waits for.
    pub(super) fn is_tail_of(&self, process: &[u8], tail: &[u8]) -> bool {
        let writer = self.waiting(process);
        writer.is_some_and(|writer| certain_line_kind(process, &writer.head, tail).is_some())
    }

    /// Notes that a process writes. The head of the one that is forgotten for it goes to `out`.
    pub(super) fn note_write(&mut self, process: &ProcessPrefix, out: &mut Vec<u8>) {
        self.writes += 1;
        let now = self.writes;
        self.remember(process, out).turn = now;
    }

    /// Returns the process, which is remembered from now on.
    fn remember(&mut self, process: &ProcessPrefix, out: &mut Vec<u8>) -> &mut BlockWriter {
        if self.all.len() >= MAX_WRITERS && !self.is_known(process) {
            let oldest = self.all.iter().min_by_key(|(_, writer)| writer.turn);
            if let Some(oldest) = oldest.map(|(process, _)| process.clone()) {
                self.pass_on_head(&oldest, out);
                self.all.remove(&oldest);
            }
        }
        self.all.entry(process.clone()).or_default()
    }

    /// Keeps the head of a line until its tail comes. Returns true for the process's first whole
    /// buffer.
    pub(super) fn keep_head(
        &mut self,
        process: &ProcessPrefix,
        head: &[u8],
        head_end: u64,
        is_full: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        self.pass_on_head(process, out);
        let writer = self.remember(process, out);
        let is_new = is_full && !writer.counted;
        writer.counted |= is_full;
        writer.head.extend_from_slice(head);
        writer.head_end = head_end;
        writer.is_full = is_full;
        self.heads += usize::from(!head.is_empty());
        is_new
    }

    /// Moves the process's head to `out`. Returns where it ended, and whether a whole buffer did.
    pub(super) fn take_head(&mut self, process: &[u8], out: &mut Vec<u8>) -> Option<(u64, bool)> {
        let writer = self.all.get_mut(process)?;
        if !writer.head.is_empty() {
            self.heads -= 1;
            out.append(&mut writer.head);
        }
        Some((writer.head_end, writer.is_full))
    }

    /// Passes on a head that will get no tail.
    pub(super) fn pass_on_head(&mut self, process: &[u8], out: &mut Vec<u8>) {
        self.take_head(process, out);
    }

    /// Forgets all processes. Returns their heads in the order of the log.
    pub(super) fn take_heads(&mut self) -> Vec<Vec<u8>> {
        let mut left: Vec<BlockWriter> = self.all.drain().map(|(_, writer)| writer).collect();
        left.sort_unstable_by_key(|writer| writer.head_end);
        self.heads = 0;
        let heads = left.into_iter().map(|writer| writer.head);
        heads.filter(|head| !head.is_empty()).collect()
    }
}
