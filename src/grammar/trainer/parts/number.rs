//! Numbers as trainers print them: thousands commas, exponents, units glued after, quotes around.
//!
//! Refuses locales: `.` is always the point and `,` always groups thousands. Anything but a finite
//! number (`nan`, `inf`, `N/A`, `?`) is `None`, because it can be neither averaged nor compared.

use nom::character::complete::u64 as digits;
use nom::{IResult, Parser};

/// Longest number taken seriously; doubles print in less than half of it.
const MAX_NUMBER_BYTES: usize = 64;

/// A count in plain digits; more than a `u64` holds is an error, never a wrapped value.
pub(crate) fn parse_count(input: &[u8]) -> IResult<&[u8], u64> {
    digits.parse(input)
}

/// How many of the first bytes satisfy `keep`.
pub(crate) fn prefix_len(input: &[u8], keep: impl Fn(u8) -> bool) -> usize {
    input.iter().position(|&b| !keep(b)).unwrap_or(input.len())
}

/// How many of the last bytes satisfy `keep`.
pub(crate) fn suffix_len(input: &[u8], keep: impl Fn(u8) -> bool) -> usize {
    input
        .iter()
        .rev()
        .position(|&b| !keep(b))
        .unwrap_or(input.len())
}

/// The bytes of `input` that are after its leading blanks.
pub(crate) fn skip_blanks(input: &[u8]) -> &[u8] {
    &input[prefix_len(input, |b| b == b' ')..]
}

/// Length of the digits at the front, with commas only where they group thousands: the comma of
/// `seconds: 5.667, TFLOP` or of `lr: 1,2` belongs to the sentence.
fn grouped_digits_len(input: &[u8]) -> usize {
    let mut len = prefix_len(input, |b| b.is_ascii_digit());
    while let Some((b',', after)) = input[len..].split_first() {
        if len == 0 || prefix_len(after, |b| b.is_ascii_digit()) != 3 {
            break;
        }
        len += 4;
    }
    len
}

/// Length of the number at the front, 0 when there is none.
pub(crate) fn number_len(input: &[u8]) -> usize {
    let mut len = usize::from(matches!(input.first(), Some(b'+' | b'-')));
    let whole = grouped_digits_len(&input[len..]);
    len += whole;
    let mut part = 0;
    if input.get(len) == Some(&b'.') {
        part = prefix_len(&input[len + 1..], |b| b.is_ascii_digit());
        if whole + part > 0 {
            len += 1 + part;
        }
    }
    if whole + part == 0 {
        return 0;
    }
    // Only with digits after it is `E` an exponent: nanotron's `4.71E` is a suffix.
    if matches!(input.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(input.get(len + 1), Some(b'+' | b'-')));
        let power = prefix_len(&input[len + 1 + sign..], |b| b.is_ascii_digit());
        if power > 0 {
            len += 1 + sign + power;
        }
    }
    len
}

/// A decimal number; the value is `None` where none is printed or it is not finite.
pub(crate) fn parse_float(input: &[u8]) -> (&[u8], Option<f64>) {
    let (token, rest) = input.split_at(number_len(input));
    (rest, parse_scaled(token, 0))
}

/// A time printed in milliseconds, in seconds.
pub(crate) fn parse_millis(input: &[u8]) -> (&[u8], Option<f64>) {
    let (token, rest) = input.split_at(number_len(input));
    (rest, parse_scaled(token, -3))
}

/// The value of a number's bytes times a power of ten.
///
/// The power becomes the exponent before the one rounding there is, so that `561.94` milliseconds
/// are the double nearest to 0.56194 and print as that.
fn parse_scaled(token: &[u8], power: i32) -> Option<f64> {
    let mut plain = [0_u8; MAX_NUMBER_BYTES];
    let mut filled = 0;
    for &b in token.iter().filter(|&&b| b != b',') {
        *plain.get_mut(filled)? = b;
        filled += 1;
    }
    let text = std::str::from_utf8(&plain[..filled]).ok()?;
    let value = if power == 0 {
        text.parse::<f64>()
    } else if memchr::memchr2(b'e', b'E', token).is_some() {
        text.parse::<f64>().map(|value| value * 10_f64.powi(power))
    } else {
        format!("{text}e{power}").parse()
    };
    value.ok().filter(|v| v.is_finite())
}

/// Reads a number that Python may have wrapped: `'0.95'`, `"33700"`, `np.float64(0.31)`.
pub(crate) fn parse_wrapped_number(input: &[u8]) -> Option<f64> {
    let mut inner = input;
    for open in [
        &b"np.float64("[..],
        b"np.float32(",
        b"np.int64(",
        b"'",
        b"\"",
    ] {
        if let Some(after) = inner.strip_prefix(open) {
            inner = after;
        }
    }
    parse_float(inner).1
}

/// The power of ten one of the letters K M B G T P E Z represents.
fn power_of_suffix(suffix: u8) -> Option<i32> {
    Some(match suffix {
        b'K' => 3,
        b'M' => 6,
        b'B' | b'G' => 9,
        b'T' => 12,
        b'P' => 15,
        b'E' => 18,
        b'Z' => 21,
        _ => return None,
    })
}

/// nanotron's `human_format`, three digits and a suffix, times a power of ten: `4.71K` is 4710
/// (@2411b02).
pub(crate) fn parse_human_number(input: &[u8], by: i32) -> Option<f64> {
    let (token, rest) = input.split_at(number_len(input));
    let suffix = rest.first().and_then(|&b| power_of_suffix(b)).unwrap_or(0);
    parse_scaled(token, suffix + by)
}

/// Reads GPT-NeoX's `112.9TFLOPS` in TFLOP/s, with any unit glued after (@ea7aefd).
pub(crate) fn parse_tera_flops(input: &[u8]) -> Option<f64> {
    let (token, rest) = input.split_at(number_len(input));
    let (&letter, unit) = rest.split_first()?;
    let power = power_of_suffix(letter).filter(|_| unit.starts_with(b"FLOPS"))?;
    parse_scaled(token, power - 12)
}

/// The number printed right after the first `name` in a record.
pub(crate) fn number_after(record: &[u8], name: &[u8]) -> Option<f64> {
    parse_wrapped_number(bytes_after(record, name)?)
}

/// Returns the bytes after the first `name` in a record.
pub(crate) fn bytes_after<'a>(record: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    // Records are short: to prepare a search for each name would take longer than this.
    let mut starts = memchr::memchr_iter(*name.first()?, record);
    let at = starts.find(|&at| record[at..].starts_with(name))?;
    Some(&record[at + name.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_trainers_print_them() {
        for (text, value, left) in [
            ("6.08 |", 6.08, " |"),
            ("6", 6.0, ""),
            ("1e+03", 1000.0, ""),
            ("1.249e+03 |", 1249.0, " |"),
            ("9e+3,", 9000.0, ","),
            ("1.00E-05", 1e-5, ""),
            ("152,515  t", 152_515.0, "  t"),
            ("1,541,366 ", 1_541_366.0, " "),
            ("5.667, TF", 5.667, ", TF"),
            ("1,7", 1.0, ",7"),
            ("4.71K", 4.71, "K"),
            ("4.71E", 4.71, "E"),
            ("-0.5]", -0.5, "]"),
            ("9.09s", 9.09, "s"),
        ] {
            assert_eq!(
                parse_float(text.as_bytes()),
                (left.as_bytes(), Some(value)),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_a_finite_number_is_none() {
        for text in [
            "nan", "nan.0", "inf", "-inf", "N/A", "?", "", "-", ".", ",123", "e5", "1e999",
        ] {
            assert_eq!(parse_float(text.as_bytes()).1, None, "{text}");
        }
        assert_eq!(parse_float("9".repeat(65).as_bytes()).1, None);
    }

    #[test]
    fn quotes_and_numpy_scalars_are_unwrapped() {
        assert_eq!(parse_wrapped_number(b"'0.9549'"), Some(0.9549));
        assert_eq!(parse_wrapped_number(b"\"33700\""), Some(33700.0));
        assert_eq!(parse_wrapped_number(b"np.float64(0.31)"), Some(0.31));
        assert_eq!(parse_wrapped_number(b"np.float64(nan)"), None);
    }

    #[test]
    fn suffixes_and_units_scale() {
        assert_eq!(parse_human_number(b"4.71K |", 0), Some(4710.0));
        assert_eq!(parse_human_number(b"1.87e-05 |", 0), Some(1.87e-5));
        assert_eq!(parse_human_number(b"11.8 |", -3), Some(0.0118));
        assert_eq!(parse_human_number(b"4.71K |", -3), Some(4.71));
        assert_eq!(parse_millis(b"561.94ms"), (&b"ms"[..], Some(0.56194)));
        assert_eq!(parse_millis(b"5e3").1, Some(5.0));
        assert_eq!(parse_tera_flops(b"112.9TFLOPS |"), Some(112.9));
        assert_eq!(parse_tera_flops(b"1.5PFLOPS |"), Some(1500.0));
        assert_eq!(parse_tera_flops(b"9.8 |"), None);
    }

    #[test]
    fn a_count_beyond_64_bits_is_refused() {
        assert!(parse_count(b"18446744073709551616").is_err());
        assert_eq!(parse_count(b"18446744073709551615/").unwrap().1, u64::MAX);
    }
}
