//! Small logs walked as one chunk: to fill the tables anew for each costs as much as to walk some
//! of them.

use super::{ChunkResult, ChunkWalk, LogVisitor};
use crate::grammar::trainer::Recogniser;
use crate::members::duplicate_inputs::InputLastCall;
use std::ops::Range;

/// The content of one of several texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileSpan {
    /// Lines.
    pub lines: u64,
    /// Calls.
    pub calls: u64,
    /// Its end, in bytes.
    pub end: u64,
    /// Its last call that NCCL counted.
    pub last: Option<InputLastCall>,
}

/// Walks the texts in `bytes` one after the other, as one chunk of a log, and returns the content
/// of each. `None` if one of them needs more, since it has torn lines, marks that are wanted, or
/// calls of members of an earlier one only (it may be a copy): each must then be walked by itself.
pub fn walk_small_files<V: LogVisitor>(
    bytes: &[u8],
    texts: &[Range<usize>],
    recogniser: &Recogniser,
    marks: bool,
    visit: V,
) -> Option<(ChunkResult<V>, Vec<FileSpan>)> {
    // Tables as large as one text needs: a file has few ranks.
    let first = texts.first().map_or(&b""[..], |text| &bytes[text.clone()]);
    let mut scan = ChunkWalk::new(first, 0, recogniser, false, visit);
    let mut before = FileSpan::default();
    let mut all = Vec::with_capacity(texts.len());
    for text in texts {
        // The next text begins a line, however this one ends.
        scan.bytes = &bytes[..text.end];
        scan.gap = text.start;
        scan.begin_text(text.start);
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
            last: super::find_last_counted_call(&bytes[text.clone()]),
        });
        before = FileSpan {
            lines: account.lines,
            calls: account.calls,
            ..before
        };
    }
    Some((scan.out, all))
}
