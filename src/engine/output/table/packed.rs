//! Rows as typed values, from the threads that make them to the one that writes columns: no number
//! becomes text in between. Parts that are equal have equal bytes.

use super::kinds::{Compared, ComparedAs, FieldKind, FieldValue, Written};
use crate::output::limits::{LENGTH_BYTES, NUMBER, TEXT, TOO_LARGE, UNKNOWN};

/// A value of a packed part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackedValue<'p> {
    /// Not known.
    Unknown,
    /// A number.
    Number(i64),
    /// A number that eight bytes with a sign do not hold.
    TooLarge,
    /// A text, or a value with a text of its own.
    Text(&'p [u8]),
}

/// Appends what `write` appends, after its length.
#[inline(always)]
pub(super) fn push_part(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    write(out);
    // A row is far below 4 GiB: a line has 16 MiB at most.
    let length = (out.len() - begin - LENGTH_BYTES) as u32;
    out[begin..begin + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
}

/// Appends a value of kind `K`.
#[inline(always)]
pub(super) fn push_value<'a, K: FieldKind>(
    value: impl Written<K> + Compared<'a, K>,
    out: &mut Vec<u8>,
) {
    if K::COMPARES != ComparedAs::Number {
        let begin = out.len();
        out.push(TEXT);
        push_part(out, |out| value.write(out));
        if out.len() == begin + 1 + LENGTH_BYTES {
            out.truncate(begin);
            out.push(UNKNOWN);
        }
        return;
    }
    match value.field_value() {
        FieldValue::Number(number) => match i64::try_from(number) {
            Ok(number) => {
                out.push(NUMBER);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Err(_) => out.push(TOO_LARGE),
        },
        _ => out.push(UNKNOWN),
    }
}

/// Divides bytes into a part, without its length, and the rest; `None` if they end within the part.
#[inline]
pub fn split_part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// The values of a part, in the order of its columns.
#[derive(Debug, Clone, Copy)]
pub struct PackedValues<'p>(pub &'p [u8]);

impl<'p> Iterator for PackedValues<'p> {
    type Item = PackedValue<'p>;

    #[inline]
    fn next(&mut self) -> Option<PackedValue<'p>> {
        let (tag, rest) = self.0.split_first()?;
        let (value, rest) = match *tag {
            NUMBER => {
                let (number, rest) = rest.split_first_chunk()?;
                (PackedValue::Number(i64::from_le_bytes(*number)), rest)
            }
            TEXT => {
                let (text, rest) = split_part(rest)?;
                (PackedValue::Text(text), rest)
            }
            TOO_LARGE => (PackedValue::TooLarge, rest),
            _ => (PackedValue::Unknown, rest),
        };
        self.0 = rest;
        Some(value)
    }
}
