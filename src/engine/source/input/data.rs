//! The bytes of an input, and the ways to open and read them.

use crate::error::{Error, Result};
use crate::source::Options;
use crate::source::coded::{
    DecodedText, ENCODING_HEAD_BYTES, UnpackDamageSlot, check_length, decode_text, is_coded,
};
use crate::source::growing::growing_stream::GrowingStream;
use crate::source::growing::live_reader::LiveReader;
use crate::source::guard::{self, FileMap};
use crate::source::name::InputName;
use crate::source::pipe::copy_store::{PipeCopyStore, copy_failure};
use crate::source::pipe::spool::PipeSpool;
use crate::source::pipe::{LiveStream, SharedPipe};
use crate::source::read::{PositionedReader, open_without_waiting, read_first_bytes};
use crate::source::rejoin::LineRejoiner;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bytes of an input, and the way to read them.
#[derive(Clone)]
pub(in crate::source) enum InputData {
    Map(Arc<FileMap>),
    /// A map with lines to join.
    Cut(Arc<FileMap>),
    /// A file that is read anew for each pass, unpacked if it is packed.
    Again(FileSource),
    /// A pipe: one pass only.
    Pipe(Arc<SharedPipe>, PipeKeep),
    /// A pipe that was read, without the dropped lines.
    Thinned(PipeSpool),
}

/// The part of a pipe that is kept while it is read.
#[derive(Clone)]
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
    /// Opens the file's text.
    pub(super) fn open_text(&self, damage: &UnpackDamageSlot) -> io::Result<DecodedText> {
        let (file, from) = match self {
            FileSource::Path(path) => (Arc::new(File::open(path)?), 0),
            FileSource::Open(file, from) => (Arc::clone(file), *from),
        };
        let expected = file.metadata()?.len().saturating_sub(from);
        let bytes = PositionedReader::new(file, from);
        decode_text(check_length(bytes, expected, damage), damage)
    }
}

/// Opens a stream that may still grow.
fn open_live(file: File) -> LiveStream {
    let live = LiveReader::new(file);
    LiveStream {
        idles: Some(live.idle_reports()),
        reader: Box::new(live),
    }
}

impl InputName {
    /// Opens the bytes of a pipe, which a signal ends.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_pipe_bytes(&self) -> io::Result<Box<dyn Read + Send>> {
        let file = match self.path() {
            Some(path) => {
                let file = open_without_waiting(path)?;
                rustix::io::ioctl_fionbio(&file, false)?;
                file
            }
            None => guard::stdin_file()?,
        };
        Ok(Box::new(LiveReader::new(file)))
    }
}

/// Returns the data of a mapped file.
pub(super) fn mapped_data(map: FileMap, rejoin: LineRejoiner) -> InputData {
    match (rejoin.may_be_cut)(map.bytes()) {
        true => InputData::Cut(Arc::new(map)),
        false => InputData::Map(Arc::new(map)),
    }
}

/// Returns the data of a pipe that was opened: the copy, if the pipe was copied.
fn pipe_data(pipe: Arc<SharedPipe>) -> InputData {
    match pipe.file_copy() {
        Some(copy) => InputData::Map(copy.map),
        None => InputData::Pipe(pipe, PipeKeep::Nothing),
    }
}

/// Opens the data of inputs.
pub(super) struct DataOpener<'o> {
    pub(super) origin: &'o InputName,
    pub(super) options: Options,
    pub(super) rejoin: LineRejoiner,
}

impl DataOpener<'_> {
    pub(super) fn open_data(&self) -> Result<InputData> {
        match (self.origin, self.origin.path()) {
            (InputName::Followed(names), _) => {
                let following = GrowingStream::new(names)?;
                self.open_pipe(|| LiveStream {
                    idles: Some(following.idle_reports()),
                    reader: Box::new(following),
                })
            }
            (_, Some(path)) => self.open_path(path),
            (_, None) => self.open_stdin(),
        }
    }

    /// Opens a stream once for all openings of its name.
    fn open_pipe(&self, stream: impl FnOnce() -> LiveStream) -> Result<InputData> {
        let open = || SharedPipe::new(stream()).map_err(|e| self.origin.read_error(e));
        Ok(pipe_data(match self.origin.pipe_slot() {
            Some(slot) => slot.get_or_open(open)?,
            None => Arc::new(open()?),
        }))
    }

    fn open_path(&self, path: &Path) -> Result<InputData> {
        let failed = |e| self.origin.read_error(e);
        if let Some(pipe) = self.origin.pipe_slot().and_then(|slot| slot.opened()) {
            return Ok(pipe_data(pipe));
        }
        // Its reader waits for a named pipe's writer: a signal can end that.
        let file = open_without_waiting(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if meta.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if !meta.is_file() {
            rustix::io::ioctl_fionbio(&file, false).map_err(|e| failed(e.into()))?;
            return self.open_pipe(|| open_live(file));
        }
        self.open_file(&Arc::new(file), &FileSource::Path(path.to_owned()))
    }

    /// Opens standard input: redirected from a file, it is that file from its present position.
    fn open_stdin(&self) -> Result<InputData> {
        let Ok(mut file) = guard::stdin_file() else {
            // Closed: it reads as empty.
            return self.open_pipe(|| LiveStream {
                reader: Box::new(io::stdin()),
                idles: None,
            });
        };
        let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
        match file.stream_position() {
            Ok(at) if is_file => {
                let file = Arc::new(file);
                self.open_file(&file, &FileSource::Open(Arc::clone(&file), at))
            }
            _ => self.open_pipe(|| open_live(file)),
        }
    }

    /// Opens a plain file: mapped if that is possible.
    fn open_file(&self, file: &Arc<File>, source: &FileSource) -> Result<InputData> {
        let again = || InputData::Again(source.clone());
        let from = match source {
            FileSource::Path(_) => 0,
            FileSource::Open(_, from) => *from,
        };
        let mut bytes = PositionedReader::new(Arc::clone(file), from);
        let head = read_first_bytes(&mut bytes, ENCODING_HEAD_BYTES);
        let head = head.map_err(|e| self.origin.read_error(e))?;
        if is_coded(&head) || !self.options.mmap || from > 0 {
            return Ok(again());
        }
        Ok(match FileMap::new(file, self.origin.name()) {
            // A file of length 0 that has bytes all the same (/proc) can be read, not mapped.
            Some(map) if !map.bytes().is_empty() || head.is_empty() => {
                mapped_data(map, self.rejoin)
            }
            _ => again(),
        })
    }
}

/// Maps the copy of an input.
pub(super) fn map_copy(file: &File, origin: &InputName) -> Result<FileMap> {
    let map = FileMap::new(file, origin.name());
    map.ok_or_else(|| copy_failed(origin, &io::Error::last_os_error()))
}

/// Returns the error of a pipe that cannot be copied.
pub(super) fn copy_failed(origin: &InputName, cause: &io::Error) -> Error {
    Error::Content(format!("{}: {}", origin.name(), copy_failure(cause)))
}
