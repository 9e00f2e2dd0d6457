//! The long way: a line that is not simply one header and one body.

use super::fragment::TEAR;
use super::torn::{cut_before_next, cut_in};
use super::waiting::Waiting;
use super::{Begun, Broken, Fragment, Looks, MarkAt, Piece, Said, Scan, Speaker, Visit};
use crate::formats::account::{Account, Class};
use crate::grammar::coll::{self, Coll};
use crate::grammar::header::{self, Header, Level};
use crate::grammar::message::communicator::init;
use crate::grammar::message::setup::version::{self, Version};
use crate::grammar::message::{self, Message};
use crate::grammar::token::Expected;
use crate::grammar::trainer::{Found, Recogniser};
use crate::grammar::values::is_known;
use crate::grammar::wrap::{self, Unwrapped};
use crate::members::twice;
use crate::source::Place;
use memchr::{memchr, memchr2, memmem, memrchr};
use std::sync::LazyLock;

/// The longest launcher's label in front of a line's end that is looked for.
const LABEL: usize = 64;

/// NCCL before 2.29.2 cuts a line here (`char buffer[1024]` in `src/debug.cc`).
const OWN_CUT: usize = 1023;

/// What a cut behind `before`, which are whole lines, would separate; `quiet` says that no line
/// waits for its end where they begin.
pub fn place(before: &[u8], quiet: bool) -> Place {
    static ALL: LazyLock<Recogniser> = LazyLock::new(Recogniser::all);
    let text = before.strip_suffix(b"\n").unwrap_or(before);
    if ALL.may_mark(&text[memrchr(b'\n', text).map_or(0, |i| i + 1)..]) {
        return Place::Within;
    }
    let mut scan = Scan::new(before, 0, &ALL, false, ());
    scan.waiting = Waiting::new(quiet);
    scan.is_look = true;
    scan.walk(0);
    if scan.waiting.is_on(1) {
        Place::Loud
    } else {
        Place::Quiet
    }
}

/// True where `prefix`, the text in front of a header, is a launcher's or a stamp's, so that
/// nothing of it can be part of the host, no step line is in it and no other line's remains.
pub(super) fn is_prefix(prefix: &[u8], recogniser: &Recogniser) -> bool {
    let Some(&last) = prefix.last() else {
        return true;
    };
    // Beyond the longest known prefix (Ray's, CloudWatch's) it may be anything.
    if prefix.len() > 160 || !matches!(last, b' ' | b':' | b'\t' | b'm' | b'>') {
        return false;
    }
    let known = match prefix.trim_ascii_start() {
        // Blanks alone: what is after them may begin with other text.
        [] => false,
        [b'[' | b'(' | b'|' | b'>' | 0x1b, ..] => true,
        text => {
            // srun's ` 0: `, a stamp's digits, pdsh's and SkyPilot's `worker-0: `; `loss: ` is none.
            !header::time(prefix).is_empty()
                || text.strip_suffix(b": ").is_some_and(|label| {
                    !label.contains(&b' ') && label.iter().any(u8::is_ascii_digit)
                })
        }
    };
    let of_nccl = |text: &[u8]| memmem::find(prefix, text).is_some();
    known && !recogniser.may_mark(prefix) && !of_nccl(b"NCCL") && !of_nccl(b" [nranks=")
}

/// Something on a line, by its place in it.
enum Thing<'a> {
    /// A line that is not NCCL's, beside others on a line of the file.
    Foreign(&'a [u8]),
    Mark(Found),
    Call(Coll<'a>, Speaker, &'a [u8]),
    Init(init::Init, Speaker),
    Message(Message<'a>, &'a [u8], Speaker, &'a [u8]),
    Fragment(Piece),
}

/// What a line turned out to be.
struct Verdict<'a> {
    things: Vec<(usize, Thing<'a>)>,
    class: Class,
    damage: Option<(usize, &'static str)>,
    waits: bool,
    /// Pieces that may be no piece of a NCCL line.
    weak: usize,
}

/// A line of the file: as it is, or without what stands around the lines in it.
struct Text<'l> {
    /// Where it begins in the chunk, and where the next one does.
    start: usize,
    next: usize,
    /// The line; or those in it, with `\n` between them.
    text: &'l [u8],
    unwrapped: Option<&'l Unwrapped>,
}

impl Text<'_> {
    /// Where the byte at `at` of the text stands in the line.
    fn place(&self, at: usize) -> usize {
        self.unwrapped.map_or(at, |unwrapped| unwrapped.place(at))
    }

    /// Where it stands in the chunk.
    fn at(&self, at: usize) -> usize {
        self.start + self.place(at)
    }

    /// From where to where in the chunk a reader needs, to find again what stands at `at`.
    fn around(&self, at: usize) -> (usize, usize) {
        let begin = memrchr(b'\n', &self.text[..at]).map(|end| self.at(end + 1));
        let end = memchr(b'\n', &self.text[at..]).map(|end| self.at(at + end + 1));
        (begin.unwrap_or(self.start), end.unwrap_or(self.next))
    }
}

// The text of a line may be a copy that does not live as long as the chunk.
impl<'a, V: Visit> Scan<'_, V> {
    /// Takes the line at `start`, and the next one too if a step line was spliced into this
    /// one. Gives where the line after starts.
    pub(super) fn long(&mut self, start: usize) -> usize {
        self.waiting.pass();
        let bytes = self.bytes;
        let end = memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |i| start + i);
        let next = (end + 1).min(bytes.len());
        self.line = start;
        self.here = (false, false);
        let line = &bytes[start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            if V::FOREIGN {
                self.out.visit.foreign(line, self.out.account.lines);
            }
            self.out.account.line(Class::Foreign);
            return next;
        }
        self.repeats(line);
        let recogniser = self.recogniser;
        if let Some(unwrapped) = wrap::unwrapped(line, &|text| is_wanted(text, recogniser))
            && unwrapped.lines().next().is_some()
            && self.wrapped((start, next), line, &unwrapped)
        {
            return next;
        }
        let mut found = std::mem::take(&mut self.found);
        marks(self.recogniser, line, &mut found);
        let next = match self.spliced(start, line, next, &found) {
            Some(after) => after,
            None => {
                let verdict = self.verdict(line, &found);
                let unwrapped = None;
                let text = line;
                self.commit(
                    &Text {
                        start,
                        next,
                        text,
                        unwrapped,
                    },
                    verdict,
                );
                next
            }
        };
        self.found = found;
        next
    }

    /// Takes the lines that stand in `line`. False where none of them is a step line and `line`
    /// itself is one: then it is the trainer's own.
    fn wrapped(&mut self, (start, next): (usize, usize), line: &[u8], inner: &Unwrapped) -> bool {
        let mut found = std::mem::take(&mut self.found);
        let has_mark = |text: &[u8], found: &mut Vec<Found>| {
            marks(self.recogniser, text, found);
            !found.is_empty()
        };
        let is_own = !inner.lines().any(|(_, text)| has_mark(text, &mut found))
            && has_mark(line, &mut found);
        if !is_own {
            let mut all = Verdict::new();
            for (at, text) in inner.lines() {
                marks(self.recogniser, text, &mut found);
                let verdict = self.verdict(text, &found);
                all.add(at, text, verdict, V::FOREIGN);
            }
            let (text, unwrapped) = (inner.text(), Some(inner));
            self.commit(
                &Text {
                    start,
                    next,
                    text,
                    unwrapped,
                },
                all,
            );
        }
        self.found = found;
        !is_own
    }

    /// Counts the lines that Ray left out for this one.
    fn repeats(&mut self, line: &[u8]) {
        if let Some(n) = ray_repeats(line) {
            let account = &mut self.out.account;
            account.ray_lines += 1;
            account.ray_repeats += n;
            account.firsts.ray.get_or_insert(account.lines);
        }
    }

    fn verdict(&mut self, line: &'a [u8], found: &[Found]) -> Verdict<'a> {
        let mut v = Verdict::new();
        v.things
            .extend(found.iter().map(|f| (f.start, Thing::Mark(*f))));
        // RCCL says its version without NCCL's name.
        static CCL: LazyLock<memmem::Finder<'static>> =
            LazyLock::new(|| memmem::Finder::new(b"CCL "));
        if CCL.find(line).is_some() || coll::FINDER.find(line).is_some() {
            self.pieces(line, found, &mut v);
        } else if let Some(version) = version::of_block(line) {
            self.headless_version(line, Some(version), &mut v);
        } else if is_tail(line) {
            v.tail(line, Looks::Nccl);
        } else if self.waits() && is_call_tail(line) {
            v.tail(line, Looks::Call);
        } else if found.is_empty() && (self.waiting.is_message_open() || self.here.1) {
            v.tail(line, Looks::Any);
        }
        v
    }

    /// Tells the stage what stands on the line, in its order, and counts the line.
    fn commit(&mut self, line: &Text<'_>, mut v: Verdict<'_>) {
        v.things.sort_by_key(|(at, _)| *at);
        let number = self.out.account.lines;
        let is_piece = |thing: &&(usize, Thing<'_>)| matches!(thing.1, Thing::Fragment(_));
        let pieces = v.things.iter().filter(is_piece).count();
        for i in 0..v.things.len() {
            let until = v.things.get(i + 1).map(|(at, _)| *at);
            match &v.things[i] {
                (_, Thing::Foreign(text)) => self.out.visit.foreign(text, number),
                (_, Thing::Mark(mark)) => {
                    let begin = if i == 0 {
                        line.start
                    } else {
                        line.at(mark.start)
                    };
                    let (cut, next_line) = match mark_end(line.text, mark.end, until) {
                        Some(end) => (line.at(end), number),
                        None => (line.next, number + 1),
                    };
                    self.mark(mark, (begin, cut), (number, next_line));
                }
                &(at, Thing::Call(coll, speaker, time)) => {
                    self.heard(speaker.process, line.at(at));
                    self.call(coll, speaker, time, line.at(at));
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
                (at, Thing::Fragment(piece)) => {
                    let mut piece = piece.clone();
                    if let Piece::Doubtful {
                        broken: Some(broken),
                        ..
                    } = &mut piece
                    {
                        broken.at = line.place(broken.at);
                    }
                    self.fragment(piece, number, line.place(*at), line.at(*at));
                    if let Some(fragment) = self.out.fragments.last_mut() {
                        fragment.damaged = v.damage.is_some();
                        fragment.class = v.class;
                        fragment.of_line = pieces;
                    }
                }
            }
        }
        if let Some((at, what)) = v.damage {
            // As it stands in the file, behind the last byte that was in order.
            let column = at.checked_sub(1).map_or(0, |last| line.place(last) + 1);
            let bytes = &self.bytes[line.start..line.next];
            let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            let rest = &bytes[column.min(bytes.len())..];
            self.out.account.place(number, column, what, rest);
        }
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

    fn mark(&mut self, found: &Found, at: (usize, usize), lines: (u64, u64)) {
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

    pub(super) fn fragment(&mut self, piece: Piece, line: u64, column: usize, at: usize) {
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

    /// A step line printed into the middle of a COLL line, as block-buffered standard output
    /// does: the bytes before it and the next line are one COLL line. Gives where the line
    /// after both starts.
    fn spliced(
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
        // Behind another line's beginning it may be any process's.
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
        self.call(coll, speaker, time, start + header.start);
        let number = self.out.account.lines;
        self.mark(mark, (start + mark.start, after), (number, number + 2));
        self.out.account.spliced += 1;
        self.out.account.firsts.spliced.get_or_insert(number);
        self.out.account.line(Class::Repaired);
        self.out.account.line(Class::Repaired);
        Some(after)
    }

    /// The pieces of a line of NCCL's: one for each header on it.
    fn pieces(&mut self, line: &'a [u8], found: &[Found], v: &mut Verdict<'a>) {
        let Written {
            headers,
            starts,
            glued,
        } = written(line);
        if headers.is_empty() {
            return self.headless(line, found, v);
        }
        v.class = Class::Other;
        let before = &line[..starts[0]];
        let bodies = v.things.len();
        self.bodies(before, v);
        // Without a body of its own: what another process's bytes left of a line.
        if v.things.len() == bodies && memmem::find(before, b" [nranks=").is_some() {
            v.damaged(0, "the beginning of a NCCL line");
        }
        let (mut torn_before, mut overwritten) = (false, false);
        let first = &line[..starts[0]];
        let is_label = is_prefix(first, self.recogniser);
        let mut label = if is_label { first } else { b"" };
        for (i, h) in headers.iter().enumerate() {
            // A step line behind the message ends it.
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
        // Behind a step line without a line end of its own there may be a line's end.
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
        if overwritten {
            let account = &mut self.out.account;
            account.overwritten += 1;
            account.firsts.overwritten.get_or_insert(account.lines);
        }
    }

    /// A line was begun: what is behind it may be another's end.
    fn begins(&mut self, of: &Of<'a, '_>, piece: Piece, v: &mut Verdict<'a>) {
        if let Piece::Head(begun) | Piece::Doubtful { begun, .. } = &piece {
            let is_call = is_call(&begun.text);
            self.here = (true, self.here.1 || !is_call);
        }
        v.waits = true;
        v.things.push((of.start, Thing::Fragment(piece)));
    }

    /// True where the end of a line that was begun may come.
    fn waits(&self) -> bool {
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
                    let doubtful =
                        torn_before || (self.waits() && !self.is_certain(&coll, speaker));
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

    /// The bodies in a text without a header: who said them is not known.
    fn bodies(&mut self, text: &'a [u8], v: &mut Verdict<'a>) {
        let mut from = 0;
        while let Some(anchor) = coll::FINDER.find(&text[from..]).map(|i| from + i) {
            match coll::at(text, anchor) {
                // Half a name reads as a name: without a header only a known one is taken.
                Ok((op, coll, end)) if !is_whole_name(&text[..op], coll.op) => {
                    v.damaged(anchor, "the beginning of an operation's name");
                    from = end;
                }
                Ok((op, coll, end)) => {
                    let speaker = self.nobody();
                    v.things.push((op, Thing::Call(coll, speaker, b"")));
                    v.class = Class::Call;
                    from = end;
                }
                Err(e) => {
                    v.damaged(text.len() - e.left.min(text.len()), e.what);
                    from = anchor + coll::ANCHOR.len();
                }
            }
        }
    }

    /// A line of NCCL's without a whole header: quoted, an orphan body, a cut one.
    fn headless(&mut self, line: &'a [u8], found: &[Found], v: &mut Verdict<'a>) {
        let end = found.first().map_or(line.len(), |f| f.start);
        let before = v.things.len();
        self.bodies(&line[..end], v);
        if v.things.len() > before || v.damage.is_some() {
            return;
        }
        let version = version::headerless(line);
        if is_tail(line) {
            v.tail(line, Looks::Nccl);
        } else if version.is_some()
            || memmem::find(line, b"NCCL version ").is_some()
            || [&b"NCCL INFO "[..], b"NCCL WARN ", b"NCCL CALL "]
                .iter()
                .any(|level| memmem::find(line, level).is_some())
        {
            let account = &mut self.out.account;
            if is_beheaded(line) {
                account.headless += 1;
                account.firsts.headless.get_or_insert(account.lines);
            }
            self.headless_version(line, version, v);
            if v.things.len() == before && V::MESSAGES {
                self.headless_message(&line[..end], v);
            }
        }
    }

    /// A line that is no more than a version, if it is one: NCCL's own, or of RCCL's block.
    fn headless_version(
        &mut self,
        line: &'a [u8],
        version: Option<Version<'a>>,
        v: &mut Verdict<'a>,
    ) {
        v.class = Class::Other;
        if let Some(version) = version.filter(|_| V::MESSAGES) {
            let nobody = self.nobody();
            v.things.push((
                0,
                Thing::Message(Message::Version(version), line, nobody, b""),
            ));
        }
    }

    /// The message of a line whose header was left out or is not whole. Who said it is not known:
    /// what names a process's communicator says nothing then.
    fn headless_message(&mut self, line: &'a [u8], v: &mut Verdict<'a>) {
        static INFO: LazyLock<memmem::Finder<'static>> =
            LazyLock::new(|| memmem::Finder::new(b"NCCL INFO "));
        if let Some(warn) = quoted_warn(line, self.recogniser) {
            let nobody = self.nobody();
            v.things.push((0, Thing::Message(warn, line, nobody, b"")));
            return;
        }
        let Some(at) = INFO.find(line) else { return };
        let body = &line[at + b"NCCL INFO ".len()..];
        // Another line may begin within it.
        if INFO.find(body).is_some() {
            return;
        }
        match message::message(Level::Info, body) {
            None
            | Some(
                Message::Init(_) | Message::Layout(_) | Message::Timings(_) | Message::Named(_),
            ) => {}
            Some(message) => {
                let nobody = self.nobody();
                v.things
                    .push((at, Thing::Message(message, line, nobody, b"")));
            }
        }
    }
}

/// A WARN whose header was left out or is not whole, as people quote it:
///
/// ```text
/// [1] misc/shmutils.cc:103 NCCL WARN Cuda failure 'out of memory'
///  NCCL WARN Call to ibv_create_qp failed
/// ```
fn quoted_warn<'a>(line: &'a [u8], recogniser: &Recogniser) -> Option<Message<'a>> {
    const LEVEL: &[u8] = b"NCCL WARN ";
    let at = memmem::find(line, LEVEL)?;
    let (before, rest) = (&line[..at], &line[at + LEVEL.len()..]);
    is_header_end(before, recogniser)
        .then(|| message::message(Level::Warn, rest))
        .flatten()
}

/// True where `before` is what may be left of a header, or a launcher's prefix; prose is neither,
/// nor is a command that looks for such lines.
fn is_header_end(before: &[u8], recogniser: &Recogniser) -> bool {
    let text = before.trim_ascii();
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    // Since 2.30.7 a function follows the place: `init.cc:7 (initTransportsRank)`.
    let words = || text.rsplit(|&b| b == b' ');
    let place = words().find(|word| !word.starts_with(b"("));
    let is_place = place.is_some_and(|place| {
        let colon = memrchr(b':', place).filter(|&colon| colon > 0);
        colon.is_some_and(|colon| digits(&place[colon + 1..]))
    });
    let is_device = words().next().is_some_and(|word| {
        let inner = word
            .strip_prefix(b"[")
            .and_then(|word| word.strip_suffix(b"]"));
        inner.is_some_and(digits)
    });
    // A label is a rank's or a host's: `note: ` is neither.
    let is_label = is_prefix(before, recogniser)
        && (matches!(text.first(), Some(b'[' | b'(' | b'|' | b'>' | 0x1b))
            || text.iter().any(u8::is_ascii_digit));
    text.is_empty() || is_place || is_device || is_label
}

/// True for a line that begins with the end of a header: `148:1617875 [3] NCCL INFO Channel`.
fn is_beheaded(line: &[u8]) -> bool {
    let end = memmem::find(line, b"NCCL ").filter(|&at| at <= 64);
    end.is_some_and(|end| {
        let of_header = |b: &u8| b.is_ascii_alphanumeric() || b":[]-_. ".contains(b);
        line[..end].iter().all(of_header) && !line.starts_with(b"NCCL version ")
    })
}

/// True where `op`, behind `before` and without a header, is surely not the end of a longer name:
/// `AllReduce`, cut, ends in `Reduce`.
fn is_whole_name(before: &[u8], op: &[u8]) -> bool {
    before.ends_with(b"NCCL INFO ")
        || (is_known(op) && !matches!(op, b"Reduce" | b"Gather" | b"Scatter" | b"Signal"))
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
    line: &'a [u8],
    header: &'h Header<'a>,
    start: usize,
    end: usize,
    speaker: Speaker,
    time: &'a [u8],
    /// What a launcher put in front of it.
    label: &'a [u8],
}

impl Of<'_, '_> {
    /// Where it breaks off.
    fn broken(&self, at: usize, what: &'static str) -> Option<Broken> {
        let text = self.line.get(at..).unwrap_or_default().into();
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

/// True for the first bytes of a line, from its header, that may be a call's.
pub(crate) fn is_call(text: &[u8]) -> bool {
    header::find(text, 0).is_some_and(|header| {
        let message = &text[header.body..];
        coll::FINDER.find(message).is_some() || coll::is_begun(message)
    })
}

/// True for what may be the end of a call's line where one was begun; a launcher's label may be in
/// front.
pub(crate) fn is_call_tail(line: &[u8]) -> bool {
    let behind = |at: usize| &line[at + 1..];
    let label = memchr(b':', &line[..line.len().min(LABEL)]).map(behind);
    let text = label.map_or(&b""[..], <[u8]>::trim_ascii_start);
    coll::is_tail(line) || coll::is_short_tail(line) || coll::is_short_tail(text)
}

/// True for what can only be the end of a call's line or of one that names a communicator.
fn is_tail(line: &[u8]) -> bool {
    coll::is_tail(line) || is_init_tail(line)
}

impl<'a> Verdict<'a> {
    fn new() -> Verdict<'a> {
        Verdict {
            things: Vec::new(),
            class: Class::Foreign,
            damage: None,
            waits: false,
            weak: 0,
        }
    }

    /// Adds what `line` turned out to be, which begins at `start` of the lines in hand.
    fn add(&mut self, start: usize, line: &'a [u8], other: Verdict<'a>, foreign: bool) {
        let Verdict {
            things,
            class,
            damage,
            waits,
            weak,
        } = other;
        let moved = |(at, mut thing)| {
            match &mut thing {
                Thing::Mark(mark) => {
                    mark.start += start;
                    mark.end += start;
                }
                Thing::Fragment(Piece::Doubtful {
                    broken: Some(broken),
                    ..
                }) => broken.at += start,
                _ => {}
            }
            (at + start, thing)
        };
        self.things.extend(things.into_iter().map(moved));
        if foreign && class == Class::Foreign && !(waits && weak == 0) {
            self.things.push((start + line.len(), Thing::Foreign(line)));
        }
        let weight = |class: Class| match class {
            Class::Foreign => 0,
            Class::Other => 1,
            Class::Truncated => 2,
            Class::Call | Class::Repaired => 3,
            Class::Damaged => 4,
        };
        if weight(class) > weight(self.class) {
            self.class = class;
        }
        self.damage = self.damage.or(damage.map(|(at, what)| (at + start, what)));
        self.waits |= waits;
        self.weak += weak;
    }

    /// The line may be the end of another.
    fn tail(&mut self, line: &[u8], looks: Looks) {
        self.waits = true;
        self.weak += usize::from(looks != Looks::Nccl);
        let text = line.into();
        self.things
            .push((0, Thing::Fragment(Piece::Tail { text, looks })));
    }

    fn damaged(&mut self, at: usize, what: &'static str) {
        self.damage.get_or_insert((at, what));
        self.class = Class::Damaged;
    }

    fn truncated(&mut self, account: &mut Account) {
        if self.class == Class::Other {
            self.class = Class::Truncated;
            account.firsts.truncated.get_or_insert(account.lines);
        }
    }
}

/// Fills `found` with the step lines of a line.
fn marks(recogniser: &Recogniser, line: &[u8], found: &mut Vec<Found>) {
    found.clear();
    if recogniser.may_mark(line) {
        recogniser.marks(line, found);
    }
}

/// True for a string that is worth reading: NCCL's, or a step line.
pub(super) fn is_wanted(text: &[u8], recogniser: &Recogniser) -> bool {
    wrap::is_nccl(text) || is_init_tail(text) || recogniser.may_mark(text)
}

/// What several processes wrote on one line.
struct Written<'a> {
    headers: Vec<Header<'a>>,
    /// Where each header's piece begins, and the line's end.
    starts: Vec<usize>,
    /// Whether only the tear says where a header's host begins.
    glued: Vec<bool>,
}

fn written(line: &[u8]) -> Written<'_> {
    let mut headers: Vec<Header<'_>> = header::all(line).collect();
    let mut starts = Vec::with_capacity(headers.len() + 1);
    let mut glued = Vec::with_capacity(headers.len());
    let mut floor = 0;
    for i in 0..headers.len() {
        glued.push(unglue(line, &mut headers, i, starts.last()));
        starts.push(piece_start(line, floor, headers[i].start));
        floor = headers[i].body;
    }
    starts.push(line.len());
    Written {
        headers,
        starts,
        glued,
    }
}

/// Takes the last bytes of the piece before it off the host of header `i`: a whole body says
/// where it ends, processes that share a pipe or a file are mostly on one host, and a line that
/// begins at `before` may be torn in what looks like the host. Gives true where only the last says
/// how many bytes it is.
fn unglue<'a>(line: &'a [u8], headers: &mut [Header<'a>], i: usize, start: Option<&usize>) -> bool {
    let Some(before) = i.checked_sub(1).map(|before| headers[before]) else {
        return false;
    };
    let h = &mut headers[i];
    let host = h.start..h.start + h.host.len();
    if h.host.len() > before.host.len() && h.host.ends_with(before.host) {
        h.begin(host.end - before.host.len());
        return false;
    }
    let message = &line[before.body..];
    let body = coll::FINDER
        .find(message)
        .and_then(|a| coll::at(message, a).ok());
    let end = body.map(|(_, _, end)| before.body + end);
    if let Some(end) = end.filter(|end| host.contains(end)) {
        h.begin(end);
        return false;
    }
    let tear = start.map(|start| start + TEAR);
    match tear.filter(|tear| h.start < *tear && *tear < host.end) {
        Some(tear) => {
            h.begin(tear);
            true
        }
        None => false,
    }
}

/// Where the piece of a header begins: NCCL's own stamp in brackets belongs to it.
fn piece_start(line: &[u8], floor: usize, header: usize) -> usize {
    let before = &line[floor..header];
    let stamp = header::time(before);
    if !stamp.is_empty() && before.ends_with(b"] ") && floor > 0 {
        return header - stamp.len() - b"[] ".len();
    }
    if floor > 0 {
        header
    } else {
        first_start(before, header, stamp)
    }
}

/// The same for the first header of a line, where a launcher's prefix may stand in front.
fn first_start(before: &[u8], header: usize, stamp: &[u8]) -> usize {
    if !stamp.is_empty() && before.ends_with(b"] ") {
        header - stamp.len() - b"[] ".len()
    } else {
        header
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

fn is_init_tail(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    (line.ends_with(b" - Init COMPLETE") || line.ends_with(b" - Init START"))
        && memmem::find(line, b"comm 0x").is_none()
}

/// How many lines of other workers Ray left out for a line, or for those in it; `None` where it has
/// none of Ray's words.
fn ray_repeats(line: &[u8]) -> Option<u64> {
    static ACROSS: LazyLock<memmem::Finder<'static>> =
        LazyLock::new(|| memmem::Finder::new(b"x across cluster]"));
    ACROSS.find(line)?;
    let mut all = None;
    for end in ACROSS.find_iter(line) {
        // `[repeated ` and a number, no more.
        let before = &line[end.saturating_sub(32)..end];
        let Some(start) = memmem::rfind(before, b"[repeated ") else {
            continue;
        };
        let digits = &before[start + b"[repeated ".len()..];
        if let Ok((b"", n)) = crate::grammar::token::dec_u64(digits) {
            let left_out = n.saturating_sub(1);
            all = Some(all.map_or(left_out, |sum: u64| sum.saturating_add(left_out)));
        }
    }
    all
}
