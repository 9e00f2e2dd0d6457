//! A call's line apart: a template, which many lines share, and the numbers that differ.
//!
//! The numbers are every run of digits in front of ` NCCL ` (time stamps, processes), `opCount`, and each
//! address but the communicator's. Joining a template with its numbers gives the line back, byte for byte.

use super::limits::{
    ADDRESS_HOLE, DIGITS_HOLE, HOLE_MARK, MAX_DIGIT_RUNS, MAX_DIGITS, MAX_HEX_DIGITS, OP_COUNT_HOLE,
};
use memchr::memmem::Finder;

const OP_COUNT: &[u8] = b"opCount ";
const SPEAKER_END: &[u8] = b" NCCL ";
const ADDRESS: &[u8] = b" 0x";

/// A number's place in a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hole {
    /// A decimal number of this length, with zeros in front.
    Digits(u8),
    /// Hexadecimal, without zeros in front.
    OpCount,
    /// A hexadecimal number of this length, with zeros in front, after `0x`.
    Address(u8),
}

/// A line apart. Its memory is used again for the next one.
#[derive(Debug)]
pub(super) struct SplitLine {
    pub(super) template: Vec<u8>,
    pub(super) holes: Vec<(Hole, u64)>,
    op_count: Finder<'static>,
    speaker_end: Finder<'static>,
    address: Finder<'static>,
}

impl Default for SplitLine {
    fn default() -> SplitLine {
        SplitLine {
            template: Vec::new(),
            holes: Vec::new(),
            op_count: Finder::new(OP_COUNT),
            speaker_end: Finder::new(SPEAKER_END),
            address: Finder::new(ADDRESS),
        }
    }
}

impl SplitLine {
    /// Takes `line`, without its line end, apart. Returns false if it is not a call's line, or if joining
    /// its parts would not give it back.
    pub(super) fn split_line(&mut self, line: &[u8]) -> bool {
        self.template.clear();
        self.holes.clear();
        let Some(op_count) = self.op_count.find(line) else {
            return false;
        };
        let Some(header) = self.speaker_end.find(&line[..op_count]) else {
            return false;
        };
        if memchr::memchr(HOLE_MARK, line).is_some() {
            return false;
        }
        self.split_header(&line[..header]);
        let op_count = op_count + OP_COUNT.len();
        self.template.extend_from_slice(&line[header..op_count]);
        let rest = self.split_op_count(&line[op_count..]);
        self.split_addresses(rest);
        self.holes.len() <= MAX_DIGIT_RUNS + 8
    }

    /// Makes a hole of each run of digits.
    fn split_header(&mut self, header: &[u8]) {
        let mut at = 0;
        while at < header.len() {
            let is_digit = |byte: &&u8| byte.is_ascii_digit();
            let digits = header[at..].iter().take_while(is_digit).count();
            let run = &header[at..at + digits];
            if (1..=MAX_DIGITS).contains(&digits) && self.holes.len() < MAX_DIGIT_RUNS {
                let value = run.iter().fold(0, |n, b| n * 10 + u64::from(b - b'0'));
                self.push_hole(Hole::Digits(digits as u8), value);
            } else {
                self.template.extend_from_slice(run);
            }
            at += digits;
            let others = header[at..].iter().take_while(|b| !b.is_ascii_digit());
            let others = others.count();
            self.template.extend_from_slice(&header[at..at + others]);
            at += others;
        }
    }

    /// Makes a hole of `opCount`, which `text` begins with, if it would be printed the same way. Returns what
    /// follows it.
    fn split_op_count<'t>(&mut self, text: &'t [u8]) -> &'t [u8] {
        let (number, rest) = split_hex(text);
        let is_shortest = number.len() == 1 || !number.starts_with(b"0");
        match parse_hex(number).filter(|_| is_shortest) {
            None => return text,
            Some(value) => self.push_hole(Hole::OpCount, value),
        }
        rest
    }

    /// Makes holes of the addresses in `text`, but for a communicator's: calls differ by it.
    fn split_addresses(&mut self, mut text: &[u8]) {
        while let Some(at) = self.address.find(text) {
            let (before, after) = text.split_at(at + ADDRESS.len());
            self.template.extend_from_slice(before);
            let (number, rest) = split_hex(after);
            let is_kept = before[..at].ends_with(b"comm");
            text = match parse_hex(number).filter(|_| !is_kept) {
                None => after,
                Some(value) => {
                    self.push_hole(Hole::Address(number.len() as u8), value);
                    rest
                }
            };
        }
        self.template.extend_from_slice(text);
    }

    fn push_hole(&mut self, hole: Hole, value: u64) {
        let kind = match hole {
            Hole::Digits(digits) => DIGITS_HOLE + digits,
            Hole::OpCount => OP_COUNT_HOLE,
            Hole::Address(digits) => ADDRESS_HOLE + digits,
        };
        self.template.extend_from_slice(&[HOLE_MARK, kind]);
        self.holes.push((hole, value));
    }
}

/// Divides `text` after the hexadecimal digits that it begins with.
fn split_hex(text: &[u8]) -> (&[u8], &[u8]) {
    let is_digit = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.split_at(text.iter().take_while(is_digit).count())
}

/// Returns the value of hexadecimal digits, if there are any and it fits.
fn parse_hex(digits: &[u8]) -> Option<u64> {
    (1..=MAX_HEX_DIGITS).contains(&digits.len()).then_some(())?;
    Some(digits.iter().fold(0, |n, &b| {
        n << 4 | u64::from(if b <= b'9' { b - b'0' } else { b - b'a' + 10 })
    }))
}

/// A template as it is joined: the text before each hole, and the text after the last.
#[derive(Debug)]
pub(super) struct CallLineTemplate {
    text: Vec<u8>,
    /// The end of the text before each hole, and the hole.
    holes: Vec<(usize, Hole)>,
}

impl CallLineTemplate {
    /// Reads a template as [`SplitLine`] writes it; `None` if it has a hole of an unknown kind.
    pub(super) fn parse_template(template: &[u8]) -> Option<CallLineTemplate> {
        let mut text = Vec::with_capacity(template.len());
        let mut holes = Vec::new();
        let mut bytes = template.iter();
        while let Some(&byte) = bytes.next() {
            if byte != HOLE_MARK {
                text.push(byte);
                continue;
            }
            let hole = match *bytes.next()? {
                OP_COUNT_HOLE => Hole::OpCount,
                kind => {
                    let is_address = kind > ADDRESS_HOLE;
                    let (base, most) = match is_address {
                        true => (ADDRESS_HOLE, MAX_HEX_DIGITS),
                        false => (DIGITS_HOLE, MAX_DIGITS),
                    };
                    let digits = kind.checked_sub(base)?;
                    (1..=most).contains(&digits.into()).then_some(())?;
                    match is_address {
                        true => Hole::Address(digits),
                        false => Hole::Digits(digits),
                    }
                }
            };
            holes.push((text.len(), hole));
        }
        Some(CallLineTemplate { text, holes })
    }

    /// Writes the line, without its end; `number` gives each hole's number in turn.
    ///
    /// # Errors
    /// Those of `number`.
    pub(super) fn join_line<E>(
        &self,
        mut number: impl FnMut(Hole) -> Result<u64, E>,
        out: &mut Vec<u8>,
    ) -> Result<(), E> {
        let mut from = 0;
        for &(to, hole) in &self.holes {
            out.extend_from_slice(&self.text[from..to]);
            from = to;
            let value = number(hole)?;
            match hole {
                Hole::Digits(digits) => write_digits(value, digits.into(), out),
                Hole::OpCount => write_hex(value, hex_digits(value), out),
                Hole::Address(digits) => write_hex(value, digits.into(), out),
            }
        }
        out.extend_from_slice(&self.text[from..]);
        Ok(())
    }
}

/// Writes the last `digits` digits of a decimal number.
fn write_digits(mut value: u64, digits: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + digits, b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// How many digits a hexadecimal number has.
fn hex_digits(value: u64) -> u32 {
    (67 - (value | 1).leading_zeros()) / 4
}

/// Writes the last `digits` digits of a hexadecimal number.
fn write_hex(value: u64, digits: u32, out: &mut Vec<u8>) {
    for digit in (0..digits).rev() {
        let digit = value.checked_shr(4 * digit).unwrap_or(0) & 15;
        out.push(b"0123456789abcdef"[digit as usize]);
    }
}
