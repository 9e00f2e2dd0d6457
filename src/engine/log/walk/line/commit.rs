//! Tells the stage what is on a line, and counts the line.

use super::tail::is_call;
use super::verdict::{Thing, Verdict};
use crate::grammar::trainer::Found;
use crate::grammar::wrap::Unwrapped;
use crate::log::walk::{Fragment, MarkAt, Piece, Said, Scan, Visit};
use crate::members::twice;
use crate::report::account::Class;
use memchr::{memchr, memchr2, memrchr};

/// A line of the file: as it is, or without what is around the lines in it.
pub(super) struct Text<'l> {
    /// Where it begins in the chunk, and where the next one does.
    pub(super) start: usize,
    pub(super) next: usize,
    /// The line; or those in it, with `\n` between them.
    pub(super) text: &'l [u8],
    pub(super) unwrapped: Option<&'l Unwrapped>,
}

impl Text<'_> {
    /// Where the byte at `at` of the text is in the line.
    fn place(&self, at: usize) -> usize {
        self.unwrapped.map_or(at, |unwrapped| unwrapped.place(at))
    }

    /// Where it is in the chunk.
    fn at(&self, at: usize) -> usize {
        self.start + self.place(at)
    }

    /// From where to where in the chunk a reader needs, to find again what is at `at`.
    fn around(&self, at: usize) -> (usize, usize) {
        let begin = memrchr(b'\n', &self.text[..at]).map(|end| self.at(end + 1));
        let end = memchr(b'\n', &self.text[at..]).map(|end| self.at(at + end + 1));
        (begin.unwrap_or(self.start), end.unwrap_or(self.next))
    }
}

impl<V: Visit> Scan<'_, V> {
    /// Tells the stage what is on the line, in its order, and counts the line.
    pub(super) fn commit(&mut self, line: &Text<'_>, mut v: Verdict<'_>) {
        v.sort();
        let is_piece = |thing: &&(usize, Thing<'_>)| matches!(thing.1, Thing::Fragment(_));
        let pieces = v.things.iter().filter(is_piece).count();
        for i in 0..v.things.len() {
            self.thing(line, &v, i, pieces);
        }
        if let Some(damage) = v.damage {
            self.damage(line, damage);
        }
        self.count(line, &v, pieces);
    }

    /// Tells the stage of the `i`th thing on a line that has so many pieces.
    fn thing(&mut self, line: &Text<'_>, v: &Verdict<'_>, i: usize, pieces: usize) {
        let number = self.out.account.lines;
        match &v.things[i] {
            (_, Thing::Foreign(text)) => self.out.visit.foreign(text, number),
            (_, Thing::Mark(mark)) => {
                let begin = if i == 0 {
                    line.start
                } else {
                    line.at(mark.start)
                };
                let until = v.things.get(i + 1).map(|(at, _)| *at);
                let (cut, next_line) = match mark_end(line.text, mark.end, until) {
                    Some(end) => (line.at(end), number),
                    None => (line.next, number + 1),
                };
                self.mark(mark, (begin, cut), (number, next_line));
            }
            &(at, Thing::Call(coll, speaker, time)) => {
                self.heard(speaker.process, line.at(at));
                let is_sure = self.sure(speaker.process).is_some();
                self.call(coll, (speaker, is_sure), time, line.at(at));
            }
            &(at, Thing::Init(init, speaker)) => {
                self.heard(speaker.process, line.at(at));
                self.init(init, speaker, line.at(at));
                if self.keep_init_lines {
                    let (from, to) = line.around(at);
                    let range = (self.offset + from as u64, self.offset + to as u64);
                    self.out.init_lines.push(range);
                }
            }
            &(at, Thing::Message(message, text, speaker, time)) => {
                self.out.visit.message(&Said {
                    message,
                    text,
                    process: speaker.process,
                    place: speaker.place,
                    tid: speaker.tid,
                    time,
                    at: self.offset + line.at(at) as u64,
                    line: number,
                });
            }
            (at, Thing::Fragment(piece)) => self.part(line, v, pieces, (*at, piece)),
        }
    }

    /// Keeps a piece of a line for the merge.
    fn part(
        &mut self,
        line: &Text<'_>,
        v: &Verdict<'_>,
        pieces: usize,
        (at, piece): (usize, &Piece),
    ) {
        let number = self.out.account.lines;
        let mut piece = piece.clone();
        if let Piece::Doubtful {
            broken: Some(broken),
            ..
        } = &mut piece
        {
            broken.at = line.place(broken.at);
        }
        self.fragment(piece, number, line.place(at), line.at(at));
        if let Some(fragment) = self.out.fragments.last_mut() {
            fragment.damaged = v.damage.is_some();
            fragment.class = v.class;
            fragment.of_line = pieces;
        }
    }

    /// Notes where a line is damaged.
    fn damage(&mut self, line: &Text<'_>, (at, what): (usize, &'static str)) {
        // As it is in the file, after the last byte that was in order.
        let column = at.checked_sub(1).map_or(0, |last| line.place(last) + 1);
        let bytes = &self.bytes[line.start..line.next];
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let rest = &bytes[column.min(bytes.len())..];
        let number = self.out.account.lines;
        self.out.account.place(number, column, what, rest);
    }

    /// Counts the line as what it is.
    fn count(&mut self, line: &Text<'_>, v: &Verdict<'_>, pieces: usize) {
        let number = self.out.account.lines;
        match (v.waits, v.damage) {
            // The merge counts it when its pieces are decided.
            (true, _) => {
                if V::FOREIGN
                    && v.class == Class::Foreign
                    && pieces == v.weak
                    && line.unwrapped.is_none()
                {
                    self.out.visit.foreign(line.text, number);
                }
                self.out.account.lines += 1;
            }
            (false, Some(_)) => self.out.account.line(Class::Damaged),
            (false, None) => {
                if V::FOREIGN && v.class == Class::Foreign && line.unwrapped.is_none() {
                    self.out.visit.foreign(line.text, number);
                }
                self.out.account.line(v.class);
            }
        }
    }

    pub(super) fn mark(&mut self, found: &Found, at: (usize, usize), lines: (u64, u64)) {
        let (start, cut) = (self.offset + at.0 as u64, self.offset + at.1 as u64);
        let (line, next_line) = lines;
        self.out.marks.push(MarkAt {
            start,
            cut,
            line,
            next_line,
            mark: found.mark,
        });
        let text = self.bytes.get(at.0..at.1).unwrap_or_default();
        let prints = (self.first_call(at.0), twice::hash(text.trim_ascii()));
        self.out.prints.marks.push(prints);
        self.gap = at.1;
        self.out.visit.mark();
    }

    pub(in crate::log::walk) fn fragment(
        &mut self,
        piece: Piece,
        line: u64,
        column: usize,
        at: usize,
    ) {
        let process = |place: u32| self.sure(self.out.origins.places.get(place).process);
        match &piece {
            Piece::Head(begun)
            | Piece::Doubtful {
                begun,
                broken: Some(_),
            } => {
                let begun = (process(begun.place), is_call(&begun.text));
                self.waiting.begins(begun.0, begun.1);
            }
            Piece::Doubtful {
                begun,
                broken: None,
            } => {
                let process = process(begun.place);
                self.waiting.may_have_begun(process);
            }
            Piece::Tail { .. } | Piece::Heard { .. } => {}
        }
        // At each of them the merge may put a torn INIT line together.
        if self.waiting.may_learn() {
            self.moments += 1;
            self.learnt = self.moments;
        }
        if self.is_look {
            return;
        }
        let slot = self.out.fragments.len() as u32;
        self.out.visit.slot();
        let at = self.offset + at as u64;
        self.out.fragments.push(Fragment {
            piece,
            line,
            column,
            at,
            slot,
            damaged: false,
            class: Class::Call,
            of_line: 1,
        });
    }
}

/// Where in `line` a mark that ends at `end` lets the next stretch begin; `None` is the next
/// line. `until` is where the next thing on the line begins.
fn mark_end(line: &[u8], end: usize, until: Option<usize>) -> Option<usize> {
    let rest = &line[end.min(line.len())..];
    let behind = |i: usize| end + i + if rest[i..].starts_with(b"\r\n") { 2 } else { 1 };
    match (memchr2(b'\r', b'\n', rest).map(behind), until) {
        (Some(c), Some(u)) if c <= u => Some(c),
        (_, Some(u)) => Some(u),
        (Some(c), None) if c < line.len() => Some(c),
        _ => None,
    }
}
