//! One opened input, and its passes.

pub(super) mod data;
mod rewind;

pub use rewind::PipeCopy;

use super::Options;
use super::change_check::{CheckedReader, InputFingerprint};
use super::chunks::{CutClassifier, InputChunks};
use super::coded::{UnpackDamage, UnpackDamageSlot};
use super::guard::FileMap;
use super::limits::INPUT_HEAD_BYTES;
use super::name::InputName;
use super::pipe::copy_store::copy_error;
use super::read::{CopyingReader, head_of, read_first_bytes};
use super::rejoin::{LineRejoiner, RawByteReader, RejoinCounts, RejoinCountsSlot};
use crate::error::{Error, Result};
use data::{DataOpener, InputData, PipeKeep, map_copy, mapped_data};
use std::borrow::Cow;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// One opened input.
pub struct Input {
    pub(super) origin: InputName,
    pub(super) data: InputData,
    rejoin: LineRejoiner,
    joined: RejoinCountsSlot,
    damage: UnpackDamageSlot,
    /// The fingerprint of the first pass, if there is to be a second.
    fingerprint: Option<Arc<InputFingerprint>>,
    is_utf16: bool,
}

/// The first bytes of an input, unpacked.
pub struct InputBeginning<'i> {
    /// At most [`INPUT_HEAD_BYTES`].
    pub bytes: Cow<'i, [u8]>,
    /// More may come: [`Input::read_more_head`] waits for it.
    pub is_open: bool,
}

struct SharedFileMap(Arc<FileMap>);

impl AsRef<[u8]> for SharedFileMap {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Input {
    /// Opens `origin`; `rejoin` joins its lines. Errors name it and what was expected instead.
    pub fn open(origin: &InputName, options: Options, rejoin: LineRejoiner) -> Result<Input> {
        let data = DataOpener {
            origin,
            options,
            rejoin,
        }
        .open_data()?;
        let mut input = Input::new(origin.clone(), data, rejoin);
        match &input.data {
            InputData::Again(source) => {
                let text = source.open_text(&input.damage);
                let is_utf16 = text.map_err(|e| origin.read_error(e))?.is_utf16;
                let was_utf16 = matches!(origin, InputName::Part(part) if part.is_utf16);
                input.is_utf16 = is_utf16 || was_utf16;
            }
            InputData::Pipe(pipe, _) => {
                input.is_utf16 = pipe.is_utf16;
                input.damage = Arc::clone(&pipe.damage);
            }
            InputData::Map(_) | InputData::Cut(_) | InputData::Thinned(_) => {}
        }
        Ok(input)
    }

    fn new(origin: InputName, data: InputData, rejoin: LineRejoiner) -> Input {
        Input {
            origin,
            data,
            rejoin,
            joined: RejoinCountsSlot::default(),
            damage: UnpackDamageSlot::default(),
            fingerprint: None,
            is_utf16: false,
        }
    }

    /// Returns the name in messages.
    pub fn name(&self) -> String {
        self.origin.name()
    }

    /// Returns the file that it was opened from, if it is one; it may be packed.
    pub fn path(&self) -> Option<&Path> {
        self.origin.path()
    }

    /// Returns the path of the plain bytes, for a library that opens files itself; for a pipe the path of
    /// its copy.
    pub fn plain_path(&self) -> Option<Cow<'_, Path>> {
        match self.origin.pipe_slot() {
            Some(slot) => {
                let copy = slot.opened().and_then(|pipe| pipe.file_copy());
                copy.map(|copy| Cow::Owned(copy.path.to_path_buf()))
            }
            None => self.path().map(Cow::Borrowed),
        }
    }

    /// Opens the unpacked bytes of a document that is not a log: no lines are joined.
    ///
    /// # Errors
    /// It cannot be opened again, or is a pipe that was read.
    pub fn open_document(&self) -> Result<Box<dyn Read + Send>> {
        match &self.data {
            InputData::Map(map) | InputData::Cut(map) => {
                Ok(Box::new(Cursor::new(SharedFileMap(Arc::clone(map)))))
            }
            InputData::Again(source) => {
                let text = source.open_text(&self.damage);
                Ok(text.map_err(|e| self.origin.read_error(e))?.reader)
            }
            InputData::Thinned(thin) => Ok(thin.open_reader()),
            InputData::Pipe(pipe, _) => pipe.take_reader().ok_or_else(|| {
                Error::Content(format!("{}: a pipe can be read only once", self.name()))
            }),
        }
    }

    /// Returns true for a log that lies inside another file.
    pub fn is_inside(&self) -> bool {
        self.outer_name().is_some()
    }

    /// Returns the input that the log lies in.
    pub fn outer_name(&self) -> Option<&InputName> {
        match &self.origin {
            InputName::Inside(outer) => Some(outer),
            _ => None,
        }
    }

    /// Opens a log that lies inside another file, copied to `file`; `broken` is the damage of that file.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub fn open_inner_log(&self, file: &File, broken: Option<UnpackDamage>) -> Result<Input> {
        let origin = InputName::Inside(Box::new(self.origin.clone()));
        let map = map_copy(file, &origin)?;
        let mut inner = Input::new(origin, mapped_data(map, self.rejoin), self.rejoin);
        inner.damage = Arc::new(Mutex::new(broken));
        Ok(inner)
    }

    /// Returns the first bytes; of a pipe those that have come.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn read_head(&self) -> Result<InputBeginning<'_>> {
        let (bytes, is_open) = match &self.data {
            InputData::Map(map) | InputData::Cut(map) => {
                (Cow::Borrowed(head_of(map.bytes())), false)
            }
            InputData::Pipe(pipe, _) => {
                let (head, is_open) = pipe.head();
                (Cow::Owned(head), is_open)
            }
            InputData::Again(_) | InputData::Thinned(_) => {
                let head = read_first_bytes(&mut *self.open_document()?, INPUT_HEAD_BYTES);
                let head = head.map_err(|e| self.origin.read_error(e))?;
                (Cow::Owned(head), false)
            }
        };
        Ok(InputBeginning { bytes, is_open })
    }

    /// Waits until more of a head that is open has come, or the input ended.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn read_more_head(&self) -> Result<()> {
        match &self.data {
            InputData::Pipe(pipe, _) => {
                pipe.read_more_head().map_err(|e| self.origin.read_error(e))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if [`Input::open_chunks`] may be called more than once.
    pub fn is_rewindable(&self) -> bool {
        !matches!(self.data, InputData::Pipe(..))
    }

    /// Returns the bytes `from..to`, up to the end of the input, without a pass over the bytes before, if
    /// the input is mapped and has no lines to join.
    ///
    /// # Errors
    /// They have changed since the pass before.
    pub fn mapped_range(&self, from: u64, to: u64) -> Result<Option<&[u8]>> {
        let InputData::Map(map) = &self.data else {
            return Ok(None);
        };
        let bytes = match &self.fingerprint {
            Some(seen) => seen.cut_to_length(map.bytes())?,
            None => map.bytes(),
        };
        let place = |at: u64| usize::try_from(at).map_or(bytes.len(), |at| at.min(bytes.len()));
        let (from, to) = (place(from), place(to));
        if let Some(seen) = &self.fingerprint {
            seen.check_unchanged(bytes, from, to)?;
        }
        Ok(Some(&bytes[from..to]))
    }

    /// Returns the error of an input that changed between two passes.
    pub fn changed_error(&self) -> Error {
        InputFingerprint::new(self.name()).changed_error()
    }

    /// Returns the number of bytes, if that is known without reading.
    pub fn len(&self) -> Option<u64> {
        match &self.data {
            InputData::Map(map) | InputData::Cut(map) => Some(map.bytes().len() as u64),
            _ => None,
        }
    }

    /// Returns true if the input is known to have no bytes.
    pub fn is_empty(&self) -> bool {
        match &self.data {
            InputData::Pipe(pipe, _) => pipe.is_empty(),
            _ => self.len() == Some(0),
        }
    }

    /// Cuts the input into pieces of about `most` bytes at most that end at line ends, at a quiet place if
    /// `place` finds one near.
    pub fn open_chunks(&self, most: usize, place: CutClassifier) -> Result<InputChunks> {
        if let InputData::Map(map) = &self.data {
            let seen = self.fingerprint.clone();
            return InputChunks::of_mapped_file(Arc::clone(map), seen, most, place);
        }
        let idles = match &self.data {
            InputData::Pipe(pipe, _) => pipe.idles.as_ref(),
            _ => None,
        };
        if let Some(idles) = idles {
            idles.switch_reports(true);
        }
        let (reader, name, is_live) = (self.open_reader()?, self.name(), idles.is_some());
        Ok(InputChunks::of_reader(reader, name, is_live, place))
    }

    /// Opens the input as a stream of bytes, unpacked, with its cut lines joined.
    pub fn open_reader(&self) -> Result<Box<dyn Read + Send>> {
        let found = Arc::clone(&self.joined);
        let raw: RawByteReader = self.open_document()?;
        let raw: RawByteReader = match &self.fingerprint {
            Some(seen) => Box::new(CheckedReader::new(raw, Arc::clone(seen))),
            None => raw,
        };
        if matches!(self.data, InputData::Map(_) | InputData::Thinned(_)) {
            return Ok(raw);
        }
        let joined = (self.rejoin.reader)(raw, found);
        Ok(match &self.data {
            InputData::Pipe(_, PipeKeep::Copy(store)) => {
                let (inner, store) = (joined, store.clone());
                let copy = move |bytes: &[u8]| store.append(bytes).map_err(copy_error);
                Box::new(CopyingReader { inner, copy })
            }
            InputData::Pipe(_, PipeKeep::Spool(spool)) => {
                let (inner, spool) = (joined, spool.clone());
                let copy = move |bytes: &[u8]| {
                    spool.push_bytes(bytes);
                    Ok(())
                };
                Box::new(CopyingReader { inner, copy })
            }
            _ => joined,
        })
    }

    /// Like [`Input::open_reader`], but reads a plain file without its map: a file that is read once, from
    /// its first byte to its last, should not stay in memory.
    ///
    /// # Errors
    /// As [`Input::open_reader`].
    pub fn open_unmapped_reader(&self) -> Result<Box<dyn Read + Send>> {
        match (&self.data, self.origin.path()) {
            (InputData::Map(_), Some(path))
                if self.fingerprint.is_none() && self.origin.pipe_slot().is_none() =>
            {
                let file = File::open(path).map_err(|e| self.origin.read_error(e))?;
                Ok(Box::new(file))
            }
            _ => self.open_reader(),
        }
    }

    /// Returns the damage of a packed input; known once all of it was read.
    pub fn unpack_damage(&self) -> Option<UnpackDamage> {
        self.damage.lock().map_or(None, |damage| damage.clone())
    }

    /// Returns true if the input is UTF-16; it is read as UTF-8.
    pub fn is_utf16(&self) -> bool {
        self.is_utf16
    }

    /// Returns the counts of joined lines, if any; complete once all of the input was read.
    pub fn rejoin_counts(&self) -> Option<RejoinCounts> {
        self.joined.lock().map_or(None, |joined| *joined)
    }
}
