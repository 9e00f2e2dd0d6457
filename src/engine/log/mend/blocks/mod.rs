//! Lines that were cut at the ends of the writers' buffers, put together again.
//!
//! Ranks that share one standard output which is a file or a pipe write through C's buffers: the
//! log is not a sequence of lines but of writes, each at one go and from one process:
//!
//! ```text
//! 4096 bytes   a full buffer: the end of the process's line that its last one began,
//!              whole lines of the same process, the beginning of one more
//! fewer        the last flush, or an early one: the same, but it ends with a line
//! text         what others print directly: step lines, progress bars
//! ```
//!
//! A line that goes over a buffer's end is joined where its end stands, so every line end stays
//! where it was. Where a write begins is known from where the one before ended; whose it is, by
//! the header on its first whole line; and that the two parts belong together, by the grammar.
//! What does not fit is passed on as it is, and counted as damage where damage is counted.

mod block_detection;
mod joiner;
mod line;
mod write_seam;

use crate::source::{FillEnd, LineRejoiner, RejoinCountsSlot, fill_until_idle};
use block_detection::{BlockVerdict, is_blocks, judge_block_writes, whole_lines_length};
use joiner::BlockJoiner;
use memchr::memrchr;
use std::io::{self, Read};

/// Bytes in memory at a time.
const REJOIN_WINDOW_BYTES: usize = 1 << 20;
/// How far after a write's end the next buffer's first header is looked for.
const HEADER_SEARCH_BYTES: usize = 128 << 10;
/// How often it is tried to find a write's end that no buffer's length says. It takes long, and a
/// job has few such places.
const MAX_SEAM_TRIES: u32 = 1 << 14;

/// How [`source`](crate::source) puts a log's lines together.
pub const BLOCK_REJOINER: LineRejoiner = LineRejoiner {
    is_blocks,
    reader: |inner, found, is_known| match is_known {
        true => Box::new(BlockRejoinReader::of_blocks(inner, found)),
        false => Box::new(BlockRejoinReader::new(inner, found)),
    },
};

/// A log as its processes wrote it, line by line, if it was written in blocks; else as it is.
struct BlockRejoinReader<R> {
    inner: R,
    state: BlockRejoinState,
    /// What was read and not yet taken.
    window: Vec<u8>,
    /// How much of it was taken; as long as it is unknown what the log is: given out as it is.
    taken: usize,
    ended: bool,
    /// What was taken and not yet given out.
    out: Vec<u8>,
    given: usize,
    /// So many bytes of what is put together were given out before it was known what the log is.
    before: usize,
    joiner: BlockJoiner,
    seen: RejoinCountsSlot,
    /// The input was idle when it was read last: it is to be reported when all is given out.
    is_idle: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockRejoinState {
    Unknown,
    Plain,
    Blocks,
}

impl<R: Read> BlockRejoinReader<R> {
    /// Finds out by itself what the log is.
    fn new(inner: R, seen: RejoinCountsSlot) -> BlockRejoinReader<R> {
        BlockRejoinReader {
            inner,
            state: BlockRejoinState::Unknown,
            window: Vec::new(),
            taken: 0,
            ended: false,
            out: Vec::new(),
            given: 0,
            before: 0,
            joiner: BlockJoiner::new(MAX_SEAM_TRIES),
            seen,
            is_idle: false,
        }
    }

    /// Of a log that is known to be in blocks.
    fn of_blocks(inner: R, seen: RejoinCountsSlot) -> BlockRejoinReader<R> {
        BlockRejoinReader {
            state: BlockRejoinState::Blocks,
            ..BlockRejoinReader::new(inner, seen)
        }
    }

    /// Reads until the window is full, or the input is idle.
    fn fill_window(&mut self) -> io::Result<()> {
        self.window.drain(..self.taken);
        self.taken = 0;
        let have = self.window.len();
        self.window.resize(have.max(REJOIN_WINDOW_BYTES), 0);
        let read = fill_until_idle(&mut self.inner, &mut self.window[have..]);
        let n = read.as_ref().map_or(0, |(n, _)| *n);
        self.window.truncate(have + n);
        let filled = read?.1;
        self.ended = filled == FillEnd::Ended;
        self.is_idle = filled == FillEnd::Idle;
        Ok(())
    }

    /// Takes writes until there is something to give out.
    fn advance_output(&mut self) -> io::Result<()> {
        self.out.clear();
        self.given = 0;
        while self.out.is_empty() {
            if !self.ended {
                self.fill_window()?;
            }
            let enough = if self.ended {
                1
            } else {
                2 * HEADER_SEARCH_BYTES
            };
            while self.window.len() - self.taken >= enough {
                let rest = &self.window[self.taken..];
                self.taken += self.joiner.take_write(rest, self.ended, &mut self.out);
                self.skip_given_bytes();
            }
            if self.ended {
                self.joiner.finish(&mut self.out);
                self.skip_given_bytes();
                self.report_counts();
                return Ok(());
            }
            if self.is_idle {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Tells what was put together so far: before the end, that anything is.
    fn report_counts(&self) {
        if let Ok(mut seen) = self.seen.lock() {
            *seen = Some(self.joiner.seen);
        }
    }

    /// Leaves out what was given out before it was known what the log is: whole lines, which are put
    /// together as they are.
    fn skip_given_bytes(&mut self) {
        let n = self.before.min(self.out.len());
        self.out.drain(..n);
        self.before -= n;
    }

    /// Finds out what the log is from its first bytes. Of a pipe that has not given as many yet, lines
    /// that are whole for sure are given out until they tell.
    fn detect_blocks(&mut self) -> io::Result<()> {
        let given = std::mem::take(&mut self.taken);
        self.fill_window()?;
        self.taken = given;
        let lines = match self.is_idle {
            true => memrchr(b'\n', &self.window).map_or(0, |end| end + 1),
            false => self.window.len(),
        };
        let lines = &self.window[..lines];
        if is_blocks(lines) {
            self.state = BlockRejoinState::Blocks;
            (self.before, self.taken) = (given, 0);
            self.report_counts();
            return Ok(());
        }
        let whole = whole_lines_length(lines);
        let is_plain = !self.is_idle
            || whole < lines.len() && judge_block_writes(lines) == BlockVerdict::Lines;
        self.given = 0;
        if is_plain {
            self.state = BlockRejoinState::Plain;
            self.out = std::mem::take(&mut self.window).split_off(given);
            self.taken = 0;
        } else {
            let whole = whole.max(given);
            self.out = self.window[given..whole].to_vec();
            self.taken = whole;
        }
        Ok(())
    }
}

impl<R: Read> Read for BlockRejoinReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.given == self.out.len() && !self.is_idle {
            if self.state == BlockRejoinState::Unknown {
                self.detect_blocks()?;
            }
            let is_given = self.given == self.out.len();
            match self.state {
                BlockRejoinState::Blocks
                    if is_given && !(self.ended && self.taken == self.window.len()) =>
                {
                    self.advance_output()?;
                }
                BlockRejoinState::Plain if is_given && !self.ended => {
                    self.out = Vec::new();
                    self.given = 0;
                    return self.inner.read(to);
                }
                _ => {}
            }
        }
        if self.given == self.out.len() && std::mem::take(&mut self.is_idle) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = to.len().min(self.out.len() - self.given);
        to[..n].copy_from_slice(&self.out[self.given..self.given + n]);
        self.given += n;
        Ok(n)
    }
}
#[cfg(test)]
mod tests;
