//! What a cut of the log between two lines would separate.

use crate::grammar::header;
use crate::grammar::trainer::Recogniser;
use crate::log::walk::ChunkWalk;
use crate::log::walk::open_lines::OpenLines;
use crate::source::CutPlace;
use memchr::memrchr;
use std::sync::LazyLock;

/// Returns what a cut after `before`, which holds whole lines, would separate; `quiet` if no line
/// waits for its tail where they begin.
pub fn classify_cut(before: &[u8], quiet: bool) -> CutPlace {
    static ALL: LazyLock<Recogniser> = LazyLock::new(Recogniser::all);
    let text = before.strip_suffix(b"\n").unwrap_or(before);
    // A step line was printed into the middle of a call's line, which continues on the next line.
    let last = &text[memrchr(b'\n', text).map_or(0, |i| i + 1)..];
    if header::find_header(last, 0).is_some() && ALL.may_mark(last) {
        return CutPlace::Within;
    }
    let mut scan = ChunkWalk::new(before, 0, &ALL, false, ());
    scan.waiting = OpenLines::new(quiet);
    scan.is_look = true;
    scan.walk_lines_from(0);
    if scan.waiting.may_end_within(1) {
        CutPlace::Loud
    } else {
        CutPlace::Quiet
    }
}
