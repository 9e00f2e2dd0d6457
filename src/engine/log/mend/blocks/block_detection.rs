//! Whether a log was written in blocks.

use super::joiner::BlockJoiner;
use super::line::{
    BlockLineKind, find_header_from, header_piece_start_at, line_at, line_end, line_start,
    opening_bytes, opening_header, process_prefix, whole_line_kind,
};
use crate::grammar::coll;
use crate::source::STDIO_BUFFER_BYTES;
use memchr::{memchr, memchr_iter, memmem, memrchr};

/// How many of a log's first bytes are looked at.
pub(super) const EVIDENCE_BYTES: usize = 1 << 20;
/// How many lines must be seen to be cut at a buffer's end, and to go on elsewhere.
const MIN_CUT_LINES: u64 = 2;
/// How often it is tried to find a write's end that no buffer's length says: a log that is not in
/// blocks has many such places, one that is has one for each process.
const MAX_SUSPECT_SEAM_TRIES: u32 = 64;
/// Of more writes than these the mean says whether they are buffers or lines.
const MIN_WRITES_FOR_MEAN: usize = 64;
/// The mean of buffers' lengths, with those that were flushed early, is above this one.
const MIN_MEAN_BUFFER_BYTES: usize = 1024;
/// The first look is at all of so many bytes, then at the first [`GLANCE`] of each so many.
const GLANCE_STRIDE_BYTES: usize = 64 << 10;
/// See [`STRETCH`].
const GLANCE_BYTES: usize = 16 << 10;
/// How many places of a glance may be sound.
const MAX_SOUND_PLACES: u32 = 8;
/// How many lines of a glance may be others' or other text.
const MAX_FOREIGN_LINES: u32 = 32;

/// Whether the log that begins with `bytes` was written in blocks by its processes. Only the
/// first [`EVIDENCE`] bytes are looked at.
pub(super) fn is_blocks(bytes: &[u8]) -> bool {
    let bytes = &bytes[..bytes.len().min(EVIDENCE_BYTES)];
    is_suspect(bytes) && judge_block_writes(bytes) == BlockVerdict::Blocks
}

/// How a log was written, as far as its first bytes show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockVerdict {
    Blocks,
    Lines,
    Open,
}

/// Looks for lines that were cut at a buffer's end.
pub(super) fn judge_block_writes(bytes: &[u8]) -> BlockVerdict {
    let mut joiner = BlockJoiner::new(MAX_SUSPECT_SEAM_TRIES);
    let (mut at, mut writes, mut out) = (0, 0, Vec::new());
    let is_log_of_lines =
        |at, writes| writes > MIN_WRITES_FOR_MEAN && at < writes * MIN_MEAN_BUFFER_BYTES;
    while at < bytes.len() && joiner.evidence < MIN_CUT_LINES && !is_log_of_lines(at, writes) {
        at += joiner.take_write(&bytes[at..], true, &mut out);
        writes += 1;
        out.clear();
    }
    if joiner.evidence >= MIN_CUT_LINES {
        BlockVerdict::Blocks
    } else if is_log_of_lines(at, writes) {
        BlockVerdict::Lines
    } else {
        BlockVerdict::Open
    }
}

/// How many of the first bytes are lines of which none may be cut at a buffer's end. What
/// [`is_suspect`] looks at in samples is looked at everywhere here, and the last line too.
pub(super) fn whole_lines_length(bytes: &[u8]) -> usize {
    let all = memrchr(b'\n', bytes).map_or(0, |end| end + 1);
    let bytes = &bytes[..all];
    let Some(mut at) = find_first_header(bytes) else {
        return all;
    };
    // The process that the lines before are of, where in a line its name is, and where the first and the last
    // begin.
    let (mut of, mut column, mut last): (&[u8], usize, Option<usize>) = (b"", 0, None);
    let mut first = 0;
    let is_cut = |first: usize, last: usize| {
        let line = line_at(bytes, last);
        let kind = opening_header(line).and_then(|header| whole_line_kind(line, &header));
        // Of what is no call the grammar does not tell whether other text goes on where a buffer ended.
        let has_end = (last + line.len() - 1 - first) / STDIO_BUFFER_BYTES
            > (last - first) / STDIO_BUFFER_BYTES;
        kind.is_none_or(|kind| kind == BlockLineKind::Other && has_end)
    };
    while at < all {
        let (begins, line) = (at, line_at(bytes, at));
        at += line.len();
        if is_cut_by_bar(line) {
            return begins;
        }
        if !of.is_empty() && line.get(column..).is_some_and(|line| line.starts_with(of)) {
            last = Some(begins);
            continue;
        }
        if let Some(last) = last.filter(|&last| is_cut(first, last)) {
            return last;
        }
        if last.is_some() && begins_cut_line_of(bytes, (first, begins), of, column) {
            return begins;
        }
        match opening_header(line) {
            Some(header) => {
                (of, column, last) = (process_prefix(line, &header), header.start, Some(begins));
                first = begins;
            }
            None if coll::is_tail(line) || is_cut_header(line, of) => return begins,
            None => last = None,
        }
    }
    let cut = last.filter(|&last| is_cut(first, last));
    cut.unwrap_or(all)
}

/// Whether the line at `at` begins with the first bytes of one of the process `of`, whose buffer ends there, if one
/// begins at `first`: another's line or other text follows them. The process's lines have a stamp so long.
fn begins_cut_line_of(bytes: &[u8], (first, at): (usize, usize), of: &[u8], stamp: usize) -> bool {
    let line = line_at(bytes, at);
    let before = &bytes[first..first + stamp];
    let begun = first + (at - first).next_multiple_of(STDIO_BUFFER_BYTES) - at;
    if begun == 0 || begun > opening_bytes(line, of, before) {
        return false;
    }
    let header = opening_header(line).filter(|header| header.start == stamp);
    // A line of a host that is known is whole.
    header.is_none_or(|header| {
        let who = process_prefix(line, &header);
        let host = &who[..memchr(b':', who).map_or(0, |end| end + 1)];
        let mut lines = bytes[..at].split_inclusive(|&b| b == b'\n');
        !lines.any(|line| line.get(stamp..).is_some_and(|line| line.starts_with(host)))
    })
}

/// Whether a line that opens with no header begins with the host of the process `of`, or has the end of a header:
/// one was cut there.
fn is_cut_header(line: &[u8], of: &[u8]) -> bool {
    let host = memchr(b':', of).map_or(of, |end| &of[..=end]);
    let is_end = || memmem::find(line, b"] NCCL ").is_some() && find_header_from(line, 0).is_none();
    !host.is_empty() && line.starts_with(host) || is_end()
}

/// A cheap look at the places where one process's lines end and others' or other text follow:
/// true where a line is cut there. Lines of a log that is not in blocks are whole there.
pub(super) fn is_suspect(bytes: &[u8]) -> bool {
    let Some(mut from) = find_first_header(bytes) else {
        return false;
    };
    let mut most = GLANCE_STRIDE_BYTES;
    while from < bytes.len() {
        let glance = &bytes[from..bytes.len().min(from + most)];
        if has_cut_line(glance) || is_cut_by_bar(glance) {
            return true;
        }
        from = line_end(bytes, bytes.len().min(from + GLANCE_STRIDE_BYTES));
        most = GLANCE_BYTES;
    }
    false
}

/// Where the first line that opens with a header begins, or the header itself.
fn find_first_header(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memmem::find(&bytes[from..], b"NCCL ")?;
        let start = line_start(bytes, at);
        let end = line_end(bytes, at);
        if let Some(header) = find_header_from(&bytes[start..end], 0) {
            return Some(start + header_piece_start_at(&bytes[start..], &header));
        }
        from = end;
    }
}

/// Whether a process's line is cut in front of another's, or of other text.
fn has_cut_line(bytes: &[u8]) -> bool {
    // The process that the lines before are of, where in a line its name is, and the last one.
    let (mut of, mut column, mut last): (&[u8], usize, &[u8]) = (b"", 0, b"");
    let (mut at, mut sound, mut others) = (0, 0, 0);
    while at < bytes.len() && sound < MAX_SOUND_PLACES && others < MAX_FOREIGN_LINES {
        let line = line_at(bytes, at);
        at += line.len();
        if !of.is_empty() && line.get(column..).is_some_and(|line| line.starts_with(of)) {
            last = line;
            continue;
        }
        if !last.is_empty() {
            let header = opening_header(last);
            if header.is_none_or(|header| whole_line_kind(last, &header).is_none()) {
                return true;
            }
            sound += 1;
        }
        others += 1;
        match opening_header(line) {
            Some(header) => {
                (of, column, last) = (process_prefix(line, &header), header.start, line);
            }
            None if coll::is_tail(line) => return true,
            None => last = b"",
        }
    }
    false
}

/// Whether a progress bar, which is drawn without a line's end, begins in a process's line.
fn is_cut_by_bar(bytes: &[u8]) -> bool {
    memchr_iter(b'\r', bytes)
        .filter(|&bar| bytes.get(bar + 1).is_some_and(|&b| b != b'\n'))
        .take(MAX_SOUND_PLACES as usize)
        .any(|bar| {
            let text = &bytes[line_start(bytes, bar)..bar];
            opening_header(text).is_some_and(|header| whole_line_kind(text, &header).is_none())
        })
}
