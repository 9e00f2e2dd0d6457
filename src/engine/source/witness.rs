//! An input that is read twice must be the same both times. The first pass over it leaves its
//! length and hashes of a few of its bytes; a later pass gives exactly that length, and nothing
//! that is not as it was: a log that has grown since is read as far as it was, one that was
//! truncated or written anew is an error.

use super::fill;
use crate::error::{Error, Result};
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is said of an input that is not what it was.
const CHANGED: &str = "the file was truncated, overwritten or replaced while it was read: run \
                       again when it is complete, or read a copy of it";

/// Bytes that represent one hash.
const BLOCK: usize = 1 << 20;

/// Of so many bytes one is looked at: all of a log that is written anew differs, and to look at
/// more would cost more than some hundredths of the walk, as each is a line of the cache.
const STRIDE: u64 = 4096;

/// What the first pass over an input saw.
#[derive(Debug)]
pub(super) struct Witness {
    name: String,
    seen: Mutex<Seen>,
    /// A pass has begun.
    begun: AtomicBool,
}

#[derive(Debug, Default)]
struct Seen {
    /// How long the input is; not known before it is read to its end.
    len: Option<u64>,
    /// A sum of hashes for each block.
    sums: Vec<u64>,
}

impl Witness {
    /// Of an input that is not read yet.
    pub(super) fn new(name: String) -> Witness {
        Witness {
            name,
            seen: Mutex::default(),
            begun: AtomicBool::new(false),
        }
    }

    /// A pass begins. True for the first one, which is believed.
    pub(super) fn begins(&self) -> bool {
        !self.begun.swap(true, Ordering::Relaxed)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first pass has come to the end.
    pub(super) fn ended(&self, len: u64) {
        self.seen().len = Some(len);
    }

    /// How long the input was.
    pub(super) fn len(&self) -> Option<u64> {
        self.seen().len
    }

    /// The first pass saw `bytes` at `at`; in any order.
    pub(super) fn saw(&self, at: u64, bytes: &[u8]) {
        let mut sums: Vec<(usize, u64)> = Vec::new();
        hashes(at, bytes, |block, hash| match sums.last_mut() {
            Some((last, sum)) if *last == block => *sum = sum.wrapping_add(hash),
            _ => sums.push((block, hash)),
        });
        let mut seen = self.seen();
        for (block, sum) in sums {
            if seen.sums.len() <= block {
                seen.sums.resize(block + 1, 0);
            }
            seen.sums[block] = seen.sums[block].wrapping_add(sum);
        }
    }

    /// Whether the whole block at `at` is what it was.
    fn is_same(&self, at: u64, block: &[u8]) -> bool {
        let mut sum = 0_u64;
        hashes(at, block, |_, hash| sum = sum.wrapping_add(hash));
        let number = usize::try_from(at / BLOCK as u64).unwrap_or(usize::MAX);
        self.seen().sums.get(number).copied().unwrap_or(0) == sum
    }

    /// All of an input whose bytes are at hand, as far as it was read.
    ///
    /// # Errors
    /// It is shorter.
    pub(super) fn cut<'b>(&self, bytes: &'b [u8]) -> Result<&'b [u8]> {
        let len = self.len().unwrap_or(bytes.len() as u64);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        bytes.get(..len).ok_or_else(|| self.changed())
    }

    /// Holds the blocks that `from..to` is in against what they were; `bytes` are all.
    ///
    /// # Errors
    /// They are not the same.
    pub(super) fn holds(&self, bytes: &[u8], from: usize, to: usize) -> Result<()> {
        let bytes = self.cut(bytes)?;
        for at in (from / BLOCK * BLOCK..to).step_by(BLOCK) {
            let block = &bytes[at.min(bytes.len())..(at + BLOCK).min(bytes.len())];
            if !self.is_same(at as u64, block) {
                return Err(self.changed());
            }
        }
        Ok(())
    }

    /// The error of an input that is not what it was.
    pub(super) fn changed(&self) -> Error {
        Error::Content(format!("{}: {CHANGED}", self.name))
    }
}

/// Gives the hash of every byte that is looked at to `sink`, with its block.
fn hashes(at: u64, bytes: &[u8], mut sink: impl FnMut(usize, u64)) {
    let end = at + bytes.len() as u64;
    for stride in at / STRIDE..end.div_ceil(STRIDE) {
        // Not the same column of lines that are all of one length.
        let place = stride * STRIDE + (stride * 97) % STRIDE;
        if (at..end).contains(&place) {
            let byte = bytes[(place - at) as usize];
            let mixed = (place << 8 | u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            sink((place / BLOCK as u64) as usize, mixed ^ mixed >> 32);
        }
    }
}

/// One pass over an input that is read.
pub(super) struct Pass<R, W> {
    inner: R,
    witness: W,
    is_first: bool,
    at: u64,
    /// A block that is what it was, and how much of it was given.
    block: Vec<u8>,
    given: usize,
}

impl<R: Read, W: AsRef<Witness>> Pass<R, W> {
    /// A pass begins.
    pub(super) fn new(inner: R, witness: W) -> Pass<R, W> {
        let is_first = witness.as_ref().begins();
        Pass {
            inner,
            witness,
            is_first,
            at: 0,
            block: Vec::new(),
            given: 0,
        }
    }

    fn first(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = fill(&mut self.inner, to)?;
        let witness = self.witness.as_ref();
        witness.saw(self.at, &to[..n]);
        self.at += n as u64;
        if n < to.len() {
            witness.ended(self.at);
        }
        Ok(n)
    }

    fn again(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.given == self.block.len() {
            let witness = self.witness.as_ref();
            let left = witness.len().unwrap_or(0).saturating_sub(self.at);
            let len = usize::try_from(left).map_or(BLOCK, |left| left.min(BLOCK));
            if len == 0 {
                return Ok(0);
            }
            // A whole block goes where it is wanted, without a copy.
            let direct = to.len() >= len;
            if !direct {
                self.block.resize(len, 0);
            }
            let block = if direct {
                &mut to[..len]
            } else {
                &mut self.block[..]
            };
            let n = fill(&mut self.inner, block)?;
            if n < len || !witness.is_same(self.at, block) {
                (self.given, self.block) = (0, Vec::new());
                return Err(io::Error::other(CHANGED));
            }
            self.at += n as u64;
            if direct {
                return Ok(n);
            }
            self.given = 0;
        }
        let n = to.len().min(self.block.len() - self.given);
        to[..n].copy_from_slice(&self.block[self.given..self.given + n]);
        self.given += n;
        Ok(n)
    }
}

impl<R: Read, W: AsRef<Witness>> Read for Pass<R, W> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.is_first {
            self.first(to)
        } else {
            self.again(to)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;
    use std::sync::Arc;

    fn read(bytes: &[u8], witness: &Arc<Witness>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Pass::new(Cursor::new(bytes), Arc::clone(witness)).read_to_end(&mut out)?;
        Ok(out)
    }

    /// Gives a few bytes at a time, and between them is interrupted.
    struct Stutter<'b>(&'b [u8], bool);

    impl Read for Stutter<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let n = to.len().min(1000);
            self.0.read(&mut to[..n])
        }
    }

    #[test]
    fn an_interrupted_read_is_tried_again() {
        let log = text(5000, 1);
        let witness = Arc::new(Witness::new("a.log".into()));
        for _ in 0..2 {
            let (mut pass, mut all) = (
                Pass::new(Stutter(&log, false), Arc::clone(&witness)),
                vec![],
            );
            let mut piece = [0; 700];
            // Not `read_to_end`, which would itself try again.
            loop {
                match pass.read(&mut piece).unwrap() {
                    0 => break,
                    n => all.extend_from_slice(&piece[..n]),
                }
            }
            assert!(all == log);
        }
    }

    fn text(len: usize, seed: u32) -> Vec<u8> {
        let mix = |i: usize| (i as u32 ^ seed).wrapping_mul(2_654_435_761) >> 24;
        (0..len).map(|i| mix(i) as u8).collect()
    }

    #[test]
    fn a_second_pass_gives_what_the_first_saw_or_an_error() {
        for len in [0, 1, 255, 5000, BLOCK - 1, BLOCK, 2 * BLOCK + 777] {
            let log = text(len, 1);
            let witness = Arc::new(Witness::new("a.log".into()));
            assert!(read(&log, &witness).unwrap() == log);
            assert!(read(&log, &witness).unwrap() == log, "{len}");
            let grown = [&log[..], b"more"].concat();
            assert!(read(&grown, &witness).unwrap() == log, "{len}");
            if len > 0 {
                assert!(read(&log[..len - 1], &witness).is_err(), "{len}");
            }
            if len >= 5000 {
                assert!(read(&text(len, 2), &witness).is_err(), "{len}");
            }
        }
    }

    proptest! {
        /// However the first pass was cut into pieces, and in whatever order they came.
        #[test]
        fn pieces_add_up_to_the_whole(
            cuts in proptest::collection::vec(0..3 * BLOCK, 0..9),
            change in proptest::option::of(0..3 * BLOCK),
        ) {
            let mut log = text(3 * BLOCK, 3);
            let witness = Witness::new("a.log".into());
            let mut cuts = cuts;
            cuts.extend([0, log.len()]);
            cuts.sort_unstable();
            for part in cuts.windows(2).rev() {
                witness.saw(part[0] as u64, &log[part[0]..part[1]]);
            }
            witness.ended(log.len() as u64);
            prop_assert!(witness.holds(&log, 0, log.len()).is_ok());
            prop_assert!(witness.holds(&log[..2 * BLOCK], 0, BLOCK).is_err());
            if let Some(at) = change {
                let to = log.len().min(at + 8192);
                log[at..to].iter_mut().for_each(|b| *b = b.wrapping_add(1));
                if to - at == 8192 {
                    prop_assert!(witness.holds(&log, at, to).is_err());
                }
            }
        }
    }
}
