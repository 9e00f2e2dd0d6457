//! Bytes in: a path, a folder, `-` or nothing becomes named inputs that hand out chunks.
//!
//! A plain file is memory-mapped; whatever cannot be mapped (a pipe, gzip, zstd, a file under
//! `--no-mmap`) is read in blocks of constant size. Chunks end at line ends. What may be done
//! to a log while we read it: appending is harmless (the map keeps its first length);
//! truncating kills a map, which `guard` explains; `--no-mmap` is immune. Many small files are
//! read by the workers that walk them (`small`), several at a time, since to open and map each
//! costs more.

mod blocks;
mod chunks;
mod guard;
mod list;
mod small;

pub use blocks::{BLOCK, Seen};
pub use chunks::{Chunk, Chunks, QuietAt};
pub use guard::name_program;
pub use list::expand;
pub use small::{Texts, texts};

use crate::error::{Error, Result};
use guard::Map;
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

/// Where an input's bytes come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Standard input.
    Stdin,
    /// A file.
    Path(PathBuf),
    /// A plain file, as the folder says that it is in.
    Listed(PathBuf),
}

impl Origin {
    /// The name in messages: the path as given, or `stdin`.
    pub fn name(&self) -> String {
        match self {
            Origin::Stdin => "stdin".to_owned(),
            Origin::Path(path) | Origin::Listed(path) => path.display().to_string(),
        }
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
    joined: blocks::Found,
}

enum Data {
    Map(Arc<Map>),
    // A map whose lines are to be put together.
    Blocks(Arc<Map>),
    // A file that is read anew for each pass, unpacked if it is packed.
    Again(PathBuf),
    // A pipe: one pass only. The head was read to recognise it.
    Once(Mutex<Option<Box<dyn Read + Send>>>, Vec<u8>),
}

/// Bytes looked at to recognise a packed or binary input and its format.
const HEAD: usize = 64 * 1024;

impl Input {
    /// Opens `origin`. Errors name it and say what was expected instead.
    pub fn open(origin: &Origin, options: Options) -> Result<Input> {
        let data = match origin {
            Origin::Path(path) | Origin::Listed(path) => Input::open_file(origin, path, options)?,
            Origin::Stdin => Input::open_stdin(origin, options)?,
        };
        let input = Input {
            origin: origin.clone(),
            data,
            joined: blocks::Found::default(),
        };
        if let Some(what) = binary(&input.head()?) {
            return Err(Error::Content(format!(
                "{}: {what}, expected a log as text (plain, gzip or zstd)",
                input.name()
            )));
        }
        Ok(input)
    }

    fn open_file(origin: &Origin, path: &Path, options: Options) -> Result<Data> {
        let mut file = File::open(path).map_err(|e| origin.error(e))?;
        let meta = file.metadata().map_err(|e| origin.error(e))?;
        if meta.is_dir() {
            return Err(origin.error(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if !meta.is_file() {
            return piped(origin, Box::new(file));
        }
        let mut magic = [0; 4];
        let n = fill(&mut file, &mut magic).map_err(|e| origin.error(e))?;
        if packed(&magic[..n]).is_some() || !options.mmap {
            return Ok(Data::Again(path.to_owned()));
        }
        match Map::new(&file, origin.name()) {
            // A file of length 0 that has bytes all the same (/proc) reads, it does not map.
            Some(map) if !map.bytes().is_empty() || n == 0 => Ok(mapped(map)),
            _ => Ok(Data::Again(path.to_owned())),
        }
    }

    fn open_stdin(origin: &Origin, options: Options) -> Result<Data> {
        // Redirected from a file, stdin maps like one, if nobody has read from it yet.
        if options.mmap
            && let Ok(mut file) = guard::stdin_file()
            && file.metadata().is_ok_and(|m| m.is_file())
            && file.stream_position().is_ok_and(|at| at == 0)
            && let Some(map) = Map::new(&file, origin.name())
            && packed(map.bytes()).is_none()
            && !map.bytes().is_empty()
        {
            return Ok(mapped(map));
        }
        piped(origin, Box::new(io::stdin()))
    }

    /// The name in messages.
    pub fn name(&self) -> String {
        self.origin.name()
    }

    /// The first bytes, unpacked: enough to recognise what the input is.
    pub fn head(&self) -> Result<Cow<'_, [u8]>> {
        match &self.data {
            Data::Map(map) | Data::Blocks(map) => Ok(Cow::Borrowed(first(map.bytes()))),
            Data::Once(_, head) => Ok(Cow::Borrowed(head)),
            Data::Again(path) => {
                let mut head = vec![0; HEAD];
                let mut reader = reopen(path).map_err(|e| self.origin.error(e))?;
                let n = fill(&mut *reader, &mut head).map_err(|e| self.origin.error(e))?;
                head.truncate(n);
                Ok(Cow::Owned(head))
            }
        }
    }

    /// True where [`Input::chunks`] may be asked for more than once.
    pub fn is_rewindable(&self) -> bool {
        !matches!(self.data, Data::Once(..))
    }

    /// All bytes at once, where they are mapped and its lines need no putting together.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.data {
            Data::Map(map) => Some(map.bytes()),
            _ => None,
        }
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
            Data::Once(_, head) => head.is_empty(),
            _ => self.len() == Some(0),
        }
    }

    /// The input in pieces of at most about `most` bytes that end at line ends and where `quiet`
    /// says a cut is safe.
    pub fn chunks(&self, most: usize, quiet: QuietAt) -> Result<Chunks> {
        match &self.data {
            Data::Map(map) => Ok(Chunks::mapped(Arc::clone(map), most, quiet)),
            _ => Ok(Chunks::read(self.reader()?, self.name(), quiet)),
        }
    }

    /// The input as a stream of bytes, unpacked, and lines that were cut at the ends of their
    /// writers' buffers put together.
    pub fn reader(&self) -> Result<Box<dyn Read + Send>> {
        let found = Arc::clone(&self.joined);
        let raw: Box<dyn Read + Send> = match &self.data {
            Data::Map(map) => return Ok(Box::new(io::Cursor::new(Shared(Arc::clone(map))))),
            Data::Blocks(map) => {
                let bytes = io::Cursor::new(Shared(Arc::clone(map)));
                return Ok(Box::new(blocks::Reader::of_blocks(bytes, found)));
            }
            Data::Again(path) => reopen(path).map_err(|e| self.origin.error(e))?,
            Data::Once(reader, head) => {
                let taken = reader.lock().map_or(None, |mut r| r.take());
                let reader = taken.ok_or_else(|| {
                    Error::Content(format!("{}: a pipe can be read only once", self.name()))
                })?;
                Box::new(io::Cursor::new(head.clone()).chain(reader))
            }
        };
        Ok(Box::new(blocks::Reader::new(raw, found)))
    }

    /// What was put together, if anything had to be; known once all of it was read.
    pub fn joined(&self) -> Option<Seen> {
        self.joined.lock().map_or(None, |joined| *joined)
    }

    /// The same input once more, where that needs no opening.
    pub fn shared(&self) -> Option<Input> {
        let data = match &self.data {
            Data::Map(map) => Data::Map(Arc::clone(map)),
            Data::Blocks(map) => Data::Blocks(Arc::clone(map)),
            Data::Again(path) => Data::Again(path.clone()),
            Data::Once(..) => return None,
        };
        Some(Input {
            origin: self.origin.clone(),
            data,
            joined: blocks::Found::default(),
        })
    }

    /// The same input in a form that can be read twice: a pipe is copied to an unlinked
    /// temporary file (in `$TMPDIR`), everything else is left as it is.
    pub fn rewindable(self) -> Result<Input> {
        if self.is_rewindable() {
            return Ok(self);
        }
        let spool = |e: io::Error| {
            Error::Content(format!(
                "{}: cannot spool the pipe to a temporary file: {e} (set TMPDIR to a folder with \
                 room, or give the log as a file)",
                self.name()
            ))
        };
        let mut file = tempfile::tempfile().map_err(spool)?;
        let mut reader = self.reader()?;
        io::copy(&mut reader, &mut file).map_err(spool)?;
        let name = self.name();
        let map = Map::new(&file, name).ok_or_else(|| spool(io::Error::last_os_error()))?;
        Ok(Input {
            origin: self.origin.clone(),
            data: Data::Map(Arc::new(map)),
            joined: self.joined,
        })
    }
}

/// The bytes looked at to recognise what begins with `bytes`.
fn first(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(HEAD)]
}

fn mapped(map: Map) -> Data {
    let is_blocks = blocks::is_blocks(map.bytes());
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

fn piped(origin: &Origin, reader: Box<dyn Read + Send>) -> Result<Data> {
    let mut reader = reader;
    let mut magic = vec![0; 4];
    let n = fill(&mut *reader, &mut magic).map_err(|e| origin.error(e))?;
    magic.truncate(n);
    let codec = packed(&magic);
    let whole: Box<dyn Read + Send> = Box::new(io::Cursor::new(magic).chain(reader));
    let mut reader = unpack(codec, whole).map_err(|e| origin.error(e))?;
    // One read, not a full head: a live pipe must not wait for 64 KiB.
    let mut head = vec![0; HEAD];
    let n = fill(&mut *reader, &mut head).map_err(|e| origin.error(e))?;
    head.truncate(n);
    Ok(Data::Once(Mutex::new(Some(reader)), head))
}

fn reopen(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    let mut file = File::open(path)?;
    let mut magic = [0; 4];
    let n = fill(&mut file, &mut magic)?;
    file.rewind()?;
    unpack(packed(&magic[..n]), Box::new(file))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    Gzip,
    Zstd,
}

fn packed(magic: &[u8]) -> Option<Codec> {
    if magic.starts_with(&[0x1f, 0x8b]) {
        Some(Codec::Gzip)
    } else if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Some(Codec::Zstd)
    } else {
        None
    }
}

fn unpack(codec: Option<Codec>, r: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    Ok(match codec {
        None => r,
        // Logs are packed in pieces and the pieces joined: all members are read.
        Some(Codec::Gzip) => Box::new(flate2::read::MultiGzDecoder::new(r)),
        Some(Codec::Zstd) => Box::new(zstd::stream::read::Decoder::new(r)?),
    })
}

/// Reads until `buffer` is full or the input ends; the number of bytes read.
fn fill(reader: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
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

/// What kind of binary file begins with `head`, or `None` for what may be a log. A NUL alone
/// proves nothing: a truncated shared log has holes.
fn binary(head: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 7] = [
        (b"\x7fELF", "an ELF program or library"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"PK\x03\x04", "a zip archive"),
        (b"BZh", "a bzip2 file"),
        (b"\xfd7zXZ\0", "an xz file"),
        (b"\x89PNG", "a picture"),
        (b"PAR1", "a Parquet file"),
    ];
    if let Some((_, what)) = known.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Some(what);
    }
    // Asked first: the first line of most logs answers it.
    if memchr::memmem::find(head, b"NCCL").is_some() {
        return None;
    }
    let strange = head
        .iter()
        .filter(|&&b| b < 0x20 && !b"\t\n\r\x0c\x1b\x08".contains(&b))
        .count();
    (strange > head.len() / 10).then_some("a binary file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_is_told_from_a_log_with_holes() {
        assert!(binary(b"\x7fELF\x02\x01").is_some());
        assert!(binary(&[0; 4096]).is_some());
        let mut holes = vec![0; 1000];
        holes.extend_from_slice(b"h:1:2 [0] NCCL INFO x\n");
        assert!(binary(&holes).is_none());
        assert!(binary("步骤 1 loss 2\r\n".as_bytes()).is_none());
        assert!(binary(b"").is_none());
    }
}
