//! The COLL line as it nearly always looks, read eight bytes at a time.
//!
//! Everything here says `None` for whatever is not exactly that; [`super::coll`] and
//! [`super::header`], the grammar proper, then read the line. Where this module gives an answer it
//! is theirs: a property test holds the two against each other on any bytes.

use super::coll::{Coll, rccl_tail};

/// Eight bytes at `at`, with zeros after the end of the input.
#[inline(always)]
fn word(input: &[u8], at: usize) -> u64 {
    match input.get(at..at + 8) {
        Some(bytes) => u64::from_le_bytes(bytes.try_into().unwrap_or([0; 8])),
        None => last_word(input, at),
    }
}

#[cold]
fn last_word(input: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(input.get(at..).unwrap_or_default()) {
        *to = *from;
    }
    u64::from_le_bytes(bytes)
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// How many of the eight bytes, from the first, are lower-case hexadecimal digits.
#[inline(always)]
fn hex_bytes(word: u64) -> usize {
    // Bytes from 0x80 up would carry into their neighbours: they are cut off and told apart.
    let low = word & !HIGH;
    let digit = low ^ (ONES * 0x30);
    let is_digit = !(digit + ONES * 0x76);
    let letter = low ^ (ONES * 0x60);
    let is_letter = !(letter + ONES * 0x79) & (letter + ONES * 0x7f);
    let is_hex = (is_digit | is_letter) & HIGH & !word;
    ((is_hex ^ HIGH).trailing_zeros() / 8) as usize
}

/// The value of `n` (up to 8) hexadecimal digits at the start of a word.
#[inline(always)]
fn hex_value(word: u64, n: usize) -> u64 {
    if n == 0 {
        return 0;
    }
    // Digits to the top, so that the missing ones are leading zeros.
    let word = word << (64 - 8 * n);
    packed((word & (ONES * 0x0f)) + 9 * ((word >> 6) & ONES))
}

/// How many digits the pointers of a 47-bit address space have. Where a field has its usual
/// length, the next one's place is known before this one is read: the processor goes ahead.
const USUAL: usize = 12;

/// The values of eight hexadecimal digits, a nibble in each byte; `None` if one is not a digit.
#[inline(always)]
fn nibbles(word: u64) -> Option<u64> {
    // Digits have bit 6 clear and 0x30 to take off, letters have it set and 0x57. What is no
    // digit leaves a high nibble (a borrow reaches only bytes after one that has), or a value
    // of the wrong half.
    let letters = (word >> 6) & ONES;
    let values = word.wrapping_sub(ONES * 0x30).wrapping_sub(letters * 0x27);
    let from_ten = (values.wrapping_add(ONES * 6) >> 4) & ONES;
    let wrong = (values & (ONES * 0xf0)) | (from_ten ^ letters);
    (wrong == 0).then_some(values)
}

/// The number whose nibbles are in the bytes of a word, the first in the lowest byte.
#[inline(always)]
fn packed(nibbles: u64) -> u64 {
    let pairs = (nibbles << 4 | nibbles >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs << 8 | pairs >> 16) & 0x0000_ffff_0000_ffff;
    (fours << 16 | fours >> 32) & 0xffff_ffff
}

/// The nibbles of the usual pointer at `at`: of its first eight digits and of its last eight,
/// if the byte after them ends a pointer.
#[inline(always)]
fn usual(input: &[u8], at: usize) -> Option<(u64, u64)> {
    let text: &[u8; 13] = input.get(at..)?.first_chunk()?;
    if !matches!(text[12], b' ' | b'\n') {
        return None;
    }
    Some((nibbles(word(text, 0))?, nibbles(word(text, 4))?))
}

/// A number of up to 16 hexadecimal digits at `at`: its value and its end.
#[inline(always)]
fn digits(input: &[u8], at: usize) -> Option<(u64, usize)> {
    if let Some((first, last)) = usual(input, at) {
        return Some((packed(first) >> 16 << 32 | packed(last), at + USUAL));
    }
    let first = word(input, at);
    let n = hex_bytes(first);
    if n < 8 {
        return (n > 0).then(|| (hex_value(first, n), at + n));
    }
    let second = word(input, at + 8);
    let m = hex_bytes(second);
    if m == 8 && input.get(at + 16).is_some_and(u8::is_ascii_hexdigit) {
        return None;
    }
    let high = hex_value(first, 8);
    Some((high << (4 * m) | hex_value(second, m), at + 8 + m))
}

/// As [`digits`], of a number that mostly has fewer than eight.
#[inline(always)]
fn short_digits(input: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = word(input, at);
    match hex_bytes(first) {
        0 => None,
        n @ 1..8 => Some((hex_value(first, n), at + n)),
        _ => digits(input, at),
    }
}

/// The end of a pointer at `at`, its value unread.
#[inline(always)]
fn skip(input: &[u8], at: usize) -> Option<usize> {
    if input.get(at..at + 2)? == b"0x" {
        if usual(input, at + 2).is_some() {
            return Some(at + 2 + USUAL);
        }
        let n = hex_bytes(word(input, at + 2));
        if n < 8 {
            return (n > 0).then_some(at + 2 + n);
        }
        let m = hex_bytes(word(input, at + 10));
        return (m < 8).then_some(at + 10 + m);
    }
    (input.get(at..at + 5)? == b"(nil)").then_some(at + 5)
}

/// How many of the eight bytes, from the first, are decimal digits.
#[inline(always)]
fn decimal_bytes(word: u64) -> usize {
    // Bytes from 0x80 up would carry into their neighbours: they are cut off and told apart.
    let low = (word & !HIGH) ^ (ONES * 0x30);
    let is_other = ((low + ONES * 0x76) | word) & HIGH;
    (is_other.trailing_zeros() / 8) as usize
}

/// The value of `n` (1 to 8) decimal digits at the start of a word.
#[inline(always)]
fn decimal_value(word: u64, n: usize) -> u64 {
    // Digits to the top, so that the missing ones are leading zeros.
    let digits = (word & (ONES * 0x0f)) << (64 - 8 * n);
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours * 10_000 + (fours >> 32)) & 0xffff_ffff
}

/// A decimal number of up to 15 digits at `at`. Without a branch for each digit: how many there are
/// changes from call to call.
#[inline(always)]
fn decimal(input: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = word(input, at);
    let n = decimal_bytes(first);
    if n < 8 {
        return (n > 0).then(|| (decimal_value(first, n), at + n));
    }
    long_decimal(input, at)
}

/// The same of one with eight digits or more.
#[inline(never)]
fn long_decimal(input: &[u8], at: usize) -> Option<(u64, usize)> {
    const TENS: [u64; 8] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
    let (first, last) = (word(input, at), word(input, at + 8));
    let n = decimal_bytes(last);
    let low = if n > 0 { decimal_value(last, n) } else { 0 };
    let value = decimal_value(first, 8) * TENS.get(n)? + low;
    Some((value, at + 8 + n))
}

/// A decimal number at `at` that mostly has one digit.
#[inline(always)]
fn short_decimal(input: &[u8], at: usize) -> Option<(u64, usize)> {
    match input.get(at..at + 2)? {
        &[digit @ b'0'..=b'9', next] if !next.is_ascii_digit() => {
            Some((u64::from(digit - b'0'), at + 1))
        }
        _ => decimal(input, at),
    }
}

/// Whether two texts of one length are equal, without a call.
#[inline(always)]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    let n = a.len();
    if n != b.len() {
        return false;
    }
    if n < 8 {
        return a == b;
    }
    if n < 16 {
        return word(a, 0) == word(b, 0) && word(a, n - 8) == word(b, n - 8);
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
pub fn alike(a: &[u8], b: &[u8]) -> bool {
    // No way out before the end: so several bytes are compared at once.
    let same =
        |same, (a, b): (&u8, &u8)| same & (a == b || a.is_ascii_digit() & b.is_ascii_digit());
    a.len() == b.len() && a.iter().zip(b).fold(true, same)
}

/// The end of the fixed `text` at `at`.
#[inline(always)]
fn fixed<const N: usize>(input: &[u8], at: usize, text: &[u8; N]) -> Option<usize> {
    (input.get(at..at + N)? == text).then_some(at + N)
}

/// The operation at the start of `input` with the anchor after it: its name's length. Only the
/// common ones; the grammar reads the others.
#[inline(always)]
pub fn operation(input: &[u8]) -> Option<usize> {
    // Of fixed lengths, so that each is a comparison of a few words.
    macro_rules! one_of {
        ($($name:literal),*) => {{
            $(if fixed(input, 0, $name).is_some() {
                return Some($name.len() - super::coll::ANCHOR.len());
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

/// What a body says in front of its communicator.
#[derive(Debug, Clone, Copy)]
pub struct Front {
    op_count: u64,
    count: u64,
    datatype: u32,
    redop: u64,
    root: i64,
}

/// What a body says from its communicator on: the same on many lines.
#[derive(Debug, Clone, Copy, Default)]
pub struct Back {
    comm: u64,
    nranks: u32,
    stream: u64,
}

impl Front {
    /// The call of `op` with its other half.
    #[inline(always)]
    pub fn with<'a>(self, op: &'a [u8], back: Back) -> Coll<'a> {
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

/// The body after the anchor, which begins `input`, up to its communicator: what it says and
/// where it ends.
#[inline(always)]
pub fn front(input: &[u8]) -> Option<(Front, usize)> {
    let (op_count, i) = short_digits(input, 0)?;
    let i = match usual_buffers(input, i) {
        Some(end) => end,
        None => buffers(input, i)?,
    };
    let (count, i) = decimal(input, i)?;
    let ((datatype, redop, root), i) = match usual_codes(input, i) {
        Some(usual) => usual,
        None => codes(input, i)?,
    };
    let front = Front {
        op_count,
        count,
        datatype,
        redop,
        root,
    };
    Some((front, i))
}

/// The end of what is between the opCount and the count: two buffers, or three.
fn buffers(input: &[u8], i: usize) -> Option<usize> {
    let i = fixed(input, i, b" sendbuff ")?;
    let i = skip(input, i)?;
    let i = fixed(input, i, b" recvbuff ")?;
    let i = skip(input, i)?;
    let i = match fixed(input, i, b" acc ") {
        Some(acc) => skip(input, acc)?,
        None => i,
    };
    fixed(input, i, b" count ")
}

/// The same of two usual pointers: all of it has its place.
#[inline(always)]
fn usual_buffers(input: &[u8], at: usize) -> Option<usize> {
    let text: &[u8; 55] = input.get(at..)?.first_chunk()?;
    // The last four digits of both are looked at together.
    let last = word(text, 16) >> 32 | word(text, 44) << 32;
    let is_digits = |digits: u64| nibbles(digits).is_some();
    // Arrays of a fixed length are compared in place, whatever is inlined.
    let is_fixed = text.first_chunk() == Some(b" sendbuff 0x")
        && text[24..].first_chunk() == Some(b" recvbuff 0x")
        && text.last_chunk() == Some(b" count ");
    let is_usual =
        is_fixed && is_digits(word(text, 12)) & is_digits(word(text, 36)) & is_digits(last);
    is_usual.then_some(at + text.len())
}

/// A datatype, a reduction and a root.
type Codes = (u32, u64, i64);

/// What comes after the count, and where it ends.
fn codes(input: &[u8], i: usize) -> Option<(Codes, usize)> {
    let i = fixed(input, i, b" datatype ")?;
    let (datatype, i) = short_decimal(input, i)?;
    let i = fixed(input, i, b" op ")?;
    let (redop, i) = short_decimal(input, i)?;
    let i = fixed(input, i, b" root ")?;
    let (root, i) = short_decimal(input, i)?;
    let (datatype, root) = (u32::try_from(datatype).ok()?, i64::try_from(root).ok()?);
    Some(((datatype, redop, root), i))
}

/// The same where each is one digit: all of it has its place.
#[inline(always)]
fn usual_codes(input: &[u8], at: usize) -> Option<(Codes, usize)> {
    const TEXT: &[u8; 24] = b" datatype 0 op 0 root 0 ";
    const DIGITS: [usize; 3] = [10, 15, 22];
    let text: &[u8; 24] = input.get(at..)?.first_chunk()?;
    let differ = |at: usize| word(text, at) ^ word(TEXT, at);
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

const COMM: &[u8; 8] = b" comm 0x";

/// The rest of a body, which begins `input`.
#[inline(always)]
pub fn back(input: &[u8]) -> Option<(Back, usize)> {
    let i = fixed(input, 0, COMM)?;
    let (comm, i) = digits(input, i)?;
    let i = fixed(input, i, b" [nranks=")?;
    let (nranks, i) = decimal(input, i)?;
    let i = fixed(input, i, b"] stream ")?;
    let (stream, i) = match fixed(input, i, b"0x") {
        Some(i) => digits(input, i)?,
        None => (0, fixed(input, i, b"(nil)")?),
    };
    let i = match input.get(i) {
        Some(b' ') => rccl_tail(&input[i..]).map_or(i, |(rest, ())| input.len() - rest.len()),
        _ => i,
    };
    let back = Back {
        comm,
        nranks: u32::try_from(nranks).ok()?,
        stream,
    };
    Some((back, i))
}

/// A place for the rest of a body, by its speaker and the last digits of its communicator: processes
/// may have the same address for theirs, each with a stream of its own.
#[inline(always)]
pub fn back_slot(input: &[u8], speaker: u32) -> usize {
    let digits = word(input, COMM.len() + USUAL - 8);
    let mixed = digits.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ u64::from(speaker).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    (mixed >> 40) as usize
}

/// The bracket that closes `[dev]` in the header of the line at the start of `input`, if what
/// follows is ` NCCL INFO `. `likely` is where it stood on the line before.
#[inline(always)]
pub fn bracket(input: &[u8], likely: usize) -> Option<usize> {
    let is = |i: usize| input.get(i..).and_then(|text| text.first_chunk()) == Some(INFO);
    if is(likely) {
        return Some(likely);
    }
    // A launcher's tag and a time stamp may bring brackets of their own.
    let mut brackets = memchr::memchr_iter(b']', &input[..input.len().min(256)]).take(3);
    brackets.find(|&i| is(i))
}

const INFO: &[u8; 12] = b"] NCCL INFO ";

/// Length of ` NCCL INFO ` and the bracket before it.
pub const BEHIND_BRACKET: usize = INFO.len();

/// A place for the header whose bracket is at `bracket`, by the pid, tid and device before it.
/// `None` where the header is too short to tell.
#[inline(always)]
pub fn slot(input: &[u8], bracket: usize, slots: usize) -> Option<usize> {
    let text: &[u8; 16] = input.get(..bracket)?.last_chunk()?;
    let mixed = word(text, 0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ word(text, 8).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
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
            assert_eq!((hex_bytes(word), hex_value(word, n)), (n, value));
        }
    }

    #[test]
    fn texts_are_alike_where_only_digits_differ() {
        assert!(alike(b"", b"") && alike(b"[12:00:01.07] ", b"[12:59:38.99] "));
        for other in [
            &b"[12:00:01.07 ] "[..],
            b"[12:00:01-07] ",
            b"[12:00:0x.07] ",
            b"[12:00:01.0",
        ] {
            assert!(!alike(b"[12:00:01.07] ", other) && !alike(other, b"[12:00:01.07] "));
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
                assert_eq!(hex_bytes(word) == 8, hex);
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
                assert_eq!(decimal_bytes(word), n, "{byte:#x} at {at}");
                if n > 0 {
                    let text = std::str::from_utf8(&bytes[..n]).unwrap();
                    assert_eq!(decimal_value(word, n), text.parse::<u64>().unwrap());
                }
            }
        }
        assert_eq!(
            decimal(b"123456789012345 ", 0),
            Some((123_456_789_012_345, 15))
        );
        assert_eq!(decimal(b"1234567890123456 ", 0), None);
        assert_eq!(decimal(b"12345678", 0), Some((12_345_678, 8)));
        assert_eq!(decimal(b"7", 0), Some((7, 1)));
        assert_eq!(decimal(b"", 0), None);
        assert_eq!(short_decimal(b"10 ", 0), Some((10, 2)));
    }

    proptest! {
        #[test]
        fn every_byte_is_hexadecimal_or_not(bytes in any::<[u8; 8]>()) {
            let hex = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
            let n = bytes.iter().take_while(|b| hex(b)).count();
            let word = u64::from_le_bytes(bytes);
            prop_assert_eq!(hex_bytes(word), n);
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
            let whole = front(&bytes).and_then(|(front, at)| {
                let (back, end) = back(&bytes[at..])?;
                Some((front.with(b"Send", back), at + end))
            });
            if let Some((coll, end)) = whole {
                let (rest, expected) = coll::body(b"Send", &bytes).unwrap();
                prop_assert_eq!((coll, end), (expected, bytes.len() - rest.len()));
            } else if damage.is_none() && digits.len() <= 15 && number.len() <= 15 {
                prop_assert!(false, "a common line is read here");
            }
        }
    }
}
