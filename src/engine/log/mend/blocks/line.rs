//! One line of a log in blocks: its place, its process, and whether it is whole.

use crate::grammar::coll;
use crate::grammar::header::{self, HeaderLevel, LineHeader};
use crate::grammar::message::communicator::init;
use crate::log::mend::limits::{MAX_HOST_BYTES, MAX_STAMP_BYTES};
use memchr::{memchr, memmem, memrchr};

/// Returns the beginning of the line that `at` is in.
pub(super) fn line_start(bytes: &[u8], at: usize) -> usize {
    memrchr(b'\n', &bytes[..at]).map_or(0, |i| i + 1)
}

/// Returns the end of the line at `from`, after its `\n`.
pub(super) fn line_end(bytes: &[u8], from: usize) -> usize {
    memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |i| from + i + 1)
}

/// Returns the line at `from`, with its end.
pub(super) fn line_at(bytes: &[u8], from: usize) -> &[u8] {
    &bytes[from..line_end(bytes, from)]
}

/// Returns a line without its end.
pub(super) fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the beginning of the header with its time stamp, if it has one.
pub(super) fn header_piece_start_at(line: &[u8], header: &LineHeader<'_>) -> usize {
    let before = &line[..header.start];
    if header::find_time_stamp(before).is_empty() {
        return header.start;
    }
    // If other text is in front of a stamp, only a bracket shows where the stamp begins.
    match memrchr(b'[', before).filter(|_| before.ends_with(b"] ")) {
        Some(open) => open,
        None if header.start <= MAX_STAMP_BYTES => 0,
        None => header.start,
    }
}

/// Returns the first header of `line` from `from` on.
pub(super) fn find_header_from(line: &[u8], from: usize) -> Option<LineHeader<'_>> {
    header::find_header(line, from).filter(|header| header.host.len() <= MAX_HOST_BYTES)
}

/// Returns the header that `line` opens with, at its first byte or after a time stamp.
pub(super) fn opening_header(line: &[u8]) -> Option<LineHeader<'_>> {
    let header = find_header_from(line, 0)?;
    (header.start == 0
        || header.start <= MAX_STAMP_BYTES
            && !header::find_time_stamp(&line[..header.start]).is_empty())
    .then_some(header)
}

/// Returns `host:pid:`, which every header of a process begins with.
pub(super) fn process_prefix<'b>(line: &'b [u8], header: &LineHeader<'_>) -> &'b [u8] {
    let digits = line[header.start + header.host.len() + 1..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    &line[header.start..header.start + header.host.len() + digits + 2]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockLineKind {
    Call,
    Other,
}

/// Returns the kind of the line with this header, if it is whole as far as its text shows.
pub(super) fn whole_line_kind(line: &[u8], header: &LineHeader<'_>) -> Option<BlockLineKind> {
    let line = trim_line_end(line);
    if header::find_header(line, header.body).is_some() {
        return None;
    }
    let body = &line[header.body..];
    match coll::COLL_ANCHOR_FINDER.find(line) {
        Some(anchor) => {
            let (op, _, end) = coll::parse_coll_at(line, anchor).ok()?;
            // `NCCL CALL` twins have other bodies.
            (op == header.body && line[end..].trim_ascii().is_empty())
                .then_some(BlockLineKind::Call)
        }
        None if header.level == HeaderLevel::Call => Some(BlockLineKind::Other),
        None => {
            let cut = memmem::find(body, b" [nranks=").is_some()
                || memmem::find(body, b"sendbuff ").is_some()
                || coll::is_broken(body);
            (!cut).then_some(BlockLineKind::Other)
        }
    }
}

/// How certain it is that two parts are one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum JoinCertainty {
    /// Nothing contradicts it.
    Weak,
    /// The grammar or the header continues across the joint.
    Strong,
}

/// How a head and a tail make one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineFit {
    pub(super) certainty: JoinCertainty,
    pub(super) kind: BlockLineKind,
}

impl LineFit {
    pub(super) fn strong(kind: BlockLineKind) -> LineFit {
        LineFit {
            certainty: JoinCertainty::Strong,
            kind,
        }
    }
}

/// Returns true for an INIT line that gives the meaning of an address, with only words in it that
/// NCCL or RCCL prints there.
fn is_init(message: &[u8]) -> bool {
    const WORDS: [&[u8]; 18] = [
        b"cudaDev",
        b"nvmlDev",
        b"busId",
        b"commId",
        b"parent",
        b"splitCount",
        b"childCount",
        b"color",
        b"key",
        b"localSize",
        b"used",
        b"bytes",
        b"on",
        b"core",
        b"-",
        b"Init",
        b"Destroy",
        b"Abort",
    ];
    let is_number = |word: &[u8]| {
        let digits = word.strip_prefix(b"-").unwrap_or(word);
        let digits = digits.strip_suffix(b"-").unwrap_or(digits);
        let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
        !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit)
    };
    let Some(at) =
        memmem::find(message, b" nranks ").filter(|_| init::parse_init(message).is_some())
    else {
        return false;
    };
    let mut words = trim_line_end(&message[at + b" nranks ".len()..])
        .split(|&b| b == b' ')
        .filter(|word| !word.is_empty());
    let last = words.next_back();
    matches!(last, Some(b"START" | b"COMPLETE"))
        && words.all(|word| is_number(word) || WORDS.contains(&word))
}

/// Returns how certain it is that `head` and the line `tail` are one line of the process `of`, and
/// its kind.
pub(super) fn fit_head_and_tail(of: &[u8], head: &[u8], tail: &[u8]) -> Option<LineFit> {
    if tail.last() != Some(&b'\n') {
        return None;
    }
    let joined = [head, tail].concat();
    let header = opening_header(&joined).filter(|h| process_prefix(&joined, h) == of)?;
    let kind = whole_line_kind(&joined, &header)?;
    let through =
        kind == BlockLineKind::Call || header.body > head.len() || is_init(&joined[header.body..]);
    let certainty = match through {
        true => JoinCertainty::Strong,
        false => JoinCertainty::Weak,
    };
    Some(LineFit { certainty, kind })
}

/// Returns the kind of the line that `head` and `tail` certainly are.
pub(super) fn certain_line_kind(of: &[u8], head: &[u8], tail: &[u8]) -> Option<BlockLineKind> {
    let fit = fit_head_and_tail(of, head, tail)?;
    (fit.certainty == JoinCertainty::Strong).then_some(fit.kind)
}

/// Returns true for two stamps that differ in digits only.
pub(super) fn is_same_stamp_form(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && common_form_bytes(a, b) == a.len()
}

/// Counts the first bytes of two texts that differ in digits only.
fn common_form_bytes(a: &[u8], b: &[u8]) -> usize {
    let is_alike = |(a, b): &(&u8, &u8)| a == b || a.is_ascii_digit() && b.is_ascii_digit();
    a.iter().zip(b).take_while(is_alike).count()
}

/// Counts the first bytes of `text` that may begin a line of `of` after a time stamp like `stamp`.
pub(super) fn opening_bytes(text: &[u8], of: &[u8], stamp: &[u8]) -> usize {
    let stamped = common_form_bytes(text, stamp);
    if stamped < stamp.len() {
        return stamped;
    }
    let rest = text[stamped..].iter().zip(of);
    stamped + rest.take_while(|(a, b)| a == b).count()
}
