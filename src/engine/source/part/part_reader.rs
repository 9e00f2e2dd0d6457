//! Reads a part: its facts alone, or its text.

use super::frame::decode_frame;
use super::limits::{END_MARK, FRAME_MARK, MAX_COLUMN_BYTES, MAX_FACT_BYTES};
use super::{END_MAGIC, PART_MAGIC, PART_VERSION, PartDamage, PartFacts, PartSource, PartTotals};
use crate::pool::lock_mutex;
use crate::source::coded::UnpackDamageSlot;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

/// Reads the facts of a part, not its text.
///
/// # Errors
/// It cannot be read; with [`PartDamage`] in it: it is no whole part of this version.
pub fn read_part_facts(part: &mut (impl Read + Seek)) -> io::Result<PartFacts> {
    let source = read_beginning(part)?;
    let mut tail = [0; 8];
    let end = part.seek(SeekFrom::End(0))?;
    let cut = || damaged(PartDamage::Cut);
    let at = end.checked_sub(8).ok_or_else(cut)?;
    part.seek(SeekFrom::Start(at))?;
    part.read_exact(&mut tail)?;
    let [len @ .., _, _, _, _] = tail;
    let len = u32::from_le_bytes(len);
    if tail[4..] != END_MAGIC || len as usize > MAX_FACT_BYTES {
        return Err(cut());
    }
    let at = at.checked_sub(u64::from(len) + 4).ok_or_else(cut)?;
    part.seek(SeekFrom::Start(at))?;
    let totals = parse_facts(&read_block(part, MAX_FACT_BYTES)?)?;
    Ok(PartFacts { source, totals })
}

/// Reads the description in front of the frames.
fn read_beginning(part: &mut impl Read) -> io::Result<PartSource> {
    let mut magic = [0; 4];
    read_whole(part, &mut magic)?;
    match magic == PART_MAGIC {
        true => read_source(part),
        false => Err(damaged(PartDamage::Facts)),
    }
}

/// Reads the description behind the first bytes, which mark a part.
fn read_source(part: &mut impl Read) -> io::Result<PartSource> {
    let mut version = [0; 4];
    read_whole(part, &mut version)?;
    let version = u32::from_le_bytes(version);
    if version != PART_VERSION {
        return Err(damaged(PartDamage::Version(version)));
    }
    parse_facts(&read_block(part, MAX_FACT_BYTES)?)
}

/// The text of a part.
pub struct PartReader<R> {
    part: R,
    /// `None` before the beginning was read.
    keeps_addresses: Option<bool>,
    text: Vec<u8>,
    given: usize,
    is_ended: bool,
    /// Bytes of text so far.
    text_bytes: u64,
    damage: UnpackDamageSlot,
}

impl<R: Read> PartReader<R> {
    /// Reads the text of `part`; the damage of its input goes to `damage`.
    pub(in crate::source) fn new(part: R, damage: UnpackDamageSlot) -> PartReader<R> {
        PartReader {
            part,
            keeps_addresses: None,
            text: Vec::new(),
            given: 0,
            is_ended: false,
            text_bytes: 0,
            damage,
        }
    }

    /// Reads the next frame's text, or the end.
    fn read_next(&mut self) -> io::Result<()> {
        self.text.clear();
        self.given = 0;
        let keeps_addresses = match self.keeps_addresses {
            Some(keeps) => keeps,
            None => {
                let source = read_beginning(&mut self.part)?;
                *self.keeps_addresses.insert(source.addresses)
            }
        };
        let mut mark = [0];
        read_whole(&mut self.part, &mut mark)?;
        match mark {
            [FRAME_MARK] => {
                let frame = read_block(&mut self.part, MAX_COLUMN_BYTES)?;
                decode_frame(&frame, keeps_addresses, &mut self.text).map_err(damaged)?;
                self.text_bytes += self.text.len() as u64;
                Ok(())
            }
            [END_MARK] => {
                let totals: PartTotals = parse_facts(&read_block(&mut self.part, MAX_FACT_BYTES)?)?;
                if let Some(damage) = totals.damage {
                    lock_mutex(&self.damage).get_or_insert(damage);
                }
                match totals.text_bytes == self.text_bytes {
                    true => self.begin_next_part(),
                    false => Err(damaged(PartDamage::Columns)),
                }
            }
            _ => Err(damaged(PartDamage::Columns)),
        }
    }
}

impl<R: Read> PartReader<R> {
    /// Passes the end of a part. Another part may follow it, as in two files that were put together.
    fn begin_next_part(&mut self) -> io::Result<()> {
        let (mut tail, mut magic) = ([0; 8], Vec::new());
        read_whole(&mut self.part, &mut tail)?;
        if tail[4..] != END_MAGIC {
            return Err(damaged(PartDamage::Facts));
        }
        let most = PART_MAGIC.len() as u64;
        self.part.by_ref().take(most).read_to_end(&mut magic)?;
        self.is_ended = magic.is_empty();
        if self.is_ended {
            return Ok(());
        }
        if magic != PART_MAGIC {
            return Err(damaged(PartDamage::Followed));
        }
        self.keeps_addresses = Some(read_source(&mut self.part)?.addresses);
        self.text_bytes = 0;
        Ok(())
    }
}

impl<R: Read> Read for PartReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.given == self.text.len() && !self.is_ended {
            self.read_next()?;
        }
        let n = (&self.text[self.given..]).read(to)?;
        self.given += n;
        Ok(n)
    }
}

fn damaged(damage: PartDamage) -> io::Error {
    let kind = match damage {
        PartDamage::Cut => ErrorKind::UnexpectedEof,
        _ => ErrorKind::InvalidData,
    };
    io::Error::new(kind, damage)
}

/// Fills `bytes`.
fn read_whole(part: &mut impl Read, bytes: &mut [u8]) -> io::Result<()> {
    part.read_exact(bytes).map_err(|e| match e.kind() {
        ErrorKind::UnexpectedEof => damaged(PartDamage::Cut),
        _ => e,
    })
}

/// Reads bytes behind their length.
fn read_block(part: &mut impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    read_whole(part, &mut len)?;
    let len = u32::from_le_bytes(len);
    if len as usize > most {
        return Err(damaged(PartDamage::Facts));
    }
    let mut bytes = Vec::new();
    part.take(len.into()).read_to_end(&mut bytes)?;
    match bytes.len() == len as usize {
        true => Ok(bytes),
        false => Err(damaged(PartDamage::Cut)),
    }
}

fn parse_facts<T: DeserializeOwned>(json: &[u8]) -> io::Result<T> {
    serde_json::from_slice(json).map_err(|_| damaged(PartDamage::Facts))
}
