//! Cuts a log into the writes that it is made of, and joins the lines that their ends cut.

use super::HEADER_SEARCH_BYTES;
use super::line::{
    BlockLineKind, JoinCertainty, certain_line_kind, find_header_from, fit_head_and_tail,
    header_piece_start_at, is_same_stamp_form, line_at, line_end, opening_bytes, opening_header,
    process_prefix, trim_line_end, whole_line_kind,
};
use super::write_seam::{self, WriteSeam};
use crate::grammar::coll;
use crate::source::{RejoinCounts, STDIO_BUFFER_BYTES};
use memchr::{memchr, memmem, memrchr};
use rustc_hash::FxHashMap;
use std::ops::RangeInclusive;

/// How many processes are remembered at a time; beyond, the one that wrote longest ago is
/// forgotten.
const MAX_WRITERS: usize = 4096;

/// A process and the beginning of its last line, which its next buffer ends.
#[derive(Debug, Default)]
struct BlockWriter {
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
type ProcessPrefix = Box<[u8]>;

/// How a write begins.
enum WriteStart {
    /// With the end of the line that this process's last buffer began; bytes in front of it,
    /// and after its line end.
    Tail(ProcessPrefix, usize, usize, (JoinCertainty, BlockLineKind)),
    /// With a header.
    Start(ProcessPrefix, usize),
    /// With a header that lacks so many of its first bytes, which were lost before.
    Beheaded(ProcessPrefix, usize, usize),
}

/// How a write ends.
enum WriteEnd {
    /// With a line.
    Line(usize),
    /// In the line that begins there.
    Cut(usize, usize),
    /// In the line that begins there, with another's end after it. Where one ends and the other
    /// begins is not known for sure.
    Glued(usize, usize),
}

/// Cuts a log into the writes it is made of.
#[derive(Debug)]
pub(super) struct BlockJoiner {
    writers: FxHashMap<ProcessPrefix, BlockWriter>,
    /// How many of them have a head.
    heads: usize,
    turns: u64,
    /// Bytes taken so far.
    at: u64,
    /// The last of them ends a line.
    is_line_end: bool,
    /// Where the last write would have ended, had it been a whole buffer.
    expected: u64,
    /// The last time stamp in front of a header, where lines have them.
    stamp: Vec<u8>,
    pub(super) seen: RejoinCounts,
    /// How many lines were seen to be cut at the end of a whole buffer, and to go on elsewhere.
    pub(super) evidence: u64,
    /// How often it may still be tried to find a write's end that no buffer's length says.
    tries: u32,
}

impl BlockJoiner {
    /// A log of which nothing was taken. So many times at most it is tried to find a write's end
    /// that no buffer's length says.
    pub(super) fn new(tries: u32) -> BlockJoiner {
        BlockJoiner {
            writers: FxHashMap::default(),
            heads: 0,
            turns: 0,
            at: 0,
            is_line_end: false,
            expected: 0,
            stamp: Vec::new(),
            seen: RejoinCounts::default(),
            evidence: 0,
            tries,
        }
    }

    /// Takes what is at the start of `bytes`: one write, or a line that is passed on. All of
    /// the log's rest is in `bytes` if `last`, else at least two [`RUN`]s. How many bytes it was,
    /// none only where there are none.
    pub(super) fn take_write(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>) -> usize {
        // What is seen of the log does not depend on how much of it was read.
        let last = last && bytes.len() <= 2 * HEADER_SEARCH_BYTES;
        let bytes = &bytes[..bytes.len().min(2 * HEADER_SEARCH_BYTES)];
        let mut taken = self.take_block_write(bytes, last, out);
        if taken == 0 {
            // A buffer of which nothing is the process's: its first line is passed on.
            let line = line_at(bytes, 0);
            out.extend_from_slice(line);
            taken = line.len();
        }
        self.at += taken as u64;
        self.is_line_end = bytes[..taken].ends_with(b"\n");
        taken
    }

    /// The log has ended: what still waits was cut off. Where the log ends with a line's end, so
    /// does `out`: there are as many lines as before.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        let mut left: Vec<BlockWriter> = self.writers.drain().map(|(_, w)| w).collect();
        left.sort_unstable_by_key(|w| w.head_end);
        left.retain(|w| !w.head.is_empty());
        self.seen.unended += left.len() as u64;
        self.heads = 0;
        let heads: Vec<u8> = left.into_iter().flat_map(|w| w.head).collect();
        let at = match out.strip_suffix(b"\n").filter(|_| self.is_line_end) {
            Some(lines) => memrchr(b'\n', lines).map_or(0, |i| i + 1),
            None => out.len(),
        };
        out.splice(at..at, heads);
    }

    fn take_block_write(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>) -> usize {
        let mut from = 0;
        while from < bytes.len().min(HEADER_SEARCH_BYTES) {
            let end = line_end(bytes, from);
            if !last && end == bytes.len() && bytes[end - 1] != b'\n' {
                // A line longer than all we see.
                break;
            }
            match self.find_write_start(bytes, from, end) {
                Some(WriteStart::Tail(who, at, end, how)) => {
                    out.extend_from_slice(&bytes[..at]);
                    self.write_joined_line(&who, &bytes[at..end], at, how, out);
                    return self.take_block(bytes, at, end, &who, out);
                }
                Some(WriteStart::Beheaded(who, end, lost)) => {
                    out.extend_from_slice(&bytes[..from]);
                    self.keep_head(&who, &who[..lost], 0, false, out);
                    let how = (JoinCertainty::Strong, BlockLineKind::Other);
                    self.write_joined_line(&who, &bytes[from..end], from, how, out);
                    return self.take_block(bytes, from, end, &who, out);
                }
                Some(WriteStart::Start(who, at)) => {
                    out.extend_from_slice(&bytes[..at]);
                    self.pass_on_head(&who, out);
                    // In the middle of a line, where a whole buffer ended.
                    let cut = at == 0 && self.expected == self.at && self.heads > 0;
                    self.evidence += u64::from(cut && self.is_cut_by_another(&who));
                    return self.take_block(bytes, at, at, &who, out);
                }
                None => from = end,
            }
        }
        let taken = if from == 0 { bytes.len() } else { from };
        out.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// True where the last byte taken ended another process's head.
    fn is_cut_by_another(&self, who: &ProcessPrefix) -> bool {
        let is_last = |w: &BlockWriter| w.is_full && w.head_end == self.at && !w.head.is_empty();
        self.writers.iter().any(|(of, w)| of != who && is_last(w))
    }

    /// Whether a write begins on the line at `from`, or right after it.
    fn find_write_start(&self, bytes: &[u8], from: usize, end: usize) -> Option<WriteStart> {
        let line = &bytes[from..end];
        let behind = line_at(bytes, end);
        let next = self.header_process(behind);
        let waiting = next.and_then(|next| Some((next, self.waiting_writer(next)?)));
        if let Some((next, writer)) = waiting
            && let Some((at, how)) = self.find_tail_start(next, writer, line, from)
        {
            return Some(WriteStart::Tail(next.into(), from + at, end, how));
        }
        if let Some(header) = find_header_from(line, 0) {
            let of = process_prefix(line, &header);
            if let Some(full) = self.process_cut_in_host(of) {
                let at = from + header.start;
                let kind = certain_line_kind(full, &self.writers.get(full)?.head, &bytes[at..end])?;
                return Some(WriteStart::Tail(
                    full.clone(),
                    at,
                    end,
                    (JoinCertainty::Strong, kind),
                ));
            }
            // Only its stamp was in the head.
            if let Some(writer) = self.waiting_writer(of)
                && let Some(kind) = certain_line_kind(of, &writer.head, line)
            {
                return Some(WriteStart::Tail(
                    of.into(),
                    from,
                    end,
                    (JoinCertainty::Strong, kind),
                ));
            }
            // Its beginning was not seen for what it is. Its process's name is known all the same.
            let lost = next.map_or(0, |next| next.len().saturating_sub(of.len()));
            if let Some(next) = next.filter(|next| lost > 0 && next.ends_with(of))
                && certain_line_kind(next, &next[..lost], line).is_some()
            {
                return Some(WriteStart::Beheaded(next.into(), end, lost));
            }
            let full = of;
            let of = self.unglue_process(full, next);
            let at = match full.len() - of.len() {
                0 => header_piece_start_at(line, &header),
                glued => header.start + glued,
            };
            return Some(WriteStart::Start(of.into(), from + at));
        }
        if let Some((next, writer)) = waiting {
            // The line after it may be the end: only its stamp was in the head.
            return match certain_line_kind(next, &writer.head, behind) {
                Some(_) => None,
                None => Some(WriteStart::Start(next.into(), end)),
            };
        }
        // Of a process not met before it is not known what it waits for, but for its name.
        let may_be = |who: &ProcessPrefix| {
            let new = next.filter(|next| !self.writers.contains_key(*next));
            new.is_none_or(|new| {
                self.missing_name_part(who)
                    .is_some_and(|lost| !new.ends_with(lost))
            })
        };
        if let Some((who, how)) = self.find_sole_tail(line).filter(|(who, _)| may_be(who)) {
            return Some(WriteStart::Tail(who, from, end, how));
        }
        if let Some((who, how)) = self.find_last_flush(line, from) {
            return Some(WriteStart::Tail(who, from, end, how));
        }
        // The end of a line whose beginning is not in the log begins the write too.
        let at = if coll::is_tail(line) { from } else { end };
        next.map(|next| WriteStart::Start(next.into(), at))
    }

    /// The process whose header `line` opens with, whole.
    fn header_process<'b>(&self, line: &'b [u8]) -> Option<&'b [u8]> {
        let header = opening_header(line)?;
        let of = process_prefix(line, &header);
        // The header may itself lack its beginning.
        (header_piece_start_at(line, &header) == 0 && self.process_cut_in_host(of).is_none())
            .then_some(of)
    }

    fn waiting_writer(&self, who: &[u8]) -> Option<&BlockWriter> {
        self.writers.get(who).filter(|w| !w.head.is_empty())
    }

    /// `of` without the bytes of other text that its host begins with, as far as the process is
    /// known or the one of the next line.
    fn unglue_process<'b>(&self, of: &'b [u8], next: Option<&[u8]>) -> &'b [u8] {
        let host = memchr(b':', of).unwrap_or(of.len());
        if self.writers.contains_key(of) {
            return of;
        }
        let is_known = |of: &[u8]| next == Some(of) || self.writers.contains_key(of);
        let shorter = (1..host).map(|cut| &of[cut..]);
        shorter.into_iter().find(|of| is_known(of)).unwrap_or(of)
    }

    /// The process whose header lost the first bytes of its host to the buffer before.
    fn process_cut_in_host(&self, who: &[u8]) -> Option<&ProcessPrefix> {
        if self.heads == 0 || self.waiting_writer(who).is_some() {
            return None;
        }
        let is_it = |(full, w): &(&ProcessPrefix, &BlockWriter)| {
            let lost = full.len().saturating_sub(who.len());
            lost > 0 && full.ends_with(who) && w.head.ends_with(&full[..lost])
        };
        self.writers.iter().find(is_it).map(|(full, _)| full)
    }

    /// Where in `line` the end of the line begins that waits for it.
    fn find_tail_start(
        &self,
        of: &[u8],
        writer: &BlockWriter,
        line: &[u8],
        from: usize,
    ) -> Option<(usize, (JoinCertainty, BlockLineKind))> {
        let head = &writer.head;
        let strong = |at: usize| {
            Some((
                at,
                (
                    JoinCertainty::Strong,
                    certain_line_kind(of, head, line.get(at..)?)?,
                ),
            ))
        };
        let any = |at: usize| Some((at, fit_head_and_tail(of, head, line.get(at..)?)?));
        if let Some(found) = strong(0) {
            return Some(found);
        }
        // A progress bar is drawn without a line end: `\r 10%|#  | 4/40 [00:01<00:11]`.
        let bar = memrchr(b'\r', trim_line_end(line));
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
        find_header_from(line, 0)
            .is_none()
            .then(|| any(0))
            .flatten()
    }

    /// What a process's head lacks of its name.
    fn missing_name_part<'w>(&self, who: &'w [u8]) -> Option<&'w [u8]> {
        let head = &self.writers.get(who)?.head;
        let has = (1..=who.len())
            .rev()
            .find(|&has| head.ends_with(&who[..has]))?;
        Some(&who[has..])
    }

    /// The only process whose head goes with this line, if it goes for sure: a last flush that
    /// was nothing else.
    fn find_sole_tail(
        &self,
        line: &[u8],
    ) -> Option<(ProcessPrefix, (JoinCertainty, BlockLineKind))> {
        let may_be = [&b" stream "[..], b"NCCL "];
        if self.heads == 0
            || !may_be
                .into_iter()
                .any(|text| memmem::find(line, text).is_some())
        {
            return None;
        }
        let mut fits = self.writers.iter().filter_map(|(who, w)| {
            // Another's end may fit as well: only a header that goes through the joint is sure.
            let may_be = !w.head.is_empty() && opening_header(&w.head).is_none();
            let kind = may_be
                .then(|| certain_line_kind(who, &w.head, line))
                .flatten()?;
            Some((who, (JoinCertainty::Strong, kind)))
        });
        let (who, how) = fits.next()?;
        fits.next().is_none().then(|| (who.clone(), how))
    }

    /// The process whose head ended right before `line`, if that ends it and no other: its last
    /// flush was this end alone.
    fn find_last_flush(
        &self,
        line: &[u8],
        from: usize,
    ) -> Option<(ProcessPrefix, (JoinCertainty, BlockLineKind))> {
        let here = self.at + from as u64;
        let waiting = self.writers.iter().filter(|(_, w)| !w.head.is_empty());
        let mut fits =
            waiting.filter_map(|(who, w)| Some((who, w, certain_line_kind(who, &w.head, line)?)));
        let (who, writer, kind) = fits.next()?;
        let is_its = fits.next().is_none() && writer.head_end == here && line.ends_with(b"\n");
        is_its.then(|| (who.clone(), (JoinCertainty::Strong, kind)))
    }

    /// Gives out a joined line.
    fn write_joined_line(
        &mut self,
        who: &ProcessPrefix,
        tail: &[u8],
        at: usize,
        (fit, kind): (JoinCertainty, BlockLineKind),
        out: &mut Vec<u8>,
    ) {
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
            self.evidence += u64::from(writer.is_full && fit == JoinCertainty::Strong);
            match kind {
                BlockLineKind::Call => self.seen.calls += 1,
                BlockLineKind::Other => self.seen.others += 1,
            }
        }
    }

    /// The write that begins at `start`, whose lines from `from` on are whole. Gives its end.
    fn take_block(
        &mut self,
        bytes: &[u8],
        start: usize,
        from: usize,
        who: &ProcessPrefix,
        out: &mut Vec<u8>,
    ) -> usize {
        let full = start + STDIO_BUFFER_BYTES;
        self.expected = self.at + full as u64;
        if from > full {
            return from;
        }
        self.turns += 1;
        self.remember_writer(who, out).turn = self.turns;
        match self.find_write_end(bytes, from, full, who) {
            WriteEnd::Line(end) => {
                out.extend_from_slice(&bytes[from..end]);
                end
            }
            WriteEnd::Cut(line, end) => {
                out.extend_from_slice(&bytes[from..line]);
                self.keep_head(who, &bytes[line..end], end, end == full, out);
                end
            }
            WriteEnd::Glued(line, joint) => {
                // Two halves must not become one line. The line's end goes between them, so that
                // there are as many lines as before.
                let end = line_end(bytes, line);
                out.extend_from_slice(&bytes[from..joint]);
                out.push(b'\n');
                out.extend_from_slice(&bytes[joint..end - 1]);
                end
            }
        }
    }

    /// Where the write ends of which there are lines from `from` on, and which ends at `full` if
    /// it is a whole buffer.
    fn find_write_end(
        &mut self,
        bytes: &[u8],
        from: usize,
        full: usize,
        who: &ProcessPrefix,
    ) -> WriteEnd {
        let most = full.min(bytes.len());
        // The last line of the process, and where others' text begins after it.
        let (mut own, mut foreign): (Option<usize>, Option<usize>) = (None, None);
        let (mut at, mut column) = (from, 0);
        while at < most {
            let end = line_end(bytes, at);
            let line = &bytes[at..end];
            let is_own = line.get(column..).is_some_and(|l| l.starts_with(who)) || {
                let header = opening_header(line).filter(|h| line[h.start..].starts_with(who));
                if let Some(header) = header {
                    column = header.start;
                    self.stamp.clear();
                    self.stamp.extend_from_slice(&line[..column]);
                }
                header.is_some()
            };
            let is_cut = end > most || end == most && line.last() != Some(&b'\n');
            // NCCL prints no carriage return: a progress bar was drawn where a write ended.
            let bar = memchr(b'\r', trim_line_end(line)).filter(|_| is_own);
            if let Some(bar) = bar.filter(|bar| at + bar <= most) {
                return WriteEnd::Cut(at, at + bar);
            }
            if is_own && is_cut {
                return self.find_crossing_end(bytes, at, most, who);
            }
            if is_own {
                (own, foreign) = (Some(at), None);
                at = end;
                continue;
            }
            let rest = &bytes[at..most];
            let may_open =
                || opening_bytes(rest, who, &self.stamp) == rest.len() && self.is_stamp_later(rest);
            if is_cut && may_open() && !self.is_whole_line_of_another(bytes, at, most, who) {
                return WriteEnd::Cut(at, most);
            }
            let opening = if is_cut {
                None
            } else {
                self.find_own_opening(bytes, at, who)
            };
            if let Some(cut) = opening {
                return WriteEnd::Cut(at, at + cut);
            }
            let before = own.filter(|_| foreign.is_none());
            if let Some(end) = before.and_then(|own| self.find_seam(bytes, own, who, None)) {
                return end;
            }
            // With nothing of its own after it, others' text is no part of the buffer.
            if is_cut || self.is_tail_of_next_writer(bytes, at, end) {
                return WriteEnd::Line(foreign.unwrap_or(at));
            }
            if opening_header(line).is_some() {
                return WriteEnd::Line(foreign.unwrap_or(at));
            }
            foreign.get_or_insert(at);
            at = end;
        }
        let last = own.filter(|_| foreign.is_none());
        let seam = last.and_then(|own| self.find_seam(bytes, own, who, None));
        seam.unwrap_or(WriteEnd::Line(foreign.unwrap_or(at)))
    }

    /// Whether the line is the one that the process of the next line waits for.
    fn is_tail_of_next_writer(&self, bytes: &[u8], at: usize, end: usize) -> bool {
        let next = self.header_process(line_at(bytes, end));
        next.is_some_and(|next| {
            let writer = self.waiting_writer(next);
            writer.is_some_and(|w| certain_line_kind(next, &w.head, &bytes[at..end]).is_some())
        })
    }

    /// A process's stamps do not go back.
    fn is_stamp_later(&self, rest: &[u8]) -> bool {
        let begins = rest.len().min(self.stamp.len());
        rest[..begins] >= self.stamp[..begins]
    }

    /// Where the write ends that goes into the line at `at`, and to `full` if it is a whole buffer.
    fn find_crossing_end(
        &mut self,
        bytes: &[u8],
        at: usize,
        full: usize,
        who: &ProcessPrefix,
    ) -> WriteEnd {
        let end = line_end(bytes, at);
        let next = self.header_process(line_at(bytes, end));
        if full == end || next == Some(who) {
            return WriteEnd::Cut(at, full);
        }
        if let Some(writer) = next.and_then(|next| self.waiting_writer(next))
            && self
                .find_tail_start(next.unwrap_or_default(), writer, &bytes[full..end], full)
                .is_some()
        {
            return WriteEnd::Cut(at, full);
        }
        let seam = self.find_seam(bytes, at, who, Some(full));
        seam.unwrap_or(WriteEnd::Cut(at, full))
    }

    /// Where in its last line, at `own`, a process's write ends, if it does not end with it: that
    /// was no whole buffer, or did not begin where it was taken to begin. By a buffer's length it
    /// ends at `hint`.
    fn find_seam(
        &mut self,
        bytes: &[u8],
        own: usize,
        who: &ProcessPrefix,
        hint: Option<usize>,
    ) -> Option<WriteEnd> {
        let end = line_end(bytes, own);
        let next = self.header_process(line_at(bytes, end));
        let waits = next.is_some_and(|next| next != &**who && self.waiting_writer(next).is_some());
        let seam = WriteSeam {
            bytes,
            line: own..end,
            who,
            stamp: &self.stamp,
        };
        if !waits && seam.is_call() {
            // The end of a line whose beginning is not in the log may make it whole.
            let new = next.filter(|&next| !self.writers.contains_key(next));
            let joint = new.and_then(|next| seam.find_address_in_half(next));
            return joint.map(|joint| WriteEnd::Glued(own, joint));
        }
        if self.tries == 0 {
            return None;
        }
        self.tries -= 1;
        if let Some(next) = next.filter(|_| waits)
            && let Some(writer) = self.waiting_writer(next)
        {
            let joints = seam.find_tail_starts(next, &writer.head);
            return match joints[..] {
                [] => None,
                [joint] => Some(WriteEnd::Cut(own, joint)),
                [.., joint] => Some(WriteEnd::Glued(own, hint.unwrap_or(joint))),
            };
        }
        let is_known = |of: &[u8]| self.writers.contains_key(of);
        let is_nearer = |joint: &usize| hint.is_none_or(|hint| *joint < hint);
        let start = seam.find_other_line_start(next, is_known).filter(is_nearer);
        let joint = start.or_else(|| seam.find_foreign_start(hint).filter(is_nearer));
        joint.map(|joint| WriteEnd::Cut(own, joint))
    }

    /// How many of the first bytes of the line at `at` are the process's: another's write, or
    /// other text, follows them.
    fn find_own_opening(&mut self, bytes: &[u8], at: usize, who: &ProcessPrefix) -> Option<usize> {
        let line = line_at(bytes, at);
        let most = opening_bytes(line, who, &self.stamp);
        let is_anothers = self
            .header_process(line)
            .is_some_and(|of| self.waiting_writer(of).is_none());
        if most == 0 || most >= self.stamp.len() + who.len() || is_anothers || self.tries == 0 {
            return None;
        }
        self.tries -= 1;
        let next = self.header_process(line_at(bytes, at + line.len()));
        // Another's end follows, another's header, or other text.
        if let Some(of) = next.filter(|&next| next != &**who)
            && let Some(writer) = self.waiting_writer(of)
        {
            return only_fitting_cut(1..=most, |cut| {
                certain_line_kind(of, &writer.head, &line[cut..]).is_some()
            });
        }
        if let Some(header) = find_header_from(line, 0) {
            let of = process_prefix(line, &header);
            let begins = match of.len() - self.unglue_process(of, next).len() {
                0 => header_piece_start_at(line, &header),
                glued => header.start + glued,
            };
            return (0 < begins && begins <= most).then_some(begins);
        }
        let tail = write_seam::find_tail_ahead(bytes, at + line.len(), who)?;
        only_fitting_cut(1..=most, |cut| {
            certain_line_kind(who, &line[..cut], &bytes[tail.clone()]).is_some()
        })
    }

    /// True where the line at `at`, which goes over `full`, is another process's, whole.
    fn is_whole_line_of_another(&self, bytes: &[u8], at: usize, full: usize, of: &[u8]) -> bool {
        let line = line_at(bytes, at);
        opening_header(line).is_some_and(|header| {
            let who = process_prefix(line, &header);
            let writer = self.writers.get(who);
            // Heads of two processes may end in the same bytes of a stamp or of a host: what
            // looks like a line of the second is the first's head and the second's end.
            let tail = &line[full - at..];
            let ends = |(who, w): (&[u8], &BlockWriter)| {
                !w.head.is_empty() && certain_line_kind(who, &w.head, tail).is_some()
            };
            if who == of || writer.is_some_and(|w| ends((who, w))) {
                return false;
            }
            let is_its = if at + header.start < full {
                // A head and another's first bytes can look like a header. One not met before is
                // one if these bytes begin no line and end none that waits, or if its host is known.
                let host = &who[..memchr(b':', who).map_or(0, |end| end + 1)];
                let is_host = || self.writers.keys().any(|who| who.starts_with(host));
                let is_line = || opening_header(tail).is_some() && !is_host();
                let is_end = || self.writers.iter().any(|(who, w)| ends((who, w)));
                writer.is_some() || !is_line() && !is_end()
            } else {
                // Another's buffer that begins after a head in a stamp has a stamp of its own.
                is_same_stamp_form(&line[..header.start], &self.stamp)
                    && self.process_cut_in_host(who).is_none()
            };
            is_its && whole_line_kind(line, &header).is_some()
        })
    }

    /// The process, which is remembered from now on.
    fn remember_writer(&mut self, who: &ProcessPrefix, out: &mut Vec<u8>) -> &mut BlockWriter {
        if self.writers.len() >= MAX_WRITERS && !self.writers.contains_key(who) {
            let oldest = self.writers.iter().min_by_key(|(_, w)| w.turn);
            if let Some(oldest) = oldest.map(|(who, _)| who.clone()) {
                self.pass_on_head(&oldest, out);
                self.writers.remove(&oldest);
            }
        }
        self.writers.entry(who.clone()).or_default()
    }

    /// Puts the beginning of a line by until its end comes.
    fn keep_head(
        &mut self,
        who: &ProcessPrefix,
        head: &[u8],
        end: usize,
        is_full: bool,
        out: &mut Vec<u8>,
    ) {
        self.pass_on_head(who, out);
        let head_end = self.at + end as u64;
        let writer = self.remember_writer(who, out);
        let is_new = is_full && !writer.counted;
        writer.counted |= is_full;
        writer.head.extend_from_slice(head);
        writer.head_end = head_end;
        writer.is_full = is_full;
        self.seen.processes += u64::from(is_new);
        self.heads += usize::from(!head.is_empty());
    }

    /// Passes on a head whose end will not come.
    fn pass_on_head(&mut self, who: &[u8], out: &mut Vec<u8>) {
        if let Some(writer) = self.writers.get_mut(who)
            && !writer.head.is_empty()
        {
            out.append(&mut writer.head);
            self.heads -= 1;
        }
    }
}

/// The only one of `cuts` that `fits`.
fn only_fitting_cut(
    mut cuts: RangeInclusive<usize>,
    fits: impl Fn(usize) -> bool,
) -> Option<usize> {
    let first = cuts.find(|&cut| fits(cut))?;
    (!cuts.any(fits)).then_some(first)
}
