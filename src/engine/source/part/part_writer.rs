//! Writes a part.

use super::frame::FrameEncoder;
use super::limits::{END_MARK, FRAME_MARK, FRAME_TEXT_BYTES};
use super::{END_MAGIC, PART_MAGIC, PART_VERSION, PartContents, PartSource, PartTotals};
use crate::error::Error;
use crate::pool::{self, lock_mutex};
use crate::source::coded::UnpackDamage;
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::sync::Mutex;

/// The text of a part.
pub enum PartText<'t> {
    /// All of it, in memory or mapped.
    Whole(&'t [u8]),
    /// It is read.
    Read(Box<dyn Read + Send + 't>),
}

/// Packs `text` into `out` on `jobs` threads; `end` gives what was found in it, when all of it was read.
///
/// # Errors
/// `text` cannot be read, `out` cannot be written, zstd has no memory.
pub fn write_part(
    source: &PartSource,
    text: PartText<'_>,
    jobs: usize,
    out: &mut dyn Write,
    end: impl FnOnce() -> (PartContents, Option<UnpackDamage>),
) -> io::Result<PartTotals> {
    out.write_all(&PART_MAGIC)?;
    out.write_all(&PART_VERSION.to_le_bytes())?;
    write_block(&to_json(source)?, out)?;
    let mut totals = PartTotals::default();
    let frames = FrameTexts {
        text,
        begun: Vec::new(),
    };
    let encoders = Mutex::new(Vec::new());
    let encode = |text: io::Result<Cow<'_, [u8]>>| {
        let (text, idle) = (text?, lock_mutex(&encoders).pop());
        let mut encoder = idle.map_or_else(FrameEncoder::new, Ok)?;
        let mut frame = Vec::new();
        let lines = encoder.encode_frame(&text, source.addresses, &mut frame)?;
        lock_mutex(&encoders).push(encoder);
        Ok((frame, lines, text.len() as u64))
    };
    let mut write = |encoded: io::Result<(Vec<u8>, u64, u64)>| {
        let (frame, lines, bytes) = encoded?;
        totals.lines += lines;
        totals.text_bytes += bytes;
        out.write_all(&[FRAME_MARK])?;
        write_block(&frame, out)
    };
    let written = pool::map_in_order(jobs, frames, encode, |encoded| {
        write(encoded).map_err(Error::Output)
    });
    written.map_err(|error| match error {
        Error::Output(cause) => cause,
        other => io::Error::other(other),
    })?;
    (totals.found, totals.damage) = end();
    let json = to_json(&totals)?;
    out.write_all(&[END_MARK])?;
    write_block(&json, out)?;
    out.write_all(&(json.len() as u32).to_le_bytes())?;
    out.write_all(&END_MAGIC)?;
    Ok(totals)
}

/// Cuts a text into those of the frames.
struct FrameTexts<'t> {
    text: PartText<'t>,
    /// Bytes of the next frame that were read with the one before.
    begun: Vec<u8>,
}

impl<'t> FrameTexts<'t> {
    fn read_next(&mut self) -> io::Result<Cow<'t, [u8]>> {
        match &mut self.text {
            PartText::Whole(text) => {
                let (frame, rest) = text.split_at(frame_len(text));
                *text = rest;
                Ok(Cow::Borrowed(frame))
            }
            PartText::Read(reader) => {
                let mut frame = Vec::with_capacity(FRAME_TEXT_BYTES);
                frame.append(&mut self.begun);
                let missing = FRAME_TEXT_BYTES - frame.len();
                reader.take(missing as u64).read_to_end(&mut frame)?;
                self.begun = frame.split_off(frame_len(&frame));
                Ok(Cow::Owned(frame))
            }
        }
    }
}

impl<'t> Iterator for FrameTexts<'t> {
    type Item = io::Result<Cow<'t, [u8]>>;

    fn next(&mut self) -> Option<io::Result<Cow<'t, [u8]>>> {
        let next = self.read_next();
        let is_end = next.as_ref().is_ok_and(|text| text.is_empty());
        (!is_end).then_some(next)
    }
}

/// Returns how much of `text` its first frame has: whole lines, but for a line that is longer than a frame.
fn frame_len(text: &[u8]) -> usize {
    match text.get(..FRAME_TEXT_BYTES) {
        Some(text) => memchr::memrchr(b'\n', text).map_or(text.len(), |at| at + 1),
        None => text.len(),
    }
}

fn to_json(facts: &impl Serialize) -> io::Result<Vec<u8>> {
    serde_json::to_vec(facts).map_err(io::Error::other)
}

/// Writes bytes behind their length.
fn write_block(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    out.write_all(&len.to_le_bytes())?;
    out.write_all(bytes)
}
