//! One line of a log in blocks: where it is, whose it is, and whether it is whole.

use crate::grammar::coll;
use crate::grammar::header::{self, HeaderLevel, LineHeader};
use crate::grammar::message::communicator::init;
use memchr::{memchr, memmem, memrchr};

/// The longest stamp in front of a header.
const MAX_STAMP_BYTES: usize = 64;
/// The longest name of a host (`HOST_NAME_MAX` is 64), with room for glued text.
const MAX_HOST_BYTES: usize = 255;

/// Where the line begins that `at` is in.
pub(super) fn line_start(bytes: &[u8], at: usize) -> usize {
    memrchr(b'\n', &bytes[..at]).map_or(0, |i| i + 1)
}

/// The end of the line at `from`, after its `\n`.
pub(super) fn line_end(bytes: &[u8], from: usize) -> usize {
    memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |i| from + i + 1)
}

/// The line at `from`, with its end.
pub(super) fn line_at(bytes: &[u8], from: usize) -> &[u8] {
    &bytes[from..line_end(bytes, from)]
}

/// A line without its end.
pub(super) fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Where what belongs to the header begins: its time stamp, if it has one.
pub(super) fn header_piece_start_at(line: &[u8], header: &LineHeader<'_>) -> usize {
    let before = &line[..header.start];
    if header::find_time_stamp(before).is_empty() {
        return header.start;
    }
    // Other text in front of a stamp: only a bracket says where the stamp begins.
    match memrchr(b'[', before).filter(|_| before.ends_with(b"] ")) {
        Some(open) => open,
        None if header.start <= MAX_STAMP_BYTES => 0,
        None => header.start,
    }
}

/// The first header of `line`, from `from` on.
pub(super) fn find_header_from(line: &[u8], from: usize) -> Option<LineHeader<'_>> {
    header::find_header(line, from).filter(|header| header.host.len() <= MAX_HOST_BYTES)
}

/// The header that `line` opens with, at its first byte or after a time stamp.
pub(super) fn opening_header(line: &[u8]) -> Option<LineHeader<'_>> {
    let header = find_header_from(line, 0)?;
    (header.start == 0
        || header.start <= MAX_STAMP_BYTES
            && !header::find_time_stamp(&line[..header.start]).is_empty())
    .then_some(header)
}

/// `host:pid:`, which every header of a process begins with.
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

/// What the line with this header is if it is whole as far as one can tell.
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

/// How sure it is that two parts are one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum JoinCertainty {
    /// Nothing speaks against it.
    Weak,
    /// The grammar or the header goes through the joint.
    Strong,
}

/// Whether the message is an INIT line that says which communicator an address is, with nothing
/// in it that NCCL or RCCL does not print there.
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

/// Whether `head` and the line `tail` are one line of the process `of`, and of which kind.
pub(super) fn fit_head_and_tail(
    of: &[u8],
    head: &[u8],
    tail: &[u8],
) -> Option<(JoinCertainty, BlockLineKind)> {
    if tail.last() != Some(&b'\n') {
        return None;
    }
    let joined = [head, tail].concat();
    let header = opening_header(&joined).filter(|h| process_prefix(&joined, h) == of)?;
    let kind = whole_line_kind(&joined, &header)?;
    let through =
        kind == BlockLineKind::Call || header.body > head.len() || is_init(&joined[header.body..]);
    Some((
        if through {
            JoinCertainty::Strong
        } else {
            JoinCertainty::Weak
        },
        kind,
    ))
}

/// The kind of the line that `head` and `tail` are for sure.
pub(super) fn certain_line_kind(of: &[u8], head: &[u8], tail: &[u8]) -> Option<BlockLineKind> {
    match fit_head_and_tail(of, head, tail) {
        Some((JoinCertainty::Strong, kind)) => Some(kind),
        _ => None,
    }
}

/// Whether two stamps differ in digits only.
pub(super) fn is_same_stamp_form(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(differ_in_digits_only)
}

fn differ_in_digits_only((a, b): (&u8, &u8)) -> bool {
    a == b || a.is_ascii_digit() && b.is_ascii_digit()
}

/// How many of the first bytes of `text` may be the beginning of a line of `who`, with a time
/// stamp like `stamp` in front.
pub(super) fn opening_bytes(text: &[u8], who: &[u8], stamp: &[u8]) -> usize {
    let stamped = text
        .iter()
        .zip(stamp)
        .take_while(|&pair| differ_in_digits_only(pair))
        .count();
    if stamped < stamp.len() {
        return stamped;
    }
    let rest = text[stamped..].iter().zip(who);
    stamped + rest.take_while(|(a, b)| a == b).count()
}
