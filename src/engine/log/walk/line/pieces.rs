//! The pieces of a line of NCCL's: one for each header on it.

use super::prefix::is_prefix;
use super::tail::{is_call, is_call_tail};
use super::verdict::{Thing, Verdict};
use super::written::{Written, written};
use crate::grammar::coll;
use crate::grammar::header::{self, Header, Level};
use crate::grammar::message;
use crate::grammar::message::communicator::init;
use crate::grammar::token::Expected;
use crate::grammar::trainer::Found;
use crate::log::walk::fragment::TEAR;
use crate::log::walk::torn::{cut_before_next, cut_in};
use crate::log::walk::{Begun, Broken, Looks, Piece, Scan, Speaker, Visit};
use crate::report::account::Class;
use memchr::memmem;

/// NCCL before 2.29.2 cuts a line here (`char buffer[1024]` in `src/debug.cc`).
const OWN_CUT: usize = 1023;

impl<'a, V: Visit> Scan<'_, V> {
    /// The pieces of a line of NCCL's: one for each header on it.
    pub(super) fn pieces(&mut self, line: &'a [u8], found: &[Found], v: &mut Verdict<'a>) {
        let Written {
            headers,
            starts,
            glued,
        } = written(line);
        if headers.is_empty() {
            return self.headless(line, found, v);
        }
        v.class = Class::Other;
        self.in_front(&line[..starts[0]], v);
        let (mut torn_before, mut overwritten) = (false, false);
        let first = &line[..starts[0]];
        let is_label = is_prefix(first, self.recogniser);
        let mut label = if is_label { first } else { b"" };
        for (i, h) in headers.iter().enumerate() {
            // A step line after the message ends it.
            let end = found
                .iter()
                .map(|f| f.start)
                .find(|&s| s >= h.body && s < starts[i + 1])
                .unwrap_or(starts[i + 1]);
            let spliced = end < starts[i + 1];
            let clean = if i == 0 && starts[0] == h.start {
                is_label
            } else if i == 0 {
                is_prefix(&line[..h.start], self.recogniser)
            } else {
                (torn_before && !glued[i]) || starts[i] < h.start
            };
            let speaker = self.speaks(h, clean);
            let start = starts[i];
            let piece = &line[start..end];
            let last = i + 1 == headers.len() && !spliced;
            let cut = cut_before_next(piece, h.level, label)
                .filter(|_| !last && !is_whole(&line[h.body..end]));
            let time = header::time(&line[..h.start]);
            let of = Of {
                line,
                header: h,
                start,
                end,
                speaker,
                time,
                label,
            };
            if let Some(cut) = cut {
                self.begins(&of, Piece::Head(of.begun(start + cut)), v);
                if cut < piece.len() {
                    label = &piece[cut..];
                }
            } else {
                self.piece(&of, last, torn_before, v);
                let other = headers.get(i + 1).is_some_and(|n| n.pid != h.pid);
                overwritten |= v.damage.is_some() && other && end > h.body;
            }
            torn_before |= cut.is_some();
        }
        self.tail_of_mark(line, &headers, found, v);
        if overwritten {
            let account = &mut self.out.account;
            account.overwritten += 1;
            account.firsts.overwritten.get_or_insert(account.lines);
        }
    }

    /// What is in front of the first header.
    fn in_front(&mut self, before: &'a [u8], v: &mut Verdict<'a>) {
        let bodies = v.things.len();
        self.bodies(before, v);
        // Without a body of its own: what another process's bytes left of a line.
        if v.things.len() == bodies && memmem::find(before, b" [nranks=").is_some() {
            v.damaged(0, "the beginning of a NCCL line");
        }
    }

    /// After a step line without a line end of its own there may be a line's end.
    fn tail_of_mark(
        &self,
        line: &[u8],
        headers: &[Header<'_>],
        found: &[Found],
        v: &mut Verdict<'_>,
    ) {
        if let Some(mark) = found.last()
            && headers.last().is_some_and(|h| h.body < mark.start)
            && is_call_tail(&line[mark.start..])
        {
            v.waits = true;
            let text = line[mark.start..].into();
            let looks = Looks::Nccl;
            let tail = Piece::Tail { text, looks };
            v.things.push((mark.end, Thing::Fragment(tail)));
        }
    }

    /// A line was begun: what is after it may be another's end.
    fn begins(&mut self, of: &Of<'a, '_>, piece: Piece, v: &mut Verdict<'a>) {
        if let Piece::Head(begun) | Piece::Doubtful { begun, .. } = &piece {
            let is_call = is_call(&begun.text);
            self.here = (true, self.here.1 || !is_call);
        }
        v.waits = true;
        v.things.push((of.start, Thing::Fragment(piece)));
    }

    /// True where the end of a line that was begun may come.
    pub(super) fn waits(&self) -> bool {
        self.waiting.is_on(1) || self.here.0
    }

    /// One header's piece that is not torn at byte 128.
    fn piece(&mut self, of: &Of<'a, '_>, last: bool, torn_before: bool, v: &mut Verdict<'a>) {
        let message = &of.line[of.header.body..of.end];
        let Some(mut anchor) = coll::FINDER.find(message) else {
            let rest = of.line.get(of.start + TEAR..of.end).unwrap_or_default();
            let own = message.get(..(of.start + TEAR).saturating_sub(of.header.body));
            let begun = own.is_some_and(|own| coll::is_begun(own) || !coll::is_broken(own));
            if last && begun && of.header.level == Level::Info && is_call_tail(rest) {
                // A beginning, and the end of another process's call.
                let broken = of.broken(of.start + TEAR, "the rest of a NCCL line");
                let begun = of.begun(of.end);
                return self.begins(of, Piece::Doubtful { begun, broken }, v);
            }
            if of.header.level == Level::Info && coll::is_broken(message) {
                return v.damaged(of.header.body, "a call");
            }
            return self.message(of, message, last, v);
        };
        let mut speaker = of.speaker;
        let mut from = 0;
        loop {
            match coll::at(message, anchor) {
                Ok((op, coll, end)) => {
                    let doubtful = torn_before
                        || (self.waits() && !self.is_certain((coll.comm, coll.nranks), speaker));
                    let alone = coll::FINDER.find(&message[end..]).is_none();
                    if doubtful && alone && last && from == 0 && of.end - of.start > TEAR {
                        v.waits = true;
                        let piece = Piece::Doubtful {
                            begun: of.begun(of.end),
                            broken: None,
                        };
                        v.things.push((of.start, Thing::Fragment(piece)));
                        return;
                    }
                    if v.class != Class::Damaged {
                        v.class = Class::Call;
                    }
                    // The first one's place is its header's.
                    let at = if from == 0 {
                        of.start
                    } else {
                        of.header.body + op
                    };
                    v.things.push((at, Thing::Call(coll, speaker, of.time)));
                    from = end;
                }
                Err(e) if from == 0 && is_torn(of, message, &e) => {
                    let piece = if (of.end - of.start).is_multiple_of(TEAR) {
                        Piece::Head(of.begun(of.end))
                    } else {
                        let (at, what) = expected(of, message, &e);
                        Piece::Doubtful {
                            begun: of.begun(of.end),
                            broken: of.broken(at, what),
                        }
                    };
                    return self.begins(of, piece, v);
                }
                Err(e) => {
                    let (at, what) = expected(of, message, &e);
                    v.damaged(at, what);
                    from = anchor + coll::ANCHOR.len();
                }
            }
            match coll::FINDER.find(&message[from..]) {
                Some(next) => anchor = from + next,
                None => return,
            }
            // A second body without a header of its own: who said it is not known.
            speaker = self.nobody();
        }
    }

    /// A message that is not a call.
    fn message(&mut self, of: &Of<'a, '_>, message: &'a [u8], last: bool, v: &mut Verdict<'a>) {
        if V::MESSAGES {
            self.said(of, message, last, v);
        }
        if let Some(init) = init::message(message) {
            v.things.push((of.start, Thing::Init(init, of.speaker)));
            return;
        }
        let length = of.end - of.start;
        if last && (length == OWN_CUT || message::is_truncated(message)) {
            v.truncated(&mut self.out.account);
        } else if !last && !message.starts_with(b"NCCL version ") && of.header.level != Level::Call
        {
            v.damaged(of.end, "the rest of a NCCL line");
        } else if !last && of.header.level == Level::Call && !message.ends_with(b")") {
            v.damaged(of.end, "the rest of a CALL line");
        }
    }

    /// What the message says, for a stage that asks; of one whose end is missing what is sure.
    fn said(&mut self, of: &Of<'a, '_>, message: &'a [u8], last: bool, v: &mut Verdict<'a>) {
        let level = of.header.level;
        let whole = last && of.end - of.start != OWN_CUT;
        let said = if whole {
            message::message(level, message)
        } else {
            message::cut(level, message)
        };
        if let Some(said) = said {
            let text = &of.line[of.start..of.end];
            v.things
                .push((of.start, Thing::Message(said, text, of.speaker, of.time)));
        }
    }
}

/// Where in the line the body of `message` breaks off, and what was expected there.
fn expected(of: &Of<'_, '_>, message: &[u8], e: &Expected) -> (usize, &'static str) {
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

/// One header's piece of a line, with who speaks.
struct Of<'a, 'h> {
    pub(super) line: &'a [u8],
    pub(super) header: &'h Header<'a>,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) speaker: Speaker,
    pub(super) time: &'a [u8],
    /// What a launcher put in front of it.
    pub(super) label: &'a [u8],
}

impl Of<'_, '_> {
    /// Where it breaks off.
    fn broken(&self, at: usize, what: &'static str) -> Option<Broken> {
        let text = self.line.get(at..).unwrap_or_default().into();
        let what = what.into();
        Some(Broken { at, what, text })
    }

    /// Its bytes up to `end`, as the beginning of a line.
    fn begun(&self, end: usize) -> Begun {
        Begun {
            place: self.speaker.place,
            label: self.label.into(),
            text: self.line[self.start..end].into(),
            time: self.time.into(),
        }
    }
}

/// True for a message that is a whole call: it lacks nothing but its line's end.
fn is_whole(message: &[u8]) -> bool {
    let anchor = coll::FINDER.find(message);
    anchor.is_some_and(|anchor| coll::at(message, anchor).is_ok())
}

/// True where a body that is not whole breaks off where NCCL tears a line.
fn is_torn(of: &Of<'_, '_>, message: &[u8], e: &Expected) -> bool {
    let (text, body) = (&of.line[of.start..of.end], of.header.body - of.start);
    let alone = coll::FINDER.find_iter(message).count() == 1;
    let at = expected(of, message, e).0 - of.start;
    // Cut elsewhere, and nothing behind it.
    let cut = text.len() % TEAR != 0 && coll::is_begun(message);
    alone && of.header.level == Level::Info && !cut && cut_in(text, body, at).is_some()
}
