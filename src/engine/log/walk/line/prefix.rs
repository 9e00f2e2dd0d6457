//! The text in front of a header: a launcher's label, a stamp, or the rest of another header.

use crate::grammar::header;
use crate::grammar::source_place::is_source_place;
use crate::grammar::trainer::Recogniser;
use crate::log::walk::limits::MAX_PREFIX_BYTES;
use memchr::{memmem, memrchr_iter};

/// Returns true if `prefix`, the text in front of a header, is a launcher's or a stamp's: nothing
/// of it can be part of the host, and it has no step line and no rest of another line.
pub(in crate::log::walk) fn is_prefix(prefix: &[u8], recogniser: &Recogniser) -> bool {
    let Some(&last) = prefix.last() else {
        return true;
    };
    // A longer one may be anything.
    if prefix.len() > MAX_PREFIX_BYTES || !matches!(last, b' ' | b':' | b'\t' | b'm' | b'>') {
        return false;
    }
    let known = match prefix.trim_ascii_start() {
        // Blanks alone may be followed by other text.
        [] => false,
        [b'[' | b'(' | b'|' | b'>' | 0x1b, ..] => true,
        text => {
            // srun's ` 0: `, a stamp's digits, pdsh's and SkyPilot's `worker-0: `; `loss: ` is no
            // label.
            !header::find_time_stamp(prefix).is_empty()
                || text.strip_suffix(b": ").is_some_and(|label| {
                    !label.contains(&b' ') && label.iter().any(u8::is_ascii_digit)
                })
        }
    };
    let of_nccl = |text: &[u8]| memmem::find(prefix, text).is_some();
    known && !recogniser.may_mark(prefix) && !of_nccl(b"NCCL") && !of_nccl(b" [nranks=")
}

/// Returns true if `before` may be the rest of a header, or a launcher's prefix. Prose is neither,
/// nor is a command that searches for such lines.
pub(super) fn is_header_end(before: &[u8], recogniser: &Recogniser) -> bool {
    let text = before.trim_ascii();
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    // A place is the last word, or the last two: since 2.30.7 a function follows it.
    let last = |words: usize| {
        let blank = memrchr_iter(b' ', text).nth(words - 1);
        blank.map_or(text, |blank| &text[blank + 1..])
    };
    let is_place = is_source_place(last(1)) || is_source_place(last(2));
    let is_device = {
        let inner = last(1)
            .strip_prefix(b"[")
            .and_then(|word| word.strip_suffix(b"]"));
        inner.is_some_and(digits)
    };
    // A label names a rank or a host: `note: ` does not.
    let is_label = is_prefix(before, recogniser)
        && (matches!(text.first(), Some(b'[' | b'(' | b'|' | b'>' | 0x1b))
            || text.iter().any(u8::is_ascii_digit));
    text.is_empty() || is_place || is_device || is_label
}

/// Returns true for a line that begins with the end of a header: `148:1617875 [3] NCCL INFO
/// Channel`.
pub(super) fn is_beheaded(line: &[u8]) -> bool {
    let end = memmem::find(line, b"NCCL ").filter(|&at| at <= 64);
    end.is_some_and(|end| {
        let of_header = |b: &u8| b.is_ascii_alphanumeric() || b":[]-_. ".contains(b);
        line[..end].iter().all(of_header) && !line.starts_with(b"NCCL version ")
    })
}
