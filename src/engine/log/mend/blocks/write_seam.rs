//! The place inside a line where one process's text ends and other text begins, if the length of a
//! buffer does not give it: a process's first buffer may be short, since it began with text that is
//! not in the log, and so may one that was flushed.

use super::line::{
    BlockLineKind, certain_line_kind, find_header_from, fit_head_and_tail, header_piece_start_at,
    line_at, line_end, opening_bytes, opening_header, process_prefix, trim_line_end,
    whole_line_kind,
};
use crate::grammar::coll;
use crate::grammar::trainer::Recogniser;
use crate::grammar::values::is_known_op;
use crate::log::mend::limits::{HEADER_SEARCH_BYTES, MAX_BLIND_TAIL_BYTES, MAX_HEADER_BYTES};
use crate::source::STDIO_BUFFER_BYTES;
use memchr::{memchr, memmem};
use std::ops::Range;
use std::sync::LazyLock;

/// The last line of a process's write, with other text after its own.
pub(super) struct WriteSeam<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) line: Range<usize>,
    pub(super) who: &'b [u8],
    pub(super) stamp: &'b [u8],
}

impl WriteSeam<'_> {
    fn seam_line(&self) -> &[u8] {
        &self.bytes[self.line.clone()]
    }

    /// Returns true if the line is a whole call.
    pub(super) fn is_call(&self) -> bool {
        is_call(self.seam_line())
    }

    /// Returns the place of the communicator in a call that is made of two processes' halves: no
    /// line before is about its address, and lines of `next` are.
    pub(super) fn find_address_in_half(&self, next: &[u8]) -> Option<usize> {
        let line = self.seam_line();
        let comm = [b" comm ", word_after(line, b" comm "), b" "].concat();
        let is_of = |near: &[u8]| memmem::find(near, &comm).is_some();
        let (before, after) = self.text_around();
        let mut after = after.split(|&b| b == b'\n');
        let mut is_others =
            || after.any(|line| line.starts_with(next) && is_of(line) && is_call(line));
        let is_half = !is_of(before) && is_others();
        let at = memmem::find(line, &comm).filter(|_| is_half)?;
        Some(self.line.start + at)
    }

    /// Returns the text before the line and after it, a buffer's length each.
    fn text_around(&self) -> (&[u8], &[u8]) {
        let (before, after) = (&self.bytes[..self.line.start], &self.bytes[self.line.end..]);
        (
            &before[before.len().saturating_sub(STDIO_BUFFER_BYTES)..],
            &after[..after.len().min(STDIO_BUFFER_BYTES)],
        )
    }

    /// Returns the places where the tail of the line may begin that `head` of the process `of`
    /// begins.
    pub(super) fn find_tail_starts(&self, of: &[u8], head: &[u8]) -> Vec<usize> {
        let line = self.seam_line();
        let first = line.len().saturating_sub(MAX_BLIND_TAIL_BYTES).max(1);
        let joints = (first..line.len())
            .filter(|&at| self.may_end_at(at) && certain_line_kind(of, head, &line[at..]).is_some())
            .collect();
        let (before, after) = self.text_around();
        let mut joints =
            keep_likely_joints(joints, &[before, after], |at| [head, &line[at..]].concat());
        joints.iter_mut().for_each(|at| *at += self.line.start);
        joints
    }

    /// Returns the beginning of another process's line: the process of the next line, or a known
    /// one.
    pub(super) fn find_other_line_start(
        &self,
        next: Option<&[u8]>,
        is_known: impl Fn(&[u8]) -> bool,
    ) -> Option<usize> {
        let line = self.seam_line();
        let own =
            opening_header(line).map_or(self.who.len(), |header| header.start + self.who.len());
        let header = find_header_from(line, own)?;
        let of = process_prefix(line, &header);
        let is_it = |of: &[u8]| next == Some(of) || is_known(of);
        let host = memchr(b':', of).unwrap_or(of.len());
        let glued = (0..host).find(|&cut| is_it(&of[cut..]))?;
        let at = if glued == 0 {
            header_piece_start_at(line, &header)
        } else {
            header.start + glued
        };
        Some(self.line.start + at)
    }

    /// Returns the beginning of text that no process of the job wrote through its buffer, such as a
    /// step line, if the tail that comes later shows it. By a buffer's length it begins at `hint`.
    pub(super) fn find_foreign_start(&self, hint: Option<usize>) -> Option<usize> {
        let line = self.seam_line();
        let header = opening_header(line);
        let whole = header.and_then(|header| whole_line_kind(line, &header));
        if whole == Some(BlockLineKind::Call) || line.len() > STDIO_BUFFER_BYTES {
            return None;
        }
        let hint = hint.map(|hint| hint - self.line.start);
        let mark = find_mark(line);
        let is_foreign = opening_header(line_at(self.bytes, self.line.end)).is_none();
        let joint = find_tail_ahead(self.bytes, self.line.end, self.who).and_then(|tail| {
            let after = &self.bytes[tail.end..];
            let tail = &self.bytes[tail];
            let is_one = |at: usize| certain_line_kind(self.who, &line[..at], tail).is_some();
            let is_sound = |hint: &usize| {
                mark.is_none_or(|mark| mark >= *hint)
                    && fit_head_and_tail(self.who, &line[..*hint], tail).is_some()
            };
            if let Some(hint) = hint.filter(is_sound) {
                return Some(hint);
            }
            let fits = self.own_end_range().filter(|&at| is_one(at)).collect();
            let near = [
                self.text_around().0,
                &after[..after.len().min(STDIO_BUFFER_BYTES)],
            ];
            let fits = keep_likely_joints(fits, &near, |at| [&line[..at], tail].concat());
            match (mark, &fits[..]) {
                (Some(mark), [_, ..]) => {
                    let in_front =
                        |at: &usize| *at <= mark && line[*at..mark].trim_ascii().is_empty();
                    fits.iter().copied().find(in_front)
                }
                (_, [at]) => Some(*at),
                // More digits may belong to the number or to the other text.
                (_, [.., at]) if is_foreign && !line[*at].is_ascii_punctuation() => Some(*at),
                _ => None,
            }
        });
        // The tail may be hidden; a step line is recognised by itself.
        let marked = || {
            let mark = mark.filter(|&mark| hint.is_none_or(|hint| mark < hint))?;
            let at = line[..mark].trim_ascii_end().len();
            (at > 0 && self.may_end_at(at)).then_some(at)
        };
        Some(self.line.start + joint.or_else(marked)?)
    }

    /// Returns the range in which the process's own text may end: in the header, in the operation's
    /// name, or where the call breaks off.
    fn own_end_range(&self) -> Range<usize> {
        let line = self.seam_line();
        let own = self.stamp.len() + self.who.len();
        let (from, to) = match (opening_header(line), coll::COLL_ANCHOR_FINDER.find(line)) {
            (Some(_), Some(anchor)) => match coll::parse_coll_at(line, anchor) {
                Ok((_, _, end)) => (end.saturating_sub(20), end + 1),
                Err(e) => {
                    let at = line.len() - e.left.min(line.len());
                    (at.saturating_sub(24), at + 12)
                }
            },
            (Some(header), None) => (
                header.body.saturating_sub(MAX_HEADER_BYTES),
                header.body + MAX_HEADER_BYTES,
            ),
            (None, _) => (1, own + MAX_HEADER_BYTES),
        };
        from.max(1)..to.min(line.len().saturating_sub(1))
    }

    /// Returns false if the first `at` bytes of the line cannot be the head of a line.
    fn may_end_at(&self, at: usize) -> bool {
        let text = &self.seam_line()[..at];
        let Some(header) = opening_header(text) else {
            let most = opening_bytes(text, self.who, self.stamp);
            return most == text.len() || most == self.stamp.len() + self.who.len();
        };
        let Some(anchor) = coll::COLL_ANCHOR_FINDER.find(text) else {
            return header.body <= text.len();
        };
        match coll::parse_coll_at(text, anchor) {
            Ok((_, _, end)) => end == text.len(),
            Err(e) => {
                let left = &text[text.len() - e.left.min(text.len())..];
                let optional: &[u8] = match e.what {
                    "count" => b" acc ",
                    "stream" => b" [nranks=",
                    "a pointer" => b"0x",
                    _ => b"]",
                };
                let word = [b" ", e.what.as_bytes(), b" "].concat();
                word.starts_with(left) || optional.starts_with(left)
            }
        }
    }
}

/// A sign that NCCL printed a line.
type LineSign<'s> = &'s dyn Fn(&[u8]) -> bool;

/// Keeps the joints with lines that look most like NCCL's; `joined` gives a line, `near` holds
/// lines that the same process may have printed.
fn keep_likely_joints(
    mut joints: Vec<usize>,
    near: &[&[u8]],
    joined: impl Fn(usize) -> Vec<u8>,
) -> Vec<usize> {
    let signs: [LineSign<'_>; 3] = [
        &is_known_call,
        // Both addresses have as many digits.
        &|line| word_after(line, b" sendbuff ").len() == word_after(line, b" recvbuff ").len(),
        // The process uses this communicator, or another one has one at the same address.
        &|line| {
            let comm = [b" comm ", word_after(line, b" comm "), b" "].concat();
            near.iter().any(|near| memmem::find(near, &comm).is_some())
        },
    ];
    for sign in signs {
        if joints.len() > 1 {
            let (likely, other): (Vec<_>, Vec<_>) =
                joints.into_iter().partition(|&at| sign(&joined(at)));
            joints = if likely.is_empty() { other } else { likely };
        }
    }
    joints
}

fn is_call(line: &[u8]) -> bool {
    opening_header(line)
        .is_some_and(|header| whole_line_kind(line, &header) == Some(BlockLineKind::Call))
}

/// Returns true for a call of a known operation, and for anything that is not a call.
fn is_known_call(line: &[u8]) -> bool {
    coll::COLL_ANCHOR_FINDER.find(line).is_none_or(|anchor| {
        coll::find_op_name(line, anchor).is_some_and(|name| is_known_op(&line[name..anchor]))
    })
}

/// Returns the word after `before`.
fn word_after<'b>(line: &'b [u8], before: &[u8]) -> &'b [u8] {
    let from = memmem::find(line, before).map_or(line.len(), |at| at + before.len());
    let word = &line[from..];
    &word[..memchr(b' ', word).unwrap_or(word.len())]
}

/// Returns the beginning of a step line, or of another line of a trainer, in `line`.
fn find_mark(line: &[u8]) -> Option<usize> {
    static ALL: LazyLock<Recogniser> = LazyLock::new(Recogniser::all);
    let mut found = Vec::new();
    ALL.marks(trim_line_end(line), &mut found);
    found.first().map(|found| found.start)
}

/// Returns the line in front of the next one that the process opens, from `from` on, if no header
/// opens it: it may be the tail of the line that the process's last write began.
pub(super) fn find_tail_ahead(bytes: &[u8], from: usize, of: &[u8]) -> Option<Range<usize>> {
    let bytes = &bytes[..bytes.len().min(from + HEADER_SEARCH_BYTES)];
    let (mut at, mut before) = (from, None);
    for hit in memmem::find_iter(&bytes[from..], of) {
        let start = super::line::line_start(bytes, from + hit).max(from);
        if start < at {
            continue;
        }
        let line = line_at(bytes, start);
        if opening_header(line).is_some_and(|header| process_prefix(line, &header) == of) {
            before = start.checked_sub(1).filter(|_| start > from);
            break;
        }
        at = line_end(bytes, start);
    }
    let end = before?;
    let start = super::line::line_start(bytes, end).max(from);
    let tail = &bytes[start..=end];
    // A header that lost its first bytes is the process's own.
    let is_anothers =
        opening_header(tail).is_some_and(|header| !of.ends_with(process_prefix(tail, &header)));
    (!is_anothers).then_some(start..end + 1)
}
