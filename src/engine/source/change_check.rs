//! Checks that an input does not change between two passes. The first pass notes its length and hashes
//! of a few of its bytes; a later pass reads exactly that length and compares the hashes. A log that has
//! grown is read up to its old length; a log that was truncated or overwritten is an error.

use super::limits::{HASH_BLOCK_BYTES, HASH_STRIDE_BYTES};
use super::read::fill_buffer;
use crate::error::{Error, Result};
use crate::pool::lock_mutex;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The message for an input that changed between two passes.
const FILE_CHANGED_MESSAGE: &str = "the file was truncated, overwritten or replaced while it was read: run \
                       again when it is complete, or read a copy of it";

/// The length and hashes that the first pass over an input noted.
#[derive(Debug)]
pub(super) struct InputFingerprint {
    name: String,
    seen: Mutex<FingerprintState>,
    /// A pass has begun.
    begun: AtomicBool,
}

#[derive(Debug, Default)]
struct FingerprintState {
    /// The input's length in bytes; unknown before it is read to its end.
    len: Option<u64>,
    /// The sum of the hashes of each block.
    sums: Vec<u64>,
}

impl InputFingerprint {
    /// Begins the fingerprint of an input that is not read yet.
    pub(super) fn new(name: String) -> InputFingerprint {
        InputFingerprint {
            name,
            seen: Mutex::default(),
            begun: AtomicBool::new(false),
        }
    }

    /// Notes the length at the end of the first pass.
    fn record_length(&self, len: u64) {
        lock_mutex(&self.seen).len = Some(len);
    }

    /// Returns the length of the input in the first pass.
    fn len(&self) -> Option<u64> {
        lock_mutex(&self.seen).len
    }

    /// Notes the `bytes` at `at` of the first pass; in any order.
    fn record_bytes(&self, at: u64, bytes: &[u8]) {
        let mut sums: Vec<(usize, u64)> = Vec::new();
        hash_sampled_bytes(at, bytes, |block, hash| match sums.last_mut() {
            Some((last, sum)) if *last == block => *sum = sum.wrapping_add(hash),
            _ => sums.push((block, hash)),
        });
        let mut seen = lock_mutex(&self.seen);
        for (block, sum) in sums {
            if seen.sums.len() <= block {
                seen.sums.resize(block + 1, 0);
            }
            seen.sums[block] = seen.sums[block].wrapping_add(sum);
        }
    }

    /// Returns true if the whole block at `at` is unchanged.
    fn is_same_block(&self, at: u64, block: &[u8]) -> bool {
        let mut sum = 0_u64;
        hash_sampled_bytes(at, block, |_, hash| sum = sum.wrapping_add(hash));
        let number = usize::try_from(at / HASH_BLOCK_BYTES as u64).unwrap_or(usize::MAX);
        lock_mutex(&self.seen)
            .sums
            .get(number)
            .map_or(0, |&sum| sum)
            == sum
    }

    /// Returns the input's `bytes` up to its length in the first pass.
    ///
    /// # Errors
    /// It is shorter.
    pub(super) fn cut_to_length<'b>(&self, bytes: &'b [u8]) -> Result<&'b [u8]> {
        let len = self.len().unwrap_or(bytes.len() as u64);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        bytes.get(..len).ok_or_else(|| self.changed_error())
    }

    /// Checks the blocks that `from..to` is in; `bytes` is the whole input.
    ///
    /// # Errors
    /// They have changed.
    pub(super) fn check_unchanged(&self, bytes: &[u8], from: usize, to: usize) -> Result<()> {
        let bytes = self.cut_to_length(bytes)?;
        for at in (from / HASH_BLOCK_BYTES * HASH_BLOCK_BYTES..to).step_by(HASH_BLOCK_BYTES) {
            let block = &bytes[at.min(bytes.len())..(at + HASH_BLOCK_BYTES).min(bytes.len())];
            if !self.is_same_block(at as u64, block) {
                return Err(self.changed_error());
            }
        }
        Ok(())
    }

    /// Returns the error of an input that changed.
    pub(super) fn changed_error(&self) -> Error {
        Error::Content(format!("{}: {FILE_CHANGED_MESSAGE}", self.name))
    }
}

/// Gives the hash of every sampled byte to `sink`, with its block.
fn hash_sampled_bytes(at: u64, bytes: &[u8], mut sink: impl FnMut(usize, u64)) {
    let end = at + bytes.len() as u64;
    for stride in at / HASH_STRIDE_BYTES..end.div_ceil(HASH_STRIDE_BYTES) {
        // The offset varies, so that lines of equal length are not sampled in one column.
        let place = stride * HASH_STRIDE_BYTES + (stride * 97) % HASH_STRIDE_BYTES;
        if (at..end).contains(&place) {
            let byte = bytes[(place - at) as usize];
            let mixed = (place << 8 | u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            sink(
                (place / HASH_BLOCK_BYTES as u64) as usize,
                mixed ^ mixed >> 32,
            );
        }
    }
}

/// One pass over an input: the first one notes its bytes, a later one checks them.
#[derive(Clone)]
pub(super) struct InputPass {
    fingerprint: Arc<InputFingerprint>,
    is_first: bool,
}

impl InputPass {
    pub(super) fn begin_pass(fingerprint: Arc<InputFingerprint>) -> InputPass {
        let is_first = !fingerprint.begun.swap(true, Ordering::Relaxed);
        InputPass {
            fingerprint,
            is_first,
        }
    }

    /// Notes or returns the length of a mapped input, `bytes`.
    ///
    /// # Errors
    /// It is shorter than in the first pass.
    pub(super) fn mapped_length(&self, bytes: &[u8]) -> Result<usize> {
        if self.is_first {
            self.fingerprint.record_length(bytes.len() as u64);
        }
        Ok(self.fingerprint.cut_to_length(bytes)?.len())
    }

    /// Notes or checks the bytes `from..to` of a mapped input, `bytes`.
    ///
    /// # Errors
    /// They have changed.
    pub(super) fn check_range(&self, bytes: &[u8], from: usize, to: usize) -> Result<()> {
        if self.is_first {
            self.fingerprint.record_bytes(from as u64, &bytes[from..to]);
            return Ok(());
        }
        self.fingerprint.check_unchanged(bytes, from, to)
    }
}

/// One pass over an input that is not mapped.
pub(super) struct CheckedReader<R> {
    inner: R,
    pass: InputPass,
    at: u64,
    /// A block that was checked, and how many of its bytes were given.
    block: Vec<u8>,
    given: usize,
}

impl<R: Read> CheckedReader<R> {
    /// Begins a pass.
    pub(super) fn new(inner: R, fingerprint: Arc<InputFingerprint>) -> CheckedReader<R> {
        CheckedReader {
            inner,
            pass: InputPass::begin_pass(fingerprint),
            at: 0,
            block: Vec::new(),
            given: 0,
        }
    }

    fn read_first_pass(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = fill_buffer(&mut self.inner, to)?;
        let witness = &self.pass.fingerprint;
        witness.record_bytes(self.at, &to[..n]);
        self.at += n as u64;
        if n < to.len() {
            witness.record_length(self.at);
        }
        Ok(n)
    }

    fn read_checked_pass(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.given == self.block.len() {
            let witness = &self.pass.fingerprint;
            let left = witness.len().unwrap_or(0).saturating_sub(self.at);
            let len =
                usize::try_from(left).map_or(HASH_BLOCK_BYTES, |left| left.min(HASH_BLOCK_BYTES));
            if len == 0 {
                return Ok(0);
            }
            // A whole block is read into `to`, without a copy.
            let direct = to.len() >= len;
            if !direct {
                self.block.resize(len, 0);
            }
            let block = if direct {
                &mut to[..len]
            } else {
                &mut self.block[..]
            };
            let n = fill_buffer(&mut self.inner, block)?;
            if n < len || !witness.is_same_block(self.at, block) {
                (self.given, self.block) = (0, Vec::new());
                return Err(io::Error::other(FILE_CHANGED_MESSAGE));
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

impl<R: Read> Read for CheckedReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.pass.is_first {
            self.read_first_pass(to)
        } else {
            self.read_checked_pass(to)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn read(bytes: &[u8], witness: &Arc<InputFingerprint>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        CheckedReader::new(Cursor::new(bytes), Arc::clone(witness)).read_to_end(&mut out)?;
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
        let witness = Arc::new(InputFingerprint::new("a.log".into()));
        for _ in 0..2 {
            let (mut pass, mut all) = (
                CheckedReader::new(Stutter(&log, false), Arc::clone(&witness)),
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
        for len in [
            0,
            1,
            255,
            5000,
            HASH_BLOCK_BYTES - 1,
            HASH_BLOCK_BYTES,
            2 * HASH_BLOCK_BYTES + 777,
        ] {
            let log = text(len, 1);
            let witness = Arc::new(InputFingerprint::new("a.log".into()));
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
            cuts in proptest::collection::vec(0..3 * HASH_BLOCK_BYTES, 0..9),
            change in proptest::option::of(0..3 * HASH_BLOCK_BYTES),
        ) {
            let mut log = text(3 * HASH_BLOCK_BYTES, 3);
            let witness = InputFingerprint::new("a.log".into());
            let mut cuts = cuts;
            cuts.extend([0, log.len()]);
            cuts.sort_unstable();
            for part in cuts.windows(2).rev() {
                witness.record_bytes(part[0] as u64, &log[part[0]..part[1]]);
            }
            witness.record_length(log.len() as u64);
            prop_assert!(witness.check_unchanged(&log, 0, log.len()).is_ok());
            prop_assert!(witness.check_unchanged(&log[..2 * HASH_BLOCK_BYTES], 0, HASH_BLOCK_BYTES).is_err());
            if let Some(at) = change {
                let to = log.len().min(at + 8192);
                log[at..to].iter_mut().for_each(|b| *b = b.wrapping_add(1));
                if to - at == 8192 {
                    prop_assert!(witness.check_unchanged(&log, at, to).is_err());
                }
            }
        }
    }
}
