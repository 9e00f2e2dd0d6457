//! A terminal's escape sequences (ECMA-48), as a program wrote them or as a store made them visible.

use super::{UnwrapBuffer, WrappedLine, contains_nccl_line};
use memchr::{memchr, memchr3_iter, memmem, memrchr};

/// Appends the line without its escape sequences. Returns true if it has one.
pub(super) fn strip_escape_sequences(line: &WrappedLine<'_>, out: &mut UnwrapBuffer) -> bool {
    memchr(0x1b, line.text).is_some() && strip_sequences(line, out, escape_len)
}

/// Like `strip_escape_sequences`, for text that lost its ESC bytes or has them replaced. Only text that
/// no log prints counts as a sequence: `\x1b[36m`, `#033[36m`, `^[[36m`, and `[36m` in a line of NCCL
/// or Ray that begins or ends with one.
pub(super) fn strip_shown_escapes(line: &WrappedLine<'_>, out: &mut UnwrapBuffer) -> bool {
    let text = line.text;
    let mut marks = memchr3_iter(b'\\', b'#', b'^', text);
    if marks.any(|at| shown_escape_len(&text[at..]).is_some()) {
        return strip_sequences(line, out, shown_escape_len);
    }
    let is_ours = || contains_nccl_line(text) || memmem::find(text, b" pid=").is_some();
    has_bare_colour_at_end(text) && is_ours() && strip_sequences(line, out, bare_colour_len)
}

/// Returns the length of the escape sequence that `text` begins with, if its ESC and bracket are as
/// `repr`, JSON, a shell, rsyslog and `cat -v` show them.
fn shown_escape_len(text: &[u8]) -> Option<usize> {
    const SHOWN: [&[u8]; 6] = [b"\\x1b[", b"\\u001b[", b"\\033[", b"\\e[", b"#033[", b"^[["];
    let start = SHOWN.iter().find(|start| text.starts_with(start))?;
    control_len(&text[start.len()..]).map(|len| start.len() + len)
}

/// Appends the line without its sequences; `sequence` returns the length of one at the start of a text.
fn strip_sequences(
    line: &WrappedLine<'_>,
    out: &mut UnwrapBuffer,
    sequence: impl Fn(&[u8]) -> Option<usize>,
) -> bool {
    let (text, mut at) = (line.text, 0);
    let mut next = 0;
    let mut any = false;
    while next < text.len() {
        let Some(len) = sequence(&text[next..]) else {
            next += 1;
            continue;
        };
        out.append_from(line.start + at, &text[at..next]);
        (at, any) = (next + len, true);
        next = at;
    }
    out.append_from(line.start + at, &text[at..]);
    any
}

/// Returns the length of the escape sequence that `text` begins with.
fn escape_len(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(b"\x1b")?;
    let len = match rest {
        [b'[', rest @ ..] => 1 + control_len(rest).unwrap_or(0),
        // A title or a link, up to BEL or `ESC \`; without its end, only its beginning.
        [b']' | b'P' | b'X' | b'^' | b'_', rest @ ..] => {
            let end = rest.iter().position(|b| matches!(b, 7 | 0x1b));
            1 + match end.map(|end| (end, &rest[end..])) {
                Some((end, [7, ..])) => end + 1,
                Some((end, [0x1b, b'\\', ..])) => end + 2,
                _ => 0,
            }
        }
        // `ESC ( B` chooses letters, `ESC c` resets.
        [0x20..=0x2f, 0x30..=0x7e, ..] => 2,
        [0x30..=0x7e, ..] => 1,
        _ => 0,
    };
    Some(1 + len)
}

/// Returns the length of a control sequence after its bracket.
fn control_len(text: &[u8]) -> Option<usize> {
    let parameters = text.iter().take_while(|b| matches!(b, 0x20..=0x3f)).count();
    matches!(text.get(parameters), Some(0x40..=0x7e)).then_some(parameters + 1)
}

/// Returns the length of a colour that lost its ESC at the start of `text`.
fn bare_colour_len(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(b"[")?;
    let len = rest
        .iter()
        .take_while(|b| b.is_ascii_digit() || **b == b';')
        .count();
    let is_colour = rest[..len].split(|&b| b == b';').all(|code| {
        let code = std::str::from_utf8(code).ok().map(str::parse::<u8>);
        matches!(code, Some(Ok(_)))
    });
    // `[2m30s]` is a time.
    let ends = rest.get(len) == Some(&b'm') && !rest.get(len + 1).is_some_and(u8::is_ascii_digit);
    (is_colour && ends).then_some(len + 2)
}

/// Returns true for a line that begins or ends with a colour that lost its ESC.
fn has_bare_colour_at_end(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    bare_colour_len(text).is_some()
        || ends_with_bare_colour(text)
        || super::line_ends::find_ray_repeat(text).is_some()
}

/// Returns true for a line that ends with such a colour.
pub(super) fn ends_with_bare_colour(text: &[u8]) -> bool {
    let digits = text.len().saturating_sub(MAX_COLOUR_BYTES)..;
    let tail = &text[digits];
    memrchr(b'[', tail).is_some_and(|at| bare_colour_len(&tail[at..]) == Some(tail.len() - at))
}

/// A colour of 24 bits: `[38;2;255;255;255m`.
const MAX_COLOUR_BYTES: usize = 20;
