//! Small logs walked as one chunk: what a walk learns anew costs as much as to walk some of them.

use super::{Scan, Scanned, Visit};
use crate::grammar::trainer::Recogniser;
use std::ops::Range;

/// What one of several texts had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Had {
    /// Lines.
    pub lines: u64,
    /// Calls.
    pub calls: u64,
}

/// Walks the texts that stand in `bytes`, one behind the other, as one chunk of a log, and says
/// what each of them had. `None` where there is more to say of
/// one of them, torn lines, or where it has marks and `marks` are wanted: then each must be
/// walked by itself.
pub fn together<V: Visit>(
    bytes: &[u8],
    texts: &[Range<usize>],
    recogniser: &Recogniser,
    marks: bool,
    visit: V,
) -> Option<(Scanned<V>, Vec<Had>)> {
    // Tables as large as a text's: a file has few ranks.
    let first = texts.first().map_or(&b""[..], |text| &bytes[text.clone()]);
    let mut scan = Scan::new(first, 0, recogniser, false, visit);
    let mut before = Had::default();
    let mut all = Vec::with_capacity(texts.len());
    for text in texts {
        // The next text begins a line, however this one ends.
        scan.bytes = &bytes[..text.end];
        scan.walk(text.start);
        let Scanned {
            account,
            fragments,
            marks: found,
            ..
        } = &scan.out;
        if !(account.is_plain() && fragments.is_empty() && (found.is_empty() || !marks)) {
            return None;
        }
        all.push(Had {
            lines: account.lines - before.lines,
            calls: account.calls - before.calls,
        });
        before = Had {
            lines: account.lines,
            calls: account.calls,
        };
    }
    Some((scan.out, all))
}
