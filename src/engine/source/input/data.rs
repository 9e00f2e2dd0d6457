//! The bytes of an input, and the ways to read them.

use crate::source::coded::{DecodedText, UnpackDamageSlot, decode_text};
use crate::source::guard::FileMap;
use crate::source::pipe::SharedPipe;
use crate::source::pipe::copy_store::PipeCopyStore;
use crate::source::pipe::spool::PipeSpool;
use crate::source::read::PositionedReader;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

/// The bytes of an input, and the way to read them.
pub(in crate::source) enum InputData {
    Map(Arc<FileMap>),
    /// A map with lines to join.
    Blocks(Arc<FileMap>),
    /// A file that is read anew for each pass, unpacked if it is packed.
    Again(FileSource),
    /// A pipe: one pass only.
    Pipe(Arc<SharedPipe>, PipeKeep),
    /// A pipe that was read, without the dropped lines.
    Thinned(PipeSpool),
}

/// The part of a pipe that is kept while it is read.
pub(in crate::source) enum PipeKeep {
    Nothing,
    Copy(PipeCopyStore),
    Spool(PipeSpool),
}

/// A file that can be read from its first byte any number of times.
#[derive(Clone)]
pub(in crate::source) enum FileSource {
    Path(PathBuf),
    /// Standard input, from the byte at which it was opened.
    Open(Arc<File>, u64),
}

impl FileSource {
    fn open_bytes(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            FileSource::Path(path) => Box::new(File::open(path)?),
            FileSource::Open(file, from) => {
                Box::new(PositionedReader::new(Arc::clone(file), *from))
            }
        })
    }

    /// Opens the file's text.
    pub(super) fn open_text(&self, damage: &UnpackDamageSlot) -> io::Result<DecodedText> {
        decode_text(self.open_bytes()?, damage)
    }
}
