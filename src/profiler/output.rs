//! The file, which always ends with a whole frame.

use crate::limits::MAX_NAMESAKES;
use nccl_pipe_recording::{FrameKind, MAGIC, append_frame};
use std::ffi::OsString;
use std::fs::{File, OpenOptions, create_dir_all};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A file that frames are appended to.
#[derive(Debug)]
pub(crate) struct RecordFile {
    file: File,
    /// Bytes of the file up to its last whole frame.
    length: u64,
    /// The number of the next frame.
    next: u32,
    bytes: Vec<u8>,
}

impl RecordFile {
    /// Makes the file, under another name if there is one of its name.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn create(path: &Path) -> io::Result<(RecordFile, PathBuf)> {
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            create_dir_all(folder)?;
        }
        for namesake in 0..MAX_NAMESAKES {
            let mut name = OsString::from(path);
            if namesake > 0 {
                name.push(format!(".{namesake}"));
            }
            // A file of the name may be another process's; a pipe of the name would wait for its reader.
            match OpenOptions::new().append(true).create_new(true).open(&name) {
                Ok(file) => return RecordFile::begin(file).map(|made| (made, name.into())),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn begin(mut file: File) -> io::Result<RecordFile> {
        file.write_all(MAGIC)?;
        Ok(RecordFile {
            file,
            length: MAGIC.len() as u64,
            next: 0,
            bytes: Vec::new(),
        })
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// It cannot be written, as where the disk is full: the file ends as before.
    pub(crate) fn write_frame(&mut self, kind: FrameKind, body: &[u8]) -> io::Result<()> {
        self.bytes.clear();
        append_frame(&mut self.bytes, kind, self.next, body);
        if let Err(error) = self.file.write_all(&self.bytes) {
            // If that fails too, readers pass the part of a frame.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += self.bytes.len() as u64;
        self.next = self.next.wrapping_add(1);
        Ok(())
    }
}
