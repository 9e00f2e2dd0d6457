//! Detection of logs that were written in blocks.

use super::joiner::BlockJoiner;
use super::line::{
    BlockLineKind, find_header_from, header_piece_start_at, line_at, line_end, line_start,
    opening_bytes, opening_header, process_prefix, whole_line_kind,
};
use crate::grammar::coll;
use crate::grammar::header::LineHeader;
use crate::log::mend::limits::{
    EVIDENCE_BYTES, GLANCE_BYTES, GLANCE_STRIDE_BYTES, MAX_FOREIGN_LINES, MAX_SOUND_PLACES,
    MAX_SUSPECT_SEAM_TRIES, MIN_CUT_LINES, MIN_MEAN_BUFFER_BYTES, MIN_WRITES_FOR_MEAN,
};
use crate::source::STDIO_BUFFER_BYTES;
use memchr::{memchr, memchr_iter, memmem, memrchr};

/// Returns true if the log that begins with `bytes` was written in blocks by its processes. Only
/// the first [`EVIDENCE_BYTES`] are looked at.
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

/// The lines of one process that follow each other, but for text without a header between them.
#[derive(Default)]
struct ProcessRun<'b> {
    /// `host:pid:` of the process; empty before the first line with a header.
    process: &'b [u8],
    /// The column of `process` in a line: as long as the stamp.
    column: usize,
    /// Where a buffer of the process may begin: at its first line, or, if it flushed early, at its
    /// first line after the last text of others.
    starts: [usize; 2],
    /// Its last line, if no other text follows it.
    last: Option<usize>,
}

impl<'b> ProcessRun<'b> {
    /// Begins with the line at `at`, which opens with `header`.
    fn begin(line: &'b [u8], header: &LineHeader<'_>, at: usize) -> ProcessRun<'b> {
        ProcessRun {
            process: process_prefix(line, header),
            column: header.start,
            starts: [at; 2],
            last: Some(at),
        }
    }

    /// Takes the line at `at` if it is the process's next one.
    fn take_line(&mut self, line: &[u8], at: usize) -> bool {
        let is_own = !self.process.is_empty()
            && line
                .get(self.column..)
                .is_some_and(|line| line.starts_with(self.process));
        if is_own {
            if self.last.is_none() {
                self.starts[1] = at;
            }
            self.last = Some(at);
        }
        is_own
    }

    /// Returns true if its last line may be cut. For a line that is not a call, the grammar does not
    /// show whether other text continues it after a buffer's end.
    fn is_last_cut(&self, bytes: &[u8]) -> bool {
        let Some(last) = self.last else { return false };
        let line = line_at(bytes, last);
        let kind = opening_header(line).and_then(|header| whole_line_kind(line, &header));
        let buffers = |start: usize, at: usize| (at - start) / STDIO_BUFFER_BYTES;
        let is_crossed =
            |&start: &usize| buffers(start, last + line.len() - 1) > buffers(start, last);
        match kind {
            None => true,
            Some(BlockLineKind::Call) => false,
            Some(BlockLineKind::Other) => self.starts.iter().any(is_crossed),
        }
    }

    /// Returns true if the line at `at` may begin with the first bytes of a line of the process,
    /// with its buffer's end in them: another process's line, or other text, follows these bytes.
    fn begins_cut_line(&self, bytes: &[u8], at: usize) -> bool {
        let line = line_at(bytes, at);
        let stamp = &bytes[self.starts[0]..self.starts[0] + self.column];
        let most = opening_bytes(line, self.process, stamp);
        let is_cut = |&start: &usize| {
            let begun = start + (at - start).next_multiple_of(STDIO_BUFFER_BYTES) - at;
            0 < begun && begun <= most
        };
        if !self.starts.iter().any(is_cut) {
            return false;
        }
        let header = opening_header(line).filter(|header| header.start == self.column);
        // A line of a known host is whole.
        header.is_none_or(|header| {
            let process = process_prefix(line, &header);
            let host = &process[..memchr(b':', process).map_or(0, |end| end + 1)];
            let lines = bytes[..at].split_inclusive(|&b| b == b'\n');
            let mut columns = lines.filter_map(|line| line.get(self.column..));
            !columns.any(|line| line.starts_with(host))
        })
    }
}

/// Returns the length of the first lines that are certainly not cut at a buffer's end. It looks
/// everywhere where [`is_suspect`] looks at samples, and at the last line too.
pub(super) fn whole_lines_length(bytes: &[u8]) -> usize {
    let all = memrchr(b'\n', bytes).map_or(0, |end| end + 1);
    let bytes = &bytes[..all];
    let Some(mut next) = find_first_header(bytes) else {
        return all;
    };
    let mut run = ProcessRun::default();
    while next < all {
        let (at, line) = (next, line_at(bytes, next));
        next += line.len();
        if is_cut_by_bar(line) {
            return at;
        }
        if run.take_line(line, at) {
            continue;
        }
        if let Some(last) = run.last {
            if run.is_last_cut(bytes) {
                return last;
            }
            if run.begins_cut_line(bytes, at) {
                return at;
            }
        }
        match opening_header(line) {
            Some(header) => run = ProcessRun::begin(line, &header, at),
            None if coll::is_tail(line) || is_cut_header(line, run.process) => return at,
            None => run.last = None,
        }
    }
    run.last.filter(|_| run.is_last_cut(bytes)).unwrap_or(all)
}

/// Returns true if a line without a header at its front begins with the host of the process `of`,
/// or has the end of a header: one was cut there.
fn is_cut_header(line: &[u8], of: &[u8]) -> bool {
    let host = memchr(b':', of).map_or(of, |end| &of[..=end]);
    let is_end = || memmem::find(line, b"] NCCL ").is_some() && find_header_from(line, 0).is_none();
    !host.is_empty() && line.starts_with(host) || is_end()
}

/// Looks, cheaply, at the places where lines of one process end and others' or other text follow.
/// Returns true if a line is cut there: in a log that is not in blocks, lines are whole there.
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

/// Returns the beginning of the first line that opens with a header, or of the header itself.
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

/// Returns true if a process's line is cut in front of another's, or of other text.
fn has_cut_line(bytes: &[u8]) -> bool {
    let mut run = ProcessRun::default();
    let (mut next, mut sound, mut others) = (0, 0, 0);
    while next < bytes.len() && sound < MAX_SOUND_PLACES && others < MAX_FOREIGN_LINES {
        let (at, line) = (next, line_at(bytes, next));
        next += line.len();
        if run.take_line(line, at) {
            continue;
        }
        if let Some(last) = run.last.map(|last| line_at(bytes, last)) {
            let header = opening_header(last);
            if header.is_none_or(|header| whole_line_kind(last, &header).is_none()) {
                return true;
            }
            sound += 1;
        }
        others += 1;
        match opening_header(line) {
            Some(header) => run = ProcessRun::begin(line, &header, at),
            None if coll::is_tail(line) => return true,
            None => run.last = None,
        }
    }
    false
}

/// Returns true if a progress bar, which is drawn without a line's end, begins in a process's line.
fn is_cut_by_bar(bytes: &[u8]) -> bool {
    memchr_iter(b'\r', bytes)
        .filter(|&bar| bytes.get(bar + 1).is_some_and(|&b| b != b'\n'))
        .take(MAX_SOUND_PLACES as usize)
        .any(|bar| {
            let text = &bytes[line_start(bytes, bar)..bar];
            opening_header(text).is_some_and(|header| whole_line_kind(text, &header).is_none())
        })
}
