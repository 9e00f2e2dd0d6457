//! Calls of a pipe that wait for their steps: in memory up to a limit, beyond it in a temporary file.

use super::records::Records;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The calls of a chunk that are not all written.
#[derive(Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) records: Records,
    /// How many of them are written.
    pub(super) written: usize,
}

impl Default for Pending {
    fn default() -> Pending {
        Pending {
            records: Records::apart(),
            written: 0,
        }
    }
}

/// Chunks' calls in their order.
pub(super) struct Held {
    first: VecDeque<Pending>,
    /// Their bytes in memory, and how many they may be.
    bytes: usize,
    most: usize,
    /// What comes after them.
    later: Option<Later>,
}

/// What is in the temporary file.
struct Later {
    file: File,
    /// Where the next chunk begins, and how long each is.
    at: u64,
    lengths: VecDeque<usize>,
}

impl Held {
    /// Nothing yet; `most` bytes may be in memory.
    pub(super) fn new(most: usize) -> Held {
        Held {
            first: VecDeque::new(),
            bytes: 0,
            most,
            later: None,
        }
    }

    /// Adds a chunk's calls.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub(super) fn push(&mut self, pending: Pending) -> Result<()> {
        let bytes = pending.records.bytes();
        let is_full = !self.first.is_empty() && self.bytes.saturating_add(bytes) > self.most;
        if !is_full
            && self
                .later
                .as_ref()
                .is_none_or(|later| later.lengths.is_empty())
        {
            self.bytes += bytes;
            self.first.push_back(pending);
            return Ok(());
        }
        let text = postcard::to_stdvec(&pending).map_err(|e| failed(&e))?;
        let later = match &mut self.later {
            Some(later) => later,
            none => none.insert(Later {
                file: tempfile::tempfile().map_err(|e| failed(&e))?,
                at: 0,
                lengths: VecDeque::new(),
            }),
        };
        let before: usize = later.lengths.iter().sum();
        let end = later.at + before as u64;
        later
            .file
            .write_all_at(&text, end)
            .map_err(|e| failed(&e))?;
        later.lengths.push_back(text.len());
        Ok(())
    }

    /// The first chunk's calls.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub(super) fn first(&mut self) -> Result<Option<&mut Pending>> {
        if self.first.is_empty()
            && let Some(later) = &mut self.later
            && let Some(pending) = later.next()?
        {
            self.bytes += pending.records.bytes();
            self.first.push_back(pending);
        }
        Ok(self.first.front_mut())
    }

    /// The gap at which the first chunk begins whose calls are not all written; `None` where all are.
    pub(super) fn first_gap(&self) -> Option<u32> {
        self.first
            .front()
            .map(|pending| pending.records.first_gap())
    }

    /// Drops the first chunk's calls.
    pub(super) fn pop(&mut self) {
        if let Some(pending) = self.first.pop_front() {
            self.bytes = self.bytes.saturating_sub(pending.records.bytes());
        }
    }
}

impl Later {
    fn next(&mut self) -> Result<Option<Pending>> {
        let Some(length) = self.lengths.pop_front() else {
            return Ok(None);
        };
        let mut text = vec![0; length];
        let read = self.file.read_exact_at(&mut text, self.at);
        read.map_err(|e| failed(&e))?;
        self.at += length as u64;
        if self.lengths.is_empty() {
            self.at = 0;
            self.file.set_len(0).map_err(|e| failed(&e))?;
        }
        postcard::from_bytes(&text)
            .map(Some)
            .map_err(|e| failed(&e))
    }
}

fn failed(cause: &dyn std::fmt::Display) -> Error {
    Error::Output(io::Error::other(format!(
        "calls that wait for their step cannot be held in a temporary file: {cause} (set TMPDIR to a \
         folder with more space, or --hold to more memory)"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pending(written: usize) -> Pending {
        Pending {
            written,
            ..Pending::default()
        }
    }

    proptest! {
        /// However little memory there is, calls come in their order.
        #[test]
        fn what_is_held_comes_in_its_order(
            pushed in proptest::collection::vec(any::<bool>(), 0..60),
            most in 0..3000_usize,
        ) {
            let mut held = Held::new(most);
            let (mut next, mut twin) = (0, VecDeque::new());
            for push in pushed {
                if push {
                    held.push(pending(next)).unwrap();
                    twin.push_back(next);
                    next += 1;
                } else {
                    let first = held.first().unwrap().map(|pending| pending.written);
                    prop_assert_eq!(first, twin.pop_front());
                    held.pop();
                }
            }
        }
    }
}
