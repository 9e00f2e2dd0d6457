//! Lines that were cut at the ends of the writers' buffers, joined again.
//!
//! Ranks that share a standard output that is a file or a pipe write through C's buffers. Such a log
//! is a sequence of writes, each of one process and in one piece:
//!
//! ```text
//! 4096 bytes   a full buffer: the tail of the line that the process's last buffer began,
//!              whole lines of the same process, the head of one more line
//! fewer        the last flush, or an early one: the same, but it ends with a line
//! text         text that others print directly: step lines, progress bars
//! ```
//!
//! A line that crosses a buffer's end is joined at its tail, so every line end stays at its place. A
//! write begins where the one before ended; the header on its first whole line names its process;
//! and the grammar decides whether two parts belong together. Text that does not fit is passed on as
//! it is, and counted as damage where damage is counted.

mod block_detection;
mod joiner;
mod line;
mod write_end;
mod write_seam;
mod write_start;
mod writers;

use crate::log::mend::limits::{HEADER_SEARCH_BYTES, MAX_SEAM_TRIES, REJOIN_WINDOW_BYTES};
use crate::log::mend::tagged::{TaggedReader, is_tagged};
use crate::log::mend::upside_down::{TurningReader, is_upside_down};
use crate::source::{FillEnd, LineRejoiner, RejoinCountsSlot, fill_until_idle};
use block_detection::{BlockVerdict, is_blocks, judge_block_writes, whole_lines_length};
use joiner::BlockJoiner;
use memchr::memrchr;
use std::io::{self, Read};
use std::sync::Arc;

/// The way in which [`source`](crate::source) puts the lines of a log in order and joins them: first those that a
/// launcher's tags cut, then those that buffers cut.
pub const BLOCK_REJOINER: LineRejoiner = LineRejoiner {
    may_be_cut: |bytes| is_tagged(bytes) || is_blocks(bytes) || is_upside_down(bytes),
    reader: |inner, found| {
        let turned = TurningReader::new(inner, Arc::clone(&found));
        Box::new(BlockRejoinReader::new(TaggedReader::new(turned), found))
    },
};

/// A log in blocks as its processes wrote it, line by line; any other log as it is.
struct BlockRejoinReader<R> {
    inner: R,
    state: BlockRejoinState,
    /// Bytes that were read and not yet taken.
    window: Vec<u8>,
    /// How many of them were taken; while it is unknown whether the log is in blocks: given out as
    /// they are.
    taken: usize,
    ended: bool,
    /// Bytes that were taken and not yet given out.
    out: Vec<u8>,
    given: usize,
    /// Bytes of the joined log that were given out before it was known to be in blocks.
    before: usize,
    joiner: BlockJoiner,
    seen: RejoinCountsSlot,
    /// The input was idle at the last read: this is reported when everything is given out.
    is_idle: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockRejoinState {
    Unknown,
    Plain,
    Blocks,
}

impl<R: Read> BlockRejoinReader<R> {
    /// Reads a log that is not known to be in blocks.
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

    /// Reads a log that is known to be in blocks.
    #[cfg(test)]
    fn of_blocks(inner: R, seen: RejoinCountsSlot) -> BlockRejoinReader<R> {
        BlockRejoinReader {
            state: BlockRejoinState::Blocks,
            ..BlockRejoinReader::new(inner, seen)
        }
    }

    /// Reads until the window is full or the input is idle.
    fn fill_window(&mut self) -> io::Result<()> {
        self.window.drain(..self.taken);
        self.taken = 0;
        let filled = fill_until_idle(&mut self.inner, &mut self.window, REJOIN_WINDOW_BYTES)?;
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

    /// Publishes the counts so far: before the end, they show that lines are joined.
    fn report_counts(&self) {
        if let Ok(mut seen) = self.seen.lock() {
            *seen = Some(self.joiner.seen);
        }
    }

    /// Drops the bytes that were given out before the log was known to be in blocks: whole lines,
    /// which joining leaves as they are.
    fn skip_given_bytes(&mut self) {
        let n = self.before.min(self.out.len());
        self.out.drain(..n);
        self.before -= n;
    }

    /// Decides from its first bytes whether the log is in blocks. As long as a pipe has given too
    /// few, lines that are certainly whole are given out.
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
