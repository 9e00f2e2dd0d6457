//! The kept text of a pipe, packed: pieces of text, each with the gap before it.

use super::gap::TextGap;
use crate::source::pipe::copy_store::PipeCopyStore;
use crate::source::pipe::limits::{SPOOL_FRAME_BYTES, SPOOL_ZSTD_LEVEL};
use std::io;
use std::os::unix::fs::FileExt;

/// Packed pieces, in order.
#[derive(Debug)]
pub(super) struct SpoolFrames {
    pub(super) store: PipeCopyStore,
    /// The place of each frame in the store, and its packed length.
    pub(super) list: Vec<(u64, usize)>,
    pub(super) len: u64,
    /// Pieces that are not packed yet.
    pub(super) open: Vec<u8>,
}

/// A piece of kept text, with its note and the gap before it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SpoolPiece<'p> {
    pub(super) gap: TextGap,
    pub(super) note: &'p [u8],
    pub(super) text: &'p [u8],
}

impl SpoolFrames {
    pub(super) fn new() -> io::Result<SpoolFrames> {
        Ok(SpoolFrames {
            store: PipeCopyStore::new()?,
            list: Vec::new(),
            len: 0,
            open: Vec::new(),
        })
    }

    /// Adds a piece that follows a gap.
    pub(super) fn push_piece(
        &mut self,
        gap: &mut TextGap,
        note: &[u8],
        text: &[u8],
    ) -> io::Result<()> {
        let gap = std::mem::take(gap);
        SpoolPiece { gap, note, text }.write_piece(&mut self.open);
        if self.open.len() >= SPOOL_FRAME_BYTES {
            let packed = zstd::bulk::compress(&self.open, SPOOL_ZSTD_LEVEL)?;
            self.store.append(&packed)?;
            self.list.push((self.len, packed.len()));
            self.len += packed.len() as u64;
            self.open.clear();
        }
        Ok(())
    }

    /// Returns the pieces of a frame, by its number; the last one has the pieces that are not packed yet.
    /// `None` after it.
    pub(super) fn read_frame(&self, number: usize) -> io::Result<Option<Vec<u8>>> {
        let Some(&(at, len)) = self.list.get(number) else {
            return Ok((number == self.list.len()).then(|| self.open.clone()));
        };
        let mut packed = vec![0; len];
        self.store
            .clone_copy_file()?
            .read_exact_at(&mut packed, at)?;
        // A piece is no longer than a frame, and a frame ends with the piece that fills it.
        zstd::bulk::decompress(&packed, 4 * SPOOL_FRAME_BYTES).map(Some)
    }

    /// Gives all pieces to `sink`, in order.
    pub(super) fn for_each_piece(
        &self,
        mut sink: impl FnMut(SpoolPiece<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut number = 0;
        while let Some(frame) = self.read_frame(number)? {
            let mut at = 0;
            while at < frame.len() {
                let (piece, next) = SpoolPiece::read_piece(&frame, at)?;
                sink(piece)?;
                at = next;
            }
            number += 1;
        }
        Ok(())
    }
}

impl<'p> SpoolPiece<'p> {
    pub(super) fn write_piece(&self, to: &mut Vec<u8>) {
        for number in [self.gap.bytes, self.gap.lines, self.note.len() as u64] {
            write_varint(to, number);
        }
        to.extend_from_slice(self.note);
        write_varint(to, self.text.len() as u64);
        to.extend_from_slice(self.text);
    }

    /// Returns the piece at a place, and the place of the next one.
    pub(super) fn read_piece(from: &'p [u8], mut at: usize) -> io::Result<(SpoolPiece<'p>, usize)> {
        let number = |at: &mut usize| read_varint(from, at).ok_or_else(corrupt_spool_error);
        let (bytes, lines) = (number(&mut at)?, number(&mut at)?);
        let gap = TextGap { bytes, lines };
        let bytes = |at: &mut usize| {
            let len = usize::try_from(number(at)?).map_err(|_| corrupt_spool_error())?;
            let end = at.checked_add(len).ok_or_else(corrupt_spool_error)?;
            let bytes = from.get(*at..end).ok_or_else(corrupt_spool_error)?;
            *at = end;
            Ok::<_, io::Error>(bytes)
        };
        let note = bytes(&mut at)?;
        let text = bytes(&mut at)?;
        Ok((SpoolPiece { gap, note, text }, at))
    }
}

/// Returns the error of a temporary file that was changed.
fn corrupt_spool_error() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidData)
}

/// Writes a number, seven bits a byte.
fn write_varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Reads a number of [`write_varint`].
fn read_varint(from: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *from.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}
