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

/// The template of a line. Its memory is used again for the next one.
#[derive(Debug)]
pub(super) struct SplitLine {
    pub(super) template: Vec<u8>,
    holes: usize,
    op_count: Finder<'static>,
    speaker_end: Finder<'static>,
    address: Finder<'static>,
}

impl Default for SplitLine {
    fn default() -> SplitLine {
        SplitLine {
            template: Vec::new(),
            holes: 0,
            op_count: Finder::new(OP_COUNT),
            speaker_end: Finder::new(SPEAKER_END),
            address: Finder::new(ADDRESS),
        }
    }
}

impl SplitLine {
    /// Finds the place of `opCount` in a call's line.
    #[inline]
    pub(super) fn find_op_count(&self, line: &[u8]) -> Option<usize> {
        self.op_count.find(line).map(|at| at + OP_COUNT.len())
    }

    /// Makes the template of `line`, which is without its line end and has `opCount` at `op_count`. Returns
    /// false if it is not a call's line, or if joining its parts would not give it back.
    pub(super) fn split_line(&mut self, line: &[u8], op_count: usize) -> bool {
        self.template.clear();
        self.holes = 0;
        let Some(header) = self.speaker_end.find(&line[..op_count]) else {
            return false;
        };
        if memchr::memchr(HOLE_MARK, line).is_some() {
            return false;
        }
        self.split_header(&line[..header]);
        self.template.extend_from_slice(&line[header..op_count]);
        let rest = self.split_op_count(&line[op_count..]);
        self.split_addresses(rest);
        self.holes <= MAX_DIGIT_RUNS + 8
    }

    /// Makes a hole of each run of digits.
    fn split_header(&mut self, header: &[u8]) {
        let mut at = 0;
        while at < header.len() {
            let is_digit = |byte: &&u8| byte.is_ascii_digit();
            let digits = header[at..].iter().take_while(is_digit).count();
            let run = &header[at..at + digits];
            if (1..=MAX_DIGITS).contains(&digits) && self.holes < MAX_DIGIT_RUNS {
                self.push_hole(DIGITS_HOLE + digits as u8);
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
        if !(is_shortest && fits_number(number)) {
            return text;
        }
        self.push_hole(OP_COUNT_HOLE);
        rest
    }

    /// Makes holes of the addresses in `text`, but for a communicator's: calls differ by it.
    fn split_addresses(&mut self, mut text: &[u8]) {
        while let Some(at) = self.address.find(text) {
            let (before, after) = text.split_at(at + ADDRESS.len());
            self.template.extend_from_slice(before);
            let (number, rest) = split_hex(after);
            let is_kept = before[..at].ends_with(b"comm");
            text = after;
            if !is_kept && fits_number(number) {
                self.push_hole(ADDRESS_HOLE + number.len() as u8);
                text = rest;
            }
        }
        self.template.extend_from_slice(text);
    }

    fn push_hole(&mut self, kind: u8) {
        self.template.extend_from_slice(&[HOLE_MARK, kind]);
        self.holes += 1;
    }
}

/// Divides `text` after the hexadecimal digits that it begins with.
fn split_hex(text: &[u8]) -> (&[u8], &[u8]) {
    let is_digit = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.split_at(text.iter().take_while(is_digit).count())
}

/// True if there are hexadecimal digits, and no more than a number has.
fn fits_number(digits: &[u8]) -> bool {
    (1..=MAX_HEX_DIGITS).contains(&digits.len())
}
