//! The labels with ranks in front of lines: `[rank3]:` of PyTorch and of torchrun, whose ranks are those on the host.

use crate::token::dec_u32;
use memchr::memmem;

/// Finds the first `[rank3]` in a text that ends with `end`, and returns the number of the last of those that directly
/// follow: `[rank1]:[rank5]:` is a launcher's label, which has the rank on the host, and then PyTorch's own.
pub(crate) fn find_rank_label(text: &[u8], end: &[u8]) -> Option<u32> {
    let mut labels = memmem::find_iter(text, b"[rank");
    let (mut rest, mut rank) = labels.find_map(|at| read_rank_label(&text[at..], end))?;
    while let Some(next) = read_rank_label(rest.trim_ascii_start(), end) {
        (rest, rank) = next;
    }
    Some(rank)
}

/// Reads `[rank3]` at the start of a text, and `end` or more after it. Returns the rest.
fn read_rank_label<'a>(text: &'a [u8], end: &[u8]) -> Option<(&'a [u8], u32)> {
    let (rest, rank) = dec_u32(text.strip_prefix(b"[rank")?).ok()?;
    let rest = rest.strip_prefix(end)?;
    Some((rest.strip_prefix(b":").unwrap_or(rest), rank))
}
