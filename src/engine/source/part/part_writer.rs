//! Writes a part.

use super::frame::FrameEncoder;
use super::limits::{END_MARK, FRAME_MARK, FRAME_TEXT_BYTES};
use super::{END_MAGIC, PART_MAGIC, PART_VERSION, PartContents, PartSource, PartTotals};
use crate::source::coded::UnpackDamage;
use crate::source::read::fill_buffer;
use serde::Serialize;
use std::io::{self, Read, Write};

/// Writes parts, one after the other, in the same memory.
pub struct PartWriter {
    encoder: FrameEncoder,
    buffer: Vec<u8>,
}

impl PartWriter {
    /// Nothing is written yet.
    ///
    /// # Errors
    /// zstd has no memory.
    pub fn new() -> io::Result<PartWriter> {
        Ok(PartWriter {
            encoder: FrameEncoder::new()?,
            buffer: vec![0; FRAME_TEXT_BYTES],
        })
    }

    /// Packs `text` into `out`; `end` gives what was found in it, when all of it was read.
    ///
    /// # Errors
    /// `text` cannot be read, `out` cannot be written.
    pub fn write_part(
        &mut self,
        source: &PartSource,
        text: &mut dyn Read,
        out: &mut dyn Write,
        end: impl FnOnce() -> (PartContents, Option<UnpackDamage>),
    ) -> io::Result<PartTotals> {
        let PartWriter { encoder, buffer } = self;
        out.write_all(&PART_MAGIC)?;
        out.write_all(&PART_VERSION.to_le_bytes())?;
        write_block(&to_json(source)?, out)?;
        let mut totals = PartTotals::default();
        let mut filled = 0;
        let mut frame = Vec::new();
        loop {
            let n = fill_buffer(text, &mut buffer[filled..])?;
            filled += n;
            if filled == 0 {
                break;
            }
            // A frame has whole lines, but for one that is longer than a frame.
            let is_end = filled < buffer.len();
            let last = memchr::memrchr(b'\n', &buffer[..filled]).filter(|_| !is_end);
            let len = last.map_or(filled, |at| at + 1);
            frame.clear();
            totals.lines += encoder.encode_frame(&buffer[..len], source.addresses, &mut frame)?;
            totals.text_bytes += len as u64;
            out.write_all(&[FRAME_MARK])?;
            write_block(&frame, out)?;
            buffer.copy_within(len..filled, 0);
            filled -= len;
        }
        (totals.found, totals.damage) = end();
        let json = to_json(&totals)?;
        out.write_all(&[END_MARK])?;
        write_block(&json, out)?;
        out.write_all(&(json.len() as u32).to_le_bytes())?;
        out.write_all(&END_MAGIC)?;
        Ok(totals)
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
