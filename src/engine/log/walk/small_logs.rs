//! Small logs walked as one chunk: what a walk learns anew costs as much as to walk some of them.

use super::{ChunkResult, ChunkWalk, LogVisitor};
use crate::grammar::trainer::Recogniser;
use crate::members::duplicate_inputs::CommOpCount;
use std::ops::Range;

/// What one of several texts had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileSpan {
    /// Lines.
    pub lines: u64,
    /// Calls.
    pub calls: u64,
    /// After which byte it ends.
    pub end: u64,
    /// Its last call.
    pub last: Option<CommOpCount>,
}

/// Walks the texts that are in `bytes`, one after the other, as one chunk of a log, and says
/// what each of them had. `None` where there is more to say of
/// one of them, torn lines, or where it has marks and `marks` are wanted, or where all who call in
/// it called in one before it (it may be that one's copy): then each must be walked by itself.
pub fn walk_small_files<V: LogVisitor>(
    bytes: &[u8],
    texts: &[Range<usize>],
    recogniser: &Recogniser,
    marks: bool,
    visit: V,
) -> Option<(ChunkResult<V>, Vec<FileSpan>)> {
    // Tables as large as a text's: a file has few ranks.
    let first = texts.first().map_or(&b""[..], |text| &bytes[text.clone()]);
    let mut scan = ChunkWalk::new(first, 0, recogniser, false, visit);
    let mut before = FileSpan::default();
    let mut all = Vec::with_capacity(texts.len());
    for text in texts {
        // The next text begins a line, however this one ends.
        scan.bytes = &bytes[..text.end];
        scan.gap = text.start;
        let members = scan.out.origins.members.items().len();
        scan.walk_lines_from(text.start);
        let ChunkResult {
            account,
            fragments,
            marks: found,
            origins,
            ..
        } = &scan.out;
        let calls = account.calls - before.calls;
        let is_new = calls == 0 || origins.members.items().len() > members;
        let is_one_of_many = fragments.is_empty() && (found.is_empty() || !marks) && is_new;
        if !(account.is_plain() && is_one_of_many) {
            return None;
        }
        all.push(FileSpan {
            lines: account.lines - before.lines,
            calls,
            end: text.end as u64,
            last: super::find_last_call(&bytes[text.clone()]),
        });
        before = FileSpan {
            lines: account.lines,
            calls: account.calls,
            ..before
        };
    }
    Some((scan.out, all))
}
