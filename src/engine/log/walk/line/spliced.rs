//! A step line that was printed into the middle of a call's line.

use super::prefix::is_prefix;
use super::writer_spans::{WriterSpans, find_writer_spans};
use crate::grammar::coll;
use crate::grammar::header;
use crate::grammar::trainer::TrainerRecord;
use crate::log::walk::limits::TEAR_STRIDE_BYTES;
use crate::log::walk::{ChunkWalk, LogVisitor};
use crate::report::account::LineClass;
use memchr::memchr;

impl<'a, V: LogVisitor> ChunkWalk<'_, V> {
    /// Walks a COLL line that a step line was printed into, as with a block-buffered standard
    /// output: the bytes before it and the next line are one COLL line. Returns the beginning of
    /// the line after both.
    pub(super) fn walk_spliced_line(
        &mut self,
        start: usize,
        line: &'a [u8],
        next: usize,
        found: &[TrainerRecord],
    ) -> Option<usize> {
        let [mark] = found else { return None };
        let head = &line[..mark.start];
        let head = head.strip_suffix(b"\r").unwrap_or(head);
        let WriterSpans {
            headers, starts, ..
        } = find_writer_spans(head);
        // After another line's head it may be any process's.
        let ([header], [written, _]) = (&headers[..], &starts[..]) else {
            return None;
        };
        let rest = &self.bytes[next..];
        let rest = &rest[..memchr(b'\n', rest).unwrap_or(rest.len())];
        let tail = rest.strip_suffix(b"\r").unwrap_or(rest);
        // A launcher puts its prefix in front of both lines.
        let label = &head[..*written];
        let tail = tail.strip_prefix(label).unwrap_or(tail);
        if header::find_header(tail, 0).is_some() || tail.is_empty() {
            return None;
        }
        let head_piece = &head[header.start..];
        // NCCL itself tears there, and the next line may then be any writer's.
        if (head.len() - written).is_multiple_of(TEAR_STRIDE_BYTES) {
            return None;
        }
        let message = header.body - header.start;
        let mut joined = head_piece.to_vec();
        joined.extend_from_slice(tail);
        let anchor = coll::COLL_ANCHOR_FINDER.find(&joined)?;
        let (op, coll, end) = coll::parse_coll_at(&joined, anchor).ok()?;
        // The body must continue across the joint, and to the end.
        if op != message || end <= head_piece.len() || !joined[end..].trim_ascii().is_empty() {
            return None;
        }
        // It is whole without the next line: only missing digits of a pointer (it has 12) belong to
        // it.
        let whole = coll::COLL_ANCHOR_FINDER
            .find(head_piece)
            .is_some_and(|a| coll::parse_coll_at(head_piece, a).is_ok());
        if whole && coll.stream >> 48 != 0 {
            return None;
        }
        let clean = is_prefix(&head[..header.start], self.recogniser);
        let after = (next + rest.len() + 1).min(self.bytes.len());
        let speaker = self.intern_header_speaker(header, clean);
        let time = header::find_time_stamp(&head[..header.start]);
        self.note_speaker(speaker.process, start + header.start);
        let is_sure = self.process_if_sure(speaker.process).is_some();
        self.visit_call(coll, speaker, is_sure, time, start + header.start);
        let number = self.out.account.lines;
        self.add_mark(mark, (start + mark.start, after), (number, number + 2));
        self.out.account.spliced += 1;
        self.out.account.firsts.spliced.get_or_insert(number);
        self.out.account.count_line(LineClass::Repaired);
        self.out.account.count_line(LineClass::Repaired);
        Some(after)
    }
}
