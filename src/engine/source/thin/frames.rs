//! What is kept of a pipe, packed: pieces of text with what was let go before each.

use super::{FRAME, LEVEL};
use crate::source::copy::Store;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// Packed pieces, in order.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) store: Store,
    /// Where each is in the store, and its packed length.
    pub(super) list: Vec<(u64, usize)>,
    pub(super) len: u64,
    /// Pieces that are not packed yet.
    pub(super) open: Vec<u8>,
}

/// A piece of what is kept: what was let go before it, its note, and its text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece<'p> {
    pub(super) gap: (u64, u64),
    pub(super) note: &'p [u8],
    pub(super) text: &'p [u8],
}

impl Frames {
    pub(super) fn new() -> io::Result<Frames> {
        Ok(Frames {
            store: Store::new()?,
            list: Vec::new(),
            len: 0,
            open: Vec::new(),
        })
    }

    /// Adds a piece that comes behind a gap.
    pub(super) fn put(&mut self, gap: &mut (u64, u64), note: &[u8], text: &[u8]) -> io::Result<()> {
        let gap = std::mem::take(gap);
        Piece { gap, note, text }.write(&mut self.open);
        if self.open.len() >= FRAME {
            let packed = zstd::bulk::compress(&self.open, LEVEL)?;
            self.store.write_all(&packed)?;
            self.list.push((self.len, packed.len()));
            self.len += packed.len() as u64;
            self.open.clear();
        }
        Ok(())
    }

    /// The pieces of a frame, by its number; those that are not packed yet are the last. `None` behind it.
    pub(super) fn frame(&self, number: usize) -> io::Result<Option<Vec<u8>>> {
        let Some(&(at, len)) = self.list.get(number) else {
            return Ok((number == self.list.len()).then(|| self.open.clone()));
        };
        let mut packed = vec![0; len];
        self.store.file()?.read_exact_at(&mut packed, at)?;
        // A piece is no longer than a frame, and a frame ends with the piece that fills it.
        zstd::bulk::decompress(&packed, 4 * FRAME).map(Some)
    }

    /// All pieces, in order.
    pub(super) fn each(&self, mut sink: impl FnMut(Piece<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut number = 0;
        while let Some(frame) = self.frame(number)? {
            let mut at = 0;
            while at < frame.len() {
                let (piece, next) = Piece::read(&frame, at)?;
                sink(piece)?;
                at = next;
            }
            number += 1;
        }
        Ok(())
    }
}

impl<'p> Piece<'p> {
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        for number in [self.gap.0, self.gap.1, self.note.len() as u64] {
            number_to(to, number);
        }
        to.extend_from_slice(self.note);
        number_to(to, self.text.len() as u64);
        to.extend_from_slice(self.text);
    }

    /// The piece at a place, and where the next one is.
    pub(super) fn read(from: &'p [u8], mut at: usize) -> io::Result<(Piece<'p>, usize)> {
        let number = |at: &mut usize| number_of(from, at).ok_or_else(broken);
        let gap = (number(&mut at)?, number(&mut at)?);
        let bytes = |at: &mut usize| {
            let len = usize::try_from(number(at)?).map_err(|_| broken())?;
            let end = at.checked_add(len).ok_or_else(broken)?;
            let bytes = from.get(*at..end).ok_or_else(broken)?;
            *at = end;
            Ok::<_, io::Error>(bytes)
        };
        let note = bytes(&mut at)?;
        let text = bytes(&mut at)?;
        Ok((Piece { gap, note, text }, at))
    }
}

/// The temporary file is not what was written.
fn broken() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidData)
}

/// Writes a number, seven bits a byte.
fn number_to(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Reads such a number.
fn number_of(from: &[u8], at: &mut usize) -> Option<u64> {
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
