//! Calls of a pipe that wait for their steps: in memory up to a limit, beyond it in a temporary file.

use super::order::Calls;
use super::records::Records;
use crate::error::{Error, Result};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Chunks' calls in their order.
pub(super) struct Held {
    /// The number of the first chunk.
    first: u64,
    chunks: VecDeque<Place>,
    /// The bytes of those in memory, and how many they may be.
    bytes: usize,
    most: usize,
    later: Option<Later>,
    /// The one that was read last.
    read: Option<(u64, Arc<Records>)>,
}

/// Where a chunk's calls are.
enum Place {
    Memory(Arc<Records>),
    /// In the temporary file: from where on, and how long.
    File(u64, usize),
}

/// The temporary file.
struct Later {
    file: File,
    /// Where the next chunk goes, and how many are in it.
    end: u64,
    chunks: usize,
}

impl Held {
    /// Nothing yet; `most` bytes may be in memory.
    pub(super) fn new(most: usize) -> Held {
        Held {
            first: 0,
            chunks: VecDeque::new(),
            bytes: 0,
            most,
            later: None,
            read: None,
        }
    }

    /// Adds a chunk's calls.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub(super) fn push(&mut self, records: Records) -> Result<()> {
        let bytes = records.bytes();
        if self.chunks.is_empty() || self.bytes.saturating_add(bytes) <= self.most {
            self.bytes += bytes;
            self.chunks.push_back(Place::Memory(Arc::new(records)));
            return Ok(());
        }
        let text = postcard::to_stdvec(&records).map_err(|e| failed(&e))?;
        let later = match &mut self.later {
            Some(later) => later,
            none => none.insert(Later {
                file: tempfile::tempfile().map_err(|e| failed(&e))?,
                end: 0,
                chunks: 0,
            }),
        };
        let written = later.file.write_all_at(&text, later.end);
        written.map_err(|e| failed(&e))?;
        self.chunks.push_back(Place::File(later.end, text.len()));
        later.end += text.len() as u64;
        later.chunks += 1;
        Ok(())
    }
}

impl Calls for Held {
    type Chunk = Arc<Records>;

    fn chunk(&mut self, number: u64) -> Result<Option<Arc<Records>>> {
        let at = number.checked_sub(self.first);
        let place = at.and_then(|at| self.chunks.get(usize::try_from(at).ok()?));
        let (from, length) = match (place, &self.read) {
            (None, _) => return Ok(None),
            (Some(Place::Memory(records)), _) => return Ok(Some(Arc::clone(records))),
            (_, Some((read, records))) if *read == number => return Ok(Some(Arc::clone(records))),
            (Some(Place::File(from, length)), _) => (*from, *length),
        };
        let Some(later) = &self.later else {
            return Ok(None);
        };
        let records = Arc::new(later.read(from, length)?);
        self.read = Some((number, Arc::clone(&records)));
        Ok(Some(records))
    }

    fn let_go(&mut self, number: u64) -> Result<()> {
        while self.first < number
            && let Some(place) = self.chunks.pop_front()
        {
            self.first += 1;
            match place {
                Place::Memory(records) => self.bytes = self.bytes.saturating_sub(records.bytes()),
                Place::File(..) => self.left()?,
            }
        }
        // The first one may wait for long: in the file it would keep that from being emptied.
        if let (Some(Place::File(from, length)), Some(later)) = (self.chunks.front(), &self.later) {
            let records = later.read(*from, *length)?;
            self.bytes += records.bytes();
            self.chunks[0] = Place::Memory(Arc::new(records));
            self.left()?;
        }
        Ok(())
    }
}

impl Held {
    /// One less is in the file.
    fn left(&mut self) -> Result<()> {
        let Some(later) = &mut self.later else {
            return Ok(());
        };
        later.chunks -= 1;
        if later.chunks == 0 {
            later.end = 0;
            later.file.set_len(0).map_err(|e| failed(&e))?;
        }
        Ok(())
    }
}

impl Later {
    fn read(&self, from: u64, length: usize) -> Result<Records> {
        let mut text = vec![0; length];
        let read = self.file.read_exact_at(&mut text, from);
        read.map_err(|e| failed(&e))?;
        postcard::from_bytes(&text).map_err(|e| failed(&e))
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
    use crate::log::walk::Visit;
    use proptest::prelude::*;

    /// So many marks tell it from others.
    fn records(marks: usize) -> Records {
        let mut records = Records::apart();
        records.wait(marks, &crate::members::Renumbered::default());
        records.mark();
        records
    }

    proptest! {
        /// However little memory there is, chunks come in their order, as often as they are asked for.
        #[test]
        fn what_is_held_comes_in_its_order(
            pushed in proptest::collection::vec((any::<bool>(), 0..9_u64), 0..60),
            most in 0..3000_usize,
        ) {
            let mut held = Held::new(most);
            let (mut next, mut twin) = (0, VecDeque::new());
            let mut gone = 0;
            for (push, asked) in pushed {
                if push {
                    held.push(records(next)).unwrap();
                    twin.push_back(next);
                    next += 1;
                } else {
                    let found = held.chunk(gone + asked).unwrap();
                    let found = found.map(|records| records.first_gap() as usize);
                    prop_assert_eq!(found, twin.get(asked as usize).copied());
                    let n = asked.min(twin.len() as u64);
                    gone += n;
                    twin.drain(..n as usize);
                    held.let_go(gone).unwrap();
                    // Of the first chunk the file is empty.
                    let in_file = held.later.as_ref().map_or(0, |later| later.chunks);
                    prop_assert!(in_file < held.chunks.len().max(1));
                }
            }
        }
    }
}
