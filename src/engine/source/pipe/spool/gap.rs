//! Gaps in kept text, which are read as blanks.

use crate::source::pipe::limits::{BLANKS_BYTES_PER_WRITE, MAX_NOTED_PIECE_BYTES};
use memchr::memchr_iter;

/// The bytes and lines that were dropped between two pieces of text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TextGap {
    pub(super) bytes: u64,
    pub(super) lines: u64,
}

impl TextGap {
    /// Adds dropped text.
    pub(super) fn add_text(&mut self, text: &[u8]) {
        self.bytes += text.len() as u64;
        self.lines += memchr_iter(b'\n', text).count() as u64;
    }

    /// Adds a gap that touches this one.
    pub(super) fn add_gap(&mut self, gap: TextGap) {
        self.bytes += gap.bytes;
        self.lines += gap.lines;
    }

    /// Writes some lines of the gap as blanks, about equally long, and takes them off.
    pub(super) fn write_blanks(&mut self, to: &mut Vec<u8>) {
        while self.bytes > 0 && to.len() < BLANKS_BYTES_PER_WRITE {
            // Only whole lines were dropped.
            let even = self.bytes.div_ceil(self.lines.max(1));
            let len = even.min(MAX_NOTED_PIECE_BYTES as u64);
            to.resize(to.len() + len as usize, b' ');
            if let (Some(last), 1..) = (to.last_mut(), self.lines) {
                *last = b'\n';
            }
            self.bytes -= len;
            self.lines = self.lines.saturating_sub(1);
        }
    }
}
