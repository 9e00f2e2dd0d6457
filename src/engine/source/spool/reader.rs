//! What is kept of a pipe, read as the pipe was, with blanks for what was let go.

use super::frames::SpoolPiece;
use super::{BLANKS_BYTES_PER_WRITE, MAX_NOTED_PIECE_BYTES, PipeSpool};
use std::io::{self, Read};
use std::ops::Range;

/// Reads the text, with blanks for what was let go.
pub(super) struct SpoolReader {
    thin: PipeSpool,
    /// The number of the next frame; behind them come the blocks that were not looked through.
    next: usize,
    frame: Vec<u8>,
    /// Where the next piece is in it.
    at: usize,
    /// Bytes and lines that are to be blank before the text in hand.
    gap: (u64, u64),
    /// The text in hand: where it is in the frame.
    text: Range<usize>,
    blanks: Vec<u8>,
    /// Blanks that were given.
    given: usize,
}

impl SpoolReader {
    pub(super) fn new(thin: PipeSpool) -> SpoolReader {
        SpoolReader {
            thin,
            next: 0,
            frame: Vec::new(),
            at: 0,
            gap: (0, 0),
            text: 0..0,
            blanks: Vec::new(),
            given: 0,
        }
    }

    /// Text that is ready; none at the end.
    fn ready_text(&mut self) -> io::Result<&[u8]> {
        loop {
            if self.given == self.blanks.len() && self.gap.0 > 0 {
                self.blanks.clear();
                self.given = 0;
                write_blanks(&mut self.gap, &mut self.blanks);
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

    /// Goes on to the next frame, or to what comes behind the last one; false at the end.
    fn load_next_frame(&mut self) -> io::Result<bool> {
        let kept = self.thin.lock_spooled();
        let number = self.next;
        self.next += 1;
        if let Some(frame) = kept.frames.read_frame(number)? {
            (self.frame, self.at) = (frame, 0);
            return Ok(true);
        }
        let (gap, text) = match number - kept.frames.list.len() {
            1 => (kept.gap, kept.cut.clone()),
            behind => match self.thin.lock_unscanned().blocks.get(behind - 2) {
                Some(block) => ((0, 0), block.clone()),
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

/// Writes some of the lines of a gap, about equally long.
fn write_blanks((bytes, lines): &mut (u64, u64), to: &mut Vec<u8>) {
    while *bytes > 0 && to.len() < BLANKS_BYTES_PER_WRITE {
        // Only whole lines were let go.
        let len = bytes
            .div_ceil((*lines).max(1))
            .min(MAX_NOTED_PIECE_BYTES as u64);
        to.resize(to.len() + len as usize, b' ');
        if let (Some(last), 1..) = (to.last_mut(), *lines) {
            *last = b'\n';
        }
        *bytes -= len;
        *lines = lines.saturating_sub(1);
    }
}
