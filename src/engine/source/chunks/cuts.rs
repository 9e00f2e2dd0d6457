//! Finds the places where an input is cut into chunks.

use super::limits::{CUT_LOOK_BACK_BYTES, MAX_CUT_SHIFT_BYTES, MAX_CUT_TRIES};
use crate::source::limits::MAX_LINE_BYTES;
use memchr::{memchr, memrchr};

/// The lines that a cut at a line end separates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutPlace {
    /// Lines that do not belong together.
    Quiet,
    /// Pieces of a line, which the merge joins again.
    Loud,
    /// Lines that must be read in one walk.
    Within,
}

/// Classifies a cut after whole lines; the flag is true if they begin at a quiet place.
pub type CutClassifier = fn(&[u8], bool) -> CutPlace;

/// Returns the begin and the end, without its `\n`, of the first line in `bytes` that is longer than
/// [`MAX_LINE_BYTES`]. The last line may go on after `bytes`.
pub(super) fn find_over_long_line(bytes: &[u8]) -> Option<(usize, usize)> {
    // Such a line covers at least one multiple of half its length.
    let half = MAX_LINE_BYTES / 2;
    let mut at = half;
    while at < bytes.len() {
        let from = memrchr(b'\n', &bytes[..at]).map_or(0, |i| i + 1);
        let to = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |i| at + i);
        if to - from > MAX_LINE_BYTES {
            return Some((from, to));
        }
        at = to.next_multiple_of(half).max(at + half);
    }
    None
}

/// Returns the best cut of `bytes`, and true if it is quiet: after a line end at or before their end, at a
/// quiet place if one is near. `quiet` is true if `bytes` begin at one. `None` if no line ends.
pub(super) fn find_best_cut(
    bytes: &[u8],
    quiet: bool,
    place: CutClassifier,
) -> Option<(usize, bool)> {
    let last = memrchr(b'\n', bytes)? + 1;
    let mut loud = None;
    let mut at = last;
    for _ in 0..MAX_CUT_TRIES {
        let back = at.saturating_sub(CUT_LOOK_BACK_BYTES);
        // A line without its beginning would look torn.
        let from = match back {
            0 => Some(0),
            _ => memchr(b'\n', &bytes[back..at]).map(|end| back + end + 1),
        };
        match from.map(|from| place(&bytes[from..at], quiet && from == 0)) {
            Some(CutPlace::Quiet) => return Some((at, true)),
            Some(CutPlace::Loud) => loud = loud.or(Some(at)),
            Some(CutPlace::Within) | None => {}
        }
        // One step back over the bytes that were classified.
        match memrchr(b'\n', &bytes[..back]) {
            Some(end) if last - end < MAX_CUT_SHIFT_BYTES => at = end + 1,
            _ => break,
        }
    }
    Some((loud.unwrap_or(last), false))
}
