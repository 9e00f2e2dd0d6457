//! One opened input, and its passes.

use super::change_check::{CheckedReader, InputFingerprint};
use super::chunks::{self, CutClassifier, InputChunks};
use super::growing_stream::GrowingStream;
use super::guard::{self, FileMap};
use super::live_reader::LiveReader;
use super::name::InputName;
use super::packed::{PackCodec, UnpackDamage, UnpackDamageSlot, open_unpacker};
use super::pipe::{LiveStream, PipeFileCopy, SharedPipe};
use super::pipe_copy_store::{self, PipeCopyReader, PipeCopyStore};
use super::read::{PositionedReader, fill_buffer};
use super::rejoin::{LineRejoiner, RawByteReader, RejoinCounts, RejoinCountsSlot};
use super::spool::{PipeSpool, SpoolingReader};
use super::{INPUT_HEAD_BYTES, Options, head_of, is_coded, utf16};
use crate::error::{Error, Result};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::NamedTempFile;

/// One opened input.
pub struct Input {
    pub(super) origin: InputName,
    pub(super) data: InputData,
    rejoin: LineRejoiner,
    joined: RejoinCountsSlot,
    damage: UnpackDamageSlot,
    /// What the first pass saw, if there is to be a second.
    fingerprint: Option<Arc<InputFingerprint>>,
    is_utf16: bool,
}

pub(super) enum InputData {
    Map(Arc<FileMap>),
    /// A map with lines that must be put together.
    Blocks(Arc<FileMap>),
    /// A file that is read anew for each pass, unpacked if it is packed.
    Again(FileSource),
    /// A pipe: one pass only.
    Pipe(Arc<SharedPipe>, PipeKeep),
    /// A pipe that was read, without the lines that were let go.
    Thinned(PipeSpool),
}

/// The part of a pipe that is kept while it is read.
pub(super) enum PipeKeep {
    Nothing,
    Copy(PipeCopyStore),
    Spool(PipeSpool),
}

/// A file that can be read from its first byte any number of times.
#[derive(Clone)]
pub(super) enum FileSource {
    Path(PathBuf),
    /// Standard input, from the byte where it stood.
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

    /// Opens the file's text, unpacked and in UTF-8; true if it is UTF-16.
    fn open_text(&self, damage: &UnpackDamageSlot) -> io::Result<(Box<dyn Read + Send>, bool)> {
        let mut bytes = self.open_bytes()?;
        let mut magic = vec![0; PackCodec::MAGIC_BYTES];
        let n = fill_buffer(&mut *bytes, &mut magic)?;
        magic.truncate(n);
        let codec = PackCodec::detect_codec(&magic);
        let whole = Box::new(Cursor::new(magic).chain(bytes));
        open_unpacker(codec, whole, damage).and_then(utf16::decode_utf16)
    }
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

/// Opens a stream that may still grow.
fn open_live(file: File) -> LiveStream {
    let live = LiveReader::new(file);
    LiveStream {
        idles: Some(live.idle_reports()),
        reader: Box::new(live),
    }
}

fn mapped_data(map: FileMap, rejoin: LineRejoiner) -> InputData {
    let is_blocks = (rejoin.is_blocks)(map.bytes());
    let map = Arc::new(map);
    if is_blocks {
        InputData::Blocks(map)
    } else {
        InputData::Map(map)
    }
}

/// The data of a pipe that was opened: the copy, if the pipe was copied.
fn pipe_data(pipe: Arc<SharedPipe>) -> InputData {
    match pipe.file_copy() {
        Some(copy) => InputData::Map(copy.map),
        None => InputData::Pipe(pipe, PipeKeep::Nothing),
    }
}

/// Opens the data of inputs.
struct DataOpener<'o> {
    origin: &'o InputName,
    options: Options,
    rejoin: LineRejoiner,
}

impl DataOpener<'_> {
    fn open(&self) -> Result<InputData> {
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
        let file = File::open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if meta.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if !meta.is_file() {
            return self.open_pipe(|| open_live(file));
        }
        self.open_file(&Arc::new(file), &FileSource::Path(path.to_owned()))
    }

    /// Opens standard input: redirected from a file, it is that file from the byte where it stands.
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

    /// Opens a plain file: mapped where that is possible.
    fn open_file(&self, file: &Arc<File>, source: &FileSource) -> Result<InputData> {
        let again = || InputData::Again(source.clone());
        let from = match source {
            FileSource::Path(_) => 0,
            FileSource::Open(_, from) => *from,
        };
        let mut magic = [0; utf16::ENCODING_HEAD_BYTES];
        let mut bytes = PositionedReader::new(Arc::clone(file), from);
        let n = fill_buffer(&mut bytes, &mut magic).map_err(|e| self.origin.read_error(e))?;
        if is_coded(&magic[..n]) || !self.options.mmap || from > 0 {
            return Ok(again());
        }
        Ok(match FileMap::new(file, self.origin.name()) {
            // A file of length 0 that has bytes nevertheless (/proc) can be read, not mapped.
            Some(map) if !map.bytes().is_empty() || n == 0 => mapped_data(map, self.rejoin),
            _ => again(),
        })
    }
}

impl Input {
    /// Opens `origin`; `rejoin` puts its lines together. Errors name it and what was expected instead.
    pub fn open(origin: &InputName, options: Options, rejoin: LineRejoiner) -> Result<Input> {
        let opener = DataOpener {
            origin,
            options,
            rejoin,
        };
        let data = opener.open()?;
        let mut input = Input::new(origin.clone(), data, rejoin);
        match &input.data {
            InputData::Again(source) => {
                let text = source.open_text(&input.damage);
                input.is_utf16 = text.map_err(|e| origin.read_error(e))?.1;
            }
            InputData::Pipe(pipe, _) => {
                input.is_utf16 = pipe.is_utf16;
                input.damage = Arc::clone(&pipe.damage);
            }
            InputData::Map(_) | InputData::Blocks(_) | InputData::Thinned(_) => {}
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

    /// The name in messages.
    pub fn name(&self) -> String {
        self.origin.name()
    }

    /// The file it was opened from, if it is one; it may be packed.
    pub fn path(&self) -> Option<&Path> {
        self.origin.path()
    }

    /// Returns the path of the plain bytes, for a library that opens files itself: of a pipe that was copied
    /// the copy.
    pub fn plain_path(&self) -> Option<Cow<'_, Path>> {
        match self.origin.pipe_slot() {
            Some(slot) => {
                let copy = slot.opened().and_then(|pipe| pipe.file_copy());
                copy.map(|copy| Cow::Owned(copy.path.to_path_buf()))
            }
            None => self.path().map(Cow::Borrowed),
        }
    }

    /// The bytes of a document that is no log, unpacked: no lines are put together.
    ///
    /// # Errors
    /// It cannot be opened again, or is a pipe that was read.
    pub fn open_document(&self) -> Result<Box<dyn Read + Send>> {
        match &self.data {
            InputData::Map(map) | InputData::Blocks(map) => {
                Ok(Box::new(Cursor::new(SharedFileMap(Arc::clone(map)))))
            }
            InputData::Again(source) => {
                let text = source.open_text(&self.damage);
                Ok(text.map_err(|e| self.origin.read_error(e))?.0)
            }
            InputData::Thinned(thin) => Ok(thin.open_reader()),
            InputData::Pipe(pipe, _) => pipe.take_reader().ok_or_else(|| {
                Error::Content(format!("{}: a pipe can be read only once", self.name()))
            }),
        }
    }

    /// True for a log that lies inside another file.
    pub fn is_inside(&self) -> bool {
        self.outer_name().is_some()
    }

    /// The input that the log lies in.
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

    /// The first bytes: of a pipe what has come of them.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn read_head(&self) -> Result<InputBeginning<'_>> {
        let (bytes, is_open) = match &self.data {
            InputData::Map(map) | InputData::Blocks(map) => {
                (Cow::Borrowed(head_of(map.bytes())), false)
            }
            InputData::Pipe(pipe, _) => {
                let head = pipe.head();
                (Cow::Owned(head.bytes), head.is_open)
            }
            InputData::Again(_) | InputData::Thinned(_) => {
                let mut head = vec![0; INPUT_HEAD_BYTES];
                let mut reader = self.open_document()?;
                let n =
                    fill_buffer(&mut *reader, &mut head).map_err(|e| self.origin.read_error(e))?;
                head.truncate(n);
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

    /// True if [`Input::open_chunks`] may be called more than once.
    pub fn is_rewindable(&self) -> bool {
        !matches!(self.data, InputData::Pipe(..))
    }

    /// Returns the bytes `from..to`, up to the end of the input, without a pass over those before them, if
    /// the input can be mapped and its lines need no putting together.
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

    /// The error of an input that changed between two passes.
    pub fn changed_error(&self) -> Error {
        InputFingerprint::new(self.name()).changed_error()
    }

    /// Bytes in all, if that is known without reading.
    pub fn len(&self) -> Option<u64> {
        match &self.data {
            InputData::Map(map) | InputData::Blocks(map) => Some(map.bytes().len() as u64),
            _ => None,
        }
    }

    /// True if the input is known to have no bytes.
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
        let reader = self.open_reader()?;
        Ok(InputChunks::of_reader(
            reader,
            self.name(),
            idles.is_some(),
            place,
        ))
    }

    /// The input as a stream of bytes, unpacked, with the lines put together that were cut at the ends of
    /// their writers' buffers.
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
        let is_known = matches!(self.data, InputData::Blocks(_));
        let joined = (self.rejoin.reader)(raw, found, is_known);
        Ok(match &self.data {
            InputData::Pipe(_, PipeKeep::Copy(store)) => {
                Box::new(PipeCopyReader::new(joined, store.clone()))
            }
            InputData::Pipe(_, PipeKeep::Spool(thin)) => {
                Box::new(SpoolingReader::new(joined, thin.clone()))
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

    /// The damage of a packed input; known once all of it was read.
    pub fn unpack_damage(&self) -> Option<UnpackDamage> {
        self.damage.lock().map_or(None, |damage| damage.clone())
    }

    /// True if the input is UTF-16; it is read as UTF-8.
    pub fn is_utf16(&self) -> bool {
        self.is_utf16
    }

    /// Which lines were put together, if any; complete once all of the input was read.
    pub fn rejoin_counts(&self) -> Option<RejoinCounts> {
        self.joined.lock().map_or(None, |joined| *joined)
    }

    /// The same input once more, if it need not be opened anew.
    pub fn share_input(&self) -> Option<Input> {
        let data = match &self.data {
            InputData::Map(map) => InputData::Map(Arc::clone(map)),
            InputData::Blocks(map) => InputData::Blocks(Arc::clone(map)),
            InputData::Again(source) => InputData::Again(source.clone()),
            InputData::Thinned(thin) => InputData::Thinned(thin.clone()),
            InputData::Pipe(..) => return None,
        };
        let mut shared = Input::new(self.origin.clone(), data, self.rejoin);
        shared.fingerprint.clone_from(&self.fingerprint);
        shared.is_utf16 = self.is_utf16;
        Some(shared)
    }

    /// The input between two passes: a small file is no longer mapped, since there may be more of them than
    /// the kernel has maps for.
    pub fn release_map(self) -> Input {
        let path = self.origin.path().filter(|_| self.origin.is_file());
        match (&self.data, path.map(Path::to_owned)) {
            (InputData::Map(map) | InputData::Blocks(map), Some(path))
                if map.bytes().len() <= chunks::MIN_CHUNK_BYTES =>
            {
                let data = InputData::Again(FileSource::Path(path));
                Input { data, ..self }
            }
            _ => self,
        }
    }

    /// The input in a form that can be read twice and is the same both times, or an error. A pipe is copied
    /// to memory, or to an unnamed temporary file (in `$TMPDIR`), in its first pass, and must then be
    /// [`Input::rewind_input`].
    pub fn make_rewindable(self) -> Result<Input> {
        self.make_rewindable_with(|| PipeCopyStore::new().map(PipeKeep::Copy))
    }

    /// Like [`Input::make_rewindable`]; lines of a pipe's copy may be let go while it is read: see
    /// [`PipeSpool`].
    ///
    /// # Errors
    /// As [`Input::make_rewindable`].
    pub fn make_rewindable_spool(self) -> Result<Input> {
        self.make_rewindable_with(|| PipeSpool::new().map(PipeKeep::Spool))
    }

    fn make_rewindable_with(mut self, kept: fn() -> io::Result<PipeKeep>) -> Result<Input> {
        if self.is_rewindable() {
            self.fingerprint = Some(Arc::new(InputFingerprint::new(self.name())));
            return Ok(self);
        }
        let name = self.name();
        if let InputData::Pipe(_, keep @ PipeKeep::Nothing) = &mut self.data {
            *keep = kept().map_err(|e| {
                Error::Content(format!("{name}: {}", pipe_copy_store::copy_failure(&e)))
            })?;
        }
        Ok(self)
    }

    /// Copies a pipe to a temporary file, for formats that are not read from first byte to last. The file
    /// goes with the name of the input.
    ///
    /// # Errors
    /// The pipe cannot be read, or not be copied.
    pub fn into_file_copy(self) -> Result<Input> {
        let InputData::Pipe(pipe, _) = &self.data else {
            return Ok(self);
        };
        let failed = |e: io::Error| {
            let cause = pipe_copy_store::copy_failure(&e);
            Error::Content(format!("{}: {cause}", self.name()))
        };
        let mut file = NamedTempFile::new().map_err(failed)?;
        io::copy(&mut self.open_document()?, &mut file).map_err(failed)?;
        let map = Arc::new(map_copy(file.as_file(), &self.origin)?);
        pipe.set_file_copy(PipeFileCopy {
            map: Arc::clone(&map),
            path: Arc::new(file.into_temp_path()),
        });
        let data = InputData::Map(map);
        Ok(Input { data, ..self })
    }

    /// The copy of a pipe that may let lines go, if there is one.
    pub fn pipe_spool(&self) -> Option<PipeSpool> {
        match &self.data {
            InputData::Pipe(_, PipeKeep::Spool(thin)) | InputData::Thinned(thin) => {
                Some(thin.clone())
            }
            _ => None,
        }
    }

    /// What was copied of a pipe so far, if one is copied: see [`PipeCopy`].
    pub fn pipe_copy(&self) -> Option<PipeCopy> {
        match &self.data {
            InputData::Pipe(_, PipeKeep::Copy(store)) => Some(PipeCopy {
                origin: self.origin.clone(),
                store: store.clone(),
                rejoin: self.rejoin,
            }),
            _ => None,
        }
    }

    /// The input after its first pass.
    pub fn rewind_input(self) -> Result<Input> {
        let data = match self.data {
            InputData::Pipe(_, PipeKeep::Copy(store)) => {
                let file = store.clone_copy_file();
                let file = file.map_err(|e| self.origin.read_error(e))?;
                InputData::Map(Arc::new(map_copy(&file, &self.origin)?))
            }
            InputData::Pipe(_, PipeKeep::Spool(thin)) => InputData::Thinned(thin),
            data => data,
        };
        Ok(Input { data, ..self })
    }
}

/// Maps the copy of an input.
fn map_copy(file: &File, origin: &InputName) -> Result<FileMap> {
    FileMap::new(file, origin.name()).ok_or_else(|| {
        let cause = pipe_copy_store::copy_failure(&io::Error::last_os_error());
        Error::Content(format!("{}: {cause}", origin.name()))
    })
}

/// A pipe as far as it was copied.
#[derive(Debug)]
pub struct PipeCopy {
    origin: InputName,
    store: PipeCopyStore,
    rejoin: LineRejoiner,
}

impl PipeCopy {
    /// Gives the disk the space of the bytes before `until` back: they will not be read again.
    pub fn release_until(&self, until: u64) {
        self.store.release_space(until);
    }

    /// What was copied so far, as an input.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub fn open_copied_part(&self) -> Result<Input> {
        let file = self
            .store
            .clone_copy_file()
            .map_err(|e| self.origin.read_error(e))?;
        let data = InputData::Map(Arc::new(map_copy(&file, &self.origin)?));
        Ok(Input::new(self.origin.clone(), data, self.rejoin))
    }
}
