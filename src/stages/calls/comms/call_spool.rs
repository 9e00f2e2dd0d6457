//! Calls of a pipe that wait for their steps: in memory up to a limit, beyond it in a temporary file.

use super::order::ChunkQueue;
use super::records::ChunkRecords;
use crate::error::{Error, Result};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Chunks' calls in their order.
pub(super) struct CallSpool {
    /// The number of the first chunk.
    first: u64,
    chunks: VecDeque<SpooledChunk>,
    /// The bytes of those in memory, and how many they may be.
    bytes: usize,
    most: usize,
    later: Option<SpoolFile>,
    /// The one that was read last.
    read: Option<(u64, Arc<ChunkRecords>)>,
}

/// Where a chunk's calls are.
enum SpooledChunk {
    Memory(Arc<ChunkRecords>),
    /// In the temporary file: from where on, and how long.
    File(u64, usize),
}

/// The temporary file.
struct SpoolFile {
    file: File,
    /// Where the next chunk goes, and how many are in it.
    end: u64,
    chunks: usize,
}

impl CallSpool {
    /// Nothing yet; `most` bytes may be in memory.
    pub(super) fn new(most: usize) -> CallSpool {
        CallSpool {
            first: 0,
            chunks: VecDeque::new(),
            bytes: 0,
            most,
            later: None,
            read: None,
        }
    }

    /// True if the next chunk's calls can be held in memory.
    pub(super) fn has_room_for(&self, records: &ChunkRecords) -> bool {
        self.chunks.is_empty() || self.bytes.saturating_add(records.bytes()) <= self.most
    }

    /// Adds a chunk's calls. What goes into the file is as it is now.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub(super) fn push(&mut self, records: Arc<ChunkRecords>) -> Result<()> {
        if self.has_room_for(&records) {
            self.bytes += records.bytes();
            self.chunks.push_back(SpooledChunk::Memory(records));
            return Ok(());
        }
        let text = postcard::to_stdvec(&*records).map_err(|e| spool_error(&e))?;
        let later = match &mut self.later {
            Some(later) => later,
            none => none.insert(SpoolFile {
                file: tempfile::tempfile().map_err(|e| spool_error(&e))?,
                end: 0,
                chunks: 0,
            }),
        };
        let written = later.file.write_all_at(&text, later.end);
        written.map_err(|e| spool_error(&e))?;
        self.chunks
            .push_back(SpooledChunk::File(later.end, text.len()));
        later.end += text.len() as u64;
        later.chunks += 1;
        Ok(())
    }
}

impl ChunkQueue for CallSpool {
    type Chunk = Arc<ChunkRecords>;

    fn get_chunk(&mut self, number: u64) -> Result<Option<Arc<ChunkRecords>>> {
        let at = number.checked_sub(self.first);
        let place = at.and_then(|at| self.chunks.get(usize::try_from(at).ok()?));
        let (from, length) = match (place, &self.read) {
            (None, _) => return Ok(None),
            (Some(SpooledChunk::Memory(records)), _) => return Ok(Some(Arc::clone(records))),
            (_, Some((read, records))) if *read == number => return Ok(Some(Arc::clone(records))),
            (Some(SpooledChunk::File(from, length)), _) => (*from, *length),
        };
        let Some(later) = &self.later else {
            return Ok(None);
        };
        let records = Arc::new(later.read_records(from, length)?);
        self.read = Some((number, Arc::clone(&records)));
        Ok(Some(records))
    }

    fn drop_chunks_before(&mut self, number: u64) -> Result<()> {
        while self.first < number
            && let Some(place) = self.chunks.pop_front()
        {
            self.first += 1;
            match place {
                SpooledChunk::Memory(records) => {
                    self.bytes = self.bytes.saturating_sub(records.bytes());
                }
                SpooledChunk::File(..) => self.drop_spooled_chunk()?,
            }
        }
        // The first one may wait for long: in the file it would keep that from being emptied.
        if let (Some(SpooledChunk::File(from, length)), Some(later)) =
            (self.chunks.front(), &self.later)
        {
            let records = later.read_records(*from, *length)?;
            self.bytes += records.bytes();
            self.chunks[0] = SpooledChunk::Memory(Arc::new(records));
            self.drop_spooled_chunk()?;
        }
        Ok(())
    }
}

impl CallSpool {
    /// One less is in the file.
    fn drop_spooled_chunk(&mut self) -> Result<()> {
        let Some(later) = &mut self.later else {
            return Ok(());
        };
        later.chunks -= 1;
        if later.chunks == 0 {
            later.end = 0;
            later.file.set_len(0).map_err(|e| spool_error(&e))?;
        }
        Ok(())
    }
}

impl SpoolFile {
    fn read_records(&self, from: u64, length: usize) -> Result<ChunkRecords> {
        let mut text = vec![0; length];
        let read = self.file.read_exact_at(&mut text, from);
        read.map_err(|e| spool_error(&e))?;
        postcard::from_bytes(&text).map_err(|e| spool_error(&e))
    }
}

fn spool_error(cause: &dyn std::fmt::Display) -> Error {
    Error::Output(io::Error::other(format!(
        "calls that wait for their step cannot be held in a temporary file: {cause} (set TMPDIR to a \
         folder with more space, or --hold to more memory)"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::walk::LogVisitor;
    use proptest::prelude::*;

    /// So many marks tell it from others.
    fn records(marks: usize) -> ChunkRecords {
        let mut records = ChunkRecords::new_without_bytes();
        records.set_merged_processes(marks, &crate::members::MergedNumbers::default());
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
            let mut held = CallSpool::new(most);
            let (mut next, mut twin) = (0, VecDeque::new());
            let mut gone = 0;
            for (push, asked) in pushed {
                if push {
                    held.push(Arc::new(records(next))).unwrap();
                    twin.push_back(next);
                    next += 1;
                } else {
                    let found = held.get_chunk(gone + asked).unwrap();
                    let found = found.map(|records| records.first_gap() as usize);
                    prop_assert_eq!(found, twin.get(asked as usize).copied());
                    let n = asked.min(twin.len() as u64);
                    gone += n;
                    twin.drain(..n as usize);
                    held.drop_chunks_before(gone).unwrap();
                    // Of the first chunk the file is empty.
                    let in_file = held.later.as_ref().map_or(0, |later| later.chunks);
                    prop_assert!(in_file < held.chunks.len().max(1));
                }
            }
        }
    }
}
