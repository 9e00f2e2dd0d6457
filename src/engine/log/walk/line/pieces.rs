//! The pieces of a NCCL line: one for each header on it.

use super::prefix::is_prefix;
use super::tail::{is_call, is_call_tail};
use super::verdict::{LineItem, LineVerdict};
use super::writer_spans::{WriterSpans, find_writer_spans};
use crate::grammar::coll;
use crate::grammar::header::{self, HeaderLevel, LineHeader};
use crate::grammar::message::communicator::init;
use crate::grammar::message::{self, NcclMessage};
use crate::grammar::token::ParseFailure;
use crate::grammar::trainer::TrainerRecord;
use crate::log::walk::limits::NCCL_LINE_CUT_BYTES;
use crate::log::walk::limits::TEAR_STRIDE_BYTES;
use crate::log::walk::speaker::HeaderSpeaker;
use crate::log::walk::tear_position::{own_bytes_before_next, own_bytes_of_call};
use crate::log::walk::{ChunkWalk, LineDamage, LineHead, LogVisitor, TailLikeness, TornPiece};
use crate::report::account::LineClass;
use memchr::memmem;

impl<'a, V: LogVisitor> ChunkWalk<'_, V> {
    /// Reads a NCCL line: a piece for each header on it.
    pub(super) fn read_pieces(
        &mut self,
        line: &'a [u8],
        found: &[TrainerRecord],
        v: &mut LineVerdict<'a>,
    ) {
        let WriterSpans {
            headers,
            starts,
            glued,
        } = find_writer_spans(line);
        if headers.is_empty() {
            return self.read_headless_line(line, found, v);
        }
        v.class = LineClass::Other;
        self.read_text_in_front(&line[..starts[0]], v);
        let (mut torn_before, mut overwritten) = (false, false);
        let first = &line[..starts[0]];
        let is_label = is_prefix(first, self.recogniser);
        let mut label = if is_label { first } else { b"" };
        for (i, h) in headers.iter().enumerate() {
            // A step line after the message ends it.
            let mark = found.get(found.partition_point(|mark| mark.start < h.body));
            let end = mark.map_or(starts[i + 1], |mark| mark.start.min(starts[i + 1]));
            let spliced = end < starts[i + 1];
            let clean = if i == 0 && starts[0] == h.start {
                is_label
            } else if i == 0 {
                is_prefix(&line[..h.start], self.recogniser)
            } else {
                (torn_before && !glued[i]) || starts[i] < h.start
            };
            let speaker = self.intern_header_speaker(h, clean);
            let start = starts[i];
            let piece = &line[start..end];
            let last = i + 1 == headers.len() && !spliced;
            let cut = own_bytes_before_next(piece, h.level, label)
                .filter(|_| !last && !is_whole(&line[h.body..end]));
            let time = header::find_time_stamp(&line[..h.start]);
            let of = HeaderPiece {
                line,
                header: h,
                start,
                end,
                speaker,
                time,
                label,
            };
            if let Some(cut) = cut {
                self.begin_piece(&of, TornPiece::Head(of.line_head(start + cut)), v);
                if cut < piece.len() {
                    label = &piece[cut..];
                }
            } else {
                self.read_piece(&of, last, torn_before, v);
                let other = headers.get(i + 1).is_some_and(|n| n.pid != h.pid);
                overwritten |= v.damage.is_some() && other && end > h.body;
            }
            torn_before |= cut.is_some();
        }
        self.read_tail_after_mark(line, &headers, found, v);
        if overwritten {
            let account = &mut self.out.account;
            account.overwritten += 1;
            account.firsts.overwritten.get_or_insert(account.lines);
        }
    }

    /// Reads the text in front of the first header.
    fn read_text_in_front(&mut self, before: &'a [u8], v: &mut LineVerdict<'a>) {
        let bodies = v.things.len();
        self.read_bare_bodies(before, v);
        // Without a body it is the rest of a line that another process overwrote.
        if v.things.len() == bodies && memmem::find(before, b" [nranks=").is_some() {
            v.set_damage(0, "the beginning of a NCCL line");
        }
    }

    /// Reads the tail that may follow a step line without a line end.
    fn read_tail_after_mark(
        &self,
        line: &[u8],
        headers: &[LineHeader<'_>],
        found: &[TrainerRecord],
        v: &mut LineVerdict<'_>,
    ) {
        if let Some(mark) = found.last()
            && headers.last().is_some_and(|h| h.body < mark.start)
            && is_call_tail(&line[mark.start..])
        {
            v.waits = true;
            let text = line[mark.start..].into();
            let looks = TailLikeness::Nccl;
            let tail = TornPiece::Tail { text, looks };
            v.things.push((mark.end, LineItem::Fragment(tail)));
        }
    }

    /// Adds a head: another line's tail may follow it.
    fn begin_piece(&mut self, of: &HeaderPiece<'a, '_>, piece: TornPiece, v: &mut LineVerdict<'a>) {
        if let TornPiece::Head(begun) | TornPiece::Doubtful { begun, .. } = &piece {
            let is_call = is_call(&begun.text);
            self.has_head = true;
            self.has_message_head |= !is_call;
        }
        v.waits = true;
        v.things.push((of.start, LineItem::Fragment(piece)));
    }

    /// Returns true if a tail may come.
    pub(super) fn may_end_come(&self) -> bool {
        self.waiting.may_end_within(1) || self.has_head
    }

    /// Reads one header's piece that is not torn at byte 128.
    fn read_piece(
        &mut self,
        of: &HeaderPiece<'a, '_>,
        last: bool,
        torn_before: bool,
        v: &mut LineVerdict<'a>,
    ) {
        let message = &of.line[of.header.body..of.end];
        let Some(mut anchor) = coll::COLL_ANCHOR_FINDER.find(message) else {
            return self.read_piece_without_call(of, last, torn_before, v);
        };
        let mut speaker = of.speaker;
        let mut from = 0;
        loop {
            match coll::parse_coll_at(message, anchor) {
                Ok((op, coll, end)) => {
                    let doubtful = torn_before
                        || (self.may_end_come()
                            && !self.is_certain(coll.comm, coll.nranks, speaker));
                    let alone = coll::COLL_ANCHOR_FINDER.find(&message[end..]).is_none();
                    if doubtful
                        && alone
                        && last
                        && from == 0
                        && of.end - of.start > TEAR_STRIDE_BYTES
                    {
                        v.waits = true;
                        let piece = TornPiece::Doubtful {
                            begun: of.line_head(of.end),
                            broken: None,
                        };
                        v.things.push((of.start, LineItem::Fragment(piece)));
                        return;
                    }
                    if v.class != LineClass::Damaged {
                        v.class = LineClass::Call;
                    }
                    // The first one's place is its header's.
                    let at = if from == 0 {
                        of.start
                    } else {
                        of.header.body + op
                    };
                    v.things.push((at, LineItem::Call(coll, speaker, of.time)));
                    from = end;
                }
                Err(e) if from == 0 && is_torn(of, message, &e) => {
                    let piece = if (of.end - of.start).is_multiple_of(TEAR_STRIDE_BYTES) {
                        TornPiece::Head(of.line_head(of.end))
                    } else {
                        let (at, what) = break_position(of, message, &e);
                        TornPiece::Doubtful {
                            begun: of.line_head(of.end),
                            broken: of.line_damage(at, what),
                        }
                    };
                    return self.begin_piece(of, piece, v);
                }
                Err(e) => {
                    let (at, what) = break_position(of, message, &e);
                    v.set_damage(at, what);
                    from = anchor + coll::COLL_ANCHOR.len();
                }
            }
            match coll::COLL_ANCHOR_FINDER.find(&message[from..]) {
                Some(next) => anchor = from + next,
                None => return,
            }
            // The speaker of a second body without a header is unknown.
            speaker = self.unknown_speaker();
        }
    }

    /// Reads one header's piece that has no call, or only the beginning of one.
    fn read_piece_without_call(
        &mut self,
        of: &HeaderPiece<'a, '_>,
        last: bool,
        torn_before: bool,
        v: &mut LineVerdict<'a>,
    ) {
        let message = &of.line[of.header.body..of.end];
        let rest = of
            .line
            .get(of.start + TEAR_STRIDE_BYTES..of.end)
            .unwrap_or_default();
        let own = message.get(..(of.start + TEAR_STRIDE_BYTES).saturating_sub(of.header.body));
        let begun = own.is_some_and(|own| coll::is_begun(own) || !coll::is_broken(own));
        if last && begun && of.header.level == HeaderLevel::Info && is_call_tail(rest) {
            // A head, and the tail of another process's call.
            let broken = of.line_damage(of.start + TEAR_STRIDE_BYTES, "the rest of a NCCL line");
            let begun = of.line_head(of.end);
            return self.begin_piece(of, TornPiece::Doubtful { begun, broken }, v);
        }
        if of.header.level == HeaderLevel::Info && coll::is_broken(message) {
            return v.set_damage(of.header.body, "a call");
        }
        if last && self.may_hold_tail(of, message, rest, torn_before) {
            return self.leave_message_to_merge(of, message, v);
        }
        self.read_message(of, message, last, v);
    }

    /// Returns true for a message that may be its own first bytes and the tail of another process's
    /// message, `rest`: a message's head waits, and the line as a whole has nothing that is read.
    fn may_hold_tail(
        &self,
        of: &HeaderPiece<'a, '_>,
        message: &[u8],
        rest: &[u8],
        torn_before: bool,
    ) -> bool {
        let waits = torn_before || self.has_message_head || self.waiting.is_message_open();
        let level = of.header.level;
        waits
            && !rest.is_empty()
            && level == HeaderLevel::Info
            && matches!(
                message::parse_message(level, message),
                None | Some(NcclMessage::Plain(..))
            )
    }

    /// Leaves a message to the merge, which knows the heads that wait.
    fn leave_message_to_merge(
        &mut self,
        of: &HeaderPiece<'a, '_>,
        message: &'a [u8],
        v: &mut LineVerdict<'a>,
    ) {
        if V::MESSAGES {
            self.visit_said_message(of, message, true, v);
        }
        let begun = of.line_head(of.end);
        let broken = None;
        self.begin_piece(of, TornPiece::Doubtful { begun, broken }, v);
    }

    /// Reads a message that is not a call.
    fn read_message(
        &mut self,
        of: &HeaderPiece<'a, '_>,
        message: &'a [u8],
        last: bool,
        v: &mut LineVerdict<'a>,
    ) {
        if V::MESSAGES {
            self.visit_said_message(of, message, last, v);
        }
        if let Some(init) = init::parse_init(message) {
            v.things.push((of.start, LineItem::Init(init, of.speaker)));
            return;
        }
        let length = of.end - of.start;
        if last && (length == NCCL_LINE_CUT_BYTES || message::is_truncated(message)) {
            v.count_truncated(&mut self.out.account);
        } else if !last
            && !message.starts_with(b"NCCL version ")
            && of.header.level != HeaderLevel::Call
        {
            v.set_damage(of.end, "the rest of a NCCL line");
        } else if !last && of.header.level == HeaderLevel::Call && !message.ends_with(b")") {
            v.set_damage(of.end, "the rest of a CALL line");
        }
    }

    /// Gives the message to a stage that wants messages; of a cut one, only the part that is
    /// certain.
    fn visit_said_message(
        &mut self,
        of: &HeaderPiece<'a, '_>,
        message: &'a [u8],
        last: bool,
        v: &mut LineVerdict<'a>,
    ) {
        let level = of.header.level;
        let whole = last && of.end - of.start != NCCL_LINE_CUT_BYTES;
        let said = if whole {
            message::parse_message(level, message)
        } else {
            message::parse_cut_message(level, message)
        };
        if let Some(said) = said {
            let text = &of.line[of.start..of.end];
            v.things
                .push((of.start, LineItem::Message(said, text, of.speaker, of.time)));
        }
    }
}

/// Returns the place in the line where the body of `message` breaks off, and what was expected
/// there.
fn break_position(
    of: &HeaderPiece<'_, '_>,
    message: &[u8],
    e: &ParseFailure,
) -> (usize, &'static str) {
    let what = if e.what.is_empty() {
        "the rest of a COLL line"
    } else {
        e.what
    };
    (
        of.header.body + message.len() - e.left.min(message.len()),
        what,
    )
}

/// One header's piece of a line, with its speaker.
struct HeaderPiece<'a, 'h> {
    pub(super) line: &'a [u8],
    pub(super) header: &'h LineHeader<'a>,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) speaker: HeaderSpeaker,
    pub(super) time: &'a [u8],
    /// A launcher's label in front of it.
    pub(super) label: &'a [u8],
}

impl HeaderPiece<'_, '_> {
    /// Returns the damage at the place where it breaks off.
    fn line_damage(&self, at: usize, what: &'static str) -> Option<LineDamage> {
        let text = self.line.get(at..).unwrap_or_default().into();
        let what = what.into();
        Some(LineDamage { at, what, text })
    }

    /// Returns its bytes up to `end` as a head.
    fn line_head(&self, end: usize) -> LineHead {
        LineHead {
            place: self.speaker.place,
            label: self.label.into(),
            text: self.line[self.start..end].into(),
            time: self.time.into(),
        }
    }
}

/// Returns true for a message that is a whole call but for its line's end.
fn is_whole(message: &[u8]) -> bool {
    let anchor = coll::COLL_ANCHOR_FINDER.find(message);
    anchor.is_some_and(|anchor| coll::parse_coll_at(message, anchor).is_ok())
}

/// Returns true if a body that is not whole breaks off where NCCL tears a line.
fn is_torn(of: &HeaderPiece<'_, '_>, message: &[u8], e: &ParseFailure) -> bool {
    let (text, body) = (&of.line[of.start..of.end], of.header.body - of.start);
    let alone = coll::COLL_ANCHOR_FINDER.find_iter(message).count() == 1;
    let at = break_position(of, message, e).0 - of.start;
    // Cut elsewhere, and nothing follows.
    let cut = text.len() % TEAR_STRIDE_BYTES != 0 && coll::is_begun(message);
    alone
        && of.header.level == HeaderLevel::Info
        && !cut
        && own_bytes_of_call(text, body, at).is_some()
}
