//! Wrappings at the ends of a line only.

use super::{UnwrapBuffer, WrappedLine, contains_nccl_line};
use memchr::memmem::FinderRev;
use std::sync::LazyLock;

/// Appends the line without a byte order mark, backticks, or what Ray puts after a line that
/// represents several. True where there was one.
pub(super) fn strip_line_ends(line: &WrappedLine<'_>, out: &mut UnwrapBuffer) -> bool {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    let text = line.text;
    let mut range = if text.starts_with(MARK) {
        MARK.len()..text.len()
    } else {
        0..text.len()
    };
    if let Some(at) = find_ray_repeat(&text[range.clone()]) {
        range.end = range.start + at;
    }
    let inner = &text[range.clone()];
    let tick = |b: &&u8| matches!(b, b'`' | b' ');
    let (before, behind) = (
        inner.iter().take_while(tick).count(),
        inner.iter().rev().take_while(tick).count(),
    );
    if before < inner.len() {
        let has_tick = |part: &[u8]| part.contains(&b'`') && contains_nccl_line(inner);
        if has_tick(&inner[inner.len() - behind..]) {
            range.end -= behind;
        }
        if has_tick(&inner[..before]) {
            range.start += before;
        }
    }
    if range == (0..text.len()) {
        return false;
    }
    out.append_from(line.start + range.start, &text[range]);
    true
}

/// Where Ray's ` [repeated 6x across cluster]` begins that ends a line; a sentence in parentheses on
/// how to turn it off may follow.
pub(super) fn find_ray_repeat(text: &[u8]) -> Option<usize> {
    static ACROSS: LazyLock<FinderRev<'static>> =
        LazyLock::new(|| FinderRev::new(b"x across cluster]"));
    const REPEATED: &[u8] = b"[repeated ";
    if !matches!(text.trim_ascii_end().last(), Some(b']' | b')')) {
        return None;
    }
    let end = ACROSS.rfind(text)?;
    let digits = text[..end].iter().rev();
    let digits = digits.take_while(|b| b.is_ascii_digit()).count();
    let start = text[..end - digits].strip_suffix(REPEATED)?;
    (digits > 0).then(|| start.trim_ascii_end().len())
}
