//! Integers of one to ten bytes (LEB128), as DWARF and protocol buffers have them.

use crate::error::Malformed;

/// Bits of an integer in each byte.
const BITS: u32 = 7;

/// Appends an integer.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 1 << BITS {
        out.push(value as u8 | 0x80);
        value >>= BITS;
    }
    out.push(value as u8);
}

/// Appends a difference of either sign: zigzag, so that small ones are short.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a text, cut to `most` bytes.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &[u8], most: usize) {
    let text = &text[..text.len().min(most)];
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Bytes that are read from their first to their last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyBytes<'b>(pub(crate) &'b [u8]);

impl<'b> BodyBytes<'b> {
    /// Takes a byte; `None` at the end.
    pub(crate) fn next_byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// Takes a byte that must be there.
    pub(crate) fn take_byte(&mut self) -> Result<u8, Malformed> {
        self.next_byte().ok_or(Malformed("an event is cut"))
    }

    /// Takes an integer.
    pub(crate) fn take_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..u64::BITS).step_by(BITS as usize) {
            let byte = self.take_byte()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed("an integer is longer than 64 bits"))
    }

    /// Takes a difference.
    pub(crate) fn take_signed(&mut self) -> Result<i64, Malformed> {
        let zigzag = self.take_varint()?;
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    /// Takes an integer of at most 32 bits.
    pub(crate) fn take_u32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.take_varint()?).map_err(|_| Malformed("a number is too large"))
    }

    /// Takes a text of at most `most` bytes.
    pub(crate) fn take_text(&mut self, most: usize) -> Result<&'b [u8], Malformed> {
        let length = self.take_varint()?;
        let length = usize::try_from(length)
            .ok()
            .filter(|&length| length <= most);
        let split = length.and_then(|length| self.0.split_at_checked(length));
        let (text, rest) = split.ok_or(Malformed("a text is cut or too long"))?;
        self.0 = rest;
        Ok(text)
    }
}
