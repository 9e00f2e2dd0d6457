//! Lines that were cut at the ends of the writers' buffers, put together again.
//!
//! Ranks that share one standard output which is a file or a pipe write through C's buffers: the
//! log is not a sequence of lines but of writes, each at one go and from one process:
//!
//! ```text
//! 4096 bytes   a full buffer: the end of the process's line that its last one began,
//!              whole lines of the same process, the beginning of one more
//! fewer        the last flush, or an early one: the same, but it ends with a line
//! text         what others print directly: step lines, progress bars
//! ```
//!
//! A line that goes over a buffer's end is joined where its end stands, so every line end stays
//! where it was. Where a write begins is known from where the one before ended; whose it is, by
//! the header on its first whole line; and that the two parts belong together, by the grammar.
//! What does not fit is passed on as it is, and counted as damage where damage is counted.

use crate::grammar::coll;
use crate::grammar::header::{self, Header, Level};
use memchr::{memchr, memmem, memrchr};
use rustc_hash::FxHashMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

/// Bytes of a buffer: what C's library takes for a file or a pipe.
pub const BLOCK: usize = 4096;
/// How many of a log's first bytes are looked at for buffers' ends.
pub(super) const EVIDENCE: usize = 1 << 20;
/// How many lines must be seen to be cut at a buffer's end, and to go on elsewhere.
const ENOUGH: u64 = 2;
/// Bytes in memory at a time.
const WINDOW: usize = 1 << 20;
/// How far behind a write's end the next buffer's first header is looked for.
const RUN: usize = 128 << 10;
/// What the beginnings of lines that wait for their ends may be in all; beyond, the one that
/// waits longest is given up.
const WAITING: usize = 4096;
/// The longest stamp in front of a header.
const STAMP: usize = 64;

/// What was put together in a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Processes that wrote whole buffers.
    pub processes: u64,
    /// Lines of calls that were joined.
    pub calls: u64,
    /// Other lines that were joined.
    pub others: u64,
    /// Where the first of them begins, in bytes of the log as it is put together.
    pub first: Option<u64>,
}

/// Whether the log that begins with `bytes` was written in blocks by several processes. Only
/// the first [`EVIDENCE`] bytes are looked at.
pub(super) fn is_blocks(bytes: &[u8]) -> bool {
    let bytes = &bytes[..bytes.len().min(EVIDENCE)];
    if !is_suspect(bytes) {
        return false;
    }
    let mut joiner = Joiner::default();
    let (mut at, mut out) = (0, Vec::new());
    while at < bytes.len() && joiner.evidence < ENOUGH {
        at += joiner.next(&bytes[at..], true, &mut out);
        out.clear();
    }
    joiner.evidence >= ENOUGH
}

/// A cheap look at the places where buffers would end if nobody else had written: true where a
/// NCCL line stands there that is not whole, or has no NCCL line behind it.
fn is_suspect(bytes: &[u8]) -> bool {
    let Some(first) = first_header(bytes) else {
        return false;
    };
    // A rank's own file is known by its headers: they all begin alike. Of several ranks' one the
    // other ranks' lines are enough to tell.
    let line = &bytes[first..line_end(bytes, first)];
    let own = opened(line).map_or(&b""[..], |header| who(line, &header));
    let is_others = |start: usize| own.is_empty() || !bytes[start..].starts_with(own);
    (first..bytes.len())
        .step_by(BLOCK)
        .skip(1)
        .any(|at| is_others(line_start(bytes, at)) && is_cut(bytes, at))
}

/// Where the line begins that `at` is in.
fn line_start(bytes: &[u8], at: usize) -> usize {
    memrchr(b'\n', &bytes[..at]).map_or(0, |i| i + 1)
}

/// Where the first line that opens with a header begins, or the header itself.
fn first_header(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memmem::find(&bytes[from..], b"NCCL ")?;
        let start = line_start(bytes, at);
        let end = line_end(bytes, at);
        if let Some(header) = header::find(&bytes[start..end], 0) {
            return Some(start + piece(&bytes[start..], &header));
        }
        from = end;
    }
}

fn is_cut(bytes: &[u8], at: usize) -> bool {
    let start = line_start(bytes, at);
    let end = line_end(bytes, at);
    if start == at || end == bytes.len() {
        return false;
    }
    let Some(header) = opened(&bytes[start..end]) else {
        return false;
    };
    is_whole(&bytes[start..end], &header).is_none()
        || opened(&bytes[end..line_end(bytes, end)]).is_none()
}

/// The end of the line at `from`, behind its `\n`.
fn line_end(bytes: &[u8], from: usize) -> usize {
    memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |i| from + i + 1)
}

fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Where what belongs to the header begins: its time stamp, if it has one.
fn piece(line: &[u8], header: &Header<'_>) -> usize {
    let before = &line[..header.start];
    if header::time(before).is_empty() {
        return header.start;
    }
    // Other text in front of a stamp: only a bracket says where the stamp begins.
    match memrchr(b'[', before).filter(|_| before.ends_with(b"] ")) {
        Some(open) => open,
        None if header.start <= STAMP => 0,
        None => header.start,
    }
}

/// The header that `line` opens with, at its first byte or behind a time stamp.
fn opened(line: &[u8]) -> Option<Header<'_>> {
    let header = header::find(line, 0)?;
    (header.start == 0 || header.start <= STAMP && !header::time(&line[..header.start]).is_empty())
        .then_some(header)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Call,
    Other,
}

/// What the line with this header is if it is whole as far as one can tell.
fn is_whole(line: &[u8], header: &Header<'_>) -> Option<Kind> {
    let line = trimmed(line);
    if header::find(line, header.body).is_some() {
        return None;
    }
    let body = &line[header.body..];
    match coll::FINDER.find(line) {
        Some(anchor) => {
            let (op, _, end) = coll::at(line, anchor).ok()?;
            // `NCCL CALL` twins have other bodies.
            (op == header.body && line[end..].trim_ascii().is_empty()).then_some(Kind::Call)
        }
        None if header.level == Level::Call => Some(Kind::Other),
        None => {
            let cut = memmem::find(body, b" [nranks=").is_some()
                || memmem::find(body, b"sendbuff ").is_some();
            (!cut).then_some(Kind::Other)
        }
    }
}

/// How sure it is that two parts are one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// Nothing speaks against it.
    Weak,
    /// The grammar or the header goes through the joint.
    Strong,
}

/// A process and the beginning of its last line, which its next buffer ends.
#[derive(Debug, Default)]
struct Writer {
    head: Vec<u8>,
    /// Where the head ended in the log.
    head_end: u64,
    /// A whole buffer ended there.
    is_full: bool,
    /// When it wrote last.
    turn: u64,
    /// It wrote a whole buffer.
    counted: bool,
}

/// `host:pid:`, which every header of a process begins with.
type Who = Box<[u8]>;

fn who<'b>(line: &'b [u8], header: &Header<'_>) -> &'b [u8] {
    let digits = line[header.start + header.host.len() + 1..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    &line[header.start..header.start + header.host.len() + digits + 2]
}

/// Whether `head` and the line `tail` are one line of the process `of`, and of which kind.
fn fit(of: &[u8], head: &[u8], tail: &[u8]) -> Option<(Fit, Kind)> {
    let mut joined = Vec::with_capacity(head.len() + tail.len());
    joined.extend_from_slice(head);
    joined.extend_from_slice(tail);
    if tail.last() != Some(&b'\n') {
        return None;
    }
    let header = opened(&joined).filter(|h| who(&joined, h) == of)?;
    let kind = is_whole(&joined, &header)?;
    let through = kind == Kind::Call || header.body > head.len();
    Some((if through { Fit::Strong } else { Fit::Weak }, kind))
}

/// How a write begins.
enum Begin {
    /// With the end of the line that this process's last buffer began; bytes in front of it,
    /// and behind its line end.
    Tail(Who, usize, usize, Kind),
    /// With a header.
    Start(Who, usize),
    /// The log is not what it should be here.
    Lost,
}

/// Cuts a log into the writes it is made of.
#[derive(Debug, Default)]
struct Joiner {
    writers: FxHashMap<Who, Writer>,
    /// How many of them have a head.
    heads: usize,
    turns: u64,
    /// Bytes taken so far.
    at: u64,
    /// Where a write begins is not known.
    lost: bool,
    /// Where the last write would have ended, had it been a whole buffer.
    expected: u64,
    /// The last time stamp in front of a header, where lines have them.
    stamp: Vec<u8>,
    seen: Seen,
    evidence: u64,
}

impl Joiner {
    /// Takes what stands at the start of `bytes`: one write, or lines that are passed on. All of
    /// the log's rest is in `bytes` if `last`, else at least [`RUN`] and a block. How many bytes
    /// it was, none only where there are none.
    fn next(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>) -> usize {
        let mut taken = if self.lost {
            self.one_line(bytes, out)
        } else {
            self.write(bytes, last, out)
        };
        if taken == 0 {
            // A buffer of which nothing is the process's: its first line is passed on.
            taken = self.one_line(bytes, out);
        }
        self.at += taken as u64;
        taken
    }

    /// The log has ended: what still waits was cut off.
    fn finish(&mut self, out: &mut Vec<u8>) {
        let mut left: Vec<Writer> = self.writers.drain().map(|(_, w)| w).collect();
        left.sort_unstable_by_key(|w| w.head_end);
        left.iter().for_each(|w| out.extend_from_slice(&w.head));
        self.heads = 0;
    }

    fn write(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>) -> usize {
        let mut from = 0;
        while from < bytes.len().min(RUN) {
            let end = line_end(bytes, from);
            if !last && end == bytes.len() && bytes[end - 1] != b'\n' {
                // A line longer than all we see.
                break;
            }
            match self.begin(bytes, from, end) {
                Some(Begin::Lost) => {
                    self.lost = true;
                    out.extend_from_slice(&bytes[..from]);
                    return from + self.pass(&bytes[from..], out);
                }
                Some(Begin::Tail(who, at, end, kind)) => {
                    out.extend_from_slice(&bytes[..at]);
                    self.join(&who, &bytes[at..end], at, kind, out);
                    return self.block(bytes, at, end, &who, out);
                }
                Some(Begin::Start(who, at)) => {
                    out.extend_from_slice(&bytes[..at]);
                    // In the middle of a line, where a whole buffer ended.
                    let cut = at == 0 && self.expected == self.at && self.heads > 0;
                    self.evidence += u64::from(cut && self.is_cut_by_another(&who));
                    return self.block(bytes, at, at, &who, out);
                }
                None => from = end,
            }
        }
        let taken = if from == 0 { bytes.len() } else { from };
        out.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// True where the last byte taken ended another process's head.
    fn is_cut_by_another(&self, who: &Who) -> bool {
        let is_last = |w: &Writer| w.is_full && w.head_end == self.at && !w.head.is_empty();
        self.writers.iter().any(|(of, w)| of != who && is_last(w))
    }

    /// Whether a buffer begins on the line at `from`, or right behind it.
    fn begin(&self, bytes: &[u8], from: usize, end: usize) -> Option<Begin> {
        let line = &bytes[from..end];
        let behind = &bytes[end..line_end(bytes, end)];
        let next = opened(behind).map(|h| who(behind, &h));
        // The header behind the line may itself lack its beginning.
        let next = next.filter(|n| self.cut_in_host(n).is_none());
        let waiting = next.and_then(|n| self.waiting(n));
        if let (Some(next), Some(writer)) = (next, waiting)
            && let Some((at, kind)) = self.tail(next, writer, line, from)
        {
            return Some(Begin::Tail(next.into(), from + at, end, kind));
        }
        if let Some(header) = header::find(line, 0) {
            let of = who(line, &header);
            if let Some(full) = self.cut_in_host(of) {
                let at = from + header.start;
                return match fit(full, &self.writers.get(full)?.head, &bytes[at..end]) {
                    Some((Fit::Strong, kind)) => Some(Begin::Tail(full.clone(), at, end, kind)),
                    _ => Some(Begin::Lost),
                };
            }
            return Some(match self.waiting(of) {
                Some(_) => Begin::Lost,
                None => Begin::Start(of.into(), from + piece(line, &header)),
            });
        }
        if let (Some(next), Some(writer)) = (next, waiting) {
            // The line behind may be the tail: only its stamp was in the head.
            let is_tail = matches!(fit(next, &writer.head, behind), Some((Fit::Strong, _)));
            return (!is_tail).then_some(Begin::Lost);
        }
        if let Some((who, kind)) = self.only_tail(line) {
            return Some(Begin::Tail(who, from, end, kind));
        }
        next.map(|next| Begin::Start(next.into(), end))
    }

    fn waiting(&self, who: &[u8]) -> Option<&Writer> {
        self.writers.get(who).filter(|w| !w.head.is_empty())
    }

    /// The process whose header lost the first bytes of its host to the buffer before.
    fn cut_in_host(&self, who: &[u8]) -> Option<&Who> {
        if self.heads == 0 || self.waiting(who).is_some() {
            return None;
        }
        let is_it = |(full, w): &(&Who, &Writer)| {
            let lost = full.len().saturating_sub(who.len());
            lost > 0 && full.ends_with(who) && w.head.ends_with(&full[..lost])
        };
        self.writers.iter().find(is_it).map(|(full, _)| full)
    }

    /// Where in `line` the end of the line begins that waits for it.
    fn tail(&self, of: &[u8], writer: &Writer, line: &[u8], from: usize) -> Option<(usize, Kind)> {
        let head = &writer.head;
        let strong = |at: usize| match fit(of, head, line.get(at..)?) {
            Some((Fit::Strong, kind)) => Some((at, kind)),
            _ => None,
        };
        let any = |at: usize| fit(of, head, line.get(at..)?).map(|(_, kind)| (at, kind));
        if let Some(found) = strong(0) {
            return Some(found);
        }
        // A progress bar is drawn without a line end: `\r 10%|#  | 4/40 [00:01<00:11]`.
        let bar = memrchr(b'\r', trimmed(line));
        if let Some(bar) = bar {
            let drawn = memchr(b']', &line[bar..]).map(|i| bar + i + 1);
            let padded = drawn.map_or(0, |at| {
                line[at..].iter().take_while(|b| **b == b' ').count()
            });
            let behind = drawn.into_iter().flat_map(|at| at..=at + padded);
            let found = behind.chain([bar + 1]).find_map(strong);
            if found.is_some() {
                return found;
            }
            return drawn.into_iter().chain([bar + 1]).find_map(any);
        }
        // The last write was taken to be short, and was not.
        let here = self.at + from as u64;
        if (here..here + line.len() as u64).contains(&self.expected)
            && let Some(found) = strong((self.expected - here) as usize)
        {
            return Some(found);
        }
        header::find(line, 0).is_none().then(|| any(0)).flatten()
    }

    /// The only process whose head goes with this line, if it goes for sure: a last flush that
    /// was nothing else.
    fn only_tail(&self, line: &[u8]) -> Option<(Who, Kind)> {
        let may_be = [&b" stream "[..], b"NCCL "];
        if self.heads == 0
            || !may_be
                .into_iter()
                .any(|text| memmem::find(line, text).is_some())
        {
            return None;
        }
        let mut fits = self.writers.iter().filter_map(|(who, w)| {
            if w.head.is_empty() {
                return None;
            }
            // Another's end may fit as well: only a header that goes through the joint is sure.
            match fit(who, &w.head, line) {
                Some((Fit::Strong, kind)) if opened(&w.head).is_none() => Some((who, kind)),
                _ => None,
            }
        });
        let (who, kind) = fits.next()?;
        fits.next().is_none().then(|| (who.clone(), kind))
    }

    /// Gives out a joined line.
    fn join(&mut self, who: &Who, tail: &[u8], at: usize, kind: Kind, out: &mut Vec<u8>) {
        let here = self.at + at as u64;
        let begins = self.seen.first.unwrap_or_else(|| {
            // What was taken and does not wait was given out.
            let waiting: usize = self.writers.values().map(|w| w.head.len()).sum();
            here.saturating_sub(waiting as u64)
        });
        let Some(writer) = self.writers.get_mut(who) else {
            return out.extend_from_slice(tail);
        };
        self.heads -= 1;
        out.append(&mut writer.head);
        out.extend_from_slice(tail);
        if writer.head_end != here {
            self.seen.first.get_or_insert(begins);
            self.evidence += u64::from(writer.is_full && kind == Kind::Call);
            match kind {
                Kind::Call => self.seen.calls += 1,
                Kind::Other => self.seen.others += 1,
            }
        }
    }

    /// The write that begins at `start`, whose lines from `from` on are whole. Gives its end.
    fn block(
        &mut self,
        bytes: &[u8],
        start: usize,
        from: usize,
        who: &Who,
        out: &mut Vec<u8>,
    ) -> usize {
        let full = (start + BLOCK).min(bytes.len());
        self.expected = self.at + full as u64;
        if from > full {
            return from;
        }
        // The last line of the process, and where others' text began behind it.
        let (mut at, mut own, mut foreign) = (from, None, None);
        let mut column = 0;
        let end = loop {
            let Some(len) = memchr(b'\n', &bytes[at..full]) else {
                break None;
            };
            let line = &bytes[at..at + len + 1];
            if line.get(column..).is_some_and(|l| l.starts_with(who)) {
                (own, foreign) = (Some(at), None);
            } else {
                match opened(line) {
                    Some(h) if line[h.start..].starts_with(who) => {
                        column = h.start;
                        self.stamp.clear();
                        self.stamp.extend_from_slice(&line[..column]);
                        (own, foreign) = (Some(at), None);
                    }
                    Some(_) => break Some(foreign.unwrap_or(at)),
                    None => {
                        foreign.get_or_insert(at);
                    }
                }
            }
            at += len + 1;
        };
        let end = end.or_else(|| {
            let rest = &bytes[at..full];
            // With nothing of its own behind it, others' text is no part of the buffer.
            let is_own = foreign.is_none() || !rest.is_empty();
            let is_own = is_own
                && may_open(rest, who, &self.stamp)
                && !self.is_anothers(bytes, at, full, who);
            (!is_own).then_some(foreign.unwrap_or(at))
        });
        self.turns += 1;
        let turn = self.turns;
        let taken = match end {
            Some(end) => {
                let misled = own.and_then(|own| self.is_misled(bytes, own, out, from));
                misled.unwrap_or_else(|| {
                    out.extend_from_slice(&bytes[from..end]);
                    end
                })
            }
            None => {
                out.extend_from_slice(&bytes[from..at]);
                self.wait(who, &bytes[at..full], full, full - start == BLOCK, out);
                full
            }
        };
        if let Some(writer) = self.writers.get_mut(who) {
            writer.turn = turn;
        }
        taken
    }

    /// True where the line at `at`, which goes over `full`, is another process's, whole.
    fn is_anothers(&self, bytes: &[u8], at: usize, full: usize, of: &[u8]) -> bool {
        let line = &bytes[at..line_end(bytes, at)];
        opened(line).is_some_and(|header| {
            let who = who(line, &header);
            let writer = self.writers.get(who);
            if who == of || writer.is_some_and(|w| w.head == bytes[at..full]) {
                return false;
            }
            let is_its = if at + header.start < full {
                // A head and another's first bytes can look like a header: one not met before
                // says nothing.
                writer.is_some()
            } else {
                // Another's buffer that begins behind a head in a stamp has a stamp of its own.
                is_like(&line[..header.start], &self.stamp) && self.cut_in_host(who).is_none()
            };
            is_its && is_whole(line, &header).is_some()
        })
    }

    /// Puts the beginning of a line by until its end comes.
    fn wait(&mut self, who: &Who, head: &[u8], end: usize, is_full: bool, out: &mut Vec<u8>) {
        if self.writers.len() >= WAITING && !self.writers.contains_key(who) {
            let oldest = self.writers.iter().min_by_key(|(_, w)| w.turn);
            if let Some(oldest) = oldest.map(|(who, _)| who.clone()) {
                self.give_up(&oldest, out);
                self.writers.remove(&oldest);
            }
        }
        let writer = self.writers.entry(who.clone()).or_default();
        if is_full && !writer.counted {
            writer.counted = true;
            self.seen.processes += 1;
        }
        writer.head.extend_from_slice(head);
        writer.head_end = self.at + end as u64;
        writer.is_full = is_full;
        self.heads += usize::from(!head.is_empty());
    }

    /// Passes on a head whose end will not come.
    fn give_up(&mut self, who: &[u8], out: &mut Vec<u8>) {
        if let Some(writer) = self.writers.get_mut(who)
            && !writer.head.is_empty()
        {
            out.append(&mut writer.head);
            self.heads -= 1;
        }
    }

    /// Where a write ended before its buffer was full, the process's last line must be whole. If
    /// it is not, the write did not begin where it was thought to: passes on the lines in front
    /// of that one and gives where it begins.
    fn is_misled(
        &mut self,
        bytes: &[u8],
        own: usize,
        out: &mut Vec<u8>,
        from: usize,
    ) -> Option<usize> {
        let line = &bytes[own..line_end(bytes, own)];
        let header = opened(line)?;
        if is_whole(line, &header).is_some() {
            return None;
        }
        self.lost = true;
        out.extend_from_slice(&bytes[from..own]);
        Some(own)
    }

    /// Passes on one line while it is not known where writes begin, or finds out.
    fn one_line(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let end = line_end(bytes, 0);
        let line = &bytes[..end];
        if let Some(header) = opened(line) {
            // Another process's buffer begins inside the line, if it is cut there.
            let second = header::find(line, header.body).map(|h| piece(line, &h));
            if let Some(second) = second.filter(|&second| second > 0)
                && is_whole(&line[..second], &header) != Some(Kind::Call)
            {
                let of: Who = who(line, &header).into();
                self.give_up(&of, out);
                self.lost = false;
                self.wait(&of, &line[..second], second, false, out);
                return second;
            }
            return self.pass(bytes, out);
        }
        let next = &bytes[end..line_end(bytes, end)];
        let of = opened(next).map(|h| who(next, &h));
        if let Some(of) = of
            && let Some(writer) = self.waiting(of)
            && matches!(fit(of, &writer.head, line), Some((Fit::Strong, _)))
        {
            self.lost = false;
            return self.write(bytes, true, out);
        }
        self.pass(bytes, out)
    }

    /// Passes on one line. The head of the process whose line it is has lost its end.
    fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let line = &bytes[..line_end(bytes, 0)];
        if let Some(header) = opened(line) {
            self.give_up(who(line, &header), out);
        }
        out.extend_from_slice(line);
        line.len()
    }
}

/// Whether two stamps differ in digits only.
fn is_like(a: &[u8], b: &[u8]) -> bool {
    let like = |(a, b): (&u8, &u8)| a == b || a.is_ascii_digit() && b.is_ascii_digit();
    a.len() == b.len() && a.iter().zip(b).all(like)
}

/// Whether `rest`, the last bytes of a buffer, may be the beginning of a line of `who`, with a
/// time stamp like `stamp` in front.
fn may_open(rest: &[u8], who: &[u8], stamp: &[u8]) -> bool {
    let begins = rest.len().min(stamp.len());
    // A process's stamps do not go back.
    let stamped = is_like(&rest[..begins], &stamp[..begins]) && rest[..begins] >= stamp[..begins];
    let rest = &rest[rest.len().min(stamp.len())..];
    stamped && rest.iter().zip(who).all(|(a, b)| a == b)
}

/// A log as its processes wrote it, line by line, if it was written in blocks; else as it is.
pub(super) struct Reader<R> {
    inner: R,
    state: State,
    /// What was read and not yet taken.
    window: Vec<u8>,
    taken: usize,
    ended: bool,
    /// What was taken and not yet given out.
    out: Vec<u8>,
    given: usize,
    joiner: Joiner,
    seen: Found,
}

/// Where a [`Reader`] says what it found, once it is at the end.
pub(super) type Found = Arc<Mutex<Option<Seen>>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unknown,
    Plain,
    Blocks,
}

impl<R: Read> Reader<R> {
    /// Finds out by itself what the log is.
    pub(super) fn new(inner: R, seen: Found) -> Reader<R> {
        Reader {
            inner,
            state: State::Unknown,
            window: Vec::new(),
            taken: 0,
            ended: false,
            out: Vec::new(),
            given: 0,
            joiner: Joiner::default(),
            seen,
        }
    }

    /// Of a log that is known to be in blocks.
    pub(super) fn of_blocks(inner: R, seen: Found) -> Reader<R> {
        Reader {
            state: State::Blocks,
            ..Reader::new(inner, seen)
        }
    }

    /// Reads until the window is full.
    fn fill(&mut self) -> io::Result<()> {
        self.window.drain(..self.taken);
        self.taken = 0;
        let have = self.window.len();
        self.window.resize(have.max(WINDOW), 0);
        let read = super::fill(&mut self.inner, &mut self.window[have..]);
        let n = *read.as_ref().unwrap_or(&0);
        self.ended = read.is_ok() && have + n < self.window.len();
        self.window.truncate(have + n);
        read.map(|_| ())
    }

    /// Takes writes until there is something to give out.
    fn advance(&mut self) -> io::Result<()> {
        self.out.clear();
        self.given = 0;
        while self.out.is_empty() {
            if !self.ended {
                self.fill()?;
            }
            let enough = if self.ended { 1 } else { 2 * RUN };
            while self.window.len() - self.taken >= enough {
                let rest = &self.window[self.taken..];
                self.taken += self.joiner.next(rest, self.ended, &mut self.out);
            }
            if self.ended {
                self.joiner.finish(&mut self.out);
                if let Ok(mut seen) = self.seen.lock() {
                    *seen = Some(self.joiner.seen);
                }
                return Ok(());
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Reader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.state == State::Unknown {
            self.fill()?;
            self.state = if is_blocks(&self.window) {
                State::Blocks
            } else {
                std::mem::swap(&mut self.out, &mut self.window);
                State::Plain
            };
        }
        if self.given == self.out.len() {
            match self.state {
                State::Blocks if !self.ended || self.taken < self.window.len() => self.advance()?,
                State::Plain if !self.ended => {
                    self.out = Vec::new();
                    self.given = 0;
                    return self.inner.read(to);
                }
                _ => {}
            }
        }
        let n = to.len().min(self.out.len() - self.given);
        to[..n].copy_from_slice(&self.out[self.given..self.given + n]);
        self.given += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::options::{Damage, Layout, Nccl, Options, Prefix, Timestamps, Trainer};
    use crate::synth::{StreamSink, generate};
    use flate2::read::GzDecoder;
    use proptest::prelude::*;
    use std::io::Cursor;
    use std::path::{Path, PathBuf};

    /// What the reader makes of `log`, told that it is in blocks, read `step` bytes at a time.
    fn joined(log: &[u8], step: usize) -> (Vec<u8>, Seen) {
        let found = Found::default();
        let mut reader = Reader::of_blocks(Slow(Cursor::new(log), step), Arc::clone(&found));
        let (mut out, mut buffer) = (Vec::new(), vec![0; step]);
        loop {
            match reader.read(&mut buffer).unwrap() {
                0 => break,
                n => out.extend_from_slice(&buffer[..n]),
            }
        }
        let seen = found.lock().unwrap().unwrap();
        (out, seen)
    }

    struct Slow<'b>(Cursor<&'b [u8]>, usize);

    impl Read for Slow<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let n = to.len().min(self.1);
            self.0.read(&mut to[..n])
        }
    }

    fn lines(log: &[u8]) -> Vec<&[u8]> {
        let mut lines: Vec<&[u8]> = log.split_inclusive(|&b| b == b'\n').collect();
        lines.sort_unstable();
        lines
    }

    fn of<'b>(log: &'b [u8], start: &str) -> Vec<&'b [u8]> {
        log.split_inclusive(|&b| b == b'\n')
            .filter(|l| memmem::find(l, start.as_bytes()).is_some())
            .collect()
    }

    fn call(pid: u64, n: u64) -> String {
        let at = 0x7f00_0000_0000_u64 + n * 512;
        format!(
            "gpu-a:{pid}:{} [0] NCCL INFO AllReduce: opCount {n:x} sendbuff {at:#x} recvbuff \
             {at:#x} count {} datatype 9 op 0 root 0 comm 0x55d{pid}a0 [nranks=4] stream \
             0x60{pid}f0\n",
            pid + n % 3,
            1000 + n * 77,
        )
    }

    fn other(pid: u64, n: u64) -> String {
        let more = "via P2P/CUMEM ".repeat(n as usize % 9);
        format!("gpu-a:{pid}:{pid} [1] NCCL INFO Channel {n:02}/0 : 1[1] -> 2[2] {more}end\n")
    }

    /// The naive twin: processes with a buffer each, that one log is written from.
    #[derive(Default)]
    struct Job {
        held: std::collections::BTreeMap<u64, Vec<u8>>,
        log: Vec<u8>,
        lines: Vec<u8>,
    }

    impl Job {
        fn say(&mut self, pid: u64, line: &str) {
            self.lines.extend_from_slice(line.as_bytes());
            let held = self.held.entry(pid).or_default();
            held.extend_from_slice(line.as_bytes());
            while held.len() >= BLOCK {
                self.log.extend(held.drain(..BLOCK));
            }
        }

        fn print(&mut self, text: &str) {
            self.lines.extend_from_slice(text.as_bytes());
            self.log.extend_from_slice(text.as_bytes());
        }

        fn end(mut self) -> (Vec<u8>, Vec<u8>) {
            for held in self.held.values() {
                self.log.extend_from_slice(held);
            }
            (self.log, self.lines)
        }
    }

    fn two(n: u64) -> (Vec<u8>, Vec<u8>) {
        let mut job = Job::default();
        for i in 0..n {
            for pid in [1422, 1423] {
                job.say(pid, &call(pid, i));
            }
            if i % 30 == 29 {
                job.print(&format!(" iteration {i}/ 100 | lm loss: 2.0 |\n"));
            }
        }
        job.end()
    }

    #[test]
    fn lines_cut_at_buffers_ends_are_whole_again_and_step_lines_too() {
        let (log, whole) = two(120);
        assert!(is_blocks(&log) && !is_blocks(&whole));
        let (out, seen) = joined(&log, 1000);
        assert_eq!(lines(&out), lines(&whole));
        assert_eq!((seen.processes, seen.others), (2, 0));
        // The first that was joined is the first that is not in the log.
        let (before, rest) = out.split_at(seen.first.unwrap() as usize);
        assert!(before.ends_with(b"\n"));
        let is_in = |line: &[u8]| memmem::find(&log, line).is_some();
        assert!(before.split_inclusive(|&b| b == b'\n').all(is_in));
        assert!(!is_in(&rest[..line_end(rest, 0)]));
        assert!(seen.calls >= 8, "{seen:?}");
    }

    #[test]
    fn what_was_still_held_back_when_the_job_was_killed_is_passed_on_as_it_is() {
        let (log, _) = two(120);
        let log = &log[..5 * BLOCK];
        let (out, _) = joined(log, 77);
        assert_eq!(out.len(), log.len());
        let count = |bytes: &[u8]| bytes.iter().filter(|&&b| b == b'\n').count();
        assert_eq!(count(&out), count(log));
    }

    #[test]
    fn a_progress_bar_without_a_line_end_is_no_part_of_a_line() {
        let mut job = Job::default();
        for i in 0..200 {
            for pid in [7001, 7002, 7003] {
                job.say(pid, &call(pid, i));
                job.say(pid, &other(pid, i));
            }
            job.print(&format!("\r {i}%|##   | {i}/200 [00:01<00:11,  3.11it/s]"));
        }
        let (log, _) = job.end();
        let (out, _) = joined(&log, 4096);
        for pid in [7001, 7002, 7003] {
            for i in 0..200 {
                for line in [call(pid, i), other(pid, i)] {
                    assert!(memmem::find(&out, line.as_bytes()).is_some(), "{line}");
                }
            }
        }
    }

    #[test]
    fn a_log_written_line_by_line_is_not_taken_for_blocks() {
        for pids in 1..5_u64 {
            let mut log = String::new();
            for i in 0..3000 {
                log += &call(100 + (i * 7919 / 3) % pids, i);
                if i % 40 == 7 {
                    log += "step 3 loss 2.0\n";
                }
                if i % 100 == 9 {
                    // Torn at byte 128.
                    let (a, b) = (call(100, i), call(101, i));
                    log += &format!("{}{}{}", &a[..128], b, &a[128..]);
                }
            }
            assert!(!is_blocks(log.as_bytes()), "{pids}");
        }
    }

    #[test]
    fn a_plain_log_is_read_as_it_is() {
        let log = (0..20_000).map(|i| call(5, i)).collect::<String>();
        let found = Found::default();
        let mut out = Vec::new();
        let mut reader = Reader::new(log.as_bytes(), Arc::clone(&found));
        reader.read_to_end(&mut out).unwrap();
        assert!(out == log.as_bytes() && found.lock().unwrap().is_none());
    }

    /// The logs in `folder`, unpacked.
    fn logs_in(folder: PathBuf) -> Vec<(String, Vec<u8>)> {
        let mut logs = Vec::new();
        let mut todo = vec![folder];
        while let Some(path) = todo.pop() {
            if path.is_dir() {
                todo.extend(path.read_dir().unwrap().map(|e| e.unwrap().path()));
                continue;
            }
            let (raw, mut bytes) = (std::fs::read(&path).unwrap(), Vec::new());
            if raw.starts_with(&[0x1f, 0x8b]) {
                GzDecoder::new(&raw[..]).read_to_end(&mut bytes).unwrap();
            } else {
                bytes = raw;
            }
            logs.push((path.display().to_string(), bytes));
        }
        logs
    }

    #[test]
    fn only_the_sample_logs_written_in_blocks_are_taken_for_such() {
        let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
        let mut n = 0;
        for folder in ["logs", "captured", "bad"] {
            for (name, log) in logs_in(testdata.join(folder)) {
                let told = name.contains("-buffered/nccl.log") || name.contains("-blocks.log");
                assert_eq!(is_blocks(&log), told, "{name}");
                n += u32::from(told);
            }
        }
        assert!(n >= 3, "{n}");
    }

    fn made(options: &Options) -> Option<Vec<u8>> {
        options.check().ok()?;
        let mut log = Vec::new();
        generate(options, &mut StreamSink::new(&mut log)).unwrap();
        Some(log)
    }

    #[test]
    fn no_damage_no_launcher_and_no_time_stamp_is_taken_for_blocks() {
        let base = |nccl| Options {
            nccl,
            steps: 6,
            layers: 2,
            ..Options::default()
        };
        let mut all = Vec::new();
        for nccl in [Nccl::V2_4, Nccl::V2_28, Nccl::V2_29] {
            for &kind in Damage::ALL {
                for rate in [0.02, 0.3, 1.0] {
                    all.push(Options {
                        damage: vec![(kind, rate)],
                        ..base(nccl)
                    });
                }
            }
        }
        for &prefix in Prefix::ALL {
            for &timestamps in Timestamps::ALL {
                all.push(Options {
                    prefix,
                    timestamps,
                    ..base(Nccl::V2_28)
                });
            }
        }
        for &trainer in Trainer::ALL {
            for layout in [Layout::Stream, Layout::PerRank] {
                all.push(Options {
                    trainer,
                    layout,
                    ..base(Nccl::V2_28)
                });
            }
        }
        let mut n = 0;
        for options in &all {
            if let Some(log) = made(options) {
                assert!(!is_blocks(&log), "{options:?}");
                n += 1;
            }
        }
        assert!(n > 80, "{n}");
    }

    fn is_call(line: &[u8]) -> bool {
        opened(line).is_some_and(|h| is_whole(line, &h) == Some(Kind::Call))
    }

    fn event() -> impl Strategy<Value = (u8, u64, u64)> {
        (0..12_u8, 0..4_u64, 0..5000_u64)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        #[test]
        fn whatever_the_bytes_it_goes_on(
            pieces in proptest::collection::vec((0..7_u8, 0..3_u64, 0..400_usize, any::<bool>()), 1..120),
        ) {
            let mut log = Vec::new();
            for (kind, pid, cut, ends) in pieces {
                let pid = 1000 + pid * 17;
                let mut text = match kind {
                    0 => format!("step {cut} loss 2.0"),
                    1 => other(pid, cut as u64),
                    2 => format!("[2026-11-20 14:02:30] {}", call(pid, cut as u64)),
                    3 => format!("gpu-a:{pid}:{pid} [0] NCCL INFO {}", "x".repeat(12 * cut)),
                    4 => format!("[{}] {}", "1, ".repeat(4 * cut), call(pid, 1)),
                    _ => call(pid, cut as u64),
                };
                text.truncate(if kind == 5 { cut } else { text.len() });
                log.extend_from_slice(text.as_bytes());
                if ends {
                    log.push(b'\n');
                }
            }
            let (mut joiner, mut at, mut out) = (Joiner::default(), 0, Vec::new());
            while at < log.len() {
                let taken = joiner.next(&log[at..], true, &mut out);
                prop_assert!(taken > 0, "{}", String::from_utf8_lossy(&log[at..]));
                at += taken;
            }
            joiner.finish(&mut out);
            prop_assert_eq!(out.len(), log.len());
        }

        #[test]
        fn what_is_put_together_is_what_the_naive_twin_wrote(
            events in proptest::collection::vec(event(), 100..900),
            step in 1..9000_usize,
        ) {
            let mut job = Job::default();
            for (kind, pid, n) in events {
                let pid = 1000 + pid * 17;
                match kind {
                    0 => job.print(&format!("step {n} loss 2.0\n")),
                    1..4 => job.say(pid, &other(pid, n)),
                    _ => job.say(pid, &call(pid, n)),
                }
            }
            let (log, whole) = job.end();
            let (out, _) = joined(&log, step);
            prop_assert_eq!(out.len(), log.len());
            for pid in (0..4).map(|pid| 1000 + pid * 17) {
                let of_pid = format!("gpu-a:{pid}:");
                let (got, want) = (of(&out, &of_pid), of(&whole, &of_pid));
                // Each process's lines in their order, and nothing that it did not write; a last
                // flush that is only the end of a line does not say whose it is: that line is
                // left in two, once a process.
                let (mut rest, mut left) = (want.iter(), Vec::new());
                let mut found = 0;
                for line in &got {
                    let before = rest.clone();
                    if rest.any(|w| w == line) {
                        found += 1;
                    } else {
                        rest = before;
                        left.push(*line);
                    }
                }
                let shown = || left.iter().map(|l| String::from_utf8_lossy(l)).collect::<Vec<_>>();
                prop_assert!(want.len() - found <= 1, "{found} of {}: {:?}", want.len(), shown());
                prop_assert!(left.len() <= 1, "{:?}", shown());
                for line in left.iter().filter(|l| is_call(l)) {
                    let last = want[want.len() - 1];
                    prop_assert!(last.starts_with(line), "{:?}", shown());
                }
            }
            let printed = |log| of(log, "step ").into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
            prop_assert_eq!(printed(&out), printed(&whole));
        }

        #[test]
        fn any_bytes_come_out_complete(
            pieces in proptest::collection::vec((any::<u16>(), 0..9000_usize), 0..40),
            noise in proptest::collection::vec(any::<u8>(), 0..300),
            step in 1..5000_usize,
        ) {
            let source = two(60).0;
            let mut log = Vec::new();
            for (from, len) in pieces {
                let from = from as usize % source.len();
                log.extend_from_slice(&source[from..(from + len).min(source.len())]);
                log.extend_from_slice(&noise[..noise.len().min(len % 50)]);
            }
            log.extend_from_slice(&noise);
            let (mut out, _) = joined(&log, step);
            is_blocks(&log);
            prop_assert_eq!(out.len(), log.len());
            out.sort_unstable();
            log.sort_unstable();
            prop_assert!(out == log);
        }
    }
}
