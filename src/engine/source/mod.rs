//! Bytes in: a path, a folder, `-` or nothing becomes named inputs that hand out chunks.
//!
//! A plain file is memory-mapped; whatever cannot be mapped (a pipe, gzip, zstd, a file under
//! `--no-mmap`) is read in blocks of constant size. Chunks end at line ends. What may be done
//! to a log while we read it: appending is harmless (the map keeps its first length);
//! truncating kills a map, which `guard` explains; `--no-mmap` is immune. Who reads twice asks for
//! [`Input::make_rewindable`]: then the second pass sees what the first saw, or is an error (`witness`).
//! A packed file is read as far as it can be unpacked (`packed`). Many small files are
//! read by the workers that walk them (`small`), several at a time, since to open and map each
//! costs more.

mod change_check;
mod chunks;
mod file_events;
mod growing_files;
mod growing_stream;
mod guard;
mod list;
mod live_reader;
mod packed;
mod pipe_copy_store;
mod rejoin;
mod small_files;
mod spool;
mod utf16;

use crate::error::escape::shown_path;
pub use chunks::{CutClassifier, CutPlace, FlushReason, InputChunk, InputChunks};
pub use growing_files::{AppendedBytes, GrowingFiles};
pub use growing_stream::FollowTargets;
use growing_stream::GrowingStream;
pub use guard::name_program;
pub use list::{FilePattern, InputListing, expand_paths};
pub use live_reader::ending_signal;
pub use packed::UnpackDamage;
pub use rejoin::{LineRejoiner, RejoinCounts, STDIO_BUFFER_BYTES};
pub(crate) use rejoin::{RawByteReader, RejoinCountsSlot};
pub use small_files::{SmallFileTexts, read_small_files};
pub use spool::{NotedLines, PipeSpool};

use crate::error::{Error, Result};
use change_check::{CheckedReader, InputFingerprint};
use guard::FileMap;
use live_reader::{IdleReports, LiveReader};
use memchr::memchr;
use packed::{PackCodec, UnpackDamageSlot, open_unpacker};
use pipe_copy_store::{PipeCopyReader, PipeCopyStore};
use spool::SpoolingReader;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// How inputs are opened.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Map plain files (default). Without, every file is read in blocks.
    pub mmap: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { mmap: true }
    }
}

/// Returns the inputs in the order of their names. A stage that takes one input as a reference, or numbers what it
/// meets, gives the same result for any order in which the inputs were named.
pub fn sort_by_name(origins: &[InputName]) -> Vec<InputName> {
    let mut sorted = origins.to_vec();
    sorted.sort_by_cached_key(InputName::name);
    sorted
}

/// Where an input's bytes come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputName {
    /// Standard input.
    Stdin,
    /// A file.
    Path(PathBuf),
    /// A plain file that was found in a folder.
    Listed(PathBuf),
    /// A log that lies inside the file of this name: [`Input::open_inner_log`].
    Inside(PathBuf),
    /// What can be read only once, of which this file is a copy; and its name.
    Copy(PathBuf, String),
    /// Files that grow, as one (`--follow`).
    Followed(FollowTargets),
}

impl InputName {
    /// The name in messages: the path as given, or `stdin`.
    pub fn name(&self) -> String {
        match self {
            InputName::Stdin => "stdin".to_owned(),
            InputName::Copy(_, name) => name.clone(),
            InputName::Path(path) | InputName::Listed(path) => shown_path(path),
            InputName::Inside(path) => format!("{} (its log)", shown_path(path)),
            InputName::Followed(names) => match &names.paths[..] {
                [] => InputName::Stdin.name(),
                [path] => shown_path(path),
                [path, more @ ..] => format!("{} and {} more", shown_path(path), more.len()),
            },
        }
    }

    /// The file's path.
    pub fn path(&self) -> Option<&Path> {
        match self {
            InputName::Stdin | InputName::Followed(_) | InputName::Inside(_) => None,
            InputName::Path(path) | InputName::Listed(path) | InputName::Copy(path, _) => {
                Some(path)
            }
        }
    }

    /// True for a pipe, or another file that may still grow while it is read.
    pub fn is_piped(&self) -> bool {
        match self {
            InputName::Followed(_) => return true,
            InputName::Inside(_) => return false,
            _ => {}
        }
        match self.path() {
            Some(path) => path.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir()),
            None => {
                guard::stdin_file().is_ok_and(|file| file.metadata().is_ok_and(|m| !m.is_file()))
            }
        }
    }

    /// True for what nobody named: in a folder there is more than logs.
    pub fn is_listed(&self) -> bool {
        matches!(self, InputName::Listed(_))
    }

    fn read_error(&self, source: io::Error) -> Error {
        Error::Input {
            path: PathBuf::from(self.name()),
            cause: source,
        }
    }
}

/// One opened input.
pub struct Input {
    origin: InputName,
    data: InputData,
    rejoin: LineRejoiner,
    joined: RejoinCountsSlot,
    trouble: UnpackDamageSlot,
    /// What the first pass saw, where there is to be a second.
    witness: Option<Arc<InputFingerprint>>,
    is_utf16: bool,
}

enum InputData {
    Map(Arc<FileMap>),
    // A map whose lines are to be put together.
    Blocks(Arc<FileMap>),
    // A file that is read anew for each pass, unpacked if it is packed.
    Again(PathBuf),
    // A pipe: one pass only.
    Once(Box<UnreadPipe>),
    // A pipe that is copied as it is read.
    Copied(Box<UnreadPipe>, PipeCopyStore),
    // The same, and what nobody will ask for is let go.
    Thinning(Box<UnreadPipe>, PipeSpool),
    // Such a copy.
    Thinned(PipeSpool),
}

/// A pipe.
struct UnreadPipe {
    reader: Mutex<Option<Box<dyn Read + Send>>>,
    /// What was read to recognise it.
    head: Vec<u8>,
    is_utf16: bool,
    /// Whether it reports that it is idle, where it can.
    idles: Option<IdleReports>,
}

/// Bytes looked at to recognise a packed input and its format.
pub const INPUT_HEAD_BYTES: usize = 64 * 1024;

impl Input {
    /// Opens `origin`, whose lines `rejoin` puts together. Errors name it and say what was expected instead.
    pub fn open(origin: &InputName, options: Options, rejoin: LineRejoiner) -> Result<Input> {
        let trouble = UnpackDamageSlot::default();
        let data = match (origin, origin.path()) {
            (InputName::Followed(names), _) => {
                let following = GrowingStream::new(names)?;
                let idles = following.idle_reports();
                open_piped(origin, (Box::new(following), Some(idles)), &trouble)?
            }
            (_, Some(path)) => Input::open_file(origin, path, (options, rejoin), &trouble)?,
            (_, None) => Input::open_stdin(origin, (options, rejoin), &trouble)?,
        };
        let mut input = Input {
            origin: origin.clone(),
            data,
            rejoin,
            joined: RejoinCountsSlot::default(),
            trouble,
            witness: None,
            is_utf16: false,
        };
        input.is_utf16 = match &input.data {
            InputData::Again(path) => {
                open_file_text(path, &input.trouble)
                    .map_err(|e| origin.read_error(e))?
                    .1
            }
            InputData::Once(once) | InputData::Copied(once, _) | InputData::Thinning(once, _) => {
                once.is_utf16
            }
            InputData::Map(_) | InputData::Blocks(_) | InputData::Thinned(_) => false,
        };
        Ok(input)
    }

    fn open_file(
        origin: &InputName,
        path: &Path,
        (options, rejoin): (Options, LineRejoiner),
        trouble: &UnpackDamageSlot,
    ) -> Result<InputData> {
        let mut file = File::open(path).map_err(|e| origin.read_error(e))?;
        let meta = file.metadata().map_err(|e| origin.read_error(e))?;
        if meta.is_dir() {
            return Err(origin.read_error(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if !meta.is_file() {
            return open_piped(origin, open_live(file), trouble);
        }
        let mut magic = [0; utf16::ENCODING_HEAD_BYTES];
        let n = fill_buffer(&mut file, &mut magic).map_err(|e| origin.read_error(e))?;
        if is_coded(&magic[..n]) || !options.mmap {
            return Ok(InputData::Again(path.to_owned()));
        }
        match FileMap::new(&file, origin.name()) {
            // A file of length 0 that has bytes all the same (/proc) reads, it does not map.
            Some(map) if !map.bytes().is_empty() || n == 0 => Ok(mapped_data(map, rejoin)),
            _ => Ok(InputData::Again(path.to_owned())),
        }
    }

    fn open_stdin(
        origin: &InputName,
        (options, rejoin): (Options, LineRejoiner),
        trouble: &UnpackDamageSlot,
    ) -> Result<InputData> {
        // Redirected from a file, stdin maps like one, if nobody has read from it yet.
        if options.mmap
            && let Ok(mut file) = guard::stdin_file()
            && file.metadata().is_ok_and(|m| m.is_file())
            && file.stream_position().is_ok_and(|at| at == 0)
            && let Some(map) = FileMap::new(&file, origin.name())
            && !is_coded(map.bytes())
            && !map.bytes().is_empty()
        {
            return Ok(mapped_data(map, rejoin));
        }
        let reader: (Box<dyn Read + Send>, Option<IdleReports>) = match guard::stdin_file() {
            Ok(file) => open_live(file),
            // Closed: it reads as empty.
            Err(_) => (Box::new(io::stdin()), None),
        };
        open_piped(origin, reader, trouble)
    }

    /// The name in messages.
    pub fn name(&self) -> String {
        self.origin.name()
    }

    /// The file it was opened from, where it is one; it may be packed.
    pub fn path(&self) -> Option<&Path> {
        self.origin.path()
    }

    /// The bytes of a document that is no log, unpacked: no lines are put together.
    ///
    /// # Errors
    /// It cannot be opened again, or is a pipe that was read.
    pub fn open_document(&self) -> Result<Box<dyn Read + Send>> {
        match &self.data {
            InputData::Map(map) | InputData::Blocks(map) => {
                Ok(Box::new(io::Cursor::new(SharedFileMap(Arc::clone(map)))))
            }
            InputData::Again(path) => {
                let reader = open_file_text(path, &self.trouble);
                Ok(reader.map_err(|e| self.origin.read_error(e))?.0)
            }
            InputData::Thinned(thin) => Ok(thin.open_reader()),
            InputData::Once(once) | InputData::Copied(once, _) | InputData::Thinning(once, _) => {
                let taken = once.reader.lock().map_or(None, |mut r| r.take());
                let reader = taken.ok_or_else(|| {
                    Error::Content(format!("{}: a pipe can be read only once", self.name()))
                })?;
                Ok(Box::new(io::Cursor::new(once.head.clone()).chain(reader)))
            }
        }
    }

    /// True for a log that lies inside another file.
    pub fn is_inside(&self) -> bool {
        matches!(self.origin, InputName::Inside(_))
    }

    /// A log that lies inside another file, copied to `file`, and what is wrong with that.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub fn open_inner_log(&self, file: &File, broken: Option<UnpackDamage>) -> Result<Input> {
        let origin = InputName::Inside(PathBuf::from(self.name()));
        let map = FileMap::new(file, origin.name()).ok_or_else(|| {
            let cause = pipe_copy_store::copy_failure(&io::Error::last_os_error());
            Error::Content(format!("{}: {cause}", self.name()))
        })?;
        Ok(Input {
            origin,
            data: mapped_data(map, self.rejoin),
            rejoin: self.rejoin,
            joined: RejoinCountsSlot::default(),
            trouble: Arc::new(Mutex::new(broken)),
            witness: None,
            is_utf16: false,
        })
    }

    /// The first bytes, unpacked: enough to recognise what the input is.
    pub fn read_head(&self) -> Result<Cow<'_, [u8]>> {
        match &self.data {
            InputData::Map(map) | InputData::Blocks(map) => Ok(Cow::Borrowed(head_of(map.bytes()))),
            InputData::Once(once) | InputData::Copied(once, _) | InputData::Thinning(once, _) => {
                Ok(Cow::Borrowed(&once.head))
            }
            InputData::Again(_) | InputData::Thinned(_) => {
                let mut head = vec![0; INPUT_HEAD_BYTES];
                let mut reader = self.open_document()?;
                let n =
                    fill_buffer(&mut *reader, &mut head).map_err(|e| self.origin.read_error(e))?;
                head.truncate(n);
                Ok(Cow::Owned(head))
            }
        }
    }

    /// True where [`Input::open_chunks`] may be asked for more than once.
    pub fn is_rewindable(&self) -> bool {
        !matches!(
            self.data,
            InputData::Once(..) | InputData::Copied(..) | InputData::Thinning(..)
        )
    }

    /// Where the input can be mapped and its lines need no putting together: the bytes `from..to`,
    /// up to its end, without a pass over what is before them.
    ///
    /// # Errors
    /// They are not what they were at the pass before.
    pub fn mapped_range(&self, from: u64, to: u64) -> Result<Option<&[u8]>> {
        let InputData::Map(map) = &self.data else {
            return Ok(None);
        };
        let bytes = match &self.witness {
            Some(witness) => witness.cut_to_length(map.bytes())?,
            None => map.bytes(),
        };
        let place = |at: u64| usize::try_from(at).map_or(bytes.len(), |at| at.min(bytes.len()));
        let (from, to) = (place(from), place(to));
        if let Some(witness) = &self.witness {
            witness.check_unchanged(bytes, from, to)?;
        }
        Ok(Some(&bytes[from..to]))
    }

    /// The error of an input that is not what it was.
    pub fn changed_error(&self) -> Error {
        InputFingerprint::new(self.name()).changed_error()
    }

    /// Bytes in all, where that is known without reading.
    pub fn len(&self) -> Option<u64> {
        match &self.data {
            InputData::Map(map) | InputData::Blocks(map) => Some(map.bytes().len() as u64),
            _ => None,
        }
    }

    /// True where the input is known to have no bytes.
    pub fn is_empty(&self) -> bool {
        match &self.data {
            InputData::Once(once) | InputData::Copied(once, _) | InputData::Thinning(once, _) => {
                once.head.is_empty()
            }
            _ => self.len() == Some(0),
        }
    }

    /// The input in pieces of at most about `most` bytes that end at line ends, at a quiet place if
    /// `place` finds one near.
    pub fn open_chunks(&self, most: usize, place: CutClassifier) -> Result<InputChunks> {
        match &self.data {
            InputData::Map(map) => {
                InputChunks::of_mapped_file(Arc::clone(map), self.witness.clone(), most, place)
            }
            data => {
                let idles = match data {
                    InputData::Once(once)
                    | InputData::Copied(once, _)
                    | InputData::Thinning(once, _) => once.idles.as_ref(),
                    _ => None,
                };
                if let Some(idles) = idles {
                    idles.switch_reports(true);
                }
                let is_live = idles.is_some();
                Ok(InputChunks::of_reader(
                    self.open_reader()?,
                    self.name(),
                    is_live,
                    place,
                ))
            }
        }
    }

    /// The input as a stream of bytes, unpacked, and lines that were cut at the ends of their
    /// writers' buffers put together.
    pub fn open_reader(&self) -> Result<Box<dyn Read + Send>> {
        let found = Arc::clone(&self.joined);
        let raw: RawByteReader = self.open_document()?;
        let raw: RawByteReader = match &self.witness {
            Some(witness) => Box::new(CheckedReader::new(raw, Arc::clone(witness))),
            None => raw,
        };
        Ok(match &self.data {
            InputData::Map(_) | InputData::Thinned(_) => raw,
            InputData::Blocks(_) => (self.rejoin.reader)(raw, found, true),
            InputData::Again(_) | InputData::Once(..) => (self.rejoin.reader)(raw, found, false),
            InputData::Copied(_, store) => {
                let joined = (self.rejoin.reader)(raw, found, false);
                Box::new(PipeCopyReader::new(joined, store.clone()))
            }
            InputData::Thinning(_, thin) => {
                let joined = (self.rejoin.reader)(raw, found, false);
                Box::new(SpoolingReader::new(joined, thin.clone()))
            }
        })
    }

    /// The same, of a plain file without its map: what is read once, from its first byte to its last, is
    /// not to stay in memory.
    ///
    /// # Errors
    /// As [`Input::open_reader`].
    pub fn open_unmapped_reader(&self) -> Result<Box<dyn Read + Send>> {
        match (&self.data, self.origin.path()) {
            (InputData::Map(_), Some(path)) if self.witness.is_none() => {
                let file = File::open(path).map_err(|e| self.origin.read_error(e))?;
                Ok(Box::new(file))
            }
            _ => self.open_reader(),
        }
    }

    /// What is wrong with a packed input, if anything is; known once all of it was read.
    pub fn unpack_damage(&self) -> Option<UnpackDamage> {
        self.trouble.lock().map_or(None, |trouble| trouble.clone())
    }

    /// True where the input is UTF-16; it is read as UTF-8.
    pub fn is_utf16(&self) -> bool {
        self.is_utf16
    }

    /// What was put together, if anything has to be; how much is known once all of it was read.
    pub fn rejoin_counts(&self) -> Option<RejoinCounts> {
        self.joined.lock().map_or(None, |joined| *joined)
    }

    /// The same input once more, where that needs no opening.
    pub fn share_input(&self) -> Option<Input> {
        let data = match &self.data {
            InputData::Map(map) => InputData::Map(Arc::clone(map)),
            InputData::Blocks(map) => InputData::Blocks(Arc::clone(map)),
            InputData::Again(path) => InputData::Again(path.clone()),
            InputData::Thinned(thin) => InputData::Thinned(thin.clone()),
            InputData::Once(..) | InputData::Copied(..) | InputData::Thinning(..) => return None,
        };
        Some(Input {
            origin: self.origin.clone(),
            data,
            rejoin: self.rejoin,
            joined: RejoinCountsSlot::default(),
            trouble: UnpackDamageSlot::default(),
            witness: self.witness.clone(),
            is_utf16: self.is_utf16,
        })
    }

    /// The same input at rest between two passes: a small file is no longer mapped. There may be
    /// more of them than the kernel has maps for.
    pub fn release_map(self) -> Input {
        let is_file = |path: &&Path| path.metadata().is_ok_and(|meta| meta.is_file());
        let path = self.origin.path().filter(is_file).map(Path::to_owned);
        match (&self.data, path) {
            (InputData::Map(map) | InputData::Blocks(map), Some(path))
                if map.bytes().len() <= chunks::MIN_CHUNK_BYTES =>
            {
                let data = InputData::Again(path);
                Input { data, ..self }
            }
            _ => self,
        }
    }

    /// The same input in a form that can be read twice, and is the same both times or an error: a
    /// pipe is copied to memory, or to an unlinked temporary file (in `$TMPDIR`), at its first pass, after which it
    /// is to be [`Input::rewind_input`].
    pub fn make_rewindable(self) -> Result<Input> {
        self.make_rewindable_with(|once| Ok(InputData::Copied(once, PipeCopyStore::new()?)))
    }

    /// The same; of a pipe's copy lines may be let go while it is read: see [`PipeSpool`].
    ///
    /// # Errors
    /// As [`Input::make_rewindable`].
    pub fn make_rewindable_spool(self) -> Result<Input> {
        self.make_rewindable_with(|once| Ok(InputData::Thinning(once, PipeSpool::new()?)))
    }

    fn make_rewindable_with(
        mut self,
        copied: fn(Box<UnreadPipe>) -> io::Result<InputData>,
    ) -> Result<Input> {
        if self.is_rewindable() {
            self.witness = Some(Arc::new(InputFingerprint::new(self.name())));
            return Ok(self);
        }
        let name = self.name();
        let data = match self.data {
            InputData::Once(once) => copied(once).map_err(|e| {
                Error::Content(format!("{name}: {}", pipe_copy_store::copy_failure(&e)))
            })?,
            data => data,
        };
        Ok(Input { data, ..self })
    }

    /// The copy of a pipe of which lines may be let go, where there is one.
    pub fn pipe_spool(&self) -> Option<PipeSpool> {
        match &self.data {
            InputData::Thinning(_, thin) | InputData::Thinned(thin) => Some(thin.clone()),
            _ => None,
        }
    }

    /// What was copied of a pipe so far, where one is copied: see [`PipeCopy`].
    pub fn pipe_copy(&self) -> Option<PipeCopy> {
        match &self.data {
            InputData::Copied(_, store) => Some(PipeCopy {
                origin: self.origin.clone(),
                store: store.clone(),
                rejoin: self.rejoin,
            }),
            _ => None,
        }
    }

    /// The same input after its first pass.
    pub fn rewind_input(self) -> Result<Input> {
        let name = self.name();
        let data = match self.data {
            InputData::Copied(_, store) => {
                let file = store
                    .clone_copy_file()
                    .map_err(|e| self.origin.read_error(e))?;
                let map = FileMap::new(&file, name.clone()).ok_or_else(|| {
                    let cause = pipe_copy_store::copy_failure(&io::Error::last_os_error());
                    Error::Content(format!("{name}: {cause}"))
                })?;
                InputData::Map(Arc::new(map))
            }
            InputData::Thinning(_, thin) => InputData::Thinned(thin),
            data => data,
        };
        Ok(Input { data, ..self })
    }
}

/// A pipe as far as it was copied.
#[derive(Debug)]
pub struct PipeCopy {
    origin: InputName,
    store: PipeCopyStore,
    rejoin: LineRejoiner,
}

impl PipeCopy {
    /// The bytes before `until` will not be read again: the disk gets their space back.
    pub fn release_until(&self, until: u64) {
        self.store.release_space(until);
    }

    /// What was copied so far, as an input.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub fn open_copied_part(&self) -> Result<Input> {
        let name = self.origin.name();
        let file = self
            .store
            .clone_copy_file()
            .map_err(|e| self.origin.read_error(e))?;
        let map = FileMap::new(&file, name).ok_or_else(|| {
            self.origin
                .read_error(io::Error::other(pipe_copy_store::copy_failure(
                    &io::Error::last_os_error(),
                )))
        })?;
        Ok(Input {
            origin: self.origin.clone(),
            data: InputData::Map(Arc::new(map)),
            rejoin: self.rejoin,
            joined: RejoinCountsSlot::default(),
            trouble: UnpackDamageSlot::default(),
            witness: None,
            is_utf16: false,
        })
    }
}

/// The bytes looked at to recognise what begins with `bytes`.
fn head_of(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(INPUT_HEAD_BYTES)]
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

struct SharedFileMap(Arc<FileMap>);

impl AsRef<[u8]> for SharedFileMap {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// A reader of what may still grow, and the switch of its reports that it is idle.
fn open_live(file: File) -> (Box<dyn Read + Send>, Option<IdleReports>) {
    let live = LiveReader::new(file);
    let idles = live.idle_reports();
    (Box::new(live), Some(idles))
}

fn open_piped(
    origin: &InputName,
    (mut reader, idles): (Box<dyn Read + Send>, Option<IdleReports>),
    trouble: &UnpackDamageSlot,
) -> Result<InputData> {
    let mut magic = vec![0; 4];
    let n = fill_buffer(&mut *reader, &mut magic).map_err(|e| origin.read_error(e))?;
    magic.truncate(n);
    let codec = PackCodec::detect_codec(&magic);
    let whole: Box<dyn Read + Send> = Box::new(io::Cursor::new(magic).chain(reader));
    let unpacked = open_unpacker(codec, whole, trouble).and_then(utf16::decode_utf16);
    let (mut reader, is_utf16) = unpacked.map_err(|e| origin.read_error(e))?;
    // Who unpacks does not go on after a report that there is nothing yet.
    let idles = idles.filter(|_| codec.is_none() && !is_utf16);
    let switch = |on: bool| {
        if let Some(idles) = &idles {
            idles.switch_reports(on);
        }
    };
    // A live pipe must not wait for a full head: a line is enough where nothing more comes.
    let mut head = vec![0; INPUT_HEAD_BYTES];
    let mut n = 0;
    switch(true);
    loop {
        let (more, filled) =
            fill_until_idle(&mut *reader, &mut head[n..]).map_err(|e| origin.read_error(e))?;
        n += more;
        if filled != FillEnd::Idle || memchr(b'\n', &head[..n]).is_some() {
            break;
        }
    }
    switch(false);
    head.truncate(n);
    Ok(InputData::Once(Box::new(UnreadPipe {
        reader: Mutex::new(Some(reader)),
        head,
        is_utf16,
        idles,
    })))
}

/// The file's text, and whether it is UTF-16.
fn open_file_text(
    path: &Path,
    trouble: &UnpackDamageSlot,
) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let mut file = File::open(path)?;
    let mut magic = [0; 4];
    let n = fill_buffer(&mut file, &mut magic)?;
    file.rewind()?;
    open_unpacker(
        PackCodec::detect_codec(&magic[..n]),
        Box::new(file),
        trouble,
    )
    .and_then(utf16::decode_utf16)
}

/// True for a file whose bytes are not its text: packed, or UTF-16.
fn is_coded(head: &[u8]) -> bool {
    PackCodec::detect_codec(head).is_some() || utf16::detect_utf16(head).is_some()
}

/// Reads until `buffer` is full or the input ends; the number of bytes read.
pub(crate) fn fill_buffer(
    reader: &mut (impl Read + ?Sized),
    buffer: &mut [u8],
) -> io::Result<usize> {
    let mut n = 0;
    while n < buffer.len() {
        match reader.read(&mut buffer[n..]) {
            Ok(0) => break,
            Ok(k) => n += k,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(n)
}

/// How a read into a buffer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FillEnd {
    /// The buffer is full.
    Full,
    /// The input ended.
    Ended,
    /// Nothing more has come for a while, or bytes have come slowly for a while.
    Idle,
}

/// Reads until `buffer` is full, the input ends or it is idle; the number of bytes read.
pub(crate) fn fill_until_idle(
    reader: &mut (impl Read + ?Sized),
    buffer: &mut [u8],
) -> io::Result<(usize, FillEnd)> {
    let mut n = 0;
    while n < buffer.len() {
        match reader.read(&mut buffer[n..]) {
            Ok(0) => return Ok((n, FillEnd::Ended)),
            Ok(k) => n += k,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok((n, FillEnd::Idle)),
            Err(e) => return Err(e),
        }
    }
    Ok((n, FillEnd::Full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::mend::blocks::BLOCK_REJOINER;

    /// All bytes of a pass, by chunks or as a stream.
    fn pass(input: &Input, by_chunks: bool) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        if by_chunks {
            for chunk in input.open_chunks(1 << 20, |_, _| CutPlace::Quiet)? {
                let chunk = chunk?;
                chunk.check_unchanged()?;
                all.extend_from_slice(chunk.bytes());
            }
        } else {
            let mut reader = input.open_reader()?;
            reader
                .read_to_end(&mut all)
                .map_err(|e| input.origin.read_error(e))?;
        }
        Ok(all)
    }

    #[test]
    fn a_second_pass_sees_what_the_first_saw_or_is_an_error() {
        let lines = |seed: u64, n: u64| -> Vec<u8> {
            let line = |i: u64| {
                format!(
                    "line {i} {:x}\n",
                    (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                )
            };
            (0..n).flat_map(|i| line(i).into_bytes()).collect()
        };
        let log = lines(1, 150_000);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        for mmap in [true, false] {
            for (first, second) in [(true, true), (true, false), (false, false)] {
                let what = (mmap, first, second);
                let begin = || {
                    std::fs::write(&path, &log).unwrap();
                    let input = Input::open(
                        &InputName::Path(path.clone()),
                        Options { mmap },
                        BLOCK_REJOINER,
                    );
                    let input = input.unwrap().make_rewindable().unwrap();
                    assert!(pass(&input, first).unwrap() == log, "{what:?}");
                    input
                };
                let again = |input: &Input| pass(&input.share_input().unwrap(), second);
                let input = begin();
                assert!(again(&input).unwrap() == log, "{what:?}");
                // Grown.
                let mut file = File::options().append(true).open(&path).unwrap();
                io::Write::write_all(&mut file, &lines(2, 1000)).unwrap();
                assert!(again(&input).unwrap() == log, "{what:?}");
                // Written over; its size is as it was.
                let input = begin();
                let mut file = File::options().write(true).open(&path).unwrap();
                io::Write::write_all(&mut file, &lines(3, 150_000)).unwrap();
                assert!(again(&input).is_err(), "{what:?}");
                let part = input.mapped_range(1000, 2000);
                assert!(
                    part.is_err() || !mmap && matches!(part, Ok(None)),
                    "{what:?}"
                );
                // Replaced: a map is still of the old one.
                let input = begin();
                let other = dir.path().join("b.log");
                std::fs::write(&other, lines(4, 150_000)).unwrap();
                std::fs::rename(&other, &path).unwrap();
                assert_eq!(again(&input).is_ok(), mmap, "{what:?}");
                // Truncated; a map is ended by a signal then.
                if !mmap {
                    let input = begin();
                    file.set_len(0).unwrap();
                    std::fs::write(&path, &log[..log.len() / 2]).unwrap();
                    assert!(again(&input).is_err(), "{what:?}");
                }
            }
        }
    }

    #[test]
    fn a_small_input_at_rest_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        std::fs::write(&path, "a\nb\n").unwrap();
        let input = Input::open(
            &InputName::Path(path.clone()),
            Options::default(),
            BLOCK_REJOINER,
        )
        .unwrap();
        let input = input.make_rewindable().unwrap();
        pass(&input, true).unwrap();
        let input = input.release_map();
        assert!(matches!(input.data, InputData::Again(_)));
        assert_eq!(
            pass(&input.share_input().unwrap(), true).unwrap(),
            b"a\nb\n"
        );
        std::fs::write(&path, "a\n").unwrap();
        assert!(pass(&input.share_input().unwrap(), true).is_err());
    }
}
