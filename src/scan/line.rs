//! The long way: a line that is not simply one header and one body.

use super::fragment::TEAR;
use super::{Fragment, MarkAt, Piece, Said, Scan, Speaker, Visit};
use crate::account::Class;
use crate::grammar::coll::{self, Coll};
use crate::grammar::header::{self, Header, Level};
use crate::grammar::message::version::{self, Version};
use crate::grammar::message::{self, Message, init};
use crate::grammar::token::Expected;
use crate::grammar::trainer::{Found, Recogniser};
use crate::grammar::wrap::{self, Unwrapped};
use crate::records::is_known;
use crate::twice;
use memchr::{memchr, memchr2, memmem, memrchr};
use std::sync::LazyLock;

/// What is missing of a line that NCCL itself cut.
pub(crate) const TOO_LONG: &str = "the rest of a line that NCCL cut at 1023 bytes";

/// NCCL before 2.29.2 cuts a line here (`char buffer[1024]` in `src/debug.cc`).
const OWN_CUT: usize = 1023;

/// For how many lines behind a torn one a line is not taken for what it looks like: the end of
/// the torn line may follow another line's first 128 bytes, and that looks like a whole line.
const WAIT: u32 = 64;

/// True where a cut before the byte behind `before` separates nothing that may be joined: no
/// line of the last ones is torn, the last has no step line in a line of NCCL's.
pub fn quiet(before: &[u8]) -> bool {
    static NCCL: LazyLock<memmem::Finder<'static>> =
        LazyLock::new(|| memmem::Finder::new(b" NCCL "));
    static ALL: LazyLock<Recogniser> = LazyLock::new(Recogniser::all);
    let text = before.strip_suffix(b"\n").unwrap_or(before);
    // The first line of what we see may have lost its beginning: that is no tear.
    let text = memchr(b'\n', text).map_or(text, |i| &text[i + 1..]);
    let last = &text[memrchr(b'\n', text).map_or(0, |i| i + 1)..];
    if ALL.may_mark(last) {
        return false;
    }
    text.split(|&b| b == b'\n').all(|line| {
        let mut hits = NCCL.find_iter(line);
        match hits.next() {
            Some(_) => hits.next().is_none(),
            None => !coll::is_tail(line),
        }
    })
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
        [] => true,
        [b'[' | b'(' | b'|' | b'>' | 0x1b, ..] => true,
        text => {
            // srun's ` 0: `, a stamp's digits, pdsh's and SkyPilot's `worker-0: `.
            !header::time(prefix).is_empty()
                || text
                    .strip_suffix(b": ")
                    .is_some_and(|label| !label.contains(&b' '))
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
        self.torn = self.torn.saturating_sub(1);
        let bytes = self.bytes;
        let end = memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |i| start + i);
        let next = (end + 1).min(bytes.len());
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
        } else if coll::is_tail(line) || is_init_tail(line) {
            v.waits = true;
            v.things
                .push((0, Thing::Fragment(Piece::Tail { text: line.into() })));
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
                    self.call(coll, speaker, time, line.at(at));
                }
                &(at, Thing::Init(init, speaker)) => {
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
                        broken: Some((at, _)),
                        ..
                    } = &mut piece
                    {
                        *at = line.place(*at);
                    }
                    self.fragment(piece, number, line.place(*at), line.at(*at));
                    if let Some(fragment) = self.out.fragments.last_mut() {
                        fragment.damaged = v.damage.is_some();
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
            (true, _) => self.out.account.lines += 1,
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
        self.torn = 0;
        // Also where the chunk has no piece yet: the one before may have left one open.
        if !matches!(
            self.out.fragments.last(),
            Some(Fragment {
                piece: Piece::Close,
                ..
            })
        ) {
            self.fragment(Piece::Close, line, 0, 0);
        }
    }

    pub(super) fn fragment(&mut self, piece: Piece, line: u64, column: usize, at: usize) {
        match &piece {
            Piece::Head { .. } => self.torn = WAIT,
            Piece::Tail { text } => self.init_torn |= coll::tail_comm(text).is_none(),
            Piece::Doubtful { .. } | Piece::Close => {}
        }
        let slot = self.out.fragments.len() as u32;
        self.out.visit.slot_of(&piece);
        let at = self.offset + at as u64;
        self.out.fragments.push(Fragment {
            piece,
            line,
            column,
            at,
            slot,
            damaged: false,
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
        let header = header::all(head).last()?;
        let rest = &self.bytes[next..];
        let rest = &rest[..memchr(b'\n', rest).unwrap_or(rest.len())];
        let tail = rest.strip_suffix(b"\r").unwrap_or(rest);
        // A launcher puts its prefix in front of both lines.
        let label = &head[..piece_start(head, 0, header.start)];
        let tail = tail.strip_prefix(label).unwrap_or(tail);
        if header::find(tail, 0).is_some() || tail.is_empty() {
            return None;
        }
        let head_piece = &head[header.start..];
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
        let speaker = self.speaks(&header, clean);
        let time = header::time(&head[..header.start]);
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
        let mut headers: Vec<Header<'a>> = header::all(line).collect();
        if headers.is_empty() {
            return self.headless(line, found, v);
        }
        let mut starts = Vec::with_capacity(headers.len() + 1);
        let mut floor = 0;
        for i in 0..headers.len() {
            unglue(line, &mut headers, i);
            starts.push(piece_start(line, floor, headers[i].start));
            floor = headers[i].body;
        }
        starts.push(line.len());
        v.class = Class::Other;
        let before = &line[..starts[0]];
        let bodies = v.things.len();
        self.bodies(before, v);
        // Without a body of its own: what another process's bytes left of a line.
        if v.things.len() == bodies && memmem::find(before, b" [nranks=").is_some() {
            v.damaged(0, "the beginning of a NCCL line");
        }
        let (mut torn_before, mut overwritten) = (false, false);
        for (i, h) in headers.iter().enumerate() {
            // A step line behind the message ends it.
            let end = found
                .iter()
                .map(|f| f.start)
                .find(|&s| s >= h.body && s < starts[i + 1])
                .unwrap_or(starts[i + 1]);
            let spliced = end < starts[i + 1];
            let piece = &line[starts[i]..end];
            let clean = if i == 0 {
                is_prefix(&line[..h.start], self.recogniser)
            } else {
                let torn = starts[i] - starts[i - 1] == TEAR && h.host == headers[i - 1].host;
                torn || starts[i] < h.start
            };
            let speaker = self.speaks(h, clean);
            let last = i + 1 == headers.len() && !spliced;
            let next = headers.get(i + 1).is_none_or(|next| next.host == h.host);
            let torn = !last && piece.len() == TEAR && h.level == Level::Info && next;
            let time = header::time(&line[..h.start]);
            let of = Of {
                line,
                header: h,
                start: starts[i],
                end,
                speaker,
                time,
            };
            if torn {
                v.waits = true;
                let text = piece.into();
                v.things.push((
                    starts[i],
                    Thing::Fragment(Piece::Head {
                        place: speaker.place,
                        text,
                        time: time.into(),
                    }),
                ));
            } else {
                self.piece(&of, last, torn_before, v);
                let other = headers.get(i + 1).is_some_and(|n| n.pid != h.pid);
                overwritten |= v.damage.is_some() && other && end > h.body;
            }
            torn_before |= torn;
        }
        if overwritten {
            let account = &mut self.out.account;
            account.overwritten += 1;
            account.firsts.overwritten.get_or_insert(account.lines);
        }
    }

    /// One header's piece that is not torn at byte 128.
    fn piece(&mut self, of: &Of<'a, '_>, last: bool, torn_before: bool, v: &mut Verdict<'a>) {
        let message = &of.line[of.header.body..of.end];
        let Some(mut anchor) = coll::FINDER.find(message) else {
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
                    let doubtful = torn_before || self.torn > 0;
                    let alone = coll::FINDER.find(&message[end..]).is_none();
                    if doubtful && alone && last && from == 0 && of.end - of.start > TEAR {
                        v.waits = true;
                        let text = of.line[of.start..of.end].into();
                        let piece = Piece::Doubtful {
                            place: speaker.place,
                            text,
                            time: of.time.into(),
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
                Err(e) if last && from == 0 && self.may_be_torn(of, message, torn_before) => {
                    v.waits = true;
                    let (place, time) = (speaker.place, of.time.into());
                    let text = of.line[of.start..of.end].into();
                    let piece = if of.end - of.start == TEAR {
                        Piece::Head { place, text, time }
                    } else {
                        Piece::Doubtful {
                            place,
                            text,
                            time,
                            broken: Some(expected(of, message, &e)),
                        }
                    };
                    v.things.push((of.start, Thing::Fragment(piece)));
                    return;
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

    /// True where a body that is not whole may be the first 128 bytes of a torn line, alone or
    /// with another's end behind them.
    fn may_be_torn(&self, of: &Of<'_, '_>, message: &[u8], torn_before: bool) -> bool {
        let alone = coll::FINDER.find_iter(message).count() == 1;
        let length = of.end - of.start;
        let torn = length == TEAR || (length > TEAR && (torn_before || self.torn > 0));
        torn && alone && of.header.level == Level::Info
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
        if last && length == OWN_CUT {
            v.damaged(of.end, TOO_LONG);
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
        if coll::is_tail(line) {
            v.waits = true;
            v.things
                .push((0, Thing::Fragment(Piece::Tail { text: line.into() })));
        } else if version.is_some()
            || memmem::find(line, b"NCCL version ").is_some()
            || [&b"NCCL INFO "[..], b"NCCL WARN ", b"NCCL CALL "]
                .iter()
                .any(|level| memmem::find(line, level).is_some())
        {
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
}

impl<'a> Verdict<'a> {
    fn new() -> Verdict<'a> {
        Verdict {
            things: Vec::new(),
            class: Class::Foreign,
            damage: None,
            waits: false,
        }
    }

    /// Adds what `line` turned out to be, which begins at `start` of the lines in hand.
    fn add(&mut self, start: usize, line: &'a [u8], other: Verdict<'a>, foreign: bool) {
        let Verdict {
            things,
            class,
            damage,
            waits,
        } = other;
        let moved = |(at, mut thing)| {
            match &mut thing {
                Thing::Mark(mark) => {
                    mark.start += start;
                    mark.end += start;
                }
                Thing::Fragment(Piece::Doubtful {
                    broken: Some((at, _)),
                    ..
                }) => *at += start,
                _ => {}
            }
            (at + start, thing)
        };
        self.things.extend(things.into_iter().map(moved));
        if foreign && class == Class::Foreign && !waits {
            self.things.push((start + line.len(), Thing::Foreign(line)));
        }
        let weight = |class: Class| match class {
            Class::Foreign => 0,
            Class::Other => 1,
            Class::Call | Class::Repaired => 2,
            Class::Damaged => 3,
        };
        if weight(class) > weight(self.class) {
            self.class = class;
        }
        self.damage = self.damage.or(damage.map(|(at, what)| (at + start, what)));
        self.waits |= waits;
    }

    fn damaged(&mut self, at: usize, what: &'static str) {
        self.damage.get_or_insert((at, what));
        self.class = Class::Damaged;
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

/// Takes the last bytes of the piece before it off the host of header `i`: a whole body says
/// where it ends, and processes that share a pipe or a file are mostly on one host.
fn unglue<'a>(line: &'a [u8], headers: &mut [Header<'a>], i: usize) {
    let Some(before) = i.checked_sub(1).map(|before| headers[before]) else {
        return;
    };
    let h = &mut headers[i];
    let host = h.start..h.start + h.host.len();
    let start = if h.host.len() > before.host.len() && h.host.ends_with(before.host) {
        host.end - before.host.len()
    } else {
        let message = &line[before.body..];
        let body = coll::FINDER
            .find(message)
            .and_then(|a| coll::at(message, a).ok());
        match body.map(|(_, _, end)| before.body + end) {
            Some(end) if host.contains(&end) => end,
            _ => return,
        }
    };
    h.start = start;
    h.host = &line[start..host.end];
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
