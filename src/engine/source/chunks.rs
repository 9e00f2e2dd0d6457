//! An input in pieces that end at line ends, ready for the workers.

use super::guard::Map;
use super::witness::Witness;
use super::{Filled, fill_some};
use crate::error::{Error, Result};
use memchr::{memchr, memrchr};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a cut at a line end separates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Nothing.
    Quiet,
    /// Pieces of lines, which the merge joins again.
    Loud,
    /// Lines that only one walk reads as one.
    Within,
}

/// Says what a cut after whole lines separates; with them comes whether they begin at a place
/// that is quiet.
pub type PlaceAt = fn(&[u8], bool) -> Place;

/// Bytes of a mapped chunk: a share of the file large enough that what each chunk learns anew
/// costs nothing, small enough that the workers stay busy to the end.
fn mapped_size(len: usize) -> usize {
    (len / 64).clamp(SMALLEST, 32 << 20)
}
/// A file of no more bytes is one chunk, mapped or read.
pub(super) const SMALLEST: usize = 1 << 20;
/// Bytes of a chunk that is read: a few of them at a time are in memory.
const READ: usize = SMALLEST;
/// How far a cut is moved to find a quiet place, and how much before it is looked at.
const PATIENCE: usize = 1 << 20;
const LOOK_BACK: usize = 48 << 10;
/// How often.
const TRIES: usize = 8;
/// Of what is read, so much comes between two pauses at most: what is held of it does not need a file.
const LONG: usize = 24 << 20;
/// A pipe that never rests has a pause so often.
const PATIENT: Duration = Duration::from_millis(40);
/// Nothing that is still being written comes faster, in bytes a millisecond: what does is only copied, is read
/// as fast as can be, and has a pause less often, and none in its beginning.
const FAST: u128 = 100 << 10;
const SELDOM: Duration = Duration::from_millis(500);
const BEGINNING: Duration = Duration::from_secs(1);
/// The longest line that is kept whole; the rest of a longer one is dropped and said, since a
/// stream without line ends must not fill the memory, and a file is to give the same.
pub(super) const LONGEST_LINE: usize = 16 << 20;

/// A piece of an input.
pub struct Chunk {
    data: ChunkData,
    duty: Duty,
    /// Where it begins in the input.
    pub offset: u64,
    /// Bytes of an over-long last line that were dropped.
    pub dropped: u64,
    /// It begins the input, or at a place that [`PlaceAt`] found quiet.
    pub quiet: bool,
    /// What is known so far may be written after it, for a reason.
    pub pause: Option<Pause>,
}

/// Why what is known so far may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pause {
    /// Nothing more had come.
    Idle,
    /// Much has come since the last pause: it must not all be held.
    Long,
    /// The input never rests.
    Busy,
}

enum ChunkData {
    /// From where to where, and where the next chunk begins: further where bytes were dropped.
    Mapped(Arc<Map>, [usize; 3]),
    Read(Vec<u8>),
}

/// What is to be done with a mapped chunk that was walked.
enum Duty {
    /// It may be walked again: what it was is noted.
    Note(Arc<Witness>),
    /// It was walked before: it must be what it was.
    Hold(Arc<Witness>),
    /// Nothing; what is read in blocks was looked at before.
    None,
}

impl Chunk {
    /// The bytes: whole lines, the last of the input perhaps without its end.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            ChunkData::Mapped(map, [from, to, _]) => &map.bytes()[*from..*to],
            ChunkData::Read(bytes) => bytes,
        }
    }

    /// The chunk was walked: what was found in it counts only if this is no error.
    ///
    /// # Errors
    /// It is not what it was at the pass before.
    pub fn walked(&self) -> Result<()> {
        match (&self.data, &self.duty) {
            (ChunkData::Mapped(map, [from, _, next]), Duty::Note(witness)) => {
                witness.saw(self.offset, &map.bytes()[*from..*next]);
                Ok(())
            }
            (ChunkData::Mapped(map, [from, _, next]), Duty::Hold(witness)) => {
                witness.holds(map.bytes(), *from, *next)
            }
            _ => Ok(()),
        }
    }

    /// Gives the memory of the bytes back, after they were walked for good.
    pub fn release(self) {
        if let ChunkData::Mapped(map, [from, _, next]) = &self.data {
            map.release(*from, next - from);
        }
    }

    /// Gets the bytes near, before they are walked.
    pub fn expect(&self) {
        if let ChunkData::Mapped(map, [from, to, _]) = &self.data {
            map.expect(*from, to - from);
        }
    }
}

/// The chunks of one input, in order.
pub struct Chunks {
    data: ChunksData,
    place: PlaceAt,
    /// The next chunk begins at a good place.
    begins_quiet: bool,
}

enum ChunksData {
    Mapped(Mapped),
    Read {
        reader: Box<dyn Read + Send>,
        name: String,
        rest: Vec<u8>,
        offset: u64,
        ended: bool,
        /// It is handed over as it comes.
        is_live: bool,
        since: Since,
    },
}

/// A mapped file on its way.
struct Mapped {
    map: Arc<Map>,
    /// The witness, and whether this is the first pass.
    witness: Option<(Arc<Witness>, bool)>,
    at: usize,
    /// As far as the map is read.
    end: usize,
    size: usize,
}

impl Mapped {
    /// The next chunk, which begins at a `quiet` place or not, and whether it ends at one.
    fn next(&mut self, quiet: bool, place: PlaceAt) -> Option<(Chunk, bool)> {
        let from = self.at;
        let bytes = &self.map.bytes()[from..self.end];
        if bytes.is_empty() {
            return None;
        }
        let (len, is_quiet) = if bytes.len() <= self.size {
            (bytes.len(), true)
        } else {
            match cut(&bytes[..self.size], quiet, place) {
                Some(found) => found,
                None => {
                    let end = memchr(b'\n', bytes);
                    (end.map_or(bytes.len(), |end| end + 1), false)
                }
            }
        };
        // Kept of it, dropped of it, and in all.
        let over_long = over_long(&bytes[..len]);
        let (kept, dropped, len) = match over_long {
            Some((0, end)) => (LONGEST_LINE, end - LONGEST_LINE, len.min(end + 1)),
            Some((begin, _)) => (begin, 0, begin),
            None => (len, 0, len),
        };
        self.at += len;
        let chunk = Chunk {
            data: ChunkData::Mapped(Arc::clone(&self.map), [from, from + kept, self.at]),
            duty: match &self.witness {
                Some((witness, true)) => Duty::Note(Arc::clone(witness)),
                Some((witness, false)) => Duty::Hold(Arc::clone(witness)),
                None => Duty::None,
            },
            offset: from as u64,
            dropped: dropped as u64,
            quiet,
            pause: None,
        };
        Some((chunk, is_quiet && over_long.is_none()))
    }
}

impl Chunks {
    pub(super) fn mapped(
        map: Arc<Map>,
        witness: Option<Arc<Witness>>,
        most: usize,
        place: PlaceAt,
    ) -> Result<Chunks> {
        let witness = witness.map(|witness| {
            let is_first = witness.begins();
            (witness, is_first)
        });
        let end = match &witness {
            Some((witness, true)) => {
                witness.ended(map.bytes().len() as u64);
                map.bytes().len()
            }
            Some((witness, false)) => witness.cut(map.bytes())?.len(),
            None => map.bytes().len(),
        };
        let size = mapped_size(end).min(most);
        let data = ChunksData::Mapped(Mapped {
            map,
            witness,
            at: 0,
            end,
            size,
        });
        Ok(Chunks {
            data,
            place,
            begins_quiet: true,
        })
    }

    /// What `reader` gives; where it `is_live`, as it comes.
    pub(super) fn read(
        reader: Box<dyn Read + Send>,
        name: String,
        is_live: bool,
        place: PlaceAt,
    ) -> Chunks {
        let data = ChunksData::Read {
            reader,
            name,
            rest: Vec::new(),
            offset: 0,
            ended: false,
            is_live,
            since: Since::default(),
        };
        Chunks {
            data,
            place,
            begins_quiet: true,
        }
    }
}

impl Chunks {
    /// True where the next chunk may come much later.
    pub fn is_live(&self) -> bool {
        matches!(self.data, ChunksData::Read { is_live: true, .. })
    }

    /// About how many chunks are left, where that is known without reading.
    pub fn about(&self) -> Option<usize> {
        match &self.data {
            ChunksData::Mapped(all) => Some((all.end - all.at).div_ceil(all.size)),
            ChunksData::Read { .. } => None,
        }
    }
}

/// A line of more than [`LONGEST_LINE`] bytes: where it begins, and where it ends but for its `\n`.
/// The first in `bytes`, whose last line may go on after them.
fn over_long(bytes: &[u8]) -> Option<(usize, usize)> {
    // Such a line is at more than one of these places.
    let half = LONGEST_LINE / 2;
    let mut at = half;
    while at < bytes.len() {
        let from = memrchr(b'\n', &bytes[..at]).map_or(0, |i| i + 1);
        let to = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |i| at + i);
        if to - from > LONGEST_LINE {
            return Some((from, to));
        }
        at = to.next_multiple_of(half).max(at + half);
    }
    None
}

/// The best cut of `bytes`, which begin at a `quiet` place or not, at or before their end: after a
/// line end, at a quiet place if one is near, and whether it is one. `None` where no line ends.
fn cut(bytes: &[u8], quiet: bool, place: PlaceAt) -> Option<(usize, bool)> {
    let last = memrchr(b'\n', bytes)? + 1;
    let mut loud = None;
    let mut at = last;
    for _ in 0..TRIES {
        let back = at.saturating_sub(LOOK_BACK);
        // A line without its beginning would look torn.
        let from = match back {
            0 => Some(0),
            _ => memchr(b'\n', &bytes[back..at]).map(|end| back + end + 1),
        };
        match from.map(|from| place(&bytes[from..at], quiet && from == 0)) {
            Some(Place::Quiet) => return Some((at, true)),
            Some(Place::Loud) => loud = loud.or(Some(at)),
            Some(Place::Within) | None => {}
        }
        // A step back over what was looked at.
        match memrchr(b'\n', &bytes[..back]) {
            Some(end) if last - end < PATIENCE => at = end + 1,
            _ => break,
        }
    }
    Some((loud.unwrap_or(last), false))
}

impl Iterator for Chunks {
    type Item = Result<Chunk>;

    fn next(&mut self) -> Option<Result<Chunk>> {
        let place = self.place;
        let begins = self.begins_quiet;
        match &mut self.data {
            ChunksData::Mapped(all) => {
                let (chunk, is_quiet) = all.next(begins, place)?;
                self.begins_quiet = is_quiet;
                Some(Ok(chunk))
            }
            ChunksData::Read {
                reader,
                name,
                rest,
                offset,
                ended,
                since,
                is_live,
            } => match next_read(&mut **reader, (rest, begins), ended, place) {
                Ok(None) => None,
                Ok(Some(block)) => {
                    let Block {
                        bytes,
                        dropped,
                        is_quiet,
                        is_idle,
                    } = block;
                    let pause = since.pause(bytes.len(), is_idle, *is_live);
                    let start = *offset;
                    self.begins_quiet = is_quiet;
                    // The end of a line of which something was dropped is in neither.
                    *offset += bytes.len() as u64 + dropped + u64::from(dropped > 0);
                    Some(Ok(Chunk {
                        data: ChunkData::Read(bytes),
                        duty: Duty::None,
                        offset: start,
                        dropped,
                        quiet: begins,
                        pause,
                    }))
                }
                Err(source) => {
                    *ended = true;
                    rest.clear();
                    Some(Err(Error::Input {
                        path: PathBuf::from(name.as_str()),
                        cause: source,
                    }))
                }
            },
        }
    }
}

/// What was read since the last pause.
struct Since {
    bytes: usize,
    begin: Instant,
    /// When it was last looked at, and how many bytes came since then.
    look: Instant,
    new: usize,
}

impl Default for Since {
    fn default() -> Since {
        let now = Instant::now();
        Since {
            bytes: 0,
            begin: now,
            look: now,
            new: 0,
        }
    }
}

impl Since {
    /// Whether there is a pause after so many bytes more.
    fn pause(&mut self, bytes: usize, is_idle: bool, is_live: bool) -> Option<Pause> {
        self.bytes += bytes;
        self.new += bytes;
        let is_busy = self.is_busy() && is_live;
        let pause = match is_idle {
            true => Some(Pause::Idle),
            false if is_busy => Some(Pause::Busy),
            false => (self.bytes >= LONG).then_some(Pause::Long),
        };
        if pause.is_some() {
            self.bytes = 0;
        }
        pause
    }

    /// True once a while where bytes come without a rest.
    fn is_busy(&mut self) -> bool {
        let since = self.look.elapsed();
        if since < PATIENT {
            return false;
        }
        let is_fast = self.new as u128 > since.as_millis() * FAST;
        if is_fast && (since < SELDOM || self.begin.elapsed() < BEGINNING) {
            return false;
        }
        (self.look, self.new) = (Instant::now(), 0);
        true
    }
}

/// Whole lines that were read.
struct Block {
    bytes: Vec<u8>,
    /// How many bytes after them were dropped.
    dropped: u64,
    /// They end at a quiet place.
    is_quiet: bool,
    /// Nothing more had come.
    is_idle: bool,
}

/// The next block of whole lines, which begins with `rest` at a `quiet` place or not, or the beginning
/// of a line that is too long. What follows goes to `rest`.
fn next_read(
    reader: &mut (dyn Read + Send),
    (rest, quiet): (&mut Vec<u8>, bool),
    ended: &mut bool,
    place: PlaceAt,
) -> std::io::Result<Option<Block>> {
    let block = |bytes: Vec<u8>, dropped, is_quiet, is_idle| Block {
        bytes,
        dropped,
        is_quiet,
        is_idle,
    };
    let mut bytes = std::mem::take(rest);
    loop {
        let mut waits = false;
        if !*ended {
            let have = bytes.len();
            bytes.resize(have.max(READ / 2) + READ, 0);
            let (n, filled) = fill_some(reader, &mut bytes[have..])?;
            *ended = filled == Filled::Ended;
            waits = filled == Filled::Idle;
            bytes.truncate(have + n);
            // What was here before could not be handed over either.
            if waits && n == 0 {
                continue;
            }
        }
        if let Some((begin, end)) = over_long(&bytes) {
            if begin > 0 {
                *rest = bytes.split_off(begin);
                return Ok(Some(block(bytes, 0, false, false)));
            }
            let mut dropped = (end - LONGEST_LINE) as u64;
            if end < bytes.len() {
                rest.extend_from_slice(&bytes[end + 1..]);
            } else if !*ended {
                dropped += drop_line(reader, rest, ended)?;
            }
            bytes.truncate(LONGEST_LINE);
            return Ok(Some(block(bytes, dropped, false, false)));
        }
        if *ended {
            return Ok((!bytes.is_empty()).then(|| block(bytes, 0, true, false)));
        }
        if let Some((at, is_quiet)) = cut(&bytes, quiet, place) {
            // The other half of a torn line is waited for.
            if waits && !is_quiet && bytes.len() < READ {
                continue;
            }
            rest.extend_from_slice(&bytes[at..]);
            bytes.truncate(at);
            return Ok(Some(block(bytes, 0, is_quiet, waits)));
        }
    }
}

/// Drops the rest of a line that is too long, up to its end; how many bytes.
fn drop_line(
    reader: &mut (dyn Read + Send),
    rest: &mut Vec<u8>,
    ended: &mut bool,
) -> std::io::Result<u64> {
    let mut block = vec![0; READ];
    let mut dropped = 0;
    loop {
        let (n, filled) = fill_some(reader, &mut block)?;
        *ended = filled == Filled::Ended;
        if let Some(end) = memchr(b'\n', &block[..n]) {
            rest.extend_from_slice(&block[end + 1..n]);
            return Ok(dropped + end as u64);
        }
        dropped += n as u64;
        if *ended {
            return Ok(dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &[u8]) -> (Vec<u8>, u64, Vec<u64>) {
        let chunks = Chunks::read(
            Box::new(std::io::Cursor::new(text.to_vec())),
            "x".into(),
            false,
            |_, _| Place::Quiet,
        );
        let (mut all, mut dropped, mut offsets) = (Vec::new(), 0, Vec::new());
        for chunk in chunks {
            let chunk = chunk.unwrap();
            all.extend_from_slice(chunk.bytes());
            dropped += chunk.dropped;
            offsets.push(chunk.offset);
        }
        (all, dropped, offsets)
    }

    #[test]
    fn the_chunks_of_a_stream_are_the_stream_and_end_at_line_ends() {
        let text: Vec<u8> = (0..400_000)
            .flat_map(|i| format!("line {i}\n").into_bytes())
            .collect();
        let (all, dropped, offsets) = read_all(&text);
        assert!(all == text && dropped == 0 && offsets.len() > 2);
        assert!(
            offsets
                .iter()
                .all(|&o| o == 0 || text[o as usize - 1] == b'\n')
        );
        let (all, ..) = read_all(&text[..text.len() - 1]);
        assert!(all == text[..text.len() - 1], "the last line needs no end");
    }

    #[test]
    fn a_pipe_that_never_rests_has_pauses_after_a_while() {
        let now = Instant::now();
        let then = now.checked_sub(SELDOM).unwrap();
        let since = |look| Since {
            bytes: 0,
            begin: now.checked_sub(BEGINNING).unwrap(),
            look,
            new: 0,
        };
        let mut old = since(then);
        assert_eq!(old.pause(1, false, true), Some(Pause::Busy));
        assert_eq!(old.pause(1, false, true), None);
        assert_eq!(old.pause(1, true, true), Some(Pause::Idle));
        // Nobody waits for what a packed file holds.
        assert_eq!(since(then).pause(1, false, false), None);
        // What comes as fast as it can be read has a pause, too, but not as often.
        let mut fast = since(now.checked_sub(PATIENT).unwrap());
        assert_eq!(fast.pause(LONG - 1, false, true), None);
        let mut fast = since(then);
        assert_eq!(fast.pause(1 << 31, false, true), Some(Pause::Busy));
        let mut young = Since {
            begin: then,
            ..since(then)
        };
        assert_eq!(young.pause(1 << 31, false, true), Some(Pause::Long));
        let mut new = since(now);
        assert_eq!(new.pause(LONG - 1, false, true), None);
        assert_eq!(new.pause(1, false, true), Some(Pause::Long));
    }

    /// The chunks' bytes, offsets and dropped bytes of a text that is mapped.
    fn map_all(text: &[u8]) -> Vec<(Vec<u8>, u64, u64)> {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, text).unwrap();
        let map = Arc::new(Map::new(&file, "x".into()).unwrap());
        let chunks = Chunks::mapped(map, None, usize::MAX, |_, _| Place::Quiet).unwrap();
        let each = |chunk: Result<Chunk>| {
            let chunk = chunk.unwrap();
            (chunk.bytes().to_vec(), chunk.offset, chunk.dropped)
        };
        chunks.map(each).collect()
    }

    #[test]
    fn a_line_beyond_all_measure_is_cut_alike_mapped_and_read() {
        let line = |len: usize| [&vec![b'x'; len][..], b"\n"].concat();
        for (before, len, dropped) in [
            (0, LONGEST_LINE, 0),
            (0, LONGEST_LINE + 1, 1),
            (3, LONGEST_LINE + 1, 1),
            (900_000, LONGEST_LINE + READ / 3, READ / 3),
            (5, LONGEST_LINE + 5_000_000, 5_000_000),
        ] {
            let text = [&line(before)[..], &line(len), b"next\n"].concat();
            let mapped = map_all(&text);
            let all: Vec<u8> = mapped
                .iter()
                .flat_map(|(bytes, ..)| bytes.clone())
                .collect();
            let sum: u64 = mapped.iter().map(|(.., dropped)| dropped).sum();
            let (read, read_dropped, offsets) = read_all(&text);
            assert!(all == read, "{before} {len}");
            assert_eq!((sum, read_dropped), (dropped as u64, dropped as u64));
            let last = mapped.last().map(|(_, offset, _)| *offset);
            let at = (text.len() - 5) as u64;
            if dropped > 0 {
                assert_eq!((last, offsets.last().copied()), (Some(at), Some(at)));
            }
            let open = &text[..text.len() - 6];
            assert_eq!(
                map_all(open).iter().map(|c| c.2).sum::<u64>(),
                dropped as u64
            );
            assert_eq!(read_all(open).1, dropped as u64);
        }
    }
}
