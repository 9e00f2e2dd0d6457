//! A pipe's copy that does not grow with the pipe: lines that will not be asked for again are let go while
//! it is read, and read as blanks afterwards, so that places and line numbers stay what they are.
//!
//! What was read last lies in memory as it is. What is before is looked through once: lines that the
//! reader of the log gave a *note* are kept as long as it wants that note, all others for good. What is
//! kept is packed, in memory up to a limit and beyond it in a temporary file (`copy::Store`). Once more than
//! half of the noted lines are no longer wanted, what is kept is packed anew without them.

mod frames;
mod reader;

use super::pipe_copy_store::copy_failure;
use frames::SpoolFrames;
use memchr::{memchr, memchr_iter};
use reader::SpoolReader;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How hard what is kept is packed.
const SPOOL_ZSTD_LEVEL: i32 = 1;

/// Bytes of a block of fresh text.
const SPOOL_BLOCK_BYTES: usize = 1 << 20;

/// Bytes that are packed together.
const SPOOL_FRAME_BYTES: usize = 1 << 20;

/// A line with a note is kept up to so many bytes as one.
const MAX_NOTED_PIECE_BYTES: usize = 1 << 16;

/// Bytes of blanks that are written at a time.
const BLANKS_BYTES_PER_WRITE: usize = 1 << 16;

/// The lines that may be let go, in order.
pub trait NotedLines {
    /// Where the next one begins, in bytes of the input. What begins in the middle of a line is not let go, nor
    /// is what is before it there.
    fn next_line_start(&mut self) -> Option<u64>;

    /// What is to be known of it where it is kept, `None` where it is let go; goes on to the one after it.
    fn take_note(&mut self) -> Option<&[u8]>;

    /// Whether this line has nothing else on it: else it is not let go.
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

/// Text that was read and not looked through.
#[derive(Debug, Default)]
struct UnscannedText {
    blocks: VecDeque<Vec<u8>>,
    len: u64,
}

/// What is kept of what was looked through.
#[derive(Debug)]
struct SpooledText {
    frames: SpoolFrames,
    /// Where the text that was not looked through begins.
    until: u64,
    /// What was let go since the last piece that is kept: bytes, and lines.
    gap: (u64, u64),
    /// The beginning of a line that may be let go, whose end did not come yet.
    cut: Vec<u8>,
    /// The last byte that was looked through.
    last: u8,
    /// The note in hand.
    note: Vec<u8>,
}

impl PipeSpool {
    /// An empty one.
    ///
    /// # Errors
    /// No temporary file can be made.
    pub(super) fn new() -> io::Result<PipeSpool> {
        let kept = SpooledText {
            frames: SpoolFrames::new()?,
            until: 0,
            gap: (0, 0),
            cut: Vec::new(),
            last: b'\n',
            note: Vec::new(),
        };
        Ok(PipeSpool(Arc::new(SpoolParts {
            fresh: Mutex::default(),
            kept: Mutex::new(kept),
        })))
    }

    fn lock_unscanned(&self) -> MutexGuard<'_, UnscannedText> {
        self.0.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_spooled(&self) -> MutexGuard<'_, SpooledText> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what was read.
    fn push(&self, bytes: &[u8]) {
        let mut fresh = self.lock_unscanned();
        fresh.len += bytes.len() as u64;
        match fresh.blocks.back_mut() {
            Some(last) if last.len() + bytes.len() <= SPOOL_BLOCK_BYTES => {
                last.extend_from_slice(bytes);
            }
            _ => {
                let mut block = Vec::with_capacity(SPOOL_BLOCK_BYTES.max(bytes.len()));
                block.extend_from_slice(bytes);
                fresh.blocks.push_back(block);
            }
        }
    }

    /// How many bytes lie in memory and were not looked through.
    pub fn unscanned_bytes(&self) -> u64 {
        self.lock_unscanned().len
    }

    /// Where the text begins that was not looked through.
    pub fn unscanned_start(&self) -> u64 {
        self.lock_spooled().until
    }

    /// Looks through the text up to about `until`, of which `notes` has the lines that may be let go. Gives
    /// up to where it did: lines that begin there or later are to be named again.
    ///
    /// # Errors
    /// What is kept cannot be written.
    pub fn scan_until(&self, until: u64, notes: &mut impl NotedLines) -> io::Result<u64> {
        let mut kept = self.lock_spooled();
        loop {
            let mut fresh = self.lock_unscanned();
            let room = usize::try_from(until.saturating_sub(kept.until)).unwrap_or(usize::MAX);
            let Some(block) = fresh.pop_block(room) else {
                return Ok(kept.until - kept.cut.len() as u64);
            };
            drop(fresh);
            kept.scan_block(&block, notes).map_err(copy_error)?;
        }
    }

    /// The same up to the input's end, where a line may have no end.
    ///
    /// # Errors
    /// What is kept cannot be written.
    pub fn scan_to_end(&self, notes: &mut impl NotedLines) -> io::Result<()> {
        self.scan_until(u64::MAX, notes)?;
        let mut kept = self.lock_spooled();
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

    /// Lets go of the lines whose notes are not `wanted` any more, and packs the rest anew.
    ///
    /// # Errors
    /// What is kept cannot be read or written.
    pub fn drop_unwanted_lines(&self, mut wanted: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
        let mut kept = self.lock_spooled();
        let mut new = SpoolFrames::new().map_err(copy_error)?;
        let mut gap = (0, 0);
        let sifted = kept.frames.for_each_piece(|piece| {
            let (bytes, lines) = piece.gap;
            gap = (gap.0 + bytes, gap.1 + lines);
            if piece.note.is_empty() || wanted(piece.note) {
                return new.push_piece(&mut gap, piece.note, piece.text);
            }
            gap.0 += piece.text.len() as u64;
            gap.1 += memchr_iter(b'\n', piece.text).count() as u64;
            Ok(())
        });
        sifted.map_err(copy_error)?;
        kept.gap = (kept.gap.0 + gap.0, kept.gap.1 + gap.1);
        kept.frames = new;
        Ok(())
    }

    /// All notes that are kept, in order.
    ///
    /// # Errors
    /// What is kept cannot be read.
    pub fn for_each_note(&self, mut sink: impl FnMut(&[u8])) -> io::Result<()> {
        self.lock_spooled().frames.for_each_piece(|piece| {
            if !piece.note.is_empty() {
                sink(piece.note);
            }
            Ok(())
        })
    }

    /// The text, with blanks for what was let go.
    pub(super) fn open_reader(&self) -> Box<dyn Read + Send> {
        Box::new(SpoolReader::new(self.clone()))
    }

    /// How many bytes are kept, packed.
    pub fn packed_bytes(&self) -> u64 {
        self.lock_spooled().frames.len
    }
}

impl UnscannedText {
    /// The first bytes, up to so many.
    fn pop_block(&mut self, most: usize) -> Option<Vec<u8>> {
        let first = self.blocks.front_mut().filter(|_| most > 0)?;
        if first.len() > most {
            let rest = first.split_off(most);
            self.blocks.push_front(rest);
            self.blocks.swap(0, 1);
        }
        let first = self.blocks.pop_front()?;
        self.len -= first.len() as u64;
        Some(first)
    }
}

impl SpooledText {
    /// Looks through a block that follows what was looked through before.
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
            // What is far too long for a call is kept.
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
                (None, true) => self.gap = (self.gap.0 + n as u64, self.gap.1 + 1),
                (wanted, false) => {
                    // What is sifted later is the note alone.
                    wanted.map_or(Ok(()), |()| self.keep_noted_line(&[]))?;
                    self.keep_text(&text[..n])?;
                }
            }
            self.last = text[n - 1];
            (at, text) = (at + n as u64, &text[n..]);
        }
        Ok(())
    }

    /// Keeps text without a note.
    fn keep_text(&mut self, text: &[u8]) -> io::Result<()> {
        let mut all = text.chunks(SPOOL_FRAME_BYTES);
        all.try_for_each(|text| self.frames.push_piece(&mut self.gap, &[], text))
    }

    /// Keeps a line with the note in hand.
    fn keep_noted_line(&mut self, line: &[u8]) -> io::Result<()> {
        self.frames.push_piece(&mut self.gap, &self.note, line)
    }
}

/// The copy cannot be written, or not be read.
fn copy_error(cause: io::Error) -> io::Error {
    io::Error::other(copy_failure(&cause))
}

/// Gives what it reads, and copies it.
pub(super) struct SpoolingReader<R> {
    inner: R,
    to: PipeSpool,
}

impl<R> SpoolingReader<R> {
    pub(super) fn new(inner: R, to: PipeSpool) -> SpoolingReader<R> {
        SpoolingReader { inner, to }
    }
}

impl<R: Read> Read for SpoolingReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(to)?;
        self.to.push(&to[..n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests;
