//! A copy of a pipe, made while it is read: in memory up to a limit, beyond it in a temporary file.

use super::limits::MAX_COPY_MEMORY_BYTES;
use crate::pool::lock_mutex;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

/// A copy, in memory as long as it is small.
#[derive(Debug, Clone)]
pub(in crate::source) struct PipeCopyStore(Arc<Mutex<PipeCopyState>>);

#[derive(Debug)]
struct PipeCopyState {
    file: File,
    is_in_memory: bool,
    /// The space before this byte was given back.
    from: u64,
    len: u64,
}

impl PipeCopyStore {
    /// Makes an empty copy.
    pub(in crate::source) fn new() -> io::Result<PipeCopyStore> {
        let (file, is_in_memory) = match create_memory_file() {
            Some(file) => (file, true),
            None => (tempfile::tempfile()?, false),
        };
        Ok(PipeCopyStore(Arc::new(Mutex::new(PipeCopyState {
            file,
            is_in_memory,
            from: 0,
            len: 0,
        }))))
    }

    /// Returns the present file; later bytes may go to another one.
    pub(in crate::source) fn clone_copy_file(&self) -> io::Result<File> {
        lock_mutex(&self.0).file.try_clone()
    }

    /// Gives the space of the first bytes back: they are read as zeros from now on. If the disk cannot do
    /// that, they stay.
    pub(in crate::source) fn release_space(&self, until: u64) {
        let mut stored = lock_mutex(&self.0);
        if until > stored.from {
            stored.from = until;
            punch_hole(&stored.file, until);
        }
    }

    /// Adds bytes at the end of the copy.
    pub(in crate::source) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stored = lock_mutex(&self.0);
        let held = stored.len.saturating_sub(stored.from) + bytes.len() as u64;
        if stored.is_in_memory && held > MAX_COPY_MEMORY_BYTES {
            stored.move_to_disk()?;
        }
        stored.file.write_all_at(bytes, stored.len)?;
        stored.len += bytes.len() as u64;
        Ok(())
    }
}

impl PipeCopyState {
    /// Moves the bytes that are still there to a temporary file, at their places.
    fn move_to_disk(&mut self) -> io::Result<()> {
        let disk = tempfile::tempfile()?;
        let mut piece = vec![0; 1 << 20];
        let mut at = self.from;
        while at < self.len {
            let most = piece.len().min((self.len - at) as usize);
            let n = self.file.read_at(&mut piece[..most], at)?;
            if n == 0 {
                break;
            }
            disk.write_all_at(&piece[..n], at)?;
            at += n as u64;
        }
        (self.file, self.is_in_memory) = (disk, false);
        Ok(())
    }
}

/// Makes a file without a name in memory, if the system can.
fn create_memory_file() -> Option<File> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{MemfdFlags, memfd_create};
        let file = memfd_create("nccl-pipe", MemfdFlags::CLOEXEC).ok()?;
        Some(File::from(file))
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// Makes a hole of a file's first bytes.
fn punch_hole(file: &File, until: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(file, flags, 0, until);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, until);
}

/// Returns the message for a pipe that cannot be copied.
pub(in crate::source) fn copy_failure(cause: &io::Error) -> String {
    format!(
        "cannot copy the pipe to a temporary file: {cause} (set TMPDIR to a folder with more space, \
         or read the log as a file)"
    )
}

/// Returns the error of a copy that cannot be written or read.
pub(in crate::source) fn copy_error(cause: io::Error) -> io::Error {
    io::Error::other(copy_failure(&cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_goes_to_a_disk_when_it_is_large_and_stays_what_it_was() {
        let store = PipeCopyStore::new().unwrap();
        let piece: Vec<u8> = (0..1 << 20).map(|n: u32| (n % 251) as u8).collect();
        let at = |store: &PipeCopyStore, at: u64| {
            let mut bytes = vec![0; 1000];
            let file = store.clone_copy_file().unwrap();
            file.read_exact_at(&mut bytes, at).unwrap();
            bytes
        };
        // What was given back does not count.
        for n in 0..100_u64 {
            store.append(&piece).unwrap();
            store.release_space((n + 1).saturating_sub(50) << 20);
        }
        assert_eq!(lock_mutex(&store.0).is_in_memory, cfg!(target_os = "linux"));
        assert_eq!(at(&store, 60 << 20), piece[..1000]);
        for _ in 0..50 {
            store.append(&piece).unwrap();
        }
        assert!(!lock_mutex(&store.0).is_in_memory);
        for place in [60_u64, 149] {
            assert_eq!(at(&store, place << 20), piece[..1000]);
        }
    }
}
