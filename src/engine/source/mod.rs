//! Bytes in: a path, a folder, `-` or nothing becomes named inputs that hand out chunks.
//!
//! A plain file is memory-mapped; whatever cannot be mapped (a pipe, gzip, zstd, a file under
//! `--no-mmap`) is read in blocks of constant size. Chunks end at line ends. What may be done
//! to a log while we read it: appending is harmless (the map keeps its first length);
//! truncating kills a map, which `guard` explains; `--no-mmap` is immune. Who reads twice asks for
//! [`Input::rewindable`]: then the second pass sees what the first saw, or is an error (`witness`).
//! A packed file is read as far as it can be unpacked (`packed`). Many small files are
//! read by the workers that walk them (`small`), several at a time, since to open and map each
//! costs more.

mod chunks;
mod copy;
mod ear;
mod follow;
mod following;
mod guard;
mod list;
mod live;
mod packed;
mod rejoin;
mod small;
mod thin;
mod utf16;
mod witness;

use crate::error::escape::shown;
pub use chunks::{Chunk, Chunks, Pause, Place, PlaceAt};
pub use follow::{Follow, Grown};
use following::Following;
pub use following::Names;
pub use guard::name_program;
pub use list::{Listing, Pattern, expand};
pub use live::signal;
pub use packed::Broken;
pub use rejoin::{BLOCK, Rejoin, Seen};
pub(crate) use rejoin::{Found, Raw};
pub use small::{Texts, texts};
pub use thin::{Notes, Thin};

use crate::error::{Error, Result};
use copy::{Copying, Store};
use guard::Map;
use live::{Idles, Live};
use memchr::memchr;
use packed::{Codec, Trouble, unpack};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use thin::Thinning;
use witness::{Pass, Witness};

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

/// Where an input's bytes come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Standard input.
    Stdin,
    /// A file.
    Path(PathBuf),
    /// A plain file that was found in a folder.
    Listed(PathBuf),
    /// A log that lies inside the file of this name: [`Input::inside`].
    Inside(PathBuf),
    /// What can be read only once, of which this file is a copy; and its name.
    Copy(PathBuf, String),
    /// Files that grow, as one (`--follow`).
    Followed(Names),
}

impl Origin {
    /// The name in messages: the path as given, or `stdin`.
    pub fn name(&self) -> String {
        match self {
            Origin::Stdin => "stdin".to_owned(),
            Origin::Copy(_, name) => name.clone(),
            Origin::Path(path) | Origin::Listed(path) => shown(path),
            Origin::Inside(path) => format!("{} (its log)", shown(path)),
            Origin::Followed(names) => match &names.paths[..] {
                [] => Origin::Stdin.name(),
                [path] => shown(path),
                [path, more @ ..] => format!("{} and {} more", shown(path), more.len()),
            },
        }
    }

    /// The file's path.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Origin::Stdin | Origin::Followed(_) | Origin::Inside(_) => None,
            Origin::Path(path) | Origin::Listed(path) | Origin::Copy(path, _) => Some(path),
        }
    }

    /// True for a pipe, or another file that may still grow while it is read.
    pub fn is_piped(&self) -> bool {
        match self {
            Origin::Followed(_) => return true,
            Origin::Inside(_) => return false,
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
        matches!(self, Origin::Listed(_))
    }

    fn error(&self, source: io::Error) -> Error {
        Error::Input {
            path: PathBuf::from(self.name()),
            cause: source,
        }
    }
}

/// One opened input.
pub struct Input {
    origin: Origin,
    data: Data,
    rejoin: Rejoin,
    joined: Found,
    trouble: Trouble,
    /// What the first pass saw, where there is to be a second.
    witness: Option<Arc<Witness>>,
    is_utf16: bool,
}

enum Data {
    Map(Arc<Map>),
    // A map whose lines are to be put together.
    Blocks(Arc<Map>),
    // A file that is read anew for each pass, unpacked if it is packed.
    Again(PathBuf),
    // A pipe: one pass only.
    Once(Box<Once>),
    // A pipe that is copied as it is read.
    Copied(Box<Once>, Store),
    // The same, and what nobody will ask for is let go.
    Thinning(Box<Once>, Thin),
    // Such a copy.
    Thinned(Thin),
}

/// A pipe.
struct Once {
    reader: Mutex<Option<Box<dyn Read + Send>>>,
    /// What was read to recognise it.
    head: Vec<u8>,
    is_utf16: bool,
    /// Whether it reports that it is idle, where it can.
    idles: Option<Idles>,
}

/// Bytes looked at to recognise a packed input and its format.
pub const HEAD: usize = 64 * 1024;

impl Input {
    /// Opens `origin`, whose lines `rejoin` puts together. Errors name it and say what was expected instead.
    pub fn open(origin: &Origin, options: Options, rejoin: Rejoin) -> Result<Input> {
        let trouble = Trouble::default();
        let data = match (origin, origin.path()) {
            (Origin::Followed(names), _) => {
                let following = Following::new(names)?;
                let idles = following.idles();
                piped(origin, (Box::new(following), Some(idles)), &trouble)?
            }
            (_, Some(path)) => Input::open_file(origin, path, (options, rejoin), &trouble)?,
            (_, None) => Input::open_stdin(origin, (options, rejoin), &trouble)?,
        };
        let mut input = Input {
            origin: origin.clone(),
            data,
            rejoin,
            joined: Found::default(),
            trouble,
            witness: None,
            is_utf16: false,
        };
        input.is_utf16 = match &input.data {
            Data::Again(path) => reopen(path, &input.trouble).map_err(|e| origin.error(e))?.1,
            Data::Once(once) | Data::Copied(once, _) | Data::Thinning(once, _) => once.is_utf16,
            Data::Map(_) | Data::Blocks(_) | Data::Thinned(_) => false,
        };
        Ok(input)
    }

    fn open_file(
        origin: &Origin,
        path: &Path,
        (options, rejoin): (Options, Rejoin),
        trouble: &Trouble,
    ) -> Result<Data> {
        let mut file = File::open(path).map_err(|e| origin.error(e))?;
        let meta = file.metadata().map_err(|e| origin.error(e))?;
        if meta.is_dir() {
            return Err(origin.error(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if !meta.is_file() {
            return piped(origin, live(file), trouble);
        }
        let mut magic = [0; utf16::LOOK];
        let n = fill(&mut file, &mut magic).map_err(|e| origin.error(e))?;
        if is_coded(&magic[..n]) || !options.mmap {
            return Ok(Data::Again(path.to_owned()));
        }
        match Map::new(&file, origin.name()) {
            // A file of length 0 that has bytes all the same (/proc) reads, it does not map.
            Some(map) if !map.bytes().is_empty() || n == 0 => Ok(mapped(map, rejoin)),
            _ => Ok(Data::Again(path.to_owned())),
        }
    }

    fn open_stdin(
        origin: &Origin,
        (options, rejoin): (Options, Rejoin),
        trouble: &Trouble,
    ) -> Result<Data> {
        // Redirected from a file, stdin maps like one, if nobody has read from it yet.
        if options.mmap
            && let Ok(mut file) = guard::stdin_file()
            && file.metadata().is_ok_and(|m| m.is_file())
            && file.stream_position().is_ok_and(|at| at == 0)
            && let Some(map) = Map::new(&file, origin.name())
            && !is_coded(map.bytes())
            && !map.bytes().is_empty()
        {
            return Ok(mapped(map, rejoin));
        }
        let reader: (Box<dyn Read + Send>, Option<Idles>) = match guard::stdin_file() {
            Ok(file) => live(file),
            // Closed: it reads as empty.
            Err(_) => (Box::new(io::stdin()), None),
        };
        piped(origin, reader, trouble)
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
    pub fn bytes(&self) -> Result<Box<dyn Read + Send>> {
        match &self.data {
            Data::Map(map) | Data::Blocks(map) => {
                Ok(Box::new(io::Cursor::new(Shared(Arc::clone(map)))))
            }
            Data::Again(path) => {
                let reader = reopen(path, &self.trouble);
                Ok(reader.map_err(|e| self.origin.error(e))?.0)
            }
            Data::Thinned(thin) => Ok(thin.reader()),
            Data::Once(once) | Data::Copied(once, _) | Data::Thinning(once, _) => {
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
        matches!(self.origin, Origin::Inside(_))
    }

    /// A log that lies inside another file, copied to `file`, and what is wrong with that.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub fn inside(&self, file: &File, broken: Option<Broken>) -> Result<Input> {
        let origin = Origin::Inside(PathBuf::from(self.name()));
        let map = Map::new(file, origin.name()).ok_or_else(|| {
            let cause = copy::failed(&io::Error::last_os_error());
            Error::Content(format!("{}: {cause}", self.name()))
        })?;
        Ok(Input {
            origin,
            data: mapped(map, self.rejoin),
            rejoin: self.rejoin,
            joined: Found::default(),
            trouble: Arc::new(Mutex::new(broken)),
            witness: None,
            is_utf16: false,
        })
    }

    /// The first bytes, unpacked: enough to recognise what the input is.
    pub fn head(&self) -> Result<Cow<'_, [u8]>> {
        match &self.data {
            Data::Map(map) | Data::Blocks(map) => Ok(Cow::Borrowed(first(map.bytes()))),
            Data::Once(once) | Data::Copied(once, _) | Data::Thinning(once, _) => {
                Ok(Cow::Borrowed(&once.head))
            }
            Data::Again(_) | Data::Thinned(_) => {
                let mut head = vec![0; HEAD];
                let mut reader = self.bytes()?;
                let n = fill(&mut *reader, &mut head).map_err(|e| self.origin.error(e))?;
                head.truncate(n);
                Ok(Cow::Owned(head))
            }
        }
    }

    /// True where [`Input::chunks`] may be asked for more than once.
    pub fn is_rewindable(&self) -> bool {
        !matches!(
            self.data,
            Data::Once(..) | Data::Copied(..) | Data::Thinning(..)
        )
    }

    /// Where the input can be mapped and its lines need no putting together: the bytes `from..to`,
    /// up to its end, without a pass over what is before them.
    ///
    /// # Errors
    /// They are not what they were at the pass before.
    pub fn part(&self, from: u64, to: u64) -> Result<Option<&[u8]>> {
        let Data::Map(map) = &self.data else {
            return Ok(None);
        };
        let bytes = match &self.witness {
            Some(witness) => witness.cut(map.bytes())?,
            None => map.bytes(),
        };
        let place = |at: u64| usize::try_from(at).map_or(bytes.len(), |at| at.min(bytes.len()));
        let (from, to) = (place(from), place(to));
        if let Some(witness) = &self.witness {
            witness.holds(bytes, from, to)?;
        }
        Ok(Some(&bytes[from..to]))
    }

    /// The error of an input that is not what it was.
    pub fn changed(&self) -> Error {
        Witness::new(self.name()).changed()
    }

    /// Bytes in all, where that is known without reading.
    pub fn len(&self) -> Option<u64> {
        match &self.data {
            Data::Map(map) | Data::Blocks(map) => Some(map.bytes().len() as u64),
            _ => None,
        }
    }

    /// True where the input is known to have no bytes.
    pub fn is_empty(&self) -> bool {
        match &self.data {
            Data::Once(once) | Data::Copied(once, _) | Data::Thinning(once, _) => {
                once.head.is_empty()
            }
            _ => self.len() == Some(0),
        }
    }

    /// The input in pieces of at most about `most` bytes that end at line ends, at a quiet place if
    /// `place` finds one near.
    pub fn chunks(&self, most: usize, place: PlaceAt) -> Result<Chunks> {
        match &self.data {
            Data::Map(map) => Chunks::mapped(Arc::clone(map), self.witness.clone(), most, place),
            data => {
                let idles = match data {
                    Data::Once(once) | Data::Copied(once, _) | Data::Thinning(once, _) => {
                        once.idles.as_ref()
                    }
                    _ => None,
                };
                if let Some(idles) = idles {
                    idles.switch(true);
                }
                let is_live = idles.is_some();
                Ok(Chunks::read(self.reader()?, self.name(), is_live, place))
            }
        }
    }

    /// The input as a stream of bytes, unpacked, and lines that were cut at the ends of their
    /// writers' buffers put together.
    pub fn reader(&self) -> Result<Box<dyn Read + Send>> {
        let found = Arc::clone(&self.joined);
        let raw: Raw = self.bytes()?;
        let raw: Raw = match &self.witness {
            Some(witness) => Box::new(Pass::new(raw, Arc::clone(witness))),
            None => raw,
        };
        Ok(match &self.data {
            Data::Map(_) | Data::Thinned(_) => raw,
            Data::Blocks(_) => (self.rejoin.reader)(raw, found, true),
            Data::Again(_) | Data::Once(..) => (self.rejoin.reader)(raw, found, false),
            Data::Copied(_, store) => {
                let joined = (self.rejoin.reader)(raw, found, false);
                Box::new(Copying::new(joined, store.clone()))
            }
            Data::Thinning(_, thin) => {
                let joined = (self.rejoin.reader)(raw, found, false);
                Box::new(Thinning::new(joined, thin.clone()))
            }
        })
    }

    /// The same, of a plain file without its map: what is read once, from its first byte to its last, is
    /// not to stay in memory.
    ///
    /// # Errors
    /// As [`Input::reader`].
    pub fn stream(&self) -> Result<Box<dyn Read + Send>> {
        match (&self.data, self.origin.path()) {
            (Data::Map(_), Some(path)) if self.witness.is_none() => {
                let file = File::open(path).map_err(|e| self.origin.error(e))?;
                Ok(Box::new(file))
            }
            _ => self.reader(),
        }
    }

    /// What is wrong with a packed input, if anything is; known once all of it was read.
    pub fn broken(&self) -> Option<Broken> {
        self.trouble.lock().map_or(None, |trouble| trouble.clone())
    }

    /// True where the input is UTF-16; it is read as UTF-8.
    pub fn is_utf16(&self) -> bool {
        self.is_utf16
    }

    /// What was put together, if anything has to be; how much is known once all of it was read.
    pub fn joined(&self) -> Option<Seen> {
        self.joined.lock().map_or(None, |joined| *joined)
    }

    /// The same input once more, where that needs no opening.
    pub fn shared(&self) -> Option<Input> {
        let data = match &self.data {
            Data::Map(map) => Data::Map(Arc::clone(map)),
            Data::Blocks(map) => Data::Blocks(Arc::clone(map)),
            Data::Again(path) => Data::Again(path.clone()),
            Data::Thinned(thin) => Data::Thinned(thin.clone()),
            Data::Once(..) | Data::Copied(..) | Data::Thinning(..) => return None,
        };
        Some(Input {
            origin: self.origin.clone(),
            data,
            rejoin: self.rejoin,
            joined: Found::default(),
            trouble: Trouble::default(),
            witness: self.witness.clone(),
            is_utf16: self.is_utf16,
        })
    }

    /// The same input at rest between two passes: a small file is no longer mapped. There may be
    /// more of them than the kernel has maps for.
    pub fn at_rest(self) -> Input {
        let is_file = |path: &&Path| path.metadata().is_ok_and(|meta| meta.is_file());
        let path = self.origin.path().filter(is_file).map(Path::to_owned);
        match (&self.data, path) {
            (Data::Map(map) | Data::Blocks(map), Some(path))
                if map.bytes().len() <= chunks::SMALLEST =>
            {
                let data = Data::Again(path);
                Input { data, ..self }
            }
            _ => self,
        }
    }

    /// The same input in a form that can be read twice, and is the same both times or an error: a
    /// pipe is copied to memory, or to an unlinked temporary file (in `$TMPDIR`), at its first pass, after which it
    /// is to be [`Input::rewound`].
    pub fn rewindable(self) -> Result<Input> {
        self.rewindable_as(|once| Ok(Data::Copied(once, Store::new()?)))
    }

    /// The same; of a pipe's copy lines may be let go while it is read: see [`Thin`].
    ///
    /// # Errors
    /// As [`Input::rewindable`].
    pub fn rewindable_thin(self) -> Result<Input> {
        self.rewindable_as(|once| Ok(Data::Thinning(once, Thin::new()?)))
    }

    fn rewindable_as(mut self, copied: fn(Box<Once>) -> io::Result<Data>) -> Result<Input> {
        if self.is_rewindable() {
            self.witness = Some(Arc::new(Witness::new(self.name())));
            return Ok(self);
        }
        let name = self.name();
        let data = match self.data {
            Data::Once(once) => {
                copied(once).map_err(|e| Error::Content(format!("{name}: {}", copy::failed(&e))))?
            }
            data => data,
        };
        Ok(Input { data, ..self })
    }

    /// The copy of a pipe of which lines may be let go, where there is one.
    pub fn thin(&self) -> Option<Thin> {
        match &self.data {
            Data::Thinning(_, thin) | Data::Thinned(thin) => Some(thin.clone()),
            _ => None,
        }
    }

    /// What was copied of a pipe so far, where one is copied: see [`Copied`].
    pub fn copied(&self) -> Option<Copied> {
        match &self.data {
            Data::Copied(_, store) => Some(Copied {
                origin: self.origin.clone(),
                store: store.clone(),
                rejoin: self.rejoin,
            }),
            _ => None,
        }
    }

    /// The same input after its first pass.
    pub fn rewound(self) -> Result<Input> {
        let name = self.name();
        let data = match self.data {
            Data::Copied(_, store) => {
                let file = store.file().map_err(|e| self.origin.error(e))?;
                let map = Map::new(&file, name.clone()).ok_or_else(|| {
                    let cause = copy::failed(&io::Error::last_os_error());
                    Error::Content(format!("{name}: {cause}"))
                })?;
                Data::Map(Arc::new(map))
            }
            Data::Thinning(_, thin) => Data::Thinned(thin),
            data => data,
        };
        Ok(Input { data, ..self })
    }
}

/// A pipe as far as it was copied.
#[derive(Debug)]
pub struct Copied {
    origin: Origin,
    store: Store,
    rejoin: Rejoin,
}

impl Copied {
    /// The bytes before `until` will not be read again: the disk gets their space back.
    pub fn forget(&self, until: u64) {
        self.store.give_back(until);
    }

    /// What was copied so far, as an input.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub fn so_far(&self) -> Result<Input> {
        let name = self.origin.name();
        let file = self.store.file().map_err(|e| self.origin.error(e))?;
        let map = Map::new(&file, name).ok_or_else(|| {
            self.origin
                .error(io::Error::other(copy::failed(&io::Error::last_os_error())))
        })?;
        Ok(Input {
            origin: self.origin.clone(),
            data: Data::Map(Arc::new(map)),
            rejoin: self.rejoin,
            joined: Found::default(),
            trouble: Trouble::default(),
            witness: None,
            is_utf16: false,
        })
    }
}

/// The bytes looked at to recognise what begins with `bytes`.
fn first(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(HEAD)]
}

fn mapped(map: Map, rejoin: Rejoin) -> Data {
    let is_blocks = (rejoin.is_blocks)(map.bytes());
    let map = Arc::new(map);
    if is_blocks {
        Data::Blocks(map)
    } else {
        Data::Map(map)
    }
}

struct Shared(Arc<Map>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// A reader of what may still grow, and the switch of its reports that it is idle.
fn live(file: File) -> (Box<dyn Read + Send>, Option<Idles>) {
    let live = Live::new(file);
    let idles = live.idles();
    (Box::new(live), Some(idles))
}

fn piped(
    origin: &Origin,
    (mut reader, idles): (Box<dyn Read + Send>, Option<Idles>),
    trouble: &Trouble,
) -> Result<Data> {
    let mut magic = vec![0; 4];
    let n = fill(&mut *reader, &mut magic).map_err(|e| origin.error(e))?;
    magic.truncate(n);
    let codec = Codec::of(&magic);
    let whole: Box<dyn Read + Send> = Box::new(io::Cursor::new(magic).chain(reader));
    let unpacked = unpack(codec, whole, trouble).and_then(utf16::decoded);
    let (mut reader, is_utf16) = unpacked.map_err(|e| origin.error(e))?;
    // Who unpacks does not go on after a report that there is nothing yet.
    let idles = idles.filter(|_| codec.is_none() && !is_utf16);
    let switch = |on: bool| {
        if let Some(idles) = &idles {
            idles.switch(on);
        }
    };
    // A live pipe must not wait for a full head: a line is enough where nothing more comes.
    let mut head = vec![0; HEAD];
    let mut n = 0;
    switch(true);
    loop {
        let (more, filled) =
            fill_some(&mut *reader, &mut head[n..]).map_err(|e| origin.error(e))?;
        n += more;
        if filled != Filled::Idle || memchr(b'\n', &head[..n]).is_some() {
            break;
        }
    }
    switch(false);
    head.truncate(n);
    Ok(Data::Once(Box::new(Once {
        reader: Mutex::new(Some(reader)),
        head,
        is_utf16,
        idles,
    })))
}

/// The file's text, and whether it is UTF-16.
fn reopen(path: &Path, trouble: &Trouble) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let mut file = File::open(path)?;
    let mut magic = [0; 4];
    let n = fill(&mut file, &mut magic)?;
    file.rewind()?;
    unpack(Codec::of(&magic[..n]), Box::new(file), trouble).and_then(utf16::decoded)
}

/// True for a file whose bytes are not its text: packed, or UTF-16.
fn is_coded(head: &[u8]) -> bool {
    Codec::of(head).is_some() || utf16::encoding(head).is_some()
}

/// Reads until `buffer` is full or the input ends; the number of bytes read.
pub(crate) fn fill(reader: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
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
pub(crate) enum Filled {
    /// The buffer is full.
    Full,
    /// The input ended.
    Ended,
    /// Nothing more has come for a while, or bytes have come slowly for a while.
    Idle,
}

/// Reads until `buffer` is full, the input ends or it is idle; the number of bytes read.
pub(crate) fn fill_some(
    reader: &mut (impl Read + ?Sized),
    buffer: &mut [u8],
) -> io::Result<(usize, Filled)> {
    let mut n = 0;
    while n < buffer.len() {
        match reader.read(&mut buffer[n..]) {
            Ok(0) => return Ok((n, Filled::Ended)),
            Ok(k) => n += k,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok((n, Filled::Idle)),
            Err(e) => return Err(e),
        }
    }
    Ok((n, Filled::Full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::mend::blocks::REJOIN;

    /// All bytes of a pass, by chunks or as a stream.
    fn pass(input: &Input, by_chunks: bool) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        if by_chunks {
            for chunk in input.chunks(1 << 20, |_, _| Place::Quiet)? {
                let chunk = chunk?;
                chunk.walked()?;
                all.extend_from_slice(chunk.bytes());
            }
        } else {
            let mut reader = input.reader()?;
            reader
                .read_to_end(&mut all)
                .map_err(|e| input.origin.error(e))?;
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
                    let input = Input::open(&Origin::Path(path.clone()), Options { mmap }, REJOIN);
                    let input = input.unwrap().rewindable().unwrap();
                    assert!(pass(&input, first).unwrap() == log, "{what:?}");
                    input
                };
                let again = |input: &Input| pass(&input.shared().unwrap(), second);
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
                let part = input.part(1000, 2000);
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
        let input = Input::open(&Origin::Path(path.clone()), Options::default(), REJOIN).unwrap();
        let input = input.rewindable().unwrap();
        pass(&input, true).unwrap();
        let input = input.at_rest();
        assert!(matches!(input.data, Data::Again(_)));
        assert_eq!(pass(&input.shared().unwrap(), true).unwrap(), b"a\nb\n");
        std::fs::write(&path, "a\n").unwrap();
        assert!(pass(&input.shared().unwrap(), true).is_err());
    }
}
