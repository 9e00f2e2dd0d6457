//! Numbers at known places of a line, read and written eight digits at a time.

use super::limits::EIGHT_DIGITS;
use crate::grammar::fast_coll::{count_hex_digits, decimal_value, hex_value, load_word};

/// Where a number with a fixed number of digits begins in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DigitPlace {
    pub(super) at: usize,
    /// At least 1.
    pub(super) digits: usize,
}

impl DigitPlace {
    /// Reads the decimal number there.
    #[inline]
    pub(super) fn read_decimal(self, line: &[u8]) -> u64 {
        match self.split_eight() {
            None => decimal_value(load_word(line, self.at), self.digits),
            Some((first, last)) => first.read_long_decimal(line, last),
        }
    }

    /// Reads the decimal number of the digits there, and of eight more at `last`.
    #[cold]
    fn read_long_decimal(self, line: &[u8], last: usize) -> u64 {
        self.read_decimal(line) * EIGHT_DIGITS + decimal_value(load_word(line, last), 8)
    }

    /// Reads the hexadecimal number there, of at most 16 digits.
    #[inline]
    pub(super) fn read_hex(self, line: &[u8]) -> u64 {
        match self.split_eight() {
            None => hex_value(load_word(line, self.at), self.digits),
            Some((first, last)) => {
                let last = hex_value(load_word(line, last), 8);
                hex_value(load_word(line, first.at), first.digits) << 32 | last
            }
        }
    }

    /// Divides more than eight digits: the place of the first ones, and where the last eight begin.
    #[inline]
    fn split_eight(self) -> Option<(DigitPlace, usize)> {
        let digits = self.digits.checked_sub(8).filter(|&digits| digits > 0)?;
        Some((DigitPlace { digits, ..self }, self.at + digits))
    }

    /// True if there are hexadecimal digits in lower case, at most 16.
    #[inline]
    pub(super) fn is_hex(self, line: &[u8]) -> bool {
        let first = count_hex_digits(load_word(line, self.at));
        match self.digits.checked_sub(8) {
            None => first >= self.digits,
            Some(others) => first == 8 && count_hex_digits(load_word(line, self.at + others)) == 8,
        }
    }

    /// Writes zeros there.
    #[inline]
    pub(super) fn write_zeros(self, line: &mut [u8]) {
        let digits = &mut line[self.at..self.at + self.digits];
        // Two times eight bytes: a length that is not known beforehand would be a call.
        if let Some(first) = digits.first_chunk_mut() {
            *first = [b'0'; 8];
        }
        match digits.last_chunk_mut() {
            Some(last) if self.digits <= 16 => *last = [b'0'; 8],
            _ => digits.fill(b'0'),
        }
    }

    /// Writes the last digits of a decimal number there.
    #[inline]
    pub(super) fn write_decimal(self, mut value: u64, line: &mut [u8]) {
        let (mut end, mut digits) = (self.at + self.digits, self.digits);
        while digits > 8 {
            write_word_end(line, end, 8, decimal_text(value % EIGHT_DIGITS));
            value /= EIGHT_DIGITS;
            (end, digits) = (end - 8, digits - 8);
        }
        write_word_end(line, end, digits, decimal_text(value % EIGHT_DIGITS));
    }

    /// Writes the last digits of a hexadecimal number there.
    #[inline]
    pub(super) fn write_hex(self, mut value: u64, line: &mut [u8]) {
        let (mut end, mut digits) = (self.at + self.digits, self.digits);
        while digits > 8 {
            write_word_end(line, end, 8, hex_text(value));
            value >>= 32;
            (end, digits) = (end - 8, digits - 8);
        }
        write_word_end(line, end, digits, hex_text(value));
    }
}

/// How many hexadecimal digits begin at `at`; more than 16 are counted as 17.
#[inline]
pub(super) fn count_hex_at(line: &[u8], at: usize) -> usize {
    match count_hex_digits(load_word(line, at)) {
        8 => count_more_hex(line, at + 8),
        digits => digits,
    }
}

#[cold]
fn count_more_hex(line: &[u8], at: usize) -> usize {
    match count_hex_digits(load_word(line, at)) {
        8 => 16 + count_hex_digits(load_word(line, at + 8)).min(1),
        digits => 8 + digits,
    }
}

/// Writes the last `digits` bytes of `word`, so that they end at `end`.
#[inline]
fn write_word_end(line: &mut [u8], end: usize, digits: usize, word: u64) {
    let Some(bytes) = end
        .checked_sub(8)
        .and_then(|from| line.get_mut(from..)?.first_chunk_mut::<8>())
    else {
        let from = end - digits;
        line[from..end].copy_from_slice(&word.to_le_bytes()[8 - digits..]);
        return;
    };
    let kept = match digits {
        8 => 0,
        _ => u64::MAX >> (8 * digits),
    };
    *bytes = ((u64::from_le_bytes(*bytes) & kept) | (word & !kept)).to_le_bytes();
}

/// The text of a number below 100,000,000, with zeros in front.
#[inline]
fn decimal_text(value: u64) -> u64 {
    // Each step divides the parts of the word by a power of ten, by a multiplication that is exact for them.
    let fours = (value / 10_000) | ((value % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    (tens | ((pairs - 10 * tens) << 8)) | 0x3030_3030_3030_3030
}

/// The text of the last eight hexadecimal digits of a number.
#[inline]
fn hex_text(value: u64) -> u64 {
    let value = value & 0xffff_ffff;
    let fours = (value | value << 16) & 0x0000_ffff_0000_ffff;
    let pairs = (fours | fours << 8) & 0x00ff_00ff_00ff_00ff;
    let nibbles = ((pairs | pairs << 4) & 0x0f0f_0f0f_0f0f_0f0f).swap_bytes();
    let letters = (nibbles + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    nibbles + 0x3030_3030_3030_3030 + letters * 0x27
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_written_and_read_as_the_standard_library_does(
            value in any::<u64>(),
            shift in 0..64,
            digits in 1usize..=18,
            at in 0usize..12,
            after in 0usize..12,
        ) {
            let value = value >> shift;
            let place = DigitPlace { at, digits };
            let around = |text: String| {
                format!("{}{}{}", "x".repeat(at), &text[text.len() - digits..], "y".repeat(after))
            };
            let mut line = around("-".repeat(digits)).into_bytes();
            place.write_decimal(value, &mut line);
            prop_assert_eq!(std::str::from_utf8(&line), Ok(&around(format!("{value:020}"))[..]));
            prop_assert_eq!(place.read_decimal(&line), value % 10u64.pow(digits as u32));
            let digits = digits.min(16);
            let place = DigitPlace { at, digits };
            let around = |text: String| {
                format!("{}{}{}", "x".repeat(at), &text[text.len() - digits..], "y".repeat(after))
            };
            let mut line = around("-".repeat(digits)).into_bytes();
            prop_assert!(!place.is_hex(&line));
            place.write_hex(value, &mut line);
            prop_assert_eq!(std::str::from_utf8(&line), Ok(&around(format!("{value:020x}"))[..]));
            prop_assert_eq!(place.read_hex(&line), value & (u64::MAX >> (64 - 4 * digits)));
            prop_assert!(place.is_hex(&line));
            prop_assert_eq!(count_hex_at(&line, at), digits);
            place.write_zeros(&mut line);
            prop_assert_eq!(std::str::from_utf8(&line), Ok(&around(format!("{:020}", 0))[..]));
        }
    }
}
