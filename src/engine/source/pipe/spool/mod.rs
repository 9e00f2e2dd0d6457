//! A copy of a pipe that does not grow with the pipe: lines that are no longer needed are dropped while it
//! is read, and read as blanks afterwards, so that places and line numbers stay.
//!
//! The latest text lies in memory as it is. Older text is scanned once: a line that the reader of the log
//! gave a *note* is kept as long as the reader wants that note, all others for good. Kept text is packed,
//! in memory up to a limit and beyond it in a temporary file ([`super::copy_store`]). The reader has the
//! kept text packed anew without the lines that it no longer wants. The rest of a line that is too long to be
//! read whole is blank from the beginning.

mod frames;
mod gap;
mod reader;

use super::copy_store::copy_error;
use super::limits::{MAX_NOTED_PIECE_BYTES, SPOOL_BLOCK_BYTES, SPOOL_FRAME_BYTES};
use crate::pool::lock_mutex;
use crate::source::limits::MAX_LINE_BYTES;
use frames::SpoolFrames;
use gap::TextGap;
use memchr::{memchr, memrchr};
use reader::SpoolReader;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

/// The lines that may be dropped, in order.
pub trait NotedLines {
    /// Returns the byte of the input at which the next one begins. One that begins in the middle of a line
    /// is not dropped, nor is the text before it on that line.
    fn next_line_start(&mut self) -> Option<u64>;

    /// Returns the note of a line to keep, `None` for a line to drop; goes on to the next line.
    fn take_note(&mut self) -> Option<&[u8]>;

    /// Returns true if this line has nothing else on it: else it is not dropped.
    fn is_alone(&self, line: &[u8]) -> bool;
}

/// The copy of a pipe.
#[derive(Debug, Clone)]
pub struct PipeSpool(Arc<SpoolParts>);

#[derive(Debug)]
struct SpoolParts {
    fresh: Mutex<UnscannedText>,
    kept: Mutex<SpooledText>,
}

/// Text that was read and not scanned.
#[derive(Debug, Default)]
struct UnscannedText {
    blocks: VecDeque<UnscannedBlock>,
    len: u64,
    /// The bytes of the present line so far.
    line: u64,
}

#[derive(Debug)]
enum UnscannedBlock {
    Text(Vec<u8>),
    /// So many bytes of the rest of a line, which no reader looks at.
    Blanks(u64),
}

/// The kept text of the scanned part.
#[derive(Debug)]
struct SpooledText {
    frames: SpoolFrames,
    /// The first byte that was not scanned.
    until: u64,
    /// The gap since the last kept piece.
    gap: TextGap,
    /// The beginning of a line without its end yet; the line may be dropped.
    cut: Vec<u8>,
    /// The last byte that was scanned.
    last: u8,
    /// The note of the present line.
    note: Vec<u8>,
}

impl PipeSpool {
    /// Makes an empty copy.
    ///
    /// # Errors
    /// No temporary file can be made.
    pub(in crate::source) fn new() -> io::Result<PipeSpool> {
        let kept = SpooledText {
            frames: SpoolFrames::new()?,
            until: 0,
            gap: TextGap::default(),
            cut: Vec::new(),
            last: b'\n',
            note: Vec::new(),
        };
        Ok(PipeSpool(Arc::new(SpoolParts {
            fresh: Mutex::default(),
            kept: Mutex::new(kept),
        })))
    }

    /// Adds bytes that were read.
    pub(in crate::source) fn push_bytes(&self, bytes: &[u8]) {
        lock_mutex(&self.0.fresh).push_bytes(bytes);
    }

    /// Returns how many bytes were not scanned; but for the rests of lines that are too long they lie in memory.
    pub fn unscanned_bytes(&self) -> u64 {
        lock_mutex(&self.0.fresh).len
    }

    /// Returns the first byte that was not scanned.
    pub fn unscanned_start(&self) -> u64 {
        lock_mutex(&self.0.kept).until
    }

    /// Scans the text up to about `until`; `notes` has its lines that may be dropped. Returns the end of
    /// the scan: `notes` must name the lines that begin there or later again.
    ///
    /// # Errors
    /// The kept text cannot be written.
    pub fn scan_until(&self, until: u64, notes: &mut impl NotedLines) -> io::Result<u64> {
        let mut kept = lock_mutex(&self.0.kept);
        loop {
            let mut fresh = lock_mutex(&self.0.fresh);
            let room = usize::try_from(until.saturating_sub(kept.until)).unwrap_or(usize::MAX);
            let Some(block) = fresh.pop_block(room) else {
                return Ok(kept.until - kept.cut.len() as u64);
            };
            drop(fresh);
            match block {
                UnscannedBlock::Text(text) => kept.scan_block(&text, notes).map_err(copy_error)?,
                UnscannedBlock::Blanks(bytes) => kept.skip_blanks(bytes),
            }
        }
    }

    /// Scans the text up to the input's end; the last line may have no end.
    ///
    /// # Errors
    /// The kept text cannot be written.
    pub fn scan_to_end(&self, notes: &mut impl NotedLines) -> io::Result<()> {
        self.scan_until(u64::MAX, notes)?;
        let mut kept = lock_mutex(&self.0.kept);
        let last = std::mem::take(&mut kept.cut);
        if last.is_empty() {
            return Ok(());
        }
        let kept = &mut *kept;
        kept.note.clear();
        kept.note
            .extend_from_slice(notes.take_note().unwrap_or_default());
        let noted = kept
            .keep_noted_line(&[])
            .and_then(|()| kept.keep_text(&last));
        noted.map_err(copy_error)
    }

    /// Drops the lines with notes that are not `wanted` any more, and packs the rest anew.
    ///
    /// # Errors
    /// The kept text cannot be read or written.
    pub fn drop_unwanted_lines(&self, mut wanted: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
        let mut kept = lock_mutex(&self.0.kept);
        let mut new = SpoolFrames::new().map_err(copy_error)?;
        let mut gap = TextGap::default();
        let sifted = kept.frames.for_each_piece(|piece| {
            gap.add_gap(piece.gap);
            if piece.note.is_empty() || wanted(piece.note) {
                return new.push_piece(&mut gap, piece.note, piece.text);
            }
            gap.add_text(piece.text);
            Ok(())
        });
        sifted.map_err(copy_error)?;
        kept.gap.add_gap(gap);
        kept.frames = new;
        Ok(())
    }

    /// Gives all kept notes to `sink`, in order.
    ///
    /// # Errors
    /// The kept text cannot be read.
    pub fn for_each_note(&self, mut sink: impl FnMut(&[u8])) -> io::Result<()> {
        lock_mutex(&self.0.kept).frames.for_each_piece(|piece| {
            if !piece.note.is_empty() {
                sink(piece.note);
            }
            Ok(())
        })
    }

    /// Reads the text, with blanks for dropped lines.
    pub(in crate::source) fn open_reader(&self) -> Box<dyn Read + Send> {
        Box::new(SpoolReader::new(self.clone()))
    }

    /// Returns how many packed bytes are kept.
    pub fn packed_bytes(&self) -> u64 {
        lock_mutex(&self.0.kept).frames.len
    }
}

impl UnscannedText {
    /// Adds bytes that were read.
    fn push_bytes(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        loop {
            let room = MAX_LINE_BYTES.saturating_sub(self.line as usize);
            if bytes.len() <= room {
                break;
            }
            let end = memchr(b'\n', bytes).unwrap_or(bytes.len());
            let (text, blanks) = bytes[..end].split_at(end.min(room));
            self.push_text(text);
            self.push_blanks(blanks.len() as u64);
            self.line += end as u64;
            let Some(_) = bytes.get(end) else {
                return;
            };
            self.push_text(b"\n");
            self.line = 0;
            bytes = &bytes[end + 1..];
        }
        self.push_text(bytes);
        match memrchr(b'\n', bytes) {
            Some(end) => self.line = (bytes.len() - end - 1) as u64,
            None => self.line += bytes.len() as u64,
        }
    }

    fn push_text(&mut self, text: &[u8]) {
        match self.blocks.back_mut() {
            Some(UnscannedBlock::Text(last)) if last.len() + text.len() <= SPOOL_BLOCK_BYTES => {
                last.extend_from_slice(text);
            }
            _ if text.is_empty() => {}
            _ => {
                let mut block = Vec::with_capacity(SPOOL_BLOCK_BYTES.max(text.len()));
                block.extend_from_slice(text);
                self.blocks.push_back(UnscannedBlock::Text(block));
            }
        }
    }

    fn push_blanks(&mut self, bytes: u64) {
        match self.blocks.back_mut() {
            Some(UnscannedBlock::Blanks(last)) => *last += bytes,
            _ if bytes == 0 => {}
            _ => self.blocks.push_back(UnscannedBlock::Blanks(bytes)),
        }
    }

    /// Takes the first bytes, at most `most`.
    fn pop_block(&mut self, most: usize) -> Option<UnscannedBlock> {
        if most == 0 {
            return None;
        }
        let mut first = self.blocks.pop_front()?;
        let rest = match &mut first {
            UnscannedBlock::Text(text) if text.len() > most => {
                Some(UnscannedBlock::Text(text.split_off(most)))
            }
            UnscannedBlock::Blanks(bytes) if *bytes > most as u64 => {
                let rest = *bytes - most as u64;
                *bytes = most as u64;
                Some(UnscannedBlock::Blanks(rest))
            }
            _ => None,
        };
        if let Some(rest) = rest {
            self.blocks.push_front(rest);
        }
        self.len -= match &first {
            UnscannedBlock::Text(text) => text.len() as u64,
            UnscannedBlock::Blanks(bytes) => *bytes,
        };
        Some(first)
    }
}

impl SpooledText {
    /// Scans the block that follows the scanned text.
    fn scan_block(&mut self, block: &[u8], notes: &mut impl NotedLines) -> io::Result<()> {
        // A line that began at the end of the block before comes first.
        let mut joined = std::mem::take(&mut self.cut);
        let mut at = self.until - joined.len() as u64;
        self.until += block.len() as u64;
        let mut text = block;
        if !joined.is_empty() {
            joined.extend_from_slice(block);
            text = &joined;
        }
        while !text.is_empty() {
            let next = loop {
                match notes.next_line_start() {
                    Some(next) if next < at => drop(notes.take_note()),
                    next => break next.unwrap_or(u64::MAX),
                }
            };
            if next > at {
                let n = usize::try_from(next - at).map_or(text.len(), |n| n.min(text.len()));
                self.keep_text(&text[..n])?;
                self.last = text[n - 1];
                (at, text) = (at + n as u64, &text[n..]);
                continue;
            }
            let end = memchr(b'\n', &text[..text.len().min(MAX_NOTED_PIECE_BYTES)]);
            if end.is_none() && text.len() < MAX_NOTED_PIECE_BYTES {
                self.cut = text.to_vec();
                return Ok(());
            }
            // A line that is far too long for a call is kept.
            let n = end.map_or(MAX_NOTED_PIECE_BYTES, |end| end + 1);
            let line = &text[..n];
            self.note.clear();
            let is_wanted = notes
                .take_note()
                .map(|note| self.note.extend_from_slice(note));
            let next = notes.next_line_start().unwrap_or(u64::MAX);
            let begins = matches!(self.last, b'\n') && next >= at + n as u64;
            let is_alone = begins && end.is_some() && notes.is_alone(line);
            let n = match is_alone {
                true => n,
                false => usize::try_from(next - at).map_or(n, |next| n.min(next)),
            };
            match (is_wanted, is_alone) {
                (Some(()), true) => self.keep_noted_line(line)?,
                (None, true) => self.gap.add_gap(TextGap {
                    bytes: n as u64,
                    lines: 1,
                }),
                (wanted, false) => {
                    // The note is kept apart, so that it can be dropped without the text.
                    wanted.map_or(Ok(()), |()| self.keep_noted_line(&[]))?;
                    self.keep_text(&text[..n])?;
                }
            }
            self.last = text[n - 1];
            (at, text) = (at + n as u64, &text[n..]);
        }
        Ok(())
    }

    /// Goes on behind the rest of a line that is too long: its beginning was kept, as no noted line is so long.
    fn skip_blanks(&mut self, bytes: u64) {
        self.until += bytes;
        self.last = b' ';
        self.gap.add_gap(TextGap { bytes, lines: 0 });
    }

    /// Keeps text without a note.
    fn keep_text(&mut self, text: &[u8]) -> io::Result<()> {
        let mut all = text.chunks(SPOOL_FRAME_BYTES);
        all.try_for_each(|text| self.frames.push_piece(&mut self.gap, &[], text))
    }

    /// Keeps a line with the present note.
    fn keep_noted_line(&mut self, line: &[u8]) -> io::Result<()> {
        self.frames.push_piece(&mut self.gap, &self.note, line)
    }
}

#[cfg(test)]
mod tests;
