//! Lines that a launcher cut with its tags, joined again.
//!
//! `mpirun --tag-output` puts a tag in front of all that it reads at once from a process's pipe, and
//! after each line end in it: `[1,3]<stdout>:`. What it reads may end anywhere in a line. The next
//! piece, of any process, then follows on the same line of the log with its own tag, and the rest of
//! the line comes later after the first tag. A tag names its writer, so nothing is guessed: the text
//! after a tag continues the line that was begun after the same tag. Each line end of the log ends
//! one line, that of the last tag before it, so the joined log has as many lines.

use super::limits::{
    EVIDENCE_BYTES, MAX_BEGUN_LINE_BYTES, MAX_BEGUN_LINES, MAX_TAG_BYTES, TAG_STAMP_BYTES,
    TAGGED_READ_BYTES,
};
use crate::grammar::header;
use crate::source::read_some;
use memchr::{memchr, memchr_iter, memmem, memrchr};
use std::io::{self, Read};
use std::ops::Range;
use std::sync::LazyLock;

/// Returns true if a line among the first [`EVIDENCE_BYTES`] of a log begins with a tag.
pub(super) fn is_tagged(bytes: &[u8]) -> bool {
    let bytes = &bytes[..bytes.len().min(EVIDENCE_BYTES)];
    find_tag(bytes, 0).is_some() && TaggedLineJoiner::default().find_first_tag(bytes).is_ok()
}

/// A tag in a text.
#[derive(Debug, Clone)]
struct WriterTag {
    /// Its place, with a stamp in front of it.
    place: Range<usize>,
    /// Where it begins after that stamp: from there on it names the writer.
    name: usize,
}

/// Returns the first tag from `from` on.
fn find_tag(text: &[u8], from: usize) -> Option<WriterTag> {
    static STREAM: LazyLock<memmem::Finder<'static>> =
        LazyLock::new(|| memmem::Finder::new(b"]<std"));
    STREAM.find_iter(text.get(from..)?).find_map(|close| {
        let close = from + close;
        let stream = &text[close + b"]<std".len()..];
        let names: [&[u8]; 3] = [b"out>:", b"err>:", b"diag>:"];
        let stream = names.iter().find(|name| stream.starts_with(name))?;
        let floor = from.max(close.saturating_sub(MAX_TAG_BYTES));
        let name = floor + memrchr(b'[', &text[floor..close])?;
        if !is_process_name(&text[name + 1..close]) {
            return None;
        }
        let stamp = name
            .checked_sub(TAG_STAMP_BYTES)
            .filter(|&stamp| stamp >= from);
        let start = stamp.filter(|&stamp| is_stamp(&text[stamp..name]));
        let end = close + b"]<std".len() + stream.len();
        let place = start.unwrap_or(name)..end;
        Some(WriterTag { place, name })
    })
}

/// Returns true for the name of a job and the rank of a process in it: `1,3`, `prterun-a-7@1,3`.
fn is_process_name(name: &[u8]) -> bool {
    let Some(comma) = memrchr(b',', name) else {
        return false;
    };
    let (job, rank) = (&name[..comma], &name[comma + 1..]);
    let of_job = |b: &u8| b.is_ascii_alphanumeric() || b"-_.@".contains(b);
    !job.is_empty()
        && job.iter().all(of_job)
        && !rank.is_empty()
        && rank.iter().all(u8::is_ascii_digit)
}

/// Returns true for a stamp as C's `ctime` prints it.
fn is_stamp(text: &[u8]) -> bool {
    let is_there = |(&b, &form): (&u8, &u8)| match form {
        b'a' => b.is_ascii_alphabetic(),
        b'0' => b.is_ascii_digit() || b == b' ',
        form => b == form,
    };
    text.iter().zip(b"aaa aaa 00 00:00:00 0000").all(is_there)
}

/// Returns the tag that a line begins with.
fn leading_tag(line: &[u8]) -> Option<WriterTag> {
    find_tag(&line[..line.len().min(MAX_TAG_BYTES)], 0).filter(|tag| tag.place.start == 0)
}

/// Returns true if more bytes may show that a line begins with a tag.
fn may_begin_tag(line: &[u8]) -> bool {
    line.len() < MAX_TAG_BYTES && line.first().is_some_and(|b| b"[FMSTW".contains(b))
}

/// Returns true for the beginning of a NCCL line: it does not continue another one.
fn opens_line(text: &[u8]) -> bool {
    header::find_header(text, 0).is_some_and(|header| {
        header.start == 0 || text[0] == b'[' && text[..header.start].ends_with(b"] ")
    })
}

/// A line without its end so far.
#[derive(Debug)]
struct BegunLine {
    /// The tag's name.
    writer: Box<[u8]>,
    /// The line so far, with the tag that it began with.
    text: Vec<u8>,
}

/// Joins the pieces of each writer's lines.
#[derive(Debug, Default)]
struct TaggedLineJoiner {
    /// A line began with a tag.
    is_tagged: bool,
    /// Bytes that were passed on before the first tag.
    untagged: usize,
    /// The last of them is no line's end.
    is_mid_line: bool,
    /// In the order of their beginnings.
    begun: Vec<BegunLine>,
}

impl TaggedLineJoiner {
    /// Returns true if the log has no tags.
    fn is_plain(&self) -> bool {
        !self.is_tagged && self.untagged >= EVIDENCE_BYTES
    }

    /// Returns the place of the first line that begins with a tag, or else of the last line, if it
    /// may prove to begin with one, or the end.
    fn find_first_tag(&self, bytes: &[u8]) -> Result<usize, usize> {
        let first = (!self.is_mid_line).then_some(0);
        let starts = first
            .into_iter()
            .chain(memchr_iter(b'\n', bytes).map(|end| end + 1));
        for start in starts.take_while(|start| self.untagged + start < EVIDENCE_BYTES) {
            let line = &bytes[start..];
            if leading_tag(line).is_some() {
                return Ok(start);
            }
            if may_begin_tag(line) && memchr(b'\n', line).is_none() {
                return Err(start);
            }
        }
        Err(bytes.len())
    }

    /// Takes the first ones of `bytes`, the next ones of the log, as far as later bytes do not change them. Returns how many.
    fn take_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        if !self.is_tagged {
            let first = self.find_first_tag(bytes);
            self.is_tagged = first.is_ok();
            let (Ok(passed) | Err(passed)) = first;
            out.extend_from_slice(&bytes[..passed]);
            self.untagged += passed;
            if passed > 0 {
                self.is_mid_line = bytes[passed - 1] != b'\n';
            }
            if !self.is_tagged {
                return passed;
            }
            at = passed;
        }
        while let Some(end) = memchr(b'\n', &bytes[at..]) {
            self.take_pieces(&bytes[at..=at + end], true, out);
            at += end + 1;
        }
        at + self.take_open_line(&bytes[at..], out)
    }

    /// Takes of a line without its end so far what later bytes do not change.
    fn take_open_line(&mut self, line: &[u8], out: &mut Vec<u8>) -> usize {
        let mut last = 0;
        let mut from = leading_tag(line).map_or(0, |tag| tag.place.end);
        while let Some(tag) = next_tag(line, from) {
            last = tag.place.start;
            from = tag.place.end;
        }
        if last > 0 {
            self.take_pieces(&line[..last], false, out);
        }
        // A writer that never ends its line is not waited for.
        if line.len() - last >= MAX_BEGUN_LINE_BYTES + MAX_TAG_BYTES {
            let end = last + MAX_BEGUN_LINE_BYTES;
            self.take_pieces(&line[last..end], false, out);
            last = end;
        }
        last
    }

    /// Takes the pieces of a line, or of a part of it that ends where a piece ends.
    fn take_pieces(&mut self, line: &[u8], is_ended: bool, out: &mut Vec<u8>) {
        let mut tag = leading_tag(line);
        loop {
            let from = tag.as_ref().map_or(0, |tag| tag.place.end);
            let next = next_tag(line, from);
            let end = next.as_ref().map_or(line.len(), |next| next.place.start);
            let ends = is_ended && next.is_none();
            match &tag {
                Some(tag) => {
                    let (start, writer) = (tag.place.start, &line[tag.name..tag.place.end]);
                    self.take_piece(writer, &line[start..end], from - start, ends, out);
                }
                None => out.extend_from_slice(&line[..end]),
            }
            if next.is_none() {
                return;
            }
            tag = next;
        }
    }

    /// Takes a piece with its tag of `tag` bytes; `ends` if it ends its line. A bar is drawn anew
    /// without a line's end: it is passed on at once.
    fn take_piece(
        &mut self,
        writer: &[u8],
        piece: &[u8],
        tag: usize,
        ends: bool,
        out: &mut Vec<u8>,
    ) {
        let text = &piece[tag..];
        let begun = self.begun.iter().position(|line| *line.writer == *writer);
        let is_other = begun.is_some() && opens_line(text);
        let begun = match begun {
            Some(_) if is_other && ends && piece.len() < MAX_BEGUN_LINE_BYTES => {
                return out.extend_from_slice(piece);
            }
            Some(at) if is_other => {
                out.extend_from_slice(&self.begun.remove(at).text);
                None
            }
            begun => begun,
        };
        let longest = begun.map_or(0, |at| self.begun[at].text.len()) + piece.len();
        let is_passed = ends || longest >= MAX_BEGUN_LINE_BYTES || text.contains(&b'\r');
        match begun {
            Some(at) if is_passed => {
                out.extend_from_slice(&self.begun.remove(at).text);
                out.extend_from_slice(text);
            }
            Some(at) => self.begun[at].text.extend_from_slice(text),
            None if is_passed || self.begun.len() >= MAX_BEGUN_LINES => {
                out.extend_from_slice(piece);
            }
            None => self.begun.push(BegunLine {
                writer: writer.into(),
                text: piece.to_vec(),
            }),
        }
    }

    /// Takes the last bytes of the log, and gives out the lines without an end, each by itself.
    fn finish(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if !self.is_tagged {
            return out.extend_from_slice(bytes);
        }
        self.take_pieces(bytes, true, out);
        let is_open = bytes.last().is_some_and(|&b| b != b'\n');
        for (i, line) in self.begun.drain(..).enumerate() {
            if i > 0 || is_open {
                out.push(b'\n');
            }
            out.extend_from_slice(&line.text);
        }
    }
}

/// Returns the next tag of a line after a tag that ends at `from`. A tag right after another one is
/// text: a piece is not empty.
fn next_tag(line: &[u8], from: usize) -> Option<WriterTag> {
    let tag = find_tag(line, from)?;
    match from > 0 && tag.place.start == from {
        true => find_tag(line, tag.place.end),
        false => Some(tag),
    }
}

/// A log with tags as its processes wrote it, line by line; any other log as it is.
pub(super) struct TaggedReader<R> {
    inner: R,
    joiner: TaggedLineJoiner,
    /// Bytes that were read and not yet taken.
    window: Vec<u8>,
    /// Bytes that were taken and not yet given out.
    out: Vec<u8>,
    given: usize,
    ended: bool,
}

impl<R: Read> TaggedReader<R> {
    pub(super) fn new(inner: R) -> TaggedReader<R> {
        TaggedReader {
            inner,
            joiner: TaggedLineJoiner::default(),
            window: Vec::new(),
            out: Vec::new(),
            given: 0,
            ended: false,
        }
    }

    /// Reads once.
    fn advance_output(&mut self) -> io::Result<()> {
        self.out.clear();
        self.given = 0;
        let have = self.window.len();
        self.window.resize(have + TAGGED_READ_BYTES, 0);
        let read = read_some(&mut self.inner, &mut self.window[have..]);
        self.window.truncate(have + read.as_ref().map_or(0, |&n| n));
        if read? == 0 {
            self.ended = true;
            self.joiner.finish(&self.window, &mut self.out);
            self.window.clear();
        } else {
            let taken = self.joiner.take_bytes(&self.window, &mut self.out);
            self.window.drain(..taken);
        }
        Ok(())
    }
}

impl<R: Read> Read for TaggedReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.given == self.out.len() && !self.ended {
            if self.joiner.is_plain() && self.window.is_empty() {
                self.out = Vec::new();
                self.given = 0;
                return self.inner.read(to);
            }
            self.advance_output()?;
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
    use proptest::prelude::*;
    use std::io::Cursor;

    /// Gives `step` bytes at a time.
    struct Slow<'b>(Cursor<&'b [u8]>, usize);

    impl Read for Slow<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let n = to.len().min(self.1);
            self.0.read(&mut to[..n])
        }
    }

    fn joined(log: &[u8], step: usize) -> String {
        let mut out = Vec::new();
        let mut reader = TaggedReader::new(Slow(Cursor::new(log), step));
        reader.read_to_end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_continues_after_its_own_tag() {
        let log = "starting\n[1,0]<stdout>:n:1:1 [0] NCCL INFO AllReduce[1,1]<stdout>:step 1 los\
                   [1,0]<stderr>:\r 10%|#  | 1/10[1,0]<stdout>:: opCount 0\n[1,1]<stderr>:warn\n\
                   [1,1]<stdout>:s 2.5[1,1]<stdout>:\nno tag\n\
                   [1,2]<stdout>:n:3:3 [0] NCCL INFO Bro[1,2]<stdout>:n:3:4 [0] NCCL INFO whole\n\
                   Fri Nov 27 03:59:14 2026[j@1,3]<stdout>:half[1,2]<stdout>:adcast\n\
                   Fri Nov 27 03:59:15 2026[j@1,3]<stdout>:other\n[1,9]<stdout>:last[1,8]<stdout>:a";
        let want = "starting\n[1,0]<stderr>:\r 10%|#  | 1/10[1,0]<stdout>:n:1:1 [0] NCCL INFO \
                    AllReduce: opCount 0\n[1,1]<stderr>:warn\n[1,1]<stdout>:step 1 loss 2.5\nno tag\n\
                    [1,2]<stdout>:n:3:4 [0] NCCL INFO whole\n\
                    [1,2]<stdout>:n:3:3 [0] NCCL INFO Broadcast\n\
                    Fri Nov 27 03:59:14 2026[j@1,3]<stdout>:halfother\n[1,8]<stdout>:a\n\
                    [1,9]<stdout>:last";
        assert!(is_tagged(log.as_bytes()));
        for step in [1, 7, 4096] {
            assert_eq!(joined(log.as_bytes(), step), want, "{step}");
        }
    }

    #[test]
    fn a_line_that_never_ends_is_passed_on() {
        let long = "x".repeat(3 * MAX_BEGUN_LINE_BYTES);
        let log = format!("[1,0]<stdout>:a[1,1]<stdout>:{long}[1,0]<stdout>:b\n");
        let want = format!("[1,1]<stdout>:{long}[1,0]<stdout>:ab\n");
        for step in [100, 1 << 20] {
            assert!(joined(log.as_bytes(), step) == want, "{step}");
        }
    }

    proptest! {
        /// The naive twin: lines of several writers, cut anywhere, and one log of the pieces.
        #[test]
        fn every_line_of_every_writer_comes_back(
            pieces in prop::collection::vec((0..4_usize, 0..40_usize, any::<bool>()), 1..60),
            step in 1..200_usize,
        ) {
            let (mut log, mut want) = (String::from("mpirun starts\n"), String::new());
            let mut open = vec![String::new(); 4];
            for (writer, len, ends) in pieces {
                let text = &"]<stdout>: [0] step [1,1]<st abc: count [x]:"[..len];
                let end = if ends { "\n" } else { "" };
                if text.is_empty() && !ends {
                    continue;
                }
                log += &format!("[1,{writer}]<stdout>:{text}{end}");
                open[writer] += text;
                if ends {
                    want += &format!("[1,{writer}]<stdout>:{}\n", std::mem::take(&mut open[writer]));
                }
            }
            let out = joined(log.as_bytes(), step);
            let rest: usize = open.iter().filter(|line| !line.is_empty()).count();
            let lines: Vec<&str> = out.lines().skip(1).collect();
            prop_assert_eq!(lines.len(), want.lines().count() + rest, "{}", log);
            prop_assert!(out["mpirun starts\n".len()..].starts_with(&want), "{} {}", log, out);
        }

        #[test]
        fn a_log_without_tags_stays_as_it_is(log in "([a-z\\[\\]<>:,\r\n1]|\\]<stdout>:){0,300}", step in 1..99_usize) {
            prop_assume!(!is_tagged(log.as_bytes()));
            prop_assert_eq!(joined(log.as_bytes(), step), log);
        }
    }
}
