//! Where the bytes go.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// Takes the log. Streams are numbered: one in all, or one a process.
pub trait LogSink {
    /// A stream begins; `name` is the file's.
    fn open(&mut self, stream: usize, name: &str) -> io::Result<()>;
    /// Bytes of a stream.
    fn write(&mut self, stream: usize, bytes: &[u8]) -> io::Result<()>;
    /// Everything is written: what fails only now must not be lost.
    fn finish(&mut self) -> io::Result<()>;
}

/// Writes the bytes of all streams into one writer.
#[derive(Debug)]
pub struct StreamSink<W: Write>(BufWriter<W>);

impl<W: Write> StreamSink<W> {
    /// Buffers a megabyte.
    pub fn new(inner: W) -> Self {
        Self(BufWriter::with_capacity(1 << 20, inner))
    }
}

impl<W: Write> LogSink for StreamSink<W> {
    fn open(&mut self, _: usize, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, _: usize, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A file for each stream in one folder.
#[derive(Debug)]
pub struct FolderSink {
    folder: PathBuf,
    files: HashMap<usize, BufWriter<File>>,
}

impl FolderSink {
    /// Makes the folder if it is not there.
    pub fn new(folder: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        Ok(Self {
            folder,
            files: HashMap::new(),
        })
    }
}

impl LogSink for FolderSink {
    fn open(&mut self, stream: usize, name: &str) -> io::Result<()> {
        let file = BufWriter::with_capacity(1 << 16, File::create(self.folder.join(name))?);
        self.files.insert(stream, file);
        Ok(())
    }

    fn write(&mut self, stream: usize, bytes: &[u8]) -> io::Result<()> {
        match self.files.get_mut(&stream) {
            Some(file) => file.write_all(bytes),
            None => Err(io::Error::other(format!("stream {stream} was not opened"))),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.files.values_mut().try_for_each(Write::flush)
    }
}
