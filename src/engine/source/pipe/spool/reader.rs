//! Reads the kept text of a pipe, with blanks for dropped lines.

use super::frames::SpoolPiece;
use super::gap::TextGap;
use super::{PipeSpool, UnscannedBlock};
use crate::pool::lock_mutex;
use std::io::{self, Read};
use std::ops::Range;

/// Reads the text, with blanks for dropped lines.
pub(super) struct SpoolReader {
    thin: PipeSpool,
    /// The number of the next frame; after the frames come the blocks that were not scanned.
    next: usize,
    frame: Vec<u8>,
    /// The place of the next piece in it.
    at: usize,
    /// The gap before the present text.
    gap: TextGap,
    /// The place of the present text in the frame.
    text: Range<usize>,
    blanks: Vec<u8>,
    /// The number of blanks that were given.
    given: usize,
}

impl SpoolReader {
    pub(super) fn new(thin: PipeSpool) -> SpoolReader {
        SpoolReader {
            thin,
            next: 0,
            frame: Vec::new(),
            at: 0,
            gap: TextGap::default(),
            text: 0..0,
            blanks: Vec::new(),
            given: 0,
        }
    }

    /// Returns text that is ready; none at the end.
    fn ready_text(&mut self) -> io::Result<&[u8]> {
        loop {
            if self.given == self.blanks.len() && self.gap.bytes > 0 {
                self.blanks.clear();
                self.given = 0;
                self.gap.write_blanks(&mut self.blanks);
            }
            if self.given < self.blanks.len() {
                return Ok(&self.blanks[self.given..]);
            }
            if !self.text.is_empty() {
                return Ok(&self.frame[self.text.clone()]);
            }
            if self.at < self.frame.len() {
                let (piece, next) = SpoolPiece::read_piece(&self.frame, self.at)?;
                (self.gap, self.text) = (piece.gap, next - piece.text.len()..next);
                self.at = next;
            } else if !self.load_next_frame()? {
                return Ok(&[]);
            }
        }
    }

    /// Goes on to the next frame, or to the text after the last one. Returns false at the end.
    fn load_next_frame(&mut self) -> io::Result<bool> {
        let kept = lock_mutex(&self.thin.0.kept);
        let number = self.next;
        self.next += 1;
        if let Some(frame) = kept.frames.read_frame(number)? {
            (self.frame, self.at) = (frame, 0);
            return Ok(true);
        }
        let (gap, text) = match number - kept.frames.list.len() {
            1 => (kept.gap, kept.cut.clone()),
            behind => match lock_mutex(&self.thin.0.fresh).blocks.get(behind - 2) {
                Some(UnscannedBlock::Text(text)) => (TextGap::default(), text.clone()),
                Some(&UnscannedBlock::Blanks(bytes)) => (TextGap { bytes, lines: 0 }, Vec::new()),
                None => return Ok(false),
            },
        };
        (self.gap, self.text, self.at) = (gap, 0..text.len(), text.len());
        drop(kept);
        self.frame = text;
        Ok(true)
    }

    fn consume_text(&mut self, n: usize) {
        match self.given < self.blanks.len() {
            true => self.given += n,
            false => self.text.start += n,
        }
    }
}

impl Read for SpoolReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let ready = self.ready_text()?;
        let n = ready.len().min(to.len());
        to[..n].copy_from_slice(&ready[..n]);
        self.consume_text(n);
        Ok(n)
    }
}
