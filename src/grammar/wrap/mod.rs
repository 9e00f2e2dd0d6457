//! Takes off what the file that keeps a line has put around it.
//!
//! NCCL prints a line; a launcher, a collector, a notebook or a web page stores it inside something
//! else. All readers see the line as it was printed:
//!
//! | wrapping | example | file |
//! |---|---|---|
//! | a string of JSON or Python, alone on its line | `"host:1:2 [0] NCCL INFO x\n",` (notebooks) | `strings` |
//! | strings in records or lists | `{"log":"host:1:2 ...\n","stream":"stdout"}` (Docker), `["a\n","b\n"]` | `strings` |
//! | a quoted field of CSV | `2025-05-16,"host:1:2 ... ""x""",stdout` | `table` |
//! | HTML's entities | `0[0] -&gt; 1[1]` | `entities` |
//! | a terminal's escape sequences | `ESC[36m(W pid=1)ESC[0m host:1:2 ...`, also as `\x1b[36m`, `#033[36m`, `^[[36m` | `terminal` |
//! | what a copy left at a line's ends | backticks, a byte order mark, Ray's ` [repeated 6x across cluster]` | `ends` |
//!
//! They occur inside each other, so they are taken off one by one, at most 8 times. One line
//! of a file may hold several lines (a string with `\n` in it). A line without any of this is left
//! alone ([`unwrap_line`] gives `None`): NCCL prints none of the bytes that betray a wrapping, but for
//! quotes in a setting's value.

mod entities;
mod line_ends;
mod quoted_fields;
mod strings;
mod terminal;

use super::{coll, short_header};
use memchr::{memchr, memchr3, memmem};
use std::sync::LazyLock;

/// Wrappings that are taken off a line, one inside the other.
const MAX_WRAPPINGS: usize = 8;

/// The longest line that is unwrapped, since unwrapping copies it.
const MAX_UNWRAPPED_LINE_BYTES: usize = 16 << 20;

/// The text in a wrapped line, perhaps several lines, and the places of its bytes in that line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnwrappedText {
    text: Vec<u8>,
    /// The places for each wrapping, the outermost first.
    places: Vec<OffsetMap>,
}

impl UnwrappedText {
    /// Returns the lines with `\n` between them.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the lines that are not empty, each with its place in [`UnwrappedText::text`].
    pub fn lines(&self) -> impl Iterator<Item = (usize, &[u8])> {
        split_lines(&self.text)
            .map(|(at, line)| (at, line.strip_suffix(b"\r").unwrap_or(line)))
            .filter(|(_, line)| !line.is_empty())
    }

    /// Returns the place in the wrapped line of the byte at `at` of [`UnwrappedText::text`].
    pub fn source_offset(&self, at: usize) -> usize {
        self.places
            .iter()
            .rev()
            .fold(at, |at, places| places.source_offset(at))
    }
}

/// Returns the line without its wrappings; `None` if it has none. A record's string is taken if
/// `is_wanted` is true for it, or if its name or its end marks it as a log's line.
pub fn unwrap_line(line: &[u8], is_wanted: &dyn Fn(&[u8]) -> bool) -> Option<UnwrappedText> {
    if !may_be_wrapped(line) || line.len() > MAX_UNWRAPPED_LINE_BYTES {
        return None;
    }
    let mut all: Option<UnwrappedText> = None;
    for _ in 0..MAX_WRAPPINGS {
        let text = all.as_ref().map_or(line, |all| &all.text);
        let Some(UnwrapBuffer { text, places }) = strip_outermost(text, is_wanted) else {
            break;
        };
        match &mut all {
            Some(all) => {
                all.text = text;
                all.places.push(places);
            }
            None => {
                let places = vec![places];
                all = Some(UnwrappedText { text, places });
            }
        }
    }
    all
}

/// Takes one kind of wrapping off a line. Returns true if it has one; then the rest is appended.
type UnwrapLayer = fn(line: &WrappedLine<'_>, out: &mut UnwrapBuffer) -> bool;

/// The kinds in their order: a string holds no ESC, and its contents are examined once it is decoded.
const UNWRAP_LAYERS: [UnwrapLayer; 6] = [
    terminal::strip_escape_sequences,
    strings::extract_strings,
    quoted_fields::extract_quoted_fields,
    entities::decode_entities,
    terminal::strip_shown_escapes,
    line_ends::strip_line_ends,
];

/// A line that may have a wrapping.
struct WrappedLine<'a> {
    text: &'a [u8],
    /// Its first byte in the text that it is a line of.
    start: usize,
    is_wanted: &'a dyn Fn(&[u8]) -> bool,
}

/// Returns the lines of `text` without their outermost wrappings; `None` if no line has one.
fn strip_outermost(text: &[u8], is_wanted: &dyn Fn(&[u8]) -> bool) -> Option<UnwrapBuffer> {
    let mut out = UnwrapBuffer::default();
    let is_one = memchr(b'\n', text).is_none();
    let mut any = false;
    for (start, text) in split_lines(text) {
        if start > 0 {
            out.append_from(start - 1, b"\n");
        }
        let line = WrappedLine {
            text,
            start,
            is_wanted,
        };
        let from = out.text.len();
        let mut off = |taken_off: &UnwrapLayer| {
            out.truncate(from);
            taken_off(&line, &mut out)
        };
        let is_wrapped = may_be_wrapped(text) && UNWRAP_LAYERS.iter().any(&mut off);
        if !is_wrapped {
            if is_one {
                return None;
            }
            out.truncate(from);
            out.append_from(start, text);
        }
        // A wrapping at the line's end belongs to the line.
        out.continue_at(start + text.len());
        any |= is_wrapped;
    }
    any.then_some(out)
}

/// Returns the lines of a text, each with its place; a line end at the text's end begins no line.
fn split_lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let mut next = 0;
    text.split(|&b| b == b'\n').map(move |line| {
        let start = next;
        next += line.len() + 1;
        (start, line)
    })
}

/// Returns false only if the line has no wrapping; true is a guess.
#[inline]
fn may_be_wrapped(line: &[u8]) -> bool {
    let (Some(first), Some(last)) = (line.first(), line.trim_ascii_end().last()) else {
        return false;
    };
    // `#033[` and `^[` are ESC as rsyslog and `cat -v` print it; Ray's words end with a link that
    // has a `#`, or with its bracket.
    memchr3(0x1b, b'\\', b'"', line).is_some()
        || memchr3(b'&', b'#', b'^', line).is_some()
        || matches!(first, b'\'' | b'`' | 0xef)
        || matches!(last, b'`' | b'\'')
        || (*last == b']' && line.trim_ascii_end().ends_with(b" across cluster]"))
        || (*last == b'm' && terminal::ends_with_bare_colour(line))
        || (*last == b',' && line.ends_with(b"',"))
}

/// Returns true for text with a line of NCCL, or with the rest of a torn one.
pub fn contains_nccl_line(text: &[u8]) -> bool {
    static NCCL: LazyLock<memmem::Finder<'static>> =
        LazyLock::new(|| memmem::Finder::new(b"NCCL "));
    NCCL.find(text).is_some()
        || coll::COLL_ANCHOR_FINDER.find(text).is_some()
        || coll::is_tail(text)
        || short_header::parse_short_line(text).is_some()
}

/// The places of a text's bytes in the text that it was made from: for the first byte of each run, its
/// place here and its place there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OffsetMap(Vec<(usize, usize)>);

impl OffsetMap {
    fn source_offset(&self, at: usize) -> usize {
        match self.0.partition_point(|&(here, _)| here <= at) {
            0 => at,
            n => {
                let (here, there) = self.0[n - 1];
                there + (at - here)
            }
        }
    }
}

/// A text that is made from another one.
#[derive(Debug, Default)]
struct UnwrapBuffer {
    text: Vec<u8>,
    places: OffsetMap,
}

impl UnwrapBuffer {
    /// Appends the byte at `from` of the other text, or the text that it encodes.
    fn append_from(&mut self, from: usize, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        self.continue_at(from);
        self.text.extend_from_slice(text);
    }

    /// Makes the next byte that of `from` in the other text.
    fn continue_at(&mut self, from: usize) {
        let here = self.text.len();
        let next = self.places.0.last().map_or(here, |&(h, t)| t + (here - h));
        if next != from {
            self.places.0.push((here, from));
        }
    }

    fn truncate(&mut self, len: usize) {
        self.text.truncate(len);
        while self.places.0.last().is_some_and(|&(here, _)| here >= len) {
            self.places.0.pop();
        }
    }
}

/// Returns `text` without a terminal's escape sequences, and the places of its bytes; `None` if it has no
/// such sequence.
pub fn strip_escapes(text: &[u8]) -> Option<UnwrappedText> {
    let mut out = UnwrapBuffer::default();
    let line = WrappedLine {
        text,
        start: 0,
        is_wanted: &|_| false,
    };
    (memchr(0x1b, text).is_some() && terminal::strip_escape_sequences(&line, &mut out)).then(|| {
        out.continue_at(text.len());
        UnwrappedText {
            text: out.text,
            places: vec![out.places],
        }
    })
}

#[cfg(test)]
mod tests;
