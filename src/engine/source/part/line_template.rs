//! A template as lines are held against it and joined from it: the text that they share, and where numbers
//! stand in it.

use super::digits::DigitPlace;
use super::limits::{
    ADDRESS_HOLE, DIGITS_HOLE, FRAME_TEXT_BYTES, HOLE_MARK, MAX_DIGITS, MAX_HEX_DIGITS,
    OP_COUNT_HOLE,
};

/// The lines of one template. All have the same length but for the digits of `opCount`.
#[derive(Debug, Default)]
pub(super) struct CallLineTemplate {
    /// The line without `opCount`, and with zeros for the other numbers.
    pub(super) text: Vec<u8>,
    /// Where `opCount` is left out.
    pub(super) op_count: Option<usize>,
    /// The runs of digits, in front of `opCount`.
    pub(super) digits: Vec<DigitPlace>,
    /// The addresses, after it.
    pub(super) addresses: Vec<DigitPlace>,
}

impl CallLineTemplate {
    /// Reads a template as [`SplitLine`](super::line_split::SplitLine) writes it; `None` if that would not
    /// write it: it has a hole of an unknown kind, or two of `opCount`, or is longer than a frame.
    pub(super) fn parse_template(template: &[u8]) -> Option<CallLineTemplate> {
        let mut parsed = CallLineTemplate::default();
        let mut bytes = template;
        while let Some(hole) = memchr::memchr(HOLE_MARK, bytes) {
            parsed.text.extend_from_slice(&bytes[..hole]);
            let (&kind, rest) = bytes[hole + 1..].split_first()?;
            parsed.add_hole(kind)?;
            bytes = rest;
        }
        parsed.text.extend_from_slice(bytes);
        (parsed.text.len() <= FRAME_TEXT_BYTES).then_some(parsed)
    }

    fn add_hole(&mut self, kind: u8) -> Option<()> {
        let at = self.text.len();
        if kind == OP_COUNT_HOLE {
            return self.op_count.replace(at).is_none().then_some(());
        }
        let (base, most, places) = match kind > ADDRESS_HOLE {
            true => (ADDRESS_HOLE, MAX_HEX_DIGITS, &mut self.addresses),
            false => (DIGITS_HOLE, MAX_DIGITS, &mut self.digits),
        };
        let digits = usize::from(kind.checked_sub(base)?);
        if at > FRAME_TEXT_BYTES || !(1..=most).contains(&digits) {
            return None;
        }
        places.push(DigitPlace { at, digits });
        self.text.resize(at + digits, b'0');
        Some(())
    }

    /// Returns the places of the addresses in a line in which `opCount` has `op_digits` digits.
    #[inline]
    pub(super) fn addresses_after(&self, op_digits: usize) -> impl Iterator<Item = DigitPlace> {
        let moved = move |&DigitPlace { at, digits }| DigitPlace {
            at: at + op_digits,
            digits,
        };
        self.addresses.iter().map(moved)
    }

    /// Adds a line, without its end, to `out`, with zeros for all numbers but `opCount`. Returns the line with
    /// the length of that.
    #[inline]
    pub(super) fn write_line<'o>(
        &self,
        op_count: u64,
        out: &'o mut Vec<u8>,
    ) -> (&'o mut [u8], usize) {
        let start = out.len();
        let Some(at) = self.op_count else {
            out.extend_from_slice(&self.text);
            return (&mut out[start..], 0);
        };
        let digits = hex_digits(op_count);
        out.extend_from_slice(&self.text[..at]);
        out.extend_from_slice(&[b'0'; MAX_HEX_DIGITS][..digits]);
        out.extend_from_slice(&self.text[at..]);
        let line = &mut out[start..];
        DigitPlace { at, digits }.write_hex(op_count, line);
        (line, digits)
    }
}

/// How many digits a hexadecimal number has.
fn hex_digits(value: u64) -> usize {
    (67 - (value | 1).leading_zeros() as usize) / 4
}
