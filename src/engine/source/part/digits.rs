//! Numbers at known places of a line, read and written eight digits at a time.

use super::limits::{EIGHT_DIGITS, EIGHT_HEX_DIGITS};
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
        self.read_number(line, EIGHT_DIGITS, decimal_value)
    }

    /// Reads the hexadecimal number there.
    #[inline]
    pub(super) fn read_hex(self, line: &[u8]) -> u64 {
        self.read_number(line, EIGHT_HEX_DIGITS, hex_value)
    }

    #[inline]
    fn read_number(self, line: &[u8], eight: u64, value: impl Fn(u64, usize) -> u64) -> u64 {
        let mut read = (self.digits - 1) % 8 + 1;
        let mut number = value(load_word(line, self.at), read);
        while read < self.digits {
            number = number * eight + value(load_word(line, self.at + read), 8);
            read += 8;
        }
        number
    }

    /// Writes the last digits of a decimal number there.
    #[inline]
    pub(super) fn write_decimal(self, value: u64, line: &mut [u8]) {
        self.write_number(value, line, EIGHT_DIGITS, decimal_text);
    }

    /// Writes the last digits of a hexadecimal number there.
    #[inline]
    pub(super) fn write_hex(self, value: u64, line: &mut [u8]) {
        self.write_number(value, line, EIGHT_HEX_DIGITS, hex_text);
    }

    #[inline]
    fn write_number(mut self, mut value: u64, line: &mut [u8], eight: u64, text: fn(u64) -> u64) {
        while self.digits > 8 {
            self.digits -= 8;
            let at = self.at + self.digits;
            DigitPlace { at, digits: 8 }.write_word_end(text(value % eight), line);
            value /= eight;
        }
        self.write_word_end(text(value % eight), line);
    }

    /// Writes the last bytes of `word` there, at most eight.
    #[inline]
    fn write_word_end(self, word: u64, line: &mut [u8]) {
        let end = self.at + self.digits;
        match end
            .checked_sub(8)
            .map(|from| line[from..].first_chunk_mut())
        {
            // A copy of a length that is not known beforehand would be a call.
            Some(Some(bytes)) => {
                let kept = u64::MAX.checked_shr(8 * self.digits as u32).unwrap_or(0);
                *bytes = (u64::from_le_bytes(*bytes) & kept | word & !kept).to_le_bytes();
            }
            _ => line[self.at..end].copy_from_slice(&word.to_le_bytes()[8 - self.digits..]),
        }
    }

    /// True if there are hexadecimal digits in lower case, at most 16.
    #[inline]
    pub(super) fn is_hex(self, line: &[u8]) -> bool {
        let is_word = |at| count_hex_digits(load_word(line, at)) == 8;
        match self.digits.checked_sub(8) {
            None => count_hex_digits(load_word(line, self.at)) >= self.digits,
            Some(others) => is_word(self.at) && is_word(self.at + others),
        }
    }
}

/// How many hexadecimal digits begin at `at`; more than 16 are counted as 17.
#[inline]
pub(super) fn count_hex_at(line: &[u8], at: usize) -> usize {
    let mut digits = 0;
    loop {
        match count_hex_digits(load_word(line, at + digits)) {
            8 if digits < 16 => digits += 8,
            last => return (digits + last).min(17),
        }
    }
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

/// The text of a number of eight hexadecimal digits, with zeros in front.
#[inline]
fn hex_text(value: u64) -> u64 {
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
        }
    }
}
