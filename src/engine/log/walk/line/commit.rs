//! Gives the items of a line to the stage, and counts the line.

use super::tail::is_call;
use super::verdict::{LineItem, LineVerdict};
use crate::grammar::message::communicator::init::{CommInit, InitEvent};
use crate::grammar::trainer::{TrainerMark, TrainerRecord};
use crate::grammar::wrap::UnwrappedText;
use crate::log::walk::{ChunkWalk, LineFragment, LogVisitor, MarkPosition, MessageLine, TornPiece};
use crate::members::duplicate_inputs;
use crate::report::account::LineClass;
use memchr::{memchr, memchr2, memrchr};

/// A line of the file: as it is, or without the text around the lines in it.
pub(super) struct UnwrappedFileLine<'l> {
    /// Its beginning in the chunk, and the beginning of the next line.
    pub(super) start: usize,
    pub(super) next: usize,
    /// The line; or the lines in it, with `\n` between them.
    pub(super) text: &'l [u8],
    pub(super) unwrapped: Option<&'l UnwrappedText>,
}

impl UnwrappedFileLine<'_> {
    /// Returns the place of the byte at `at` of the text in the line.
    fn offset_in_line(&self, at: usize) -> usize {
        self.unwrapped
            .map_or(at, |unwrapped| unwrapped.source_offset(at))
    }

    /// Returns its place in the chunk.
    fn offset_in_chunk(&self, at: usize) -> usize {
        self.start + self.offset_in_line(at)
    }

    /// Returns the range of the chunk in which a reader finds `at` again.
    fn range_around(&self, at: usize) -> (usize, usize) {
        if self.unwrapped.is_none() {
            return (self.start, self.next);
        }
        let begin = memrchr(b'\n', &self.text[..at]).map(|end| self.offset_in_chunk(end + 1));
        let end = memchr(b'\n', &self.text[at..]).map(|end| self.offset_in_chunk(at + end + 1));
        (begin.unwrap_or(self.start), end.unwrap_or(self.next))
    }
}

impl<V: LogVisitor> ChunkWalk<'_, V> {
    /// Gives the items of the line to the stage, in order, and counts the line.
    pub(super) fn commit_line(&mut self, line: &UnwrappedFileLine<'_>, mut v: LineVerdict<'_>) {
        v.sort_items();
        let is_piece = |thing: &&(usize, LineItem<'_>)| matches!(thing.1, LineItem::Fragment(_));
        let pieces = v.things.iter().filter(is_piece).count();
        for i in 0..v.things.len() {
            self.commit_item(line, &v, i, pieces);
        }
        if let Some((at, what)) = v.damage {
            self.note_damage(line, at, what);
        }
        self.count_line(line, &v, pieces);
    }

    /// Gives the `i`th item of a line with `pieces` pieces to the stage.
    fn commit_item(
        &mut self,
        line: &UnwrappedFileLine<'_>,
        v: &LineVerdict<'_>,
        i: usize,
        pieces: usize,
    ) {
        let number = self.out.account.lines;
        match &v.things[i] {
            (_, LineItem::Foreign(text)) => self.out.visit.foreign(text, number),
            (_, LineItem::Mark(mark)) => {
                let begin = if i == 0 {
                    line.start
                } else {
                    line.offset_in_chunk(mark.start)
                };
                let until = v.things.get(i + 1).map(|(at, _)| *at);
                let (cut, next_line) = match next_stretch_start(line.text, mark.end, until) {
                    Some(end) => (line.offset_in_chunk(end), number),
                    None => (line.next, number + 1),
                };
                self.add_mark(mark, (begin, cut), (number, next_line));
            }
            &(at, LineItem::Call(coll, speaker, time)) => {
                self.note_speaker(speaker.process, line.offset_in_chunk(at));
                let is_sure = self.process_if_sure(speaker.process).is_some();
                self.visit_call(coll, speaker, is_sure, time, line.offset_in_chunk(at));
            }
            &(at, LineItem::Init(init, speaker)) => {
                self.note_speaker(speaker.process, line.offset_in_chunk(at));
                self.add_init_line(init, speaker, line.offset_in_chunk(at));
                self.add_joined_mark(&init, line.offset_in_chunk(at), number);
                if self.keep_init_lines {
                    let (from, to) = line.range_around(at);
                    let range = (self.offset + from as u64, self.offset + to as u64);
                    self.out.init_lines.push(range);
                }
            }
            &(at, LineItem::Message(message, text, speaker, time)) => {
                let is_sure = self.process_if_sure(speaker.process).is_some();
                self.out.visit.message(&MessageLine {
                    message,
                    text,
                    process: speaker.process,
                    is_sure,
                    place: speaker.place,
                    tid: speaker.tid,
                    time,
                    at: self.offset + line.offset_in_chunk(at) as u64,
                    line: number,
                });
            }
            (at, LineItem::Fragment(piece)) => self.keep_piece(line, v, pieces, *at, piece),
        }
    }

    /// Keeps a piece of a line for the merge.
    fn keep_piece(
        &mut self,
        line: &UnwrappedFileLine<'_>,
        v: &LineVerdict<'_>,
        pieces: usize,
        at: usize,
        piece: &TornPiece,
    ) {
        let number = self.out.account.lines;
        let mut piece = piece.clone();
        if let TornPiece::Doubtful {
            broken: Some(broken),
            ..
        } = &mut piece
        {
            broken.at = line.offset_in_line(broken.at);
        }
        self.add_fragment(
            piece,
            number,
            line.offset_in_line(at),
            line.offset_in_chunk(at),
        );
        if let Some(fragment) = self.out.fragments.last_mut() {
            fragment.damaged = v.damage.is_some();
            fragment.class = v.class;
            fragment.of_line = pieces;
        }
    }

    /// Notes the place where a line is damaged.
    fn note_damage(&mut self, line: &UnwrappedFileLine<'_>, at: usize, what: &'static str) {
        // The column in the file, after the last byte that was in order.
        let column = at
            .checked_sub(1)
            .map_or(0, |last| line.offset_in_line(last) + 1);
        let bytes = &self.bytes[line.start..line.next];
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let rest = &bytes[column.min(bytes.len())..];
        let number = self.out.account.lines;
        self.out
            .account
            .add_damage_place(number, column, what, rest);
    }

    /// Counts the line by its class.
    fn count_line(&mut self, line: &UnwrappedFileLine<'_>, v: &LineVerdict<'_>, pieces: usize) {
        let number = self.out.account.lines;
        match (v.waits, v.damage) {
            // The merge counts it when its pieces are decided.
            (true, _) => {
                if V::FOREIGN
                    && v.class == LineClass::Foreign
                    && pieces == v.weak
                    && line.unwrapped.is_none()
                {
                    self.out.visit.foreign(line.text, number);
                }
                self.out.account.lines += 1;
            }
            (false, Some(_)) => self.out.account.count_line(LineClass::Damaged),
            (false, None) => {
                if V::FOREIGN && v.class == LineClass::Foreign && line.unwrapped.is_none() {
                    self.out.visit.foreign(line.text, number);
                }
                self.out.account.count_line(v.class);
            }
        }
    }

    pub(super) fn add_mark(
        &mut self,
        found: &TrainerRecord,
        at: (usize, usize),
        lines: (u64, u64),
    ) {
        let (start, cut) = (self.offset + at.0 as u64, self.offset + at.1 as u64);
        let (line, next_line) = lines;
        self.out.marks.push(MarkPosition {
            start,
            cut,
            line,
            next_line,
            mark: found.mark,
        });
        let text = self.bytes.get(at.0..at.1).unwrap_or_default();
        let prints = (
            self.first_call_fingerprint(at.0),
            duplicate_inputs::nonzero_hash(text.trim_ascii()),
        );
        self.out.prints.marks.push(prints);
        self.gap = at.1;
        self.out.visit.mark();
    }

    /// Adds the mark of a rank that joins a communicator with others: its line is part of what
    /// follows. A split has the processes of its parent.
    fn add_joined_mark(&mut self, init: &CommInit, at: usize, line: u64) {
        if init.event == InitEvent::Init && init.split.is_none() && init.nranks > 1 {
            let at = self.offset + at as u64;
            self.out.marks.push(MarkPosition {
                start: at,
                cut: at,
                line,
                next_line: line,
                mark: TrainerMark::Joined,
            });
            self.out.visit.mark();
        }
    }

    pub(in crate::log::walk) fn add_fragment(
        &mut self,
        piece: TornPiece,
        line: u64,
        column: usize,
        at: usize,
    ) {
        let process = |place: u32| self.process_if_sure(self.out.origins.places.get(place).process);
        match &piece {
            TornPiece::Head(begun)
            | TornPiece::Doubtful {
                begun,
                broken: Some(_),
            } => {
                let begun = (process(begun.place), is_call(&begun.text));
                self.waiting.begin_line(begun.0, begun.1);
            }
            TornPiece::Doubtful {
                begun,
                broken: None,
            } => {
                let process = process(begun.place);
                self.waiting.note_possible_head(process);
            }
            TornPiece::Tail { .. } | TornPiece::Heard { .. } => {}
        }
        // At each of them the merge may join a torn INIT line.
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
        self.out.fragments.push(LineFragment {
            piece,
            line,
            column,
            at,
            slot,
            damaged: false,
            class: LineClass::Call,
            of_line: 1,
        });
    }
}

/// Returns the place in `line` where the next stretch begins after a mark that ends at `end`;
/// `None` is the next line. `until` is the beginning of the next item on the line.
fn next_stretch_start(line: &[u8], end: usize, until: Option<usize>) -> Option<usize> {
    let rest = &line[end.min(line.len())..];
    let after = |i: usize| end + i + if rest[i..].starts_with(b"\r\n") { 2 } else { 1 };
    match (memchr2(b'\r', b'\n', rest).map(after), until) {
        (Some(c), Some(u)) if c <= u => Some(c),
        (_, Some(u)) => Some(u),
        (Some(c), None) if c < line.len() => Some(c),
        _ => None,
    }
}
