//! A step line that was printed into the middle of a call's line.

use super::prefix::is_prefix;
use super::written::{Written, written};
use crate::grammar::coll;
use crate::grammar::header;
use crate::grammar::trainer::Found;
use crate::log::walk::fragment::TEAR;
use crate::log::walk::{Scan, Visit};
use crate::report::account::Class;
use memchr::memchr;

impl<'a, V: Visit> Scan<'_, V> {
    /// A step line printed into the middle of a COLL line, as block-buffered standard output
    /// does: the bytes before it and the next line are one COLL line. Gives where the line
    /// after both starts.
    pub(super) fn spliced(
        &mut self,
        start: usize,
        line: &'a [u8],
        next: usize,
        found: &[Found],
    ) -> Option<usize> {
        let [mark] = found else { return None };
        let head = &line[..mark.start];
        let head = head.strip_suffix(b"\r").unwrap_or(head);
        let Written {
            headers, starts, ..
        } = written(head);
        // After another line's beginning it may be any process's.
        let ([header], [written, _]) = (&headers[..], &starts[..]) else {
            return None;
        };
        let rest = &self.bytes[next..];
        let rest = &rest[..memchr(b'\n', rest).unwrap_or(rest.len())];
        let tail = rest.strip_suffix(b"\r").unwrap_or(rest);
        // A launcher puts its prefix in front of both lines.
        let label = &head[..*written];
        let tail = tail.strip_prefix(label).unwrap_or(tail);
        if header::find(tail, 0).is_some() || tail.is_empty() {
            return None;
        }
        let head_piece = &head[header.start..];
        // NCCL itself tears there, and then the next line may be anybody's.
        if (head.len() - written).is_multiple_of(TEAR) {
            return None;
        }
        let message = header.body - header.start;
        let mut joined = head_piece.to_vec();
        joined.extend_from_slice(tail);
        let anchor = coll::FINDER.find(&joined)?;
        let (op, coll, end) = coll::at(&joined, anchor).ok()?;
        // The body must go through the joint, and to the end.
        if op != message || end <= head_piece.len() || !joined[end..].trim_ascii().is_empty() {
            return None;
        }
        // Whole without it: only a pointer's missing digits belong to it (they have 12).
        let whole = coll::FINDER
            .find(head_piece)
            .is_some_and(|a| coll::at(head_piece, a).is_ok());
        if whole && coll.stream >> 48 != 0 {
            return None;
        }
        let clean = is_prefix(&head[..header.start], self.recogniser);
        let after = (next + rest.len() + 1).min(self.bytes.len());
        let speaker = self.speaks(header, clean);
        let time = header::time(&head[..header.start]);
        self.heard(speaker.process, start + header.start);
        let is_sure = self.sure(speaker.process).is_some();
        self.call(coll, (speaker, is_sure), time, start + header.start);
        let number = self.out.account.lines;
        self.mark(mark, (start + mark.start, after), (number, number + 2));
        self.out.account.spliced += 1;
        self.out.account.firsts.spliced.get_or_insert(number);
        self.out.account.line(Class::Repaired);
        self.out.account.line(Class::Repaired);
        Some(after)
    }
}
