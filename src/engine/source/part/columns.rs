//! Columns of a frame: bytes packed by zstd with its checksum, and numbers as differences.

use super::PartDamage;
use super::limits::{MAX_COLUMN_BYTES, ZSTD_LEVEL};

/// Adds a number in groups of seven bits, the lowest first.
#[inline]
pub(super) fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that are taken from the front.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ColumnReader<'b> {
    bytes: &'b [u8],
}

impl<'b> ColumnReader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> ColumnReader<'b> {
        ColumnReader { bytes }
    }

    pub(super) fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes a number that [`write_varint`] wrote.
    #[inline]
    pub(super) fn take_varint(&mut self) -> Result<u64, PartDamage> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.bytes.split_first().ok_or(PartDamage::Columns)?;
            self.bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(PartDamage::Columns)
    }

    /// Takes the next number of a column of lengths.
    #[inline]
    pub(super) fn take_length(&mut self) -> Result<usize, PartDamage> {
        usize::try_from(self.take_varint()?).map_err(|_| PartDamage::Columns)
    }

    #[inline]
    pub(super) fn take_bytes(&mut self, len: usize) -> Result<&'b [u8], PartDamage> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(len)
            .ok_or(PartDamage::Columns)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Takes a line with its end, or all that is left.
    #[inline]
    pub(super) fn take_line(&mut self) -> Result<&'b [u8], PartDamage> {
        let end = memchr::memchr(b'\n', self.bytes).map_or(self.bytes.len(), |at| at + 1);
        match end {
            0 => Err(PartDamage::Columns),
            _ => self.take_bytes(end),
        }
    }

    /// Takes a number that [`Last::write_next`] wrote.
    #[inline]
    pub(super) fn take_next(&mut self, last: &mut Last) -> Result<u64, PartDamage> {
        let zigzag = self.take_varint()?;
        let difference = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
        last.0 = last.0.wrapping_add(difference);
        Ok(last.0)
    }
}

/// The number before, in a column of differences.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Last(u64);

impl Last {
    /// Adds `value` as its difference from the number before.
    #[inline]
    pub(super) fn write_next(&mut self, value: u64, column: &mut Vec<u8>) {
        let difference = value.wrapping_sub(self.0) as i64;
        self.0 = value;
        write_varint((difference << 1 ^ difference >> 63) as u64, column);
    }
}

/// Packs columns behind each other.
pub(super) struct ColumnPacker {
    zstd: zstd::bulk::Compressor<'static>,
}

impl ColumnPacker {
    pub(super) fn new() -> std::io::Result<ColumnPacker> {
        let mut zstd = zstd::bulk::Compressor::new(ZSTD_LEVEL)?;
        zstd.include_checksum(true)?;
        Ok(ColumnPacker { zstd })
    }

    /// Adds a column: its length, its packed length, its packed bytes.
    pub(super) fn pack_column(&mut self, column: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        let packed = self.zstd.compress(column)?;
        write_varint(column.len() as u64, out);
        write_varint(packed.len() as u64, out);
        out.extend_from_slice(&packed);
        Ok(())
    }
}

/// Unpacks columns in the order in which they were packed.
pub(super) struct ColumnUnpacker {
    zstd: zstd::bulk::Decompressor<'static>,
}

impl ColumnUnpacker {
    pub(super) fn new() -> std::io::Result<ColumnUnpacker> {
        let zstd = zstd::bulk::Decompressor::new()?;
        Ok(ColumnUnpacker { zstd })
    }

    /// Unpacks the next column of `frame`.
    pub(super) fn unpack_column(
        &mut self,
        frame: &mut ColumnReader<'_>,
    ) -> Result<Vec<u8>, PartDamage> {
        let (len, packed) = (frame.take_length()?, frame.take_length()?);
        let packed = frame.take_bytes(packed)?;
        if len > MAX_COLUMN_BYTES {
            return Err(PartDamage::Columns);
        }
        match self.zstd.decompress(packed, len) {
            Ok(column) if column.len() == len => Ok(column),
            _ => Err(PartDamage::Checksum),
        }
    }
}
