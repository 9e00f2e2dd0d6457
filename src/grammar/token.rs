//! The small shared parsers: numbers, pointers, names, and the error they all return.

use nom::bytes::complete::{tag, take_while, take_while1};
use nom::error::{ErrorKind, ParseError};
use nom::{IResult, Parser};

/// What a parser expected and how many bytes were left where it gave up. Never the input
/// itself: over a mapped file that would be gigabytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseFailure {
    /// What should have stood there, as a noun.
    pub what: &'static str,
    /// Bytes left at that place.
    pub left: usize,
}

impl ParseError<&[u8]> for ParseFailure {
    fn from_error_kind(input: &[u8], _: ErrorKind) -> Self {
        ParseFailure {
            what: "",
            left: input.len(),
        }
    }
    fn append(_: &[u8], _: ErrorKind, other: Self) -> Self {
        other
    }
}

/// The result of every parser of the grammar.
pub type PResult<'a, T> = IResult<&'a [u8], T, ParseFailure>;

/// The failure of a parser that expected `what` at the start of `input`.
pub(crate) fn fail<'a, T>(input: &[u8], what: &'static str) -> PResult<'a, T> {
    Err(nom::Err::Error(ParseFailure {
        what,
        left: input.len(),
    }))
}

/// The fixed bytes `word`; `what` names them in the error.
pub fn word<'a>(
    word: &'static str,
    what: &'static str,
) -> impl FnMut(&'a [u8]) -> PResult<'a, &'a [u8]> {
    move |input: &'a [u8]| match tag::<_, _, ParseFailure>(word).parse(input) {
        Ok(ok) => Ok(ok),
        Err(_) => fail(input, what),
    }
}

/// A decimal number; more than 2^64-1 is an error, never wrapped.
pub fn dec_u64(input: &[u8]) -> PResult<'_, u64> {
    let mut value: u64 = 0;
    let mut n = 0;
    for &b in input {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        // 19 digits always fit; only longer numbers pay for the check.
        value = if n < 19 {
            value * 10 + u64::from(digit)
        } else {
            match value
                .checked_mul(10)
                .and_then(|v| v.checked_add(u64::from(digit)))
            {
                Some(v) => v,
                None => return fail(input, "a number below 2^64"),
            }
        };
        n += 1;
    }
    if n == 0 {
        return fail(input, "a decimal number");
    }
    Ok((&input[n..], value))
}

/// A decimal number that fits 32 bits.
pub fn dec_u32(input: &[u8]) -> PResult<'_, u32> {
    let (rest, value) = dec_u64(input)?;
    match u32::try_from(value) {
        Ok(v) => Ok((rest, v)),
        Err(_) => fail(input, "a number below 2^32"),
    }
}

/// A decimal number that may be negative, as C's `%d` prints it.
pub fn dec_i64(input: &[u8]) -> PResult<'_, i64> {
    let (digits, negative) = match input.first() {
        Some(b'-') => (&input[1..], true),
        _ => (input, false),
    };
    let (rest, value) = dec_u64(digits)?;
    match i64::try_from(value) {
        Ok(v) => Ok((rest, if negative { -v } else { v })),
        Err(_) => fail(input, "a number below 2^63"),
    }
}

/// A decimal number that may be negative and must fit 32 bits.
pub(crate) fn dec_i32(input: &[u8]) -> PResult<'_, i32> {
    let (rest, value) = dec_i64(input)?;
    match i32::try_from(value) {
        Ok(v) => Ok((rest, v)),
        Err(_) => fail(input, "a number of 32 bits"),
    }
}

/// The longest text taken for a decimal fraction.
const MAX_FRACTION_BYTES: usize = 40;

/// A decimal number with or without a fraction, as C's `%f` prints it.
pub(crate) fn fraction(input: &[u8]) -> PResult<'_, f64> {
    let sign = usize::from(input.first() == Some(&b'-'));
    let digits = |from: usize| {
        let rest = input.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let mut end = digits(sign);
    if end > sign && input.get(end) == Some(&b'.') && digits(end + 1) > end + 1 {
        end = digits(end + 1);
    }
    let text = std::str::from_utf8(&input[..end]).unwrap_or_default();
    match text.parse() {
        Ok(value) if end > sign && end <= MAX_FRACTION_BYTES => Ok((&input[end..], value)),
        _ => fail(input, "a number"),
    }
}

const HEX_DIGIT_VALUES: [u8; 256] = {
    let mut table = [0xff_u8; 256];
    let mut b = 0;
    while b < 256 {
        let c = b as u8;
        table[b] = match c {
            b'0'..=b'9' => c - b'0',
            b'a'..=b'f' => c - b'a' + 10,
            _ => 0xff,
        };
        b += 1;
    }
    table
};

/// A hexadecimal number without `0x`, in lower case as `%lx` prints it.
pub fn hex_u64(input: &[u8]) -> PResult<'_, u64> {
    let mut value: u64 = 0;
    let mut n = 0;
    for &b in input {
        let digit = HEX_DIGIT_VALUES[b as usize];
        if digit == 0xff {
            break;
        }
        if n >= 16 && value >> 60 != 0 {
            return fail(input, "a hexadecimal number below 2^64");
        }
        value = value << 4 | u64::from(digit);
        n += 1;
    }
    if n == 0 {
        return fail(input, "a hexadecimal number");
    }
    Ok((&input[n..], value))
}

/// A pointer as `%p` prints it: `0x7f...`, or `(nil)` which is 0.
pub(crate) fn pointer(input: &[u8]) -> PResult<'_, u64> {
    if let Some(digits) = input.strip_prefix(b"0x") {
        return match hex_u64(digits) {
            Ok(ok) => Ok(ok),
            Err(_) => fail(input, "a pointer"),
        };
    }
    match input.strip_prefix(b"(nil)") {
        Some(rest) => Ok((rest, 0)),
        None => fail(input, "a pointer"),
    }
}

/// Skips a pointer without computing its value.
pub(crate) fn skip_pointer(input: &[u8]) -> PResult<'_, ()> {
    if let Some(digits) = input.strip_prefix(b"0x") {
        let (rest, hex) = hex_digits(digits);
        if hex == 0 {
            return fail(input, "a pointer");
        }
        return Ok((rest, ()));
    }
    match input.strip_prefix(b"(nil)") {
        Some(rest) => Ok((rest, ())),
        None => fail(input, "a pointer"),
    }
}

fn hex_digits(input: &[u8]) -> (&[u8], usize) {
    let n = input
        .iter()
        .position(|&b| HEX_DIGIT_VALUES[b as usize] == 0xff)
        .unwrap_or(input.len());
    (&input[n..], n)
}

/// True for the bytes of an operation's name.
pub fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// True for the bytes of a host name. NCCL cuts at the first dot, but a host may be printed
/// whole by forks and wrappers.
pub(crate) fn is_host_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

/// One or more bytes up to the next blank or the end.
pub(crate) fn blank_free(input: &[u8]) -> PResult<'_, &[u8]> {
    match take_while1::<_, _, ParseFailure>(|b: u8| b != b' ' && b != b'\t').parse(input) {
        Ok(ok) => Ok(ok),
        Err(_) => fail(input, "a word"),
    }
}

/// `text` in front of the next `end`, and what follows that; never empty.
pub(crate) fn until<'a>(
    end: &'static str,
    what: &'static str,
) -> impl FnMut(&'a [u8]) -> PResult<'a, &'a [u8]> {
    move |input: &'a [u8]| match memchr::memmem::find(input, end.as_bytes()) {
        Some(at) if at > 0 => Ok((&input[at + end.len()..], &input[..at])),
        _ => fail(input, what),
    }
}

/// The value of a parser that took its whole input.
pub(crate) fn whole<T>(result: PResult<'_, T>) -> Option<T> {
    match result {
        Ok(([], value)) => Some(value),
        _ => None,
    }
}

/// Any number of blanks.
pub(crate) fn blanks(input: &[u8]) -> PResult<'_, &[u8]> {
    take_while(|b| b == b' ' || b == b'\t').parse(input)
}

/// The high bit of each byte of a word that is 0.
#[inline(always)]
pub fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // No carry goes from one byte to the next.
    !(((word & LOW) + LOW) | word | LOW)
}

/// The high bit of each byte of a word that is `byte`.
#[inline(always)]
pub fn bytes_equal_to(byte: u8, word: u64) -> u64 {
    zero_bytes(word ^ u64::from_le_bytes([byte; 8]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_up_to_two_to_the_64_are_exact_and_beyond_is_an_error() {
        assert_eq!(
            dec_u64(b"18446744073709551615 d"),
            Ok((&b" d"[..], u64::MAX))
        );
        assert!(dec_u64(b"18446744073709551616").is_err());
        assert!(dec_u64(b"99999999999999999999999").is_err());
        assert_eq!(dec_u64(b"00000000000000000000000012"), Ok((&b""[..], 12)));
        assert!(dec_u64(b"x").is_err());
        assert_eq!(hex_u64(b"ffffffffffffffff "), Ok((&b" "[..], u64::MAX)));
        assert!(hex_u64(b"10000000000000000").is_err());
        assert_eq!(dec_i64(b"-1 "), Ok((&b" "[..], -1)));
    }

    #[test]
    fn a_fraction_is_read_as_printed_and_half_of_one_to_its_last_digit() {
        assert_eq!(fraction(b"3.45 ("), Ok((&b" ("[..], 3.45)));
        assert_eq!(fraction(b"-1.5"), Ok((&b""[..], -1.5)));
        assert_eq!(fraction(b"12."), Ok((&b"."[..], 12.0)));
        for none in [&b""[..], b"-", b".5", b"nan", b"inf", &[b'9'; 50]] {
            assert!(fraction(none).is_err(), "{}", String::from_utf8_lossy(none));
        }
        assert!(dec_i32(b"2147483648").is_err());
    }

    #[test]
    fn a_pointer_is_hex_with_0x_or_nil() {
        assert_eq!(pointer(b"0x7f00 r"), Ok((&b" r"[..], 0x7f00)));
        assert_eq!(pointer(b"(nil) r"), Ok((&b" r"[..], 0)));
        assert!(pointer(b"0x").is_err());
        assert!(pointer(b"(ni").is_err());
        assert!(skip_pointer(b"0x r").is_err());
        assert_eq!(skip_pointer(b"0xdeadbeef r"), Ok((&b" r"[..], ())));
    }
}
