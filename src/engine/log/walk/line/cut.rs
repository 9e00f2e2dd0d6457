//! What a cut of the log between two lines would separate.

use crate::grammar::header;
use crate::grammar::trainer::Recogniser;
use crate::log::walk::Scan;
use crate::log::walk::waiting::Waiting;
use crate::source::Place;
use memchr::memrchr;
use std::sync::LazyLock;

/// What a cut after `before`, which are whole lines, would separate; `quiet` says that no line
/// waits for its end where they begin.
pub fn place(before: &[u8], quiet: bool) -> Place {
    static ALL: LazyLock<Recogniser> = LazyLock::new(Recogniser::all);
    let text = before.strip_suffix(b"\n").unwrap_or(before);
    // A step line printed into the middle of a call's line, whose end is the next line.
    let last = &text[memrchr(b'\n', text).map_or(0, |i| i + 1)..];
    if header::find(last, 0).is_some() && ALL.may_mark(last) {
        return Place::Within;
    }
    let mut scan = Scan::new(before, 0, &ALL, false, ());
    scan.waiting = Waiting::new(quiet);
    scan.is_look = true;
    scan.walk(0);
    if scan.waiting.is_on(1) {
        Place::Loud
    } else {
        Place::Quiet
    }
}
