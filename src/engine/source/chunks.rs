//! An input in pieces that end at line ends, ready for the workers.

use super::change_check::InputFingerprint;
use super::guard::FileMap;
use super::read::{FillEnd, fill_until_idle};
use crate::error::{Error, Result};
use memchr::{memchr, memrchr};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a cut at a line end separates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutPlace {
    /// Nothing.
    Quiet,
    /// Pieces of lines, which the merge joins again.
    Loud,
    /// Lines that only one walk reads as one.
    Within,
}

/// Says what a cut after whole lines separates; with them comes whether they begin at a place
/// that is quiet.
pub type CutClassifier = fn(&[u8], bool) -> CutPlace;

/// Bytes of a mapped chunk: a share of the file large enough that what each chunk learns anew
/// costs nothing, small enough that the workers stay busy to the end.
fn mapped_chunk_size(len: usize) -> usize {
    (len / 64).clamp(MIN_CHUNK_BYTES, 32 << 20)
}
/// A file of no more bytes is one chunk, mapped or read.
pub(super) const MIN_CHUNK_BYTES: usize = 1 << 20;
/// Bytes of a chunk that is read: a few of them at a time are in memory.
const READ_CHUNK_BYTES: usize = MIN_CHUNK_BYTES;
/// How far a cut is moved to find a quiet place, and how much before it is looked at.
const MAX_CUT_SHIFT_BYTES: usize = 1 << 20;
const CUT_LOOK_BACK_BYTES: usize = 48 << 10;
/// How often.
const MAX_CUT_TRIES: usize = 8;
/// Of what is read, so much comes between two pauses at most: what is held of it does not need a file.
const MAX_BYTES_BETWEEN_FLUSHES: usize = 24 << 20;
/// A pipe that never rests has a pause so often.
const BUSY_FLUSH_INTERVAL: Duration = Duration::from_millis(40);
/// Nothing that is still being written comes faster, in bytes a millisecond: what does is only copied, is read
/// as fast as can be, and has a pause less often, and none in its beginning.
const COPY_SPEED_BYTES_PER_MS: u128 = 100 << 10;
const COPY_FLUSH_INTERVAL: Duration = Duration::from_millis(500);
const COPY_START_TIME: Duration = Duration::from_secs(1);
/// The longest line that is kept whole; the rest of a longer one is dropped and said, since a
/// stream without line ends must not fill the memory, and a file is to give the same.
pub(super) const MAX_LINE_BYTES: usize = 16 << 20;

/// A piece of an input.
pub struct InputChunk {
    data: InputChunkData,
    duty: MappedChunkCheck,
    /// Where it begins in the input.
    pub offset: u64,
    /// Bytes of an over-long last line that were dropped.
    pub dropped: u64,
    /// It begins the input, or at a place that [`CutClassifier`] found quiet.
    pub quiet: bool,
    /// What is known so far may be written after it, for a reason.
    pub pause: Option<FlushReason>,
}

/// Why what is known so far may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlushReason {
    /// Nothing more had come.
    Idle,
    /// Much has come since the last pause: it must not all be held.
    Long,
    /// The input never rests.
    Busy,
}

enum InputChunkData {
    /// From where to where, and where the next chunk begins: further where bytes were dropped.
    Mapped(Arc<FileMap>, [usize; 3]),
    Read(Vec<u8>),
}

/// What is to be done with a mapped chunk that was walked.
enum MappedChunkCheck {
    /// It may be walked again: what it was is noted.
    Note(Arc<InputFingerprint>),
    /// It was walked before: it must be what it was.
    Hold(Arc<InputFingerprint>),
    /// Nothing; what is read in blocks was looked at before.
    None,
}

impl InputChunk {
    /// The bytes: whole lines, the last of the input perhaps without its end.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            InputChunkData::Mapped(map, [from, to, _]) => &map.bytes()[*from..*to],
            InputChunkData::Read(bytes) => bytes,
        }
    }

    /// The chunk was walked: what was found in it counts only if this is no error.
    ///
    /// # Errors
    /// It is not what it was at the pass before.
    pub fn check_unchanged(&self) -> Result<()> {
        match (&self.data, &self.duty) {
            (InputChunkData::Mapped(map, [from, _, next]), MappedChunkCheck::Note(witness)) => {
                witness.record_bytes(self.offset, &map.bytes()[*from..*next]);
                Ok(())
            }
            (InputChunkData::Mapped(map, [from, _, next]), MappedChunkCheck::Hold(witness)) => {
                witness.check_unchanged(map.bytes(), *from, *next)
            }
            _ => Ok(()),
        }
    }

    /// Gives the memory of the bytes back, after they were walked for good.
    pub fn release(self) {
        if let InputChunkData::Mapped(map, [from, _, next]) = &self.data {
            map.release_range(*from, next - from);
        }
    }

    /// Gets the bytes near, before they are walked.
    pub fn prefetch(&self) {
        if let InputChunkData::Mapped(map, [from, to, _]) = &self.data {
            map.prefetch_range(*from, to - from);
        }
    }
}

/// The chunks of one input, in order.
pub struct InputChunks {
    data: ChunkSource,
    place: CutClassifier,
    /// The next chunk begins at a good place.
    begins_quiet: bool,
}

enum ChunkSource {
    Mapped(MappedInput),
    Read {
        reader: Box<dyn Read + Send>,
        name: String,
        rest: Vec<u8>,
        offset: u64,
        ended: bool,
        /// It is handed over as it comes.
        is_live: bool,
        since: FlushTimer,
    },
}

/// A mapped file on its way.
struct MappedInput {
    map: Arc<FileMap>,
    /// The witness, and whether this is the first pass.
    witness: Option<(Arc<InputFingerprint>, bool)>,
    at: usize,
    /// As far as the map is read.
    end: usize,
    size: usize,
}

impl MappedInput {
    /// The next chunk, which begins at a `quiet` place or not, and whether it ends at one.
    fn next_mapped_chunk(
        &mut self,
        quiet: bool,
        place: CutClassifier,
    ) -> Option<(InputChunk, bool)> {
        let from = self.at;
        let bytes = &self.map.bytes()[from..self.end];
        if bytes.is_empty() {
            return None;
        }
        let (len, is_quiet) = if bytes.len() <= self.size {
            (bytes.len(), true)
        } else {
            match find_best_cut(&bytes[..self.size], quiet, place) {
                Some(found) => found,
                None => {
                    let end = memchr(b'\n', bytes);
                    (end.map_or(bytes.len(), |end| end + 1), false)
                }
            }
        };
        // Kept of it, dropped of it, and in all.
        let over_long = find_over_long_line(&bytes[..len]);
        let (kept, dropped, len) = match over_long {
            Some((0, end)) => (MAX_LINE_BYTES, end - MAX_LINE_BYTES, len.min(end + 1)),
            Some((begin, _)) => (begin, 0, begin),
            None => (len, 0, len),
        };
        self.at += len;
        let chunk = InputChunk {
            data: InputChunkData::Mapped(Arc::clone(&self.map), [from, from + kept, self.at]),
            duty: match &self.witness {
                Some((witness, true)) => MappedChunkCheck::Note(Arc::clone(witness)),
                Some((witness, false)) => MappedChunkCheck::Hold(Arc::clone(witness)),
                None => MappedChunkCheck::None,
            },
            offset: from as u64,
            dropped: dropped as u64,
            quiet,
            pause: None,
        };
        Some((chunk, is_quiet && over_long.is_none()))
    }
}

impl InputChunks {
    pub(super) fn of_mapped_file(
        map: Arc<FileMap>,
        witness: Option<Arc<InputFingerprint>>,
        most: usize,
        place: CutClassifier,
    ) -> Result<InputChunks> {
        let witness = witness.map(|witness| {
            let is_first = witness.begin_pass();
            (witness, is_first)
        });
        let end = match &witness {
            Some((witness, true)) => {
                witness.record_length(map.bytes().len() as u64);
                map.bytes().len()
            }
            Some((witness, false)) => witness.cut_to_length(map.bytes())?.len(),
            None => map.bytes().len(),
        };
        let size = mapped_chunk_size(end).min(most);
        let data = ChunkSource::Mapped(MappedInput {
            map,
            witness,
            at: 0,
            end,
            size,
        });
        Ok(InputChunks {
            data,
            place,
            begins_quiet: true,
        })
    }

    /// What `reader` gives; where it `is_live`, as it comes.
    pub(super) fn of_reader(
        reader: Box<dyn Read + Send>,
        name: String,
        is_live: bool,
        place: CutClassifier,
    ) -> InputChunks {
        let data = ChunkSource::Read {
            reader,
            name,
            rest: Vec::new(),
            offset: 0,
            ended: false,
            is_live,
            since: FlushTimer::default(),
        };
        InputChunks {
            data,
            place,
            begins_quiet: true,
        }
    }
}

impl InputChunks {
    /// True where the next chunk may come much later.
    pub fn is_live(&self) -> bool {
        matches!(self.data, ChunkSource::Read { is_live: true, .. })
    }

    /// About how many chunks are left, where that is known without reading.
    pub fn estimate_chunks_left(&self) -> Option<usize> {
        match &self.data {
            ChunkSource::Mapped(all) => Some((all.end - all.at).div_ceil(all.size)),
            ChunkSource::Read { .. } => None,
        }
    }
}

/// A line of more than [`LONGEST_LINE`] bytes: where it begins, and where it ends but for its `\n`.
/// The first in `bytes`, whose last line may go on after them.
fn find_over_long_line(bytes: &[u8]) -> Option<(usize, usize)> {
    // Such a line is at more than one of these places.
    let half = MAX_LINE_BYTES / 2;
    let mut at = half;
    while at < bytes.len() {
        let from = memrchr(b'\n', &bytes[..at]).map_or(0, |i| i + 1);
        let to = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |i| at + i);
        if to - from > MAX_LINE_BYTES {
            return Some((from, to));
        }
        at = to.next_multiple_of(half).max(at + half);
    }
    None
}

/// The best cut of `bytes`, which begin at a `quiet` place or not, at or before their end: after a
/// line end, at a quiet place if one is near, and whether it is one. `None` where no line ends.
fn find_best_cut(bytes: &[u8], quiet: bool, place: CutClassifier) -> Option<(usize, bool)> {
    let last = memrchr(b'\n', bytes)? + 1;
    let mut loud = None;
    let mut at = last;
    for _ in 0..MAX_CUT_TRIES {
        let back = at.saturating_sub(CUT_LOOK_BACK_BYTES);
        // A line without its beginning would look torn.
        let from = match back {
            0 => Some(0),
            _ => memchr(b'\n', &bytes[back..at]).map(|end| back + end + 1),
        };
        match from.map(|from| place(&bytes[from..at], quiet && from == 0)) {
            Some(CutPlace::Quiet) => return Some((at, true)),
            Some(CutPlace::Loud) => loud = loud.or(Some(at)),
            Some(CutPlace::Within) | None => {}
        }
        // A step back over what was looked at.
        match memrchr(b'\n', &bytes[..back]) {
            Some(end) if last - end < MAX_CUT_SHIFT_BYTES => at = end + 1,
            _ => break,
        }
    }
    Some((loud.unwrap_or(last), false))
}

impl Iterator for InputChunks {
    type Item = Result<InputChunk>;

    fn next(&mut self) -> Option<Result<InputChunk>> {
        let place = self.place;
        let begins = self.begins_quiet;
        match &mut self.data {
            ChunkSource::Mapped(all) => {
                let (chunk, is_quiet) = all.next_mapped_chunk(begins, place)?;
                self.begins_quiet = is_quiet;
                Some(Ok(chunk))
            }
            ChunkSource::Read {
                reader,
                name,
                rest,
                offset,
                ended,
                since,
                is_live,
            } => match next_read_block(&mut **reader, (rest, begins), ended, place) {
                Ok(None) => None,
                Ok(Some(block)) => {
                    let ReadBlock {
                        bytes,
                        dropped,
                        is_quiet,
                        is_idle,
                    } = block;
                    let pause = since.flush_reason_after(bytes.len(), is_idle, *is_live);
                    let start = *offset;
                    self.begins_quiet = is_quiet;
                    // The end of a line of which something was dropped is in neither.
                    *offset += bytes.len() as u64 + dropped + u64::from(dropped > 0);
                    Some(Ok(InputChunk {
                        data: InputChunkData::Read(bytes),
                        duty: MappedChunkCheck::None,
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
struct FlushTimer {
    bytes: usize,
    begin: Instant,
    /// When it was last looked at, and how many bytes came since then.
    look: Instant,
    new: usize,
}

impl Default for FlushTimer {
    fn default() -> FlushTimer {
        let now = Instant::now();
        FlushTimer {
            bytes: 0,
            begin: now,
            look: now,
            new: 0,
        }
    }
}

impl FlushTimer {
    /// Whether there is a pause after so many bytes more.
    fn flush_reason_after(
        &mut self,
        bytes: usize,
        is_idle: bool,
        is_live: bool,
    ) -> Option<FlushReason> {
        self.bytes += bytes;
        self.new += bytes;
        let is_busy = self.is_flush_due() && is_live;
        let pause = match is_idle {
            true => Some(FlushReason::Idle),
            false if is_busy => Some(FlushReason::Busy),
            false => (self.bytes >= MAX_BYTES_BETWEEN_FLUSHES).then_some(FlushReason::Long),
        };
        if pause.is_some() {
            self.bytes = 0;
        }
        pause
    }

    /// True once a while where bytes come without a rest.
    fn is_flush_due(&mut self) -> bool {
        let since = self.look.elapsed();
        if since < BUSY_FLUSH_INTERVAL {
            return false;
        }
        let is_fast = self.new as u128 > since.as_millis() * COPY_SPEED_BYTES_PER_MS;
        if is_fast && (since < COPY_FLUSH_INTERVAL || self.begin.elapsed() < COPY_START_TIME) {
            return false;
        }
        (self.look, self.new) = (Instant::now(), 0);
        true
    }
}

/// Whole lines that were read.
struct ReadBlock {
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
fn next_read_block(
    reader: &mut (dyn Read + Send),
    (rest, quiet): (&mut Vec<u8>, bool),
    ended: &mut bool,
    place: CutClassifier,
) -> std::io::Result<Option<ReadBlock>> {
    let block = |bytes: Vec<u8>, dropped, is_quiet, is_idle| ReadBlock {
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
            bytes.resize(have.max(READ_CHUNK_BYTES / 2) + READ_CHUNK_BYTES, 0);
            let (n, filled) = fill_until_idle(reader, &mut bytes[have..])?;
            *ended = filled == FillEnd::Ended;
            waits = filled == FillEnd::Idle;
            bytes.truncate(have + n);
            // What was here before could not be handed over either.
            if waits && n == 0 {
                continue;
            }
        }
        if let Some((begin, end)) = find_over_long_line(&bytes) {
            if begin > 0 {
                *rest = bytes.split_off(begin);
                return Ok(Some(block(bytes, 0, false, false)));
            }
            let mut dropped = (end - MAX_LINE_BYTES) as u64;
            if end < bytes.len() {
                rest.extend_from_slice(&bytes[end + 1..]);
            } else if !*ended {
                dropped += drop_line(reader, rest, ended)?;
            }
            bytes.truncate(MAX_LINE_BYTES);
            return Ok(Some(block(bytes, dropped, false, false)));
        }
        if *ended {
            return Ok((!bytes.is_empty()).then(|| block(bytes, 0, true, false)));
        }
        if let Some((at, is_quiet)) = find_best_cut(&bytes, quiet, place) {
            // The other half of a torn line is waited for.
            if waits && !is_quiet && bytes.len() < READ_CHUNK_BYTES {
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
    let mut block = vec![0; READ_CHUNK_BYTES];
    let mut dropped = 0;
    loop {
        let (n, filled) = fill_until_idle(reader, &mut block)?;
        *ended = filled == FillEnd::Ended;
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
        let chunks = InputChunks::of_reader(
            Box::new(std::io::Cursor::new(text.to_vec())),
            "x".into(),
            false,
            |_, _| CutPlace::Quiet,
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
        let then = now.checked_sub(COPY_FLUSH_INTERVAL).unwrap();
        let since = |look| FlushTimer {
            bytes: 0,
            begin: now.checked_sub(COPY_START_TIME).unwrap(),
            look,
            new: 0,
        };
        let mut old = since(then);
        assert_eq!(
            old.flush_reason_after(1, false, true),
            Some(FlushReason::Busy)
        );
        assert_eq!(old.flush_reason_after(1, false, true), None);
        assert_eq!(
            old.flush_reason_after(1, true, true),
            Some(FlushReason::Idle)
        );
        // Nobody waits for what a packed file holds.
        assert_eq!(since(then).flush_reason_after(1, false, false), None);
        // What comes as fast as it can be read has a pause, too, but not as often.
        let mut fast = since(now.checked_sub(BUSY_FLUSH_INTERVAL).unwrap());
        assert_eq!(
            fast.flush_reason_after(MAX_BYTES_BETWEEN_FLUSHES - 1, false, true),
            None
        );
        let mut fast = since(then);
        assert_eq!(
            fast.flush_reason_after(1 << 31, false, true),
            Some(FlushReason::Busy)
        );
        let mut young = FlushTimer {
            begin: then,
            ..since(then)
        };
        assert_eq!(
            young.flush_reason_after(1 << 31, false, true),
            Some(FlushReason::Long)
        );
        let mut new = since(now);
        assert_eq!(
            new.flush_reason_after(MAX_BYTES_BETWEEN_FLUSHES - 1, false, true),
            None
        );
        assert_eq!(
            new.flush_reason_after(1, false, true),
            Some(FlushReason::Long)
        );
    }

    /// The chunks' bytes, offsets and dropped bytes of a text that is mapped.
    fn map_all(text: &[u8]) -> Vec<(Vec<u8>, u64, u64)> {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, text).unwrap();
        let map = Arc::new(FileMap::new(&file, "x".into()).unwrap());
        let chunks =
            InputChunks::of_mapped_file(map, None, usize::MAX, |_, _| CutPlace::Quiet).unwrap();
        let each = |chunk: Result<InputChunk>| {
            let chunk = chunk.unwrap();
            (chunk.bytes().to_vec(), chunk.offset, chunk.dropped)
        };
        chunks.map(each).collect()
    }

    #[test]
    fn a_line_beyond_all_measure_is_cut_alike_mapped_and_read() {
        let line = |len: usize| [&vec![b'x'; len][..], b"\n"].concat();
        for (before, len, dropped) in [
            (0, MAX_LINE_BYTES, 0),
            (0, MAX_LINE_BYTES + 1, 1),
            (3, MAX_LINE_BYTES + 1, 1),
            (
                900_000,
                MAX_LINE_BYTES + READ_CHUNK_BYTES / 3,
                READ_CHUNK_BYTES / 3,
            ),
            (5, MAX_LINE_BYTES + 5_000_000, 5_000_000),
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
