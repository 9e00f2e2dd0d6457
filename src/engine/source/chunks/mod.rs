//! An input in pieces that end at line ends, ready for the workers.

mod blocks;
mod cuts;
mod flush_timer;
mod limits;

pub use cuts::{CutClassifier, CutPlace};
pub use flush_timer::FlushReason;

use super::change_check::{InputFingerprint, InputPass};
use super::guard::FileMap;
use super::limits::{MAX_LINE_BYTES, MIN_CHUNK_BYTES};
use crate::error::{Error, Result};
use blocks::BlockReader;
use cuts::{find_best_cut, find_over_long_line};
use flush_timer::FlushTimer;
use memchr::memchr;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// Returns the bytes of a mapped chunk: a share of the file large enough that the processes that each
/// chunk learns anew cost nothing, small enough that the workers stay busy to the end.
fn mapped_chunk_size(len: usize) -> usize {
    (len / 64).clamp(MIN_CHUNK_BYTES, 32 << 20)
}
/// A piece of an input.
pub struct InputChunk {
    data: InputChunkData,
    /// The pass that checks it, if it is mapped and read more than once.
    pass: Option<InputPass>,
    /// Its first byte in the input.
    pub offset: u64,
    /// Bytes of an over-long last line that were dropped.
    pub dropped: u64,
    /// It begins the input, or at a place that [`CutClassifier`] found quiet.
    pub quiet: bool,
    /// The reason to write the results so far after it, if there is one.
    pub pause: Option<FlushReason>,
}

enum InputChunkData {
    /// Its first byte, its end, and the next chunk's first byte, which is later if bytes were dropped.
    Mapped(Arc<FileMap>, [usize; 3]),
    Read(Vec<u8>),
}

impl InputChunk {
    /// Returns the bytes: whole lines, the last of the input perhaps without its end.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            InputChunkData::Mapped(map, [from, to, _]) => &map.bytes()[*from..*to],
            InputChunkData::Read(bytes) => bytes,
        }
    }

    /// Checks the chunk after it was walked: an error makes its results void.
    ///
    /// # Errors
    /// It has changed since the pass before.
    pub fn check_unchanged(&self) -> Result<()> {
        match (&self.data, &self.pass) {
            (InputChunkData::Mapped(map, [from, _, next]), Some(pass)) => {
                pass.check_range(map.bytes(), *from, *next)
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
    /// The next chunk begins at a quiet place.
    begins_quiet: bool,
}

enum ChunkSource {
    Mapped(MappedInput),
    Read(StreamInput),
}

/// A mapped file, from the next chunk on.
struct MappedInput {
    map: Arc<FileMap>,
    pass: Option<InputPass>,
    at: usize,
    /// The end of the part that is read.
    end: usize,
    size: usize,
}

impl MappedInput {
    /// Returns the next chunk, which begins at a `quiet` place or not, and true if it ends at one.
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
        // Its bytes that are kept, that are dropped, and in all.
        let over_long = find_over_long_line(&bytes[..len]);
        let (kept, dropped, len) = match over_long {
            Some((0, end)) => (MAX_LINE_BYTES, end - MAX_LINE_BYTES, len.min(end + 1)),
            Some((begin, _)) => (begin, 0, begin),
            None => (len, 0, len),
        };
        self.at += len;
        let chunk = InputChunk {
            data: InputChunkData::Mapped(Arc::clone(&self.map), [from, from + kept, self.at]),
            pass: self.pass.clone(),
            offset: from as u64,
            dropped: dropped as u64,
            quiet,
            pause: None,
        };
        Some((chunk, is_quiet && over_long.is_none()))
    }
}

/// A stream, from the next chunk on.
struct StreamInput {
    blocks: BlockReader,
    name: String,
    offset: u64,
    /// It is handed over as it comes.
    is_live: bool,
    since: FlushTimer,
}

impl StreamInput {
    /// Returns the next chunk, which begins at a `quiet` place or not, and true if it ends at one.
    fn next_read_chunk(
        &mut self,
        quiet: bool,
        place: CutClassifier,
    ) -> Result<Option<(InputChunk, bool)>> {
        let block = self.blocks.next_block(quiet, place);
        let block = block.map_err(|cause| Error::Input {
            path: PathBuf::from(self.name.as_str()),
            cause,
        })?;
        let Some(block) = block else { return Ok(None) };
        let (len, dropped) = (block.bytes.len(), block.dropped);
        let pause = (self.since).flush_reason_after(len, block.is_idle, self.is_live);
        let chunk = InputChunk {
            data: InputChunkData::Read(block.bytes),
            pass: None,
            offset: self.offset,
            dropped,
            quiet,
            pause,
        };
        // A line end after dropped bytes is not in the block.
        self.offset += len as u64 + dropped + u64::from(dropped > 0);
        Ok(Some((chunk, block.is_quiet)))
    }
}

impl InputChunks {
    pub(super) fn of_mapped_file(
        map: Arc<FileMap>,
        fingerprint: Option<Arc<InputFingerprint>>,
        most: usize,
        place: CutClassifier,
    ) -> Result<InputChunks> {
        let pass = fingerprint.map(InputPass::begin_pass);
        let end = match &pass {
            Some(pass) => pass.mapped_length(map.bytes())?,
            None => map.bytes().len(),
        };
        let size = mapped_chunk_size(end).min(most);
        let data = ChunkSource::Mapped(MappedInput {
            map,
            pass,
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

    /// Cuts the stream of `reader`; if it `is_live`, as it comes.
    pub(super) fn of_reader(
        reader: Box<dyn Read + Send>,
        name: String,
        is_live: bool,
        place: CutClassifier,
    ) -> InputChunks {
        let data = ChunkSource::Read(StreamInput {
            blocks: BlockReader::new(reader),
            name,
            offset: 0,
            is_live,
            since: FlushTimer::default(),
        });
        InputChunks {
            data,
            place,
            begins_quiet: true,
        }
    }
}

impl InputChunks {
    /// Returns true if the next chunk may come much later.
    pub fn is_live(&self) -> bool {
        matches!(&self.data, ChunkSource::Read(stream) if stream.is_live)
    }

    /// Returns about how many chunks are left, if that is known without reading.
    pub fn estimate_chunks_left(&self) -> Option<usize> {
        match &self.data {
            ChunkSource::Mapped(all) => Some((all.end - all.at).div_ceil(all.size)),
            ChunkSource::Read(_) => None,
        }
    }
}

impl Iterator for InputChunks {
    type Item = Result<InputChunk>;

    fn next(&mut self) -> Option<Result<InputChunk>> {
        let (quiet, place) = (self.begins_quiet, self.place);
        let next = match &mut self.data {
            ChunkSource::Mapped(file) => file.next_mapped_chunk(quiet, place).map(Ok),
            ChunkSource::Read(stream) => stream.next_read_chunk(quiet, place).transpose(),
        };
        Some(next?.map(|(chunk, is_quiet)| {
            self.begins_quiet = is_quiet;
            chunk
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::limits::READ_CHUNK_BYTES;
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
