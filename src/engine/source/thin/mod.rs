//! A pipe's copy that does not grow with the pipe: lines that will not be asked for again are let go while
//! it is read, and read as blanks afterwards, so that places and line numbers stay what they are.
//!
//! What was read last lies in memory as it is. What is before is looked through once: lines that the
//! reader of the log gave a *note* are kept as long as it wants that note, all others for good. What is
//! kept is packed, in memory up to a limit and beyond it in a temporary file (`copy::Store`). Once more than
//! half of the noted lines are no longer wanted, what is kept is packed anew without them.

mod frames;
mod reader;

use super::copy::failed;
use frames::Frames;
use memchr::{memchr, memchr_iter};
use reader::Reader;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How hard what is kept is packed.
const LEVEL: i32 = 1;

/// Bytes of a block of fresh text.
const BLOCK: usize = 1 << 20;

/// Bytes that are packed together.
const FRAME: usize = 1 << 20;

/// A line with a note is kept up to so many bytes as one.
const LONGEST: usize = 1 << 16;

/// Bytes of blanks that are written at a time.
const BLANKS: usize = 1 << 16;

/// The lines that may be let go, in order.
pub trait Notes {
    /// Where the next one begins, in bytes of the input. What begins in the middle of a line is not let go, nor
    /// is what is before it there.
    fn at(&mut self) -> Option<u64>;

    /// What is to be known of it where it is kept, `None` where it is let go; goes on to the one after it.
    fn take(&mut self) -> Option<&[u8]>;

    /// Whether this line has nothing else on it: else it is not let go.
    fn is_alone(&self, line: &[u8]) -> bool;
}

/// The copy of a pipe.
#[derive(Debug, Clone)]
pub struct Thin(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    fresh: Mutex<Fresh>,
    kept: Mutex<Kept>,
}

/// Text that was read and not looked through.
#[derive(Debug, Default)]
struct Fresh {
    blocks: VecDeque<Vec<u8>>,
    len: u64,
}

/// What is kept of what was looked through.
#[derive(Debug)]
struct Kept {
    frames: Frames,
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

impl Thin {
    /// An empty one.
    ///
    /// # Errors
    /// No temporary file can be made.
    pub(super) fn new() -> io::Result<Thin> {
        let kept = Kept {
            frames: Frames::new()?,
            until: 0,
            gap: (0, 0),
            cut: Vec::new(),
            last: b'\n',
            note: Vec::new(),
        };
        Ok(Thin(Arc::new(Parts {
            fresh: Mutex::default(),
            kept: Mutex::new(kept),
        })))
    }

    fn fresh(&self) -> MutexGuard<'_, Fresh> {
        self.0.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what was read.
    fn push(&self, bytes: &[u8]) {
        let mut fresh = self.fresh();
        fresh.len += bytes.len() as u64;
        match fresh.blocks.back_mut() {
            Some(last) if last.len() + bytes.len() <= BLOCK => last.extend_from_slice(bytes),
            _ => {
                let mut block = Vec::with_capacity(BLOCK.max(bytes.len()));
                block.extend_from_slice(bytes);
                fresh.blocks.push_back(block);
            }
        }
    }

    /// How many bytes lie in memory and were not looked through.
    pub fn waiting(&self) -> u64 {
        self.fresh().len
    }

    /// Where the text begins that was not looked through.
    pub fn until(&self) -> u64 {
        self.kept().until
    }

    /// Looks through the text up to about `until`, of which `notes` has the lines that may be let go. Gives
    /// up to where it did: lines that begin there or later are to be named again.
    ///
    /// # Errors
    /// What is kept cannot be written.
    pub fn look(&self, until: u64, notes: &mut impl Notes) -> io::Result<u64> {
        let mut kept = self.kept();
        loop {
            let mut fresh = self.fresh();
            let room = usize::try_from(until.saturating_sub(kept.until)).unwrap_or(usize::MAX);
            let Some(block) = fresh.pop(room) else {
                return Ok(kept.until - kept.cut.len() as u64);
            };
            drop(fresh);
            kept.block(&block, notes).map_err(copying)?;
        }
    }

    /// The same up to the input's end, where a line may have no end.
    ///
    /// # Errors
    /// What is kept cannot be written.
    pub fn look_at_all(&self, notes: &mut impl Notes) -> io::Result<()> {
        self.look(u64::MAX, notes)?;
        let mut kept = self.kept();
        let last = std::mem::take(&mut kept.cut);
        if last.is_empty() {
            return Ok(());
        }
        let kept = &mut *kept;
        kept.note.clear();
        kept.note
            .extend_from_slice(notes.take().unwrap_or_default());
        let noted = kept.noted(&[]).and_then(|()| kept.text(&last));
        noted.map_err(copying)
    }

    /// Lets go of the lines whose notes are not `wanted` any more, and packs the rest anew.
    ///
    /// # Errors
    /// What is kept cannot be read or written.
    pub fn sift(&self, mut wanted: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
        let mut kept = self.kept();
        let mut new = Frames::new().map_err(copying)?;
        let mut gap = (0, 0);
        let sifted = kept.frames.each(|piece| {
            let (bytes, lines) = piece.gap;
            gap = (gap.0 + bytes, gap.1 + lines);
            if piece.note.is_empty() || wanted(piece.note) {
                return new.put(&mut gap, piece.note, piece.text);
            }
            gap.0 += piece.text.len() as u64;
            gap.1 += memchr_iter(b'\n', piece.text).count() as u64;
            Ok(())
        });
        sifted.map_err(copying)?;
        kept.gap = (kept.gap.0 + gap.0, kept.gap.1 + gap.1);
        kept.frames = new;
        Ok(())
    }

    /// All notes that are kept, in order.
    ///
    /// # Errors
    /// What is kept cannot be read.
    pub fn notes(&self, mut sink: impl FnMut(&[u8])) -> io::Result<()> {
        self.kept().frames.each(|piece| {
            if !piece.note.is_empty() {
                sink(piece.note);
            }
            Ok(())
        })
    }

    /// The text, with blanks for what was let go.
    pub(super) fn reader(&self) -> Box<dyn Read + Send> {
        Box::new(Reader::new(self.clone()))
    }

    /// How many bytes are kept, packed.
    pub fn packed(&self) -> u64 {
        self.kept().frames.len
    }
}

impl Fresh {
    /// The first bytes, up to so many.
    fn pop(&mut self, most: usize) -> Option<Vec<u8>> {
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

impl Kept {
    /// Looks through a block that follows what was looked through before.
    fn block(&mut self, block: &[u8], notes: &mut impl Notes) -> io::Result<()> {
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
                match notes.at() {
                    Some(next) if next < at => drop(notes.take()),
                    next => break next.unwrap_or(u64::MAX),
                }
            };
            if next > at {
                let n = usize::try_from(next - at).map_or(text.len(), |n| n.min(text.len()));
                self.text(&text[..n])?;
                self.last = text[n - 1];
                (at, text) = (at + n as u64, &text[n..]);
                continue;
            }
            let end = memchr(b'\n', &text[..text.len().min(LONGEST)]);
            if end.is_none() && text.len() < LONGEST {
                self.cut = text.to_vec();
                return Ok(());
            }
            // What is far too long for a call is kept.
            let n = end.map_or(LONGEST, |end| end + 1);
            let line = &text[..n];
            self.note.clear();
            let is_wanted = notes.take().map(|note| self.note.extend_from_slice(note));
            let next = notes.at().unwrap_or(u64::MAX);
            let begins = matches!(self.last, b'\n') && next >= at + n as u64;
            let is_alone = begins && end.is_some() && notes.is_alone(line);
            let n = match is_alone {
                true => n,
                false => usize::try_from(next - at).map_or(n, |next| n.min(next)),
            };
            match (is_wanted, is_alone) {
                (Some(()), true) => self.noted(line)?,
                (None, true) => self.gap = (self.gap.0 + n as u64, self.gap.1 + 1),
                (wanted, false) => {
                    // What is sifted later is the note alone.
                    wanted.map_or(Ok(()), |()| self.noted(&[]))?;
                    self.text(&text[..n])?;
                }
            }
            self.last = text[n - 1];
            (at, text) = (at + n as u64, &text[n..]);
        }
        Ok(())
    }

    /// Keeps text without a note.
    fn text(&mut self, text: &[u8]) -> io::Result<()> {
        let mut all = text.chunks(FRAME);
        all.try_for_each(|text| self.frames.put(&mut self.gap, &[], text))
    }

    /// Keeps a line with the note in hand.
    fn noted(&mut self, line: &[u8]) -> io::Result<()> {
        self.frames.put(&mut self.gap, &self.note, line)
    }
}

/// The copy cannot be written, or not be read.
fn copying(cause: io::Error) -> io::Error {
    io::Error::other(failed(&cause))
}

/// Gives what it reads, and copies it.
pub(super) struct Thinning<R> {
    inner: R,
    to: Thin,
}

impl<R> Thinning<R> {
    pub(super) fn new(inner: R, to: Thin) -> Thinning<R> {
        Thinning { inner, to }
    }
}

impl<R: Read> Read for Thinning<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(to)?;
        self.to.push(&to[..n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests;
