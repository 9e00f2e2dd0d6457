//! Reports inside other text: with a mark before each line (a quotation, a launcher's tag, the time of a
//! container's log), or with rows that a terminal cut at its width. The header shows both.

use super::columns::{begins_row, contains_header};
use super::limits::MAX_PIECES_OF_ROW;
use std::borrow::Cow;

/// A line of a report.
pub(super) struct UnwrappedLine<'t> {
    /// `None` for a line beside the report.
    pub(super) line: Option<Cow<'t, [u8]>>,
    /// The lines of the text that it was put together from.
    pub(super) pieces: u64,
}

/// The lines of a text, with what was put around reports taken off.
pub(super) struct UnwrappedLines<'t> {
    lines: Vec<&'t [u8]>,
    at: usize,
    /// The mark before each line of the report.
    mark: &'t [u8],
    /// The pieces of each row, and the width at which they were cut.
    pieces: usize,
    width: usize,
    /// The line after the header.
    header_end: usize,
    is_csv: bool,
}

impl<'t> UnwrappedLines<'t> {
    pub(super) fn new(text: &'t [u8]) -> UnwrappedLines<'t> {
        let lines = text.split_inclusive(|&b| b == b'\n').map(|line| {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            line.strip_suffix(b"\r").unwrap_or(line)
        });
        UnwrappedLines {
            lines: lines.collect(),
            at: 0,
            mark: b"",
            pieces: 1,
            width: 0,
            header_end: 0,
            is_csv: false,
        }
    }

    /// Returns a line without its mark, if it has the report's.
    fn unmarked(&self, at: usize) -> Option<&'t [u8]> {
        let line = self.lines.get(at)?;
        let (mark, rest) = line.split_at_checked(self.mark.len())?;
        // Times and ranks differ from line to line.
        let is_alike = |(a, b): (&u8, &u8)| a == b || a.is_ascii_digit() && b.is_ascii_digit();
        mark.iter().zip(self.mark).all(is_alike).then_some(rest)
    }

    /// Takes mark and width from the header in line `at`.
    fn begin_report(&mut self, at: usize) {
        let line = self.lines[at];
        self.mark = mark_before_header(line);
        let header = self.unmarked(at).unwrap_or_default();
        self.is_csv = header.contains(&b',') || header.contains(&b'\t');
        self.width = count_chars(header);
        self.pieces = 1;
        self.header_end = at + 1;
        if self.is_csv {
            return;
        }
        let is_bars = header.trim_ascii_start().starts_with(b"|");
        let is_rule = |line: &[u8]| match is_bars {
            true => line.trim_ascii_start().starts_with(b"+"),
            false => line.contains(&b'-') && line.iter().all(|b| matches!(b, b'-' | b' ')),
        };
        for pieces in 1..=MAX_PIECES_OF_ROW {
            match self.unmarked(at + pieces) {
                Some(line) if is_rule(line) => {
                    // The rule is as wide as the widest row; the header may end before it.
                    let more = (at + pieces..).map_while(|at| self.unmarked(at));
                    self.pieces = more.take_while(|line| is_rule(line)).count().max(pieces);
                    self.header_end = at + pieces;
                    self.width = self.width.max(count_chars(line));
                    return;
                }
                // The last piece may be shorter.
                Some(line) if count_chars(line) <= self.width => {}
                _ => return,
            }
        }
    }

    /// Returns true if `line` goes on in the next line.
    fn is_cut(&self, line: &[u8], last: &[u8], pieces: usize) -> bool {
        if self.is_csv {
            let next = self.unmarked(self.at + pieces);
            let is_open = memchr::memchr_iter(b'"', line).count() % 2 == 1;
            return is_open && begins_row(line) && next.is_some_and(|next| !begins_row(next));
        }
        let next = self.at + pieces;
        pieces < self.pieces && next != self.header_end && count_chars(last) == self.width
    }
}

impl<'t> Iterator for UnwrappedLines<'t> {
    type Item = UnwrappedLine<'t>;

    fn next(&mut self) -> Option<UnwrappedLine<'t>> {
        let line = *self.lines.get(self.at)?;
        if contains_header(line) {
            self.begin_report(self.at);
        }
        let Some(first) = self.unmarked(self.at) else {
            self.at += 1;
            return Some(UnwrappedLine {
                line: None,
                pieces: 1,
            });
        };
        let (mut whole, mut last, mut pieces) = (Cow::Borrowed(first), first, 1);
        while pieces < MAX_PIECES_OF_ROW && self.is_cut(&whole, last, pieces) {
            let Some(next) = self.unmarked(self.at + pieces) else {
                break;
            };
            whole.to_mut().extend_from_slice(next);
            (last, pieces) = (next, pieces + 1);
        }
        self.at += pieces;
        Some(UnwrappedLine {
            line: Some(whole),
            pieces: pieces as u64,
        })
    }
}

/// Returns the text before a header, without the blanks and the quote that are the header's own.
fn mark_before_header(line: &[u8]) -> &[u8] {
    let begins = [&b"Time"[..], b"Start ("];
    let at = begins
        .iter()
        .filter_map(|word| memchr::memmem::find(line, word))
        .min();
    let (before, header) = line.split_at(at.unwrap_or(0));
    let mark = before.trim_ascii_end();
    let is_quoted = memchr::memmem::find(header, b")\"").is_some();
    let own = if is_quoted { b"\"" } else { b"|" };
    mark.strip_suffix(own).unwrap_or(mark).trim_ascii_end()
}

fn count_chars(line: &[u8]) -> usize {
    line.iter().filter(|b| **b & 0xc0 != 0x80).count()
}
