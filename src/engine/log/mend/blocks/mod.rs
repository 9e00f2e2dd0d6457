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

mod joiner;
mod line;
mod split;
mod suspect;

use crate::source::{Filled, Found, Rejoin, fill_some};
use joiner::Joiner;
use memchr::memrchr;
use std::io::{self, Read};
use suspect::{Verdict, is_blocks, verdict, whole_until};

/// Bytes in memory at a time.
const WINDOW: usize = 1 << 20;
/// How far after a write's end the next buffer's first header is looked for.
const RUN: usize = 128 << 10;
/// How often it is tried to find a write's end that no buffer's length says. It takes long, and a
/// job has few such places.
const TRIES: u32 = 1 << 14;

/// How [`source`](crate::source) puts a log's lines together.
pub const REJOIN: Rejoin = Rejoin {
    is_blocks,
    reader: |inner, found, is_known| match is_known {
        true => Box::new(Reader::of_blocks(inner, found)),
        false => Box::new(Reader::new(inner, found)),
    },
};

/// A log as its processes wrote it, line by line, if it was written in blocks; else as it is.
struct Reader<R> {
    inner: R,
    state: State,
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
    joiner: Joiner,
    seen: Found,
    /// The input was idle when it was read last: it is to be reported when all is given out.
    is_idle: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unknown,
    Plain,
    Blocks,
}

impl<R: Read> Reader<R> {
    /// Finds out by itself what the log is.
    fn new(inner: R, seen: Found) -> Reader<R> {
        Reader {
            inner,
            state: State::Unknown,
            window: Vec::new(),
            taken: 0,
            ended: false,
            out: Vec::new(),
            given: 0,
            before: 0,
            joiner: Joiner::new(TRIES),
            seen,
            is_idle: false,
        }
    }

    /// Of a log that is known to be in blocks.
    fn of_blocks(inner: R, seen: Found) -> Reader<R> {
        Reader {
            state: State::Blocks,
            ..Reader::new(inner, seen)
        }
    }

    /// Reads until the window is full, or the input is idle.
    fn fill(&mut self) -> io::Result<()> {
        self.window.drain(..self.taken);
        self.taken = 0;
        let have = self.window.len();
        self.window.resize(have.max(WINDOW), 0);
        let read = fill_some(&mut self.inner, &mut self.window[have..]);
        let n = read.as_ref().map_or(0, |(n, _)| *n);
        self.window.truncate(have + n);
        let filled = read?.1;
        self.ended = filled == Filled::Ended;
        self.is_idle = filled == Filled::Idle;
        Ok(())
    }

    /// Takes writes until there is something to give out.
    fn advance(&mut self) -> io::Result<()> {
        self.out.clear();
        self.given = 0;
        while self.out.is_empty() {
            if !self.ended {
                self.fill()?;
            }
            let enough = if self.ended { 1 } else { 2 * RUN };
            while self.window.len() - self.taken >= enough {
                let rest = &self.window[self.taken..];
                self.taken += self.joiner.next(rest, self.ended, &mut self.out);
                self.leave_out();
            }
            if self.ended {
                self.joiner.finish(&mut self.out);
                self.leave_out();
                self.tell();
                return Ok(());
            }
            if self.is_idle {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Tells what was put together so far: before the end, that anything is.
    fn tell(&self) {
        if let Ok(mut seen) = self.seen.lock() {
            *seen = Some(self.joiner.seen);
        }
    }

    /// Leaves out what was given out before it was known what the log is: whole lines, which are put
    /// together as they are.
    fn leave_out(&mut self) {
        let n = self.before.min(self.out.len());
        self.out.drain(..n);
        self.before -= n;
    }

    /// Finds out what the log is from its first bytes. Of a pipe that has not given as many yet, lines
    /// that are whole for sure are given out until they tell.
    fn look(&mut self) -> io::Result<()> {
        let given = std::mem::take(&mut self.taken);
        self.fill()?;
        self.taken = given;
        let lines = match self.is_idle {
            true => memrchr(b'\n', &self.window).map_or(0, |end| end + 1),
            false => self.window.len(),
        };
        let lines = &self.window[..lines];
        if is_blocks(lines) {
            self.state = State::Blocks;
            (self.before, self.taken) = (given, 0);
            self.tell();
            return Ok(());
        }
        let whole = whole_until(lines);
        let is_plain = !self.is_idle || whole < lines.len() && verdict(lines) == Verdict::Lines;
        self.given = 0;
        if is_plain {
            self.state = State::Plain;
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

impl<R: Read> Read for Reader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.given == self.out.len() && !self.is_idle {
            if self.state == State::Unknown {
                self.look()?;
            }
            let is_given = self.given == self.out.len();
            match self.state {
                State::Blocks if is_given && !(self.ended && self.taken == self.window.len()) => {
                    self.advance()?;
                }
                State::Plain if is_given && !self.ended => {
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
