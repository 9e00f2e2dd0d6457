//! Reads an input in blocks of whole lines.

use super::cuts::{CutClassifier, find_best_cut, find_over_long_line};
use super::limits::READ_CHUNK_BYTES;
use crate::source::limits::MAX_LINE_BYTES;
use crate::source::read::{FillEnd, fill_until_idle};
use memchr::memchr;
use std::io::{self, Read};

/// Whole lines that were read.
pub(super) struct ReadBlock {
    pub(super) bytes: Vec<u8>,
    /// Bytes after them that were dropped.
    pub(super) dropped: u64,
    /// They end at a quiet place.
    pub(super) is_quiet: bool,
    /// Nothing more had come.
    pub(super) is_idle: bool,
}

/// Reads blocks from a stream.
pub(super) struct BlockReader {
    reader: Box<dyn Read + Send>,
    /// The bytes after the last block that were read with it.
    rest: Vec<u8>,
    ended: bool,
}

impl BlockReader {
    /// Begins with the first block of `reader`.
    pub(super) fn new(reader: Box<dyn Read + Send>) -> BlockReader {
        BlockReader {
            reader,
            rest: Vec::new(),
            ended: false,
        }
    }

    /// Returns the next block, which begins at a `quiet` place or not: whole lines, or the beginning of a
    /// line that is too long. An error ends the stream.
    pub(super) fn next_block(
        &mut self,
        quiet: bool,
        place: CutClassifier,
    ) -> io::Result<Option<ReadBlock>> {
        let block = self.read_block(quiet, place);
        if block.is_err() {
            self.ended = true;
            self.rest.clear();
        }
        block
    }

    fn read_block(&mut self, quiet: bool, place: CutClassifier) -> io::Result<Option<ReadBlock>> {
        let mut bytes = std::mem::take(&mut self.rest);
        loop {
            let mut is_idle = false;
            if !self.ended {
                let have = bytes.len();
                let most = have.max(READ_CHUNK_BYTES / 2) + READ_CHUNK_BYTES;
                is_idle = self.fill_bytes(&mut bytes, most)? == FillEnd::Idle;
                // The bytes before could not be handed over either.
                if is_idle && bytes.len() == have {
                    continue;
                }
            }
            let (mut dropped, mut is_quiet) = (0, false);
            if let Some((begin, end)) = find_over_long_line(&bytes) {
                is_idle = false;
                if begin > 0 {
                    self.rest = bytes.split_off(begin);
                } else {
                    dropped = (end - MAX_LINE_BYTES) as u64;
                    match bytes.get(end + 1..) {
                        Some(next) => self.rest.extend_from_slice(next),
                        None => dropped += self.drop_line()?,
                    }
                    bytes.truncate(MAX_LINE_BYTES);
                }
            } else if self.ended {
                if bytes.is_empty() {
                    return Ok(None);
                }
                is_quiet = true;
            } else {
                let Some((at, is_cut_quiet)) = find_best_cut(&bytes, quiet, place) else {
                    continue;
                };
                // The other half of a torn line is waited for.
                if is_idle && !is_cut_quiet && bytes.len() < READ_CHUNK_BYTES {
                    continue;
                }
                is_quiet = is_cut_quiet;
                self.rest.extend_from_slice(&bytes[at..]);
                bytes.truncate(at);
            }
            return Ok(Some(ReadBlock {
                bytes,
                dropped,
                is_quiet,
                is_idle,
            }));
        }
    }

    /// Drops the rest of a line that is too long, up to its end. Returns how many bytes.
    fn drop_line(&mut self) -> io::Result<u64> {
        let (mut block, mut dropped) = (Vec::new(), 0);
        while !self.ended {
            block.clear();
            self.fill_bytes(&mut block, READ_CHUNK_BYTES)?;
            if let Some(end) = memchr(b'\n', &block) {
                self.rest.extend_from_slice(&block[end + 1..]);
                return Ok(dropped + end as u64);
            }
            dropped += block.len() as u64;
        }
        Ok(dropped)
    }

    /// Reads until `to` has `most` bytes, the input ends or it is idle.
    fn fill_bytes(&mut self, to: &mut Vec<u8>, most: usize) -> io::Result<FillEnd> {
        let end = fill_until_idle(&mut *self.reader, to, most)?;
        self.ended = end == FillEnd::Ended;
        Ok(end)
    }
}
