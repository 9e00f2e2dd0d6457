//! A pipe copied to a file while it is read.

use std::fs::File;
use std::io::{self, Read, Write};

/// Gives what it reads, and writes it to a file.
pub(super) struct Copying<R> {
    inner: R,
    file: File,
}

impl<R> Copying<R> {
    pub(super) fn new(inner: R, file: File) -> Copying<R> {
        Copying { inner, file }
    }
}

impl<R: Read> Read for Copying<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(to)?;
        let copied = self.file.write_all(&to[..n]);
        copied.map_err(|e| io::Error::other(failed(&e)))?;
        Ok(n)
    }
}

/// Gives the space of a file's first bytes back to its disk: they are read as zeros from now on. Where
/// the disk cannot do that, they stay.
pub(super) fn give_back(file: &File, until: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(file, flags, 0, until);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, until);
}

/// What is wrong where a pipe cannot be copied.
pub(super) fn failed(cause: &io::Error) -> String {
    format!(
        "cannot copy the pipe to a temporary file: {cause} (set TMPDIR to a folder with more space, \
         or read the log as a file)"
    )
}
