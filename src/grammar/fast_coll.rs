//! The COLL line as it nearly always looks, read eight bytes at a time.
//!
//! Everything here returns `None` for any other text; [`super::coll`] and
//! [`super::header`], the grammar proper, then read the line. Where this module gives an answer it
//! is theirs: a property test holds the two against each other on any bytes.

use super::coll::{Coll, skip_rccl_tail};

/// Eight bytes at `at`, with zeros after the end of the input.
#[inline(always)]
pub fn load_word(input: &[u8], at: usize) -> u64 {
    match input.get(at..at + 8) {
        Some(bytes) => u64::from_le_bytes(bytes.try_into().unwrap_or([0; 8])),
        None => load_last_word(input, at),
    }
}

#[cold]
fn load_last_word(input: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(input.get(at..).unwrap_or_default()) {
        *to = *from;
    }
    u64::from_le_bytes(bytes)
}

const LOW_BIT_OF_BYTES: u64 = 0x0101_0101_0101_0101;
const HIGH_BIT_OF_BYTES: u64 = 0x8080_8080_8080_8080;

/// How many of the eight bytes, from the first, are lower-case hexadecimal digits.
#[inline(always)]
pub fn count_hex_digits(word: u64) -> usize {
    // Bytes from 0x80 up would carry into their neighbours: they are masked and tested separately.
    let low = word & !HIGH_BIT_OF_BYTES;
    let digit = low ^ (LOW_BIT_OF_BYTES * 0x30);
    let is_digit = !(digit + LOW_BIT_OF_BYTES * 0x76);
    let letter = low ^ (LOW_BIT_OF_BYTES * 0x60);
    let is_letter = !(letter + LOW_BIT_OF_BYTES * 0x79) & (letter + LOW_BIT_OF_BYTES * 0x7f);
    let is_hex = (is_digit | is_letter) & HIGH_BIT_OF_BYTES & !word;
    ((is_hex ^ HIGH_BIT_OF_BYTES).trailing_zeros() / 8) as usize
}

/// The value of `n` (up to 8) hexadecimal digits at the start of a word.
#[inline(always)]
pub fn hex_value(word: u64, n: usize) -> u64 {
    if n == 0 {
        return 0;
    }
    // Digits to the top, so that the missing ones are leading zeros.
    let word = word << (64 - 8 * n);
    pack_nibbles((word & (LOW_BIT_OF_BYTES * 0x0f)) + 9 * ((word >> 6) & LOW_BIT_OF_BYTES))
}

/// How many digits the pointers of a 47-bit address space have. Where a field has its usual
/// length, the next one's place is known before this one is read: the processor goes ahead.
const USUAL_POINTER_DIGITS: usize = 12;

/// The values of eight hexadecimal digits, a nibble in each byte; `None` if one is not a digit.
#[inline(always)]
fn nibbles(word: u64) -> Option<u64> {
    // Digits have bit 6 clear and 0x30 to take off, letters have it set and 0x57. A byte that is no
    // digit leaves a high nibble (a borrow reaches only bytes after one that has), or a value
    // of the wrong half.
    let letters = (word >> 6) & LOW_BIT_OF_BYTES;
    let values = word
        .wrapping_sub(LOW_BIT_OF_BYTES * 0x30)
        .wrapping_sub(letters * 0x27);
    let from_ten = (values.wrapping_add(LOW_BIT_OF_BYTES * 6) >> 4) & LOW_BIT_OF_BYTES;
    let wrong = (values & (LOW_BIT_OF_BYTES * 0xf0)) | (from_ten ^ letters);
    (wrong == 0).then_some(values)
}

/// Joins the nibbles in the bytes of a word into a number; the first is in the lowest byte.
#[inline(always)]
fn pack_nibbles(nibbles: u64) -> u64 {
    let pairs = (nibbles << 4 | nibbles >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs << 8 | pairs >> 16) & 0x0000_ffff_0000_ffff;
    (fours << 16 | fours >> 32) & 0xffff_ffff
}

/// The nibbles of the usual pointer at `at`: of its first eight digits and of its last eight,
/// if the byte after them ends a pointer.
#[inline(always)]
fn load_usual_pointer(input: &[u8], at: usize) -> Option<(u64, u64)> {
    let text: &[u8; 13] = input.get(at..)?.first_chunk()?;
    if !matches!(text[12], b' ' | b'\n') {
        return None;
    }
    Some((nibbles(load_word(text, 0))?, nibbles(load_word(text, 4))?))
}

/// A number of up to 16 hexadecimal digits at `at`: its value and its end.
#[inline(always)]
fn parse_hex(input: &[u8], at: usize) -> Option<(u64, usize)> {
    if let Some((first, last)) = load_usual_pointer(input, at) {
        return Some((
            pack_nibbles(first) >> 16 << 32 | pack_nibbles(last),
            at + USUAL_POINTER_DIGITS,
        ));
    }
    let first = load_word(input, at);
    let n = count_hex_digits(first);
    if n < 8 {
        return (n > 0).then(|| (hex_value(first, n), at + n));
    }
    let second = load_word(input, at + 8);
    let m = count_hex_digits(second);
    if m == 8 && input.get(at + 16).is_some_and(u8::is_ascii_hexdigit) {
        return None;
    }
    let high = hex_value(first, 8);
    Some((high << (4 * m) | hex_value(second, m), at + 8 + m))
}

/// As [`digits`], of a number that mostly has fewer than eight.
#[inline(always)]
fn parse_short_hex(input: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = load_word(input, at);
    match count_hex_digits(first) {
        0 => None,
        n @ 1..8 => Some((hex_value(first, n), at + n)),
        _ => parse_hex(input, at),
    }
}

/// The end of a pointer at `at`, its value unread.
#[inline(always)]
fn skip_hex(input: &[u8], at: usize) -> Option<usize> {
    if input.get(at..at + 2)? == b"0x" {
        if load_usual_pointer(input, at + 2).is_some() {
            return Some(at + 2 + USUAL_POINTER_DIGITS);
        }
        let n = count_hex_digits(load_word(input, at + 2));
        if n < 8 {
            return (n > 0).then_some(at + 2 + n);
        }
        let m = count_hex_digits(load_word(input, at + 10));
        return (m < 8).then_some(at + 10 + m);
    }
    (input.get(at..at + 5)? == b"(nil)").then_some(at + 5)
}

/// How many of the eight bytes, from the first, are decimal digits.
#[inline(always)]
fn count_decimal_digits(word: u64) -> usize {
    // Bytes from 0x80 up would carry into their neighbours: they are masked and tested separately.
    let low = (word & !HIGH_BIT_OF_BYTES) ^ (LOW_BIT_OF_BYTES * 0x30);
    let is_other = ((low + LOW_BIT_OF_BYTES * 0x76) | word) & HIGH_BIT_OF_BYTES;
    (is_other.trailing_zeros() / 8) as usize
}

/// The value of `n` (1 to 8) decimal digits at the start of a word.
#[inline(always)]
pub fn decimal_value(word: u64, n: usize) -> u64 {
    // Digits to the top, so that the missing ones are leading zeros.
    let digits = (word & (LOW_BIT_OF_BYTES * 0x0f)) << (64 - 8 * n);
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours * 10_000 + (fours >> 32)) & 0xffff_ffff
}

/// A decimal number of up to 15 digits at `at`. Without a branch for each digit: how many there are
/// changes from call to call.
#[inline(always)]
fn parse_decimal(input: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = load_word(input, at);
    let n = count_decimal_digits(first);
    if n < 8 {
        return (n > 0).then(|| (decimal_value(first, n), at + n));
    }
    parse_long_decimal(input, at)
}

/// The same of one with eight digits or more.
#[inline(never)]
fn parse_long_decimal(input: &[u8], at: usize) -> Option<(u64, usize)> {
    const TENS: [u64; 8] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
    let (first, last) = (load_word(input, at), load_word(input, at + 8));
    let n = count_decimal_digits(last);
    let low = if n > 0 { decimal_value(last, n) } else { 0 };
    let value = decimal_value(first, 8) * TENS.get(n)? + low;
    Some((value, at + 8 + n))
}

/// A decimal number at `at` that mostly has one digit.
#[inline(always)]
fn parse_short_decimal(input: &[u8], at: usize) -> Option<(u64, usize)> {
    match input.get(at..at + 2)? {
        &[digit @ b'0'..=b'9', next] if !next.is_ascii_digit() => {
            Some((u64::from(digit - b'0'), at + 1))
        }
        _ => parse_decimal(input, at),
    }
}

/// Whether two texts of one length are equal, without a call.
#[inline(always)]
pub fn equal_bytes(a: &[u8], b: &[u8]) -> bool {
    let n = a.len();
    if n != b.len() {
        return false;
    }
    if n < 8 {
        return a == b;
    }
    if n < 16 {
        return load_word(a, 0) == load_word(b, 0) && load_word(a, n - 8) == load_word(b, n - 8);
    }
    let (blocks, others) = (a.as_chunks::<16>().0, b.as_chunks::<16>().0);
    let mut at = 0;
    // An iterator over both would be a call where it is not inlined.
    while at < blocks.len() {
        if others.get(at) != Some(&blocks[at]) {
            return false;
        }
        at += 1;
    }
    a.last_chunk::<16>() == b.last_chunk::<16>()
}

/// Whether two texts are equal but for the values of digits.
#[inline]
pub fn equal_but_digits(a: &[u8], b: &[u8]) -> bool {
    // No way out before the end: so several bytes are compared at once.
    let same =
        |same, (a, b): (&u8, &u8)| same & (a == b || a.is_ascii_digit() & b.is_ascii_digit());
    a.len() == b.len() && a.iter().zip(b).fold(true, same)
}

/// The end of the fixed `text` at `at`.
#[inline(always)]
fn match_fixed<const N: usize>(input: &[u8], at: usize, text: &[u8; N]) -> Option<usize> {
    (input.get(at..at + N)? == text).then_some(at + N)
}

/// The operation at the start of `input` with the anchor after it: its name's length. Only the
/// common ones; the grammar reads the others.
#[inline(always)]
pub fn common_op_len(input: &[u8]) -> Option<usize> {
    // Of fixed lengths, so that each is a comparison of a few words.
    macro_rules! one_of {
        ($($name:literal),*) => {{
            $(if match_fixed(input, 0, $name).is_some() {
                return Some($name.len() - super::coll::COLL_ANCHOR.len());
            })*
        }};
    }
    match input.first()? {
        b'A' => one_of!(
            b"AllReduce: opCount ",
            b"AllGather: opCount ",
            b"AlltoAll: opCount "
        ),
        b'R' => one_of!(
            b"ReduceScatter: opCount ",
            b"Recv: opCount ",
            b"Reduce: opCount "
        ),
        b'S' => one_of!(b"Send: opCount "),
        b'B' => one_of!(b"Broadcast: opCount "),
        _ => {}
    }
    None
}

/// The values of a body in front of its communicator.
#[derive(Debug, Clone, Copy)]
pub struct CollHead {
    op_count: u64,
    count: u64,
    datatype: u32,
    redop: u64,
    root: i64,
}

/// The values of a body from its communicator on: the same on many lines.
#[derive(Debug, Clone, Copy, Default)]
pub struct CollTail {
    comm: u64,
    nranks: u32,
    stream: u64,
}

impl CollHead {
    /// The call of `op` with its other half.
    #[inline(always)]
    pub fn join_tail<'a>(self, op: &'a [u8], back: CollTail) -> Coll<'a> {
        Coll {
            op,
            op_count: self.op_count,
            count: self.count,
            datatype: self.datatype,
            redop: self.redop,
            root: self.root,
            comm: back.comm,
            nranks: Some(back.nranks),
            stream: back.stream,
        }
    }
}

/// Reads the body after the anchor, which begins `input`, up to its communicator: its values and
/// its end.
#[inline(always)]
pub fn parse_coll_head(input: &[u8]) -> Option<(CollHead, usize)> {
    let (op_count, i) = parse_short_hex(input, 0)?;
    let i = match skip_usual_buffers(input, i) {
        Some(end) => end,
        None => skip_buffers(input, i)?,
    };
    let (count, i) = parse_decimal(input, i)?;
    let ((datatype, redop, root), i) = match parse_usual_codes(input, i) {
        Some(usual) => usual,
        None => parse_codes(input, i)?,
    };
    let front = CollHead {
        op_count,
        count,
        datatype,
        redop,
        root,
    };
    Some((front, i))
}

/// Returns the end of the two or three buffers between the opCount and the count.
fn skip_buffers(input: &[u8], i: usize) -> Option<usize> {
    let i = match_fixed(input, i, b" sendbuff ")?;
    let i = skip_hex(input, i)?;
    let i = match_fixed(input, i, b" recvbuff ")?;
    let i = skip_hex(input, i)?;
    let i = match match_fixed(input, i, b" acc ") {
        Some(acc) => skip_hex(input, acc)?,
        None => i,
    };
    match_fixed(input, i, b" count ")
}

/// The same of two usual pointers: all of it has its place.
#[inline(always)]
fn skip_usual_buffers(input: &[u8], at: usize) -> Option<usize> {
    let text: &[u8; 55] = input.get(at..)?.first_chunk()?;
    // The last four digits of both are looked at together.
    let last = load_word(text, 16) >> 32 | load_word(text, 44) << 32;
    let is_digits = |digits: u64| nibbles(digits).is_some();
    // Arrays of a fixed length are compared in place, with or without inlining.
    let is_fixed = text.first_chunk() == Some(b" sendbuff 0x")
        && text[24..].first_chunk() == Some(b" recvbuff 0x")
        && text.last_chunk() == Some(b" count ");
    let is_usual = is_fixed
        && is_digits(load_word(text, 12)) & is_digits(load_word(text, 36)) & is_digits(last);
    is_usual.then_some(at + text.len())
}

/// A datatype, a reduction and a root.
type CollCodes = (u32, u64, i64);

/// What comes after the count, and where it ends.
fn parse_codes(input: &[u8], i: usize) -> Option<(CollCodes, usize)> {
    let i = match_fixed(input, i, b" datatype ")?;
    let (datatype, i) = parse_short_decimal(input, i)?;
    let i = match_fixed(input, i, b" op ")?;
    let (redop, i) = parse_short_decimal(input, i)?;
    let i = match_fixed(input, i, b" root ")?;
    let (root, i) = parse_short_decimal(input, i)?;
    let (datatype, root) = (u32::try_from(datatype).ok()?, i64::try_from(root).ok()?);
    Some(((datatype, redop, root), i))
}

/// The same where each is one digit: all of it has its place.
#[inline(always)]
fn parse_usual_codes(input: &[u8], at: usize) -> Option<(CollCodes, usize)> {
    const TEXT: &[u8; 24] = b" datatype 0 op 0 root 0 ";
    const DIGITS: [usize; 3] = [10, 15, 22];
    let text: &[u8; 24] = input.get(at..)?.first_chunk()?;
    let differ = |at: usize| load_word(text, at) ^ load_word(TEXT, at);
    let mask = |at: usize| 0xff << (8 * (at % 8));
    let others = differ(0)
        | (differ(8) & !(mask(DIGITS[0]) | mask(DIGITS[1])))
        | (differ(16) & !mask(DIGITS[2]));
    let digit = |at: usize| text[at].wrapping_sub(b'0');
    let (datatype, redop, root) = (digit(DIGITS[0]), digit(DIGITS[1]), digit(DIGITS[2]));
    let is_usual = others == 0 && datatype.max(redop).max(root) < 10;
    let codes = (datatype.into(), redop.into(), root.into());
    is_usual.then_some((codes, at + DIGITS[2] + 1))
}

const COMM_FIELD: &[u8; 8] = b" comm 0x";

/// The rest of a body, which begins `input`.
#[inline(always)]
pub fn parse_coll_tail(input: &[u8]) -> Option<(CollTail, usize)> {
    let i = match_fixed(input, 0, COMM_FIELD)?;
    let (comm, i) = parse_hex(input, i)?;
    let i = match_fixed(input, i, b" [nranks=")?;
    let (nranks, i) = parse_decimal(input, i)?;
    let i = match_fixed(input, i, b"] stream ")?;
    let (stream, i) = match match_fixed(input, i, b"0x") {
        Some(i) => parse_hex(input, i)?,
        None => (0, match_fixed(input, i, b"(nil)")?),
    };
    let i = match input.get(i) {
        Some(b' ') => skip_rccl_tail(&input[i..]).map_or(i, |(rest, ())| input.len() - rest.len()),
        _ => i,
    };
    let back = CollTail {
        comm,
        nranks: u32::try_from(nranks).ok()?,
        stream,
    };
    Some((back, i))
}

/// A place for the rest of a body, by its speaker and the last digits of its communicator: processes
/// may have the same address for theirs, each with a stream of its own.
#[inline(always)]
pub fn coll_tail_slot(input: &[u8], speaker: u32) -> usize {
    let digits = load_word(input, COMM_FIELD.len() + USUAL_POINTER_DIGITS - 8);
    let mixed = digits.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ u64::from(speaker).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    (mixed >> 40) as usize
}

/// The bracket that closes `[dev]` in the header of the line at the start of `input`, if what
/// follows is ` NCCL INFO `. `likely` is where it stood on the line before.
#[inline(always)]
pub fn find_dev_bracket(input: &[u8], likely: usize) -> Option<usize> {
    let is = |i: usize| input.get(i..).and_then(|text| text.first_chunk()) == Some(INFO_MARKER);
    if is(likely) {
        return Some(likely);
    }
    // A launcher's tag and a time stamp may bring brackets of their own.
    let mut brackets = memchr::memchr_iter(b']', &input[..input.len().min(256)]).take(3);
    brackets.find(|&i| is(i))
}

const INFO_MARKER: &[u8; 12] = b"] NCCL INFO ";

/// Length of ` NCCL INFO ` and the bracket before it.
pub const INFO_MARKER_BYTES: usize = INFO_MARKER.len();

/// Returns a slot for the header with its bracket at `bracket`, by the pid, tid and device before it.
/// `None` if the header is too short.
#[inline(always)]
pub fn header_slot(input: &[u8], bracket: usize, slots: usize) -> Option<usize> {
    let text: &[u8; 16] = input.get(..bracket)?.last_chunk()?;
    let mixed = load_word(text, 0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ load_word(text, 8).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    Some((mixed >> 40) as usize % slots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coll;
    use proptest::prelude::*;

    #[test]
    fn hexadecimal_digits_are_counted_and_read() {
        for (text, n, value) in [
            (b"7f80000x", 7, 0x7f8_0000),
            (b"deadbeef", 8, 0xdead_beef),
            (b"g0000000", 0, 0),
            (b"0 000000", 1, 0),
            (b"abcdef@`", 6, 0xab_cdef),
            (b"9:;<=>/.", 1, 9),
        ] {
            let word = u64::from_le_bytes(*text);
            assert_eq!((count_hex_digits(word), hex_value(word, n)), (n, value));
        }
    }

    #[test]
    fn texts_are_alike_where_only_digits_differ() {
        assert!(
            equal_but_digits(b"", b"") && equal_but_digits(b"[12:00:01.07] ", b"[12:59:38.99] ")
        );
        for other in [
            &b"[12:00:01.07 ] "[..],
            b"[12:00:01-07] ",
            b"[12:00:0x.07] ",
            b"[12:00:01.0",
        ] {
            assert!(
                !equal_but_digits(b"[12:00:01.07] ", other)
                    && !equal_but_digits(other, b"[12:00:01.07] ")
            );
        }
    }

    #[test]
    fn a_byte_at_any_place_is_a_digit_or_not() {
        for byte in 0..=255_u8 {
            for at in 0..8 {
                let mut bytes = *b"09afc5d1";
                bytes[at] = byte;
                let hex = byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
                let word = u64::from_le_bytes(bytes);
                assert_eq!(nibbles(word).is_some(), hex, "{byte:#x} at {at}");
                assert_eq!(count_hex_digits(word) == 8, hex);
            }
        }
    }

    #[test]
    fn decimal_digits_are_counted_and_read() {
        for byte in 0..=255_u8 {
            for at in 0..8 {
                let mut bytes = *b"90123456";
                bytes[at] = byte;
                let is_digit = |b: &u8| b.is_ascii_digit();
                let n = bytes.iter().take_while(|b| is_digit(b)).count();
                let word = u64::from_le_bytes(bytes);
                assert_eq!(count_decimal_digits(word), n, "{byte:#x} at {at}");
                if n > 0 {
                    let text = std::str::from_utf8(&bytes[..n]).unwrap();
                    assert_eq!(decimal_value(word, n), text.parse::<u64>().unwrap());
                }
            }
        }
        assert_eq!(
            parse_decimal(b"123456789012345 ", 0),
            Some((123_456_789_012_345, 15))
        );
        assert_eq!(parse_decimal(b"1234567890123456 ", 0), None);
        assert_eq!(parse_decimal(b"12345678", 0), Some((12_345_678, 8)));
        assert_eq!(parse_decimal(b"7", 0), Some((7, 1)));
        assert_eq!(parse_decimal(b"", 0), None);
        assert_eq!(parse_short_decimal(b"10 ", 0), Some((10, 2)));
    }

    proptest! {
        #[test]
        fn every_byte_is_hexadecimal_or_not(bytes in any::<[u8; 8]>()) {
            let hex = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
            let n = bytes.iter().take_while(|b| hex(b)).count();
            let word = u64::from_le_bytes(bytes);
            prop_assert_eq!(count_hex_digits(word), n);
            prop_assert_eq!(nibbles(word).is_some(), n == 8);
        }

        #[test]
        fn what_it_reads_is_what_the_grammar_reads(
            digits in "[0-9a-f]{12}|[0-9a-f]{1,18}",
            number in "[0-9]{1,22}",
            code in prop_oneof![4 => 0..10_u32, 1 => any::<u32>()],
            tail in prop_oneof![Just(""), Just("\n"), Just(" task 0 globalrank 5\n"), Just(" x")],
            damage in proptest::option::of((0..220_usize, any::<u8>())),
            nil in any::<bool>(),
        ) {
            let buffer = if nil { "(nil)".to_owned() } else { format!("0x{digits}") };
            let text = format!(
                "{digits} sendbuff {buffer} recvbuff 0x{digits} count {number} datatype 7 op 0 \
                 root {code} comm 0x{digits} [nranks=8] stream {buffer}{tail}"
            );
            let mut bytes = text.into_bytes();
            if let Some((at, byte)) = damage {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            let whole = parse_coll_head(&bytes).and_then(|(front, at)| {
                let (back, end) = parse_coll_tail(&bytes[at..])?;
                Some((front.join_tail(b"Send", back), at + end))
            });
            if let Some((coll, end)) = whole {
                let (rest, expected) = coll::parse_coll_body(b"Send", &bytes).unwrap();
                prop_assert_eq!((coll, end), (expected, bytes.len() - rest.len()));
            } else if damage.is_none() && digits.len() <= 15 && number.len() <= 15 {
                prop_assert!(false, "a common line is read here");
            }
        }
    }
}
