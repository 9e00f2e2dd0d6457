//! Lines of the watchdog that a terminal or a web page broke: their pieces are consecutive lines, maybe of two chunks.

use super::limits::{MAX_WRAPPED_BYTES, MAX_WRAPPED_PIECES};
use super::{WatchdogMessage, WatchdogRecord};
use crate::grammar::message::c10d::{C10dMessage, parse_c10d_line, parse_wrapped_timeout};
use crate::stages::net::net_stage::FirstReportLine;
use memchr::memmem;
use serde::{Deserialize, Serialize};

/// A line with pieces still to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OpenLine {
    at: FirstReportLine,
    last: FirstReportLine,
    pieces: usize,
    /// The first piece, which names the rank.
    first: Box<[u8]>,
    /// All pieces without white space.
    joined: Vec<u8>,
}

/// The broken lines of a chunk, or of all chunks.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct WrappedLines {
    open: Option<OpenLine>,
    /// The first lines of a chunk, as far as they follow each other: they may be pieces of the line before the chunk.
    head: Vec<Box<[u8]>>,
    /// The last piece of the line that was joined last.
    ended: Option<FirstReportLine>,
}

/// A line that was joined of pieces.
pub(super) struct JoinedLine {
    pub(super) record: WatchdogRecord,
    /// Its last piece.
    pub(super) ends_at: FirstReportLine,
}

impl WrappedLines {
    /// Begins a broken line.
    pub(super) fn begin_line(&mut self, line: &[u8], at: FirstReportLine) {
        let mut open = OpenLine {
            at,
            last: at,
            pieces: 1,
            first: line[..line.len().min(MAX_WRAPPED_BYTES)].into(),
            joined: Vec::new(),
        };
        open.join_piece(line);
        self.open = Some(open);
    }

    /// Keeps a line of the chunk's beginning.
    #[inline]
    pub(super) fn note_head(&mut self, line: &[u8], at: FirstReportLine) {
        if at.line == self.head.len() as u64 && self.head.len() < MAX_WRAPPED_PIECES {
            self.head
                .push(line[..line.len().min(MAX_WRAPPED_BYTES)].into());
        }
    }

    /// Takes a line that may be the next piece; returns the whole line if it is the last.
    #[inline]
    pub(super) fn take_piece(
        &mut self,
        line: &[u8],
        at: FirstReportLine,
    ) -> Option<WatchdogRecord> {
        self.open.as_ref()?;
        self.join_open_line(line, at)
    }

    fn join_open_line(&mut self, line: &[u8], at: FirstReportLine) -> Option<WatchdogRecord> {
        let mut open = self.open.take()?;
        let is_next = at.input == open.last.input && at.line == open.last.line + 1;
        let has_room = open.pieces < MAX_WRAPPED_PIECES;
        if !is_next || !has_room || names_member(line) || !open.join_piece(line) {
            return None;
        }
        (open.last, open.pieces) = (at, open.pieces + 1);
        let Some(timeout) = parse_wrapped_timeout(&open.first, &open.joined) else {
            self.open = Some(open);
            return None;
        };
        self.ended = Some(at);
        let what = WatchdogMessage::Timeout(timeout.into());
        let text = open.first.trim_ascii_end();
        Some(WatchdogRecord::from_line(text, timeout.who, open.at, what))
    }

    /// True if the line at `at` was the last piece of a broken one.
    pub(super) fn ends_at(&self, at: FirstReportLine) -> bool {
        self.ended == Some(at)
    }

    /// Adds a chunk's lines; returns the line that its first lines complete.
    pub(super) fn add_chunk(
        &mut self,
        part: WrappedLines,
        placed: impl Fn(FirstReportLine) -> FirstReportLine,
    ) -> Option<JoinedLine> {
        let mut joined = None;
        for (line, number) in part.head.iter().zip(0..) {
            let at = placed(FirstReportLine::in_chunk(number));
            // The chunk has joined what begins in it.
            if self.open.is_none() || begins_line(line) {
                break;
            }
            if let Some(record) = self.join_open_line(line, at) {
                let ends_at = at;
                joined = Some(JoinedLine { record, ends_at });
                break;
            }
        }
        if let Some(mut open) = part.open {
            (open.at, open.last) = (placed(open.at), placed(open.last));
            self.open = Some(open);
        }
        joined
    }
}

/// True for a line that has a beginning of its own.
fn names_member(line: &[u8]) -> bool {
    let names: [&[u8]; 3] = [b"[Rank ", b"[rank", b"[PG "];
    names.iter().any(|name| memmem::find(line, name).is_some())
}

/// True for the first piece of a broken line.
fn begins_line(line: &[u8]) -> bool {
    matches!(parse_c10d_line(line), Some(C10dMessage::TimeoutCut(_)))
}

impl OpenLine {
    /// Appends a piece; false if there is no room for it.
    fn join_piece(&mut self, line: &[u8]) -> bool {
        if self.joined.len() + line.len() > MAX_WRAPPED_BYTES {
            return false;
        }
        // A mail or a web page quotes each piece.
        let line = line.strip_prefix(b"> ").unwrap_or(line);
        let bytes = line.iter().filter(|byte| !byte.is_ascii_whitespace());
        self.joined.extend(bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::Watchdog;
    use super::*;

    const LINE: &str = "[rank3]:[E1 x.cpp:6] [Rank 3] Watchdog caught collective operation timeout: \
        WorkNCCL(SeqNum=64, OpType=ALLGATHER, NumelIn=1, NumelOut=32, Timeout(ms)=600000) ran for \
        600060 milliseconds before timing out.";

    /// The lines of `text` in chunks of `lines` lines each.
    fn watch(text: &str, lines: usize) -> Watchdog {
        let all: Vec<&str> = text.lines().collect();
        let mut watchdog = Watchdog::default();
        let mut from = 0;
        for chunk in all.chunks(lines) {
            let mut part = Watchdog::default();
            for (line, number) in chunk.iter().zip(0..) {
                let line = line.as_bytes();
                let at = FirstReportLine::in_chunk(number);
                part.take_piece(line, at);
                if let Some(what) = parse_c10d_line(line) {
                    part.take_line(line, &what, at);
                }
            }
            watchdog.add_chunk(part, |at| at.place_in_input(0, from));
            from += chunk.len() as u64;
        }
        watchdog.name_timeout_groups();
        watchdog
    }

    #[test]
    fn a_broken_line_is_joined_wherever_it_and_the_chunks_break() {
        for width in [40, 60, 80, 100, 120, 132] {
            let columns: Vec<&[u8]> = LINE.as_bytes().chunks(width).collect();
            let columns: Vec<&str> = columns
                .iter()
                .map(|c| std::str::from_utf8(c).unwrap())
                .collect();
            let text = format!("step 1\n{}\nstep 2\n", columns.join("\n"));
            let once = watch(&text, 1000);
            let [record] = once.kept_records() else {
                panic!("{width}: {:?}", once.kept_records());
            };
            assert_eq!(record.known_rank(), Some(3), "{width}");
            let WatchdogMessage::Timeout(timeout) = &record.what else {
                panic!("{record:?}");
            };
            assert_eq!(
                (timeout.seq, &timeout.op[..]),
                (Some(64), &b"ALLGATHER"[..])
            );
            for lines in 1..6 {
                assert_eq!(
                    watch(&text, lines).kept_records(),
                    once.kept_records(),
                    "{width} {lines}"
                );
            }
        }
    }

    #[test]
    fn a_break_may_replace_a_space() {
        let text = "[rank3] Watchdog caught collective operation timeout:\n\
            WorkNCCL(SeqNum=64214, OpType=ALLGATHER,\n  NumelIn=1, NumelOut=32,\nTimeout(ms)=600000)\n";
        for lines in 1..5 {
            let watchdog = watch(text, lines);
            let [record] = watchdog.kept_records() else {
                panic!("{:?}", watchdog.kept_records());
            };
            assert_eq!((record.known_rank(), record.at.line), (Some(3), 0));
        }
    }

    #[test]
    fn a_cut_line_takes_no_call_of_another_rank() {
        let cut = "[rank2]:[E1 x.cpp:6] [Rank 2] Watchdog caught collective operation timeout:";
        let text = format!("{cut}\n{LINE}\n");
        for lines in 1..3 {
            let watchdog = watch(&text, lines);
            let [cut, record] = watchdog.kept_records() else {
                panic!("{:?}", watchdog.kept_records());
            };
            let ranks = (cut.known_rank(), record.known_rank());
            assert_eq!(
                (&cut.what, ranks),
                (&WatchdogMessage::Cut, (Some(2), Some(3)))
            );
        }
    }

    #[test]
    fn a_break_in_a_quoted_time_out_and_in_a_quotation_is_joined() {
        let quote = "> [rank3]:[E1 x.cpp:6] [Rank 3] NCCL watchdog thread terminated with exception: [Rank 3] Watchdog caught \
            collective operation timeout: WorkNCCL(S\n> eqNum=64, OpType=ALLGATHER, NumelIn=1, NumelOut=32, \
            Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n";
        for lines in 1..3 {
            let watchdog = watch(quote, lines);
            let [record] = watchdog.kept_records() else {
                panic!("{:?}", watchdog.kept_records());
            };
            let WatchdogMessage::Timeout(timeout) = &record.what else {
                panic!("{record:?}");
            };
            assert_eq!((timeout.seq, timeout.numel_out), (Some(64), Some(32)));
        }
    }

    #[test]
    fn lines_that_do_not_follow_are_no_pieces() {
        let text = "[rank3] Watchdog caught collective operation timeout:\nstep 7 of 9\n\n\n\n\n\n\n\n\
            WorkNCCL(SeqNum=64214, OpType=ALLGATHER, Timeout(ms)=600000)\n";
        for lines in 1..12 {
            let watchdog = watch(text, lines);
            let all = watchdog.kept_records().iter();
            assert!(
                all.clone().count() == 1 && all.clone().all(|r| r.what == WatchdogMessage::Cut),
                "{lines}"
            );
        }
    }
}
