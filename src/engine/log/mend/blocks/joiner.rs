//! Cuts a log into its writes, and joins the lines that the ends of writes cut.

use super::line::{BlockLineKind, JoinCertainty, LineFit, line_at, line_end};
use super::write_end::{WriteEnd, WriteEndSearch};
use super::write_start::{WriteStart, WriteStartSearch};
use super::writers::{BlockWriters, ProcessPrefix};
use crate::log::mend::limits::HEADER_SEARCH_BYTES;
use crate::source::{RejoinCounts, STDIO_BUFFER_BYTES};

/// Cuts a log into its writes.
#[derive(Debug, Default)]
pub(super) struct BlockJoiner {
    writers: BlockWriters,
    /// Bytes taken so far.
    at: u64,
    /// Where the last write would have ended, had it been a whole buffer.
    expected: u64,
    /// The last time stamp in front of a header, if lines have them.
    stamp: Vec<u8>,
    pub(super) seen: RejoinCounts,
    /// How many lines were cut at the end of a whole buffer and continue elsewhere.
    pub(super) evidence: u64,
    /// How often an end of a write may still be searched that the length of a buffer does not give.
    tries: u32,
}

impl BlockJoiner {
    /// Begins a log. An end of a write that the length of a buffer does not give is searched `tries`
    /// times at most.
    pub(super) fn new(tries: u32) -> BlockJoiner {
        BlockJoiner {
            tries,
            ..BlockJoiner::default()
        }
    }

    /// Takes one write from the start of `bytes`, or a line that is passed on. `bytes` holds the rest
    /// of the log if `last`, else at least twice [`HEADER_SEARCH_BYTES`]. Returns how many bytes were
    /// taken: none only if there are none.
    pub(super) fn take_write(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>) -> usize {
        // The result must not depend on how much of the log was read.
        let last = last && bytes.len() <= 2 * HEADER_SEARCH_BYTES;
        let bytes = &bytes[..bytes.len().min(2 * HEADER_SEARCH_BYTES)];
        let mut taken = self.take_block_write(bytes, last, out);
        if taken == 0 {
            // A buffer with nothing of the process: its first line is passed on.
            let line = line_at(bytes, 0);
            out.extend_from_slice(line);
            taken = line.len();
        }
        self.at += taken as u64;
        taken
    }

    /// Passes on the heads that still wait: the log has ended. They are its last line, which has no end, as that of
    /// each process.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        let heads = self.writers.take_heads();
        self.seen.unended += heads.len() as u64;
        out.extend(heads.into_iter().flatten());
    }

    fn starts(&self) -> WriteStartSearch<'_> {
        WriteStartSearch {
            writers: &self.writers,
            at: self.at,
            expected: self.expected,
        }
    }

    fn take_block_write(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>) -> usize {
        let mut from = 0;
        while from < bytes.len().min(HEADER_SEARCH_BYTES) {
            let end = line_end(bytes, from);
            if !last && end == bytes.len() && bytes[end - 1] != b'\n' {
                // The line is longer than `bytes`.
                break;
            }
            let Some(start) = self.starts().find_start(bytes, from, end) else {
                from = end;
                continue;
            };
            return match start {
                WriteStart::Tail {
                    process,
                    at,
                    end,
                    fit,
                } => {
                    out.extend_from_slice(&bytes[..at]);
                    self.write_joined_line(&process, &bytes[at..end], at, fit, out);
                    self.take_block(bytes, at, end, &process, out)
                }
                WriteStart::Beheaded { process, end, lost } => {
                    out.extend_from_slice(&bytes[..from]);
                    self.keep_head(&process, &process[..lost], 0, false, out);
                    let fit = LineFit::strong(BlockLineKind::Other);
                    self.write_joined_line(&process, &bytes[from..end], from, fit, out);
                    self.take_block(bytes, from, end, &process, out)
                }
                WriteStart::Header { process, at } => {
                    out.extend_from_slice(&bytes[..at]);
                    self.writers.pass_on_head(&process, out);
                    // In the middle of a line, where a whole buffer ended.
                    let is_cut = at == 0 && self.expected == self.at;
                    self.evidence += u64::from(is_cut && self.is_cut_by_another(&process));
                    self.take_block(bytes, at, at, &process, out)
                }
            };
        }
        let taken = if from == 0 { bytes.len() } else { from };
        out.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// Returns true if the last byte that was taken ended another process's head.
    fn is_cut_by_another(&self, process: &ProcessPrefix) -> bool {
        let mut waiting = self.writers.all_waiting();
        waiting.any(|(of, writer)| of != process && writer.is_full && writer.head_end == self.at)
    }

    /// Gives out a joined line; its tail is at `at` of the bytes in hand.
    fn write_joined_line(
        &mut self,
        process: &ProcessPrefix,
        tail: &[u8],
        at: usize,
        fit: LineFit,
        out: &mut Vec<u8>,
    ) {
        let here = self.at + at as u64;
        // Everything that was taken and does not wait was given out.
        let begins = self
            .seen
            .first
            .unwrap_or_else(|| here.saturating_sub(self.writers.head_bytes() as u64));
        let head = self.writers.take_head(process, out);
        out.extend_from_slice(tail);
        if let Some((_, is_full)) = head.filter(|(head_end, _)| *head_end != here) {
            self.seen.first.get_or_insert(begins);
            self.evidence += u64::from(is_full && fit.certainty == JoinCertainty::Strong);
            match fit.kind {
                BlockLineKind::Call => self.seen.calls += 1,
                BlockLineKind::Other => self.seen.others += 1,
            }
        }
    }

    /// Takes the write that begins at `start` and has whole lines from `from` on. Returns its end.
    fn take_block(
        &mut self,
        bytes: &[u8],
        start: usize,
        from: usize,
        process: &ProcessPrefix,
        out: &mut Vec<u8>,
    ) -> usize {
        let full = start + STDIO_BUFFER_BYTES;
        self.expected = self.at + full as u64;
        if from > full {
            return from;
        }
        self.writers.note_write(process, out);
        let mut search = WriteEndSearch {
            starts: WriteStartSearch {
                writers: &self.writers,
                at: self.at,
                expected: self.expected,
            },
            bytes,
            process,
            stamp: &mut self.stamp,
            tries: &mut self.tries,
        };
        match search.find_end(from, full) {
            WriteEnd::Line(end) => {
                out.extend_from_slice(&bytes[from..end]);
                end
            }
            WriteEnd::Cut { line, end } => {
                out.extend_from_slice(&bytes[from..line]);
                self.keep_head(process, &bytes[line..end], end, end == full, out);
                end
            }
            WriteEnd::Glued { line, joint } => {
                // Two halves must not become one line. The line's end goes between them, so that
                // there are as many lines as before.
                let end = line_end(bytes, line);
                out.extend_from_slice(&bytes[from..joint]);
                out.push(b'\n');
                out.extend_from_slice(&bytes[joint..end - 1]);
                end
            }
        }
    }

    fn keep_head(
        &mut self,
        process: &ProcessPrefix,
        head: &[u8],
        end: usize,
        is_full: bool,
        out: &mut Vec<u8>,
    ) {
        let head_end = self.at + end as u64;
        let is_new = self
            .writers
            .keep_head(process, head, head_end, is_full, out);
        self.seen.processes += u64::from(is_new);
    }
}
