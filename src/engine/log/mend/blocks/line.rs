//! One line of a log in blocks: where it is, whose it is, and whether it is whole.

use crate::grammar::coll;
use crate::grammar::header::{self, Header, Level};
use crate::grammar::message::communicator::init;
use memchr::{memchr, memmem, memrchr};

/// The longest stamp in front of a header.
const STAMP: usize = 64;
/// The longest name of a host (`HOST_NAME_MAX` is 64), with room for glued text.
const HOST: usize = 255;

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
pub(super) fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Where what belongs to the header begins: its time stamp, if it has one.
pub(super) fn piece(line: &[u8], header: &Header<'_>) -> usize {
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

/// The first header of `line`, from `from` on.
pub(super) fn header_in(line: &[u8], from: usize) -> Option<Header<'_>> {
    header::find(line, from).filter(|header| header.host.len() <= HOST)
}

/// The header that `line` opens with, at its first byte or after a time stamp.
pub(super) fn opened(line: &[u8]) -> Option<Header<'_>> {
    let header = header_in(line, 0)?;
    (header.start == 0 || header.start <= STAMP && !header::time(&line[..header.start]).is_empty())
        .then_some(header)
}

/// `host:pid:`, which every header of a process begins with.
pub(super) fn whose<'b>(line: &'b [u8], header: &Header<'_>) -> &'b [u8] {
    let digits = line[header.start + header.host.len() + 1..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    &line[header.start..header.start + header.host.len() + digits + 2]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Call,
    Other,
}

/// What the line with this header is if it is whole as far as one can tell.
pub(super) fn is_whole(line: &[u8], header: &Header<'_>) -> Option<Kind> {
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
                || memmem::find(body, b"sendbuff ").is_some()
                || coll::is_broken(body);
            (!cut).then_some(Kind::Other)
        }
    }
}

/// How sure it is that two parts are one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
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
    let Some(at) = memmem::find(message, b" nranks ").filter(|_| init::message(message).is_some())
    else {
        return false;
    };
    let mut words = trimmed(&message[at + b" nranks ".len()..])
        .split(|&b| b == b' ')
        .filter(|word| !word.is_empty());
    let last = words.next_back();
    matches!(last, Some(b"START" | b"COMPLETE"))
        && words.all(|word| is_number(word) || WORDS.contains(&word))
}

/// Whether `head` and the line `tail` are one line of the process `of`, and of which kind.
pub(super) fn fit(of: &[u8], head: &[u8], tail: &[u8]) -> Option<(Fit, Kind)> {
    if tail.last() != Some(&b'\n') {
        return None;
    }
    let joined = [head, tail].concat();
    let header = opened(&joined).filter(|h| whose(&joined, h) == of)?;
    let kind = is_whole(&joined, &header)?;
    let through = kind == Kind::Call || header.body > head.len() || is_init(&joined[header.body..]);
    Some((if through { Fit::Strong } else { Fit::Weak }, kind))
}

/// The kind of the line that `head` and `tail` are for sure.
pub(super) fn strong(of: &[u8], head: &[u8], tail: &[u8]) -> Option<Kind> {
    match fit(of, head, tail) {
        Some((Fit::Strong, kind)) => Some(kind),
        _ => None,
    }
}

/// Whether two stamps differ in digits only.
pub(super) fn is_like(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(likes)
}

fn likes((a, b): (&u8, &u8)) -> bool {
    a == b || a.is_ascii_digit() && b.is_ascii_digit()
}

/// How many of the first bytes of `text` may be the beginning of a line of `who`, with a time
/// stamp like `stamp` in front.
pub(super) fn opens(text: &[u8], who: &[u8], stamp: &[u8]) -> usize {
    let stamped = text
        .iter()
        .zip(stamp)
        .take_while(|&pair| likes(pair))
        .count();
    if stamped < stamp.len() {
        return stamped;
    }
    let rest = text[stamped..].iter().zip(who);
    stamped + rest.take_while(|(a, b)| a == b).count()
}
