//! An input in pieces that end at line ends, ready for the workers.

use super::fill;
use super::guard::Map;
use crate::error::{Error, Result};
use memchr::{memchr, memrchr};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// Says whether the bytes before a line end form a good place to cut: `true` where no line
/// before it waits for a piece behind it.
pub type QuietAt = fn(&[u8]) -> bool;

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
const LOOK_BACK: usize = 16 << 10;
/// The longest line that is kept whole when reading; the rest of a longer one is dropped and
/// said, since a file without line ends must not fill the memory.
const LONGEST_LINE: usize = 16 << 20;

/// A piece of an input.
pub struct Chunk {
    data: ChunkData,
    /// Where it begins in the input.
    pub offset: u64,
    /// Bytes of an over-long last line that were dropped.
    pub dropped: u64,
}

enum ChunkData {
    Mapped(Arc<Map>, usize, usize),
    Read(Vec<u8>),
}

impl Chunk {
    /// The bytes: whole lines, the last of the input perhaps without its end.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            ChunkData::Mapped(map, from, to) => &map.bytes()[*from..*to],
            ChunkData::Read(bytes) => bytes,
        }
    }

    /// Gets the bytes near, before they are walked.
    pub fn expect(&self) {
        if let ChunkData::Mapped(map, from, to) = &self.data {
            map.expect(*from, to - from);
        }
    }
}

/// The chunks of one input, in order.
pub struct Chunks {
    data: ChunksData,
    quiet: QuietAt,
}

enum ChunksData {
    Mapped {
        map: Arc<Map>,
        at: usize,
        size: usize,
    },
    Read {
        reader: Box<dyn Read + Send>,
        name: String,
        rest: Vec<u8>,
        offset: u64,
        ended: bool,
    },
}

impl Chunks {
    pub(super) fn mapped(map: Arc<Map>, most: usize, quiet: QuietAt) -> Chunks {
        let size = mapped_size(map.bytes().len()).min(most);
        Chunks {
            data: ChunksData::Mapped { map, at: 0, size },
            quiet,
        }
    }

    pub(super) fn read(reader: Box<dyn Read + Send>, name: String, quiet: QuietAt) -> Chunks {
        let data = ChunksData::Read {
            reader,
            name,
            rest: Vec::new(),
            offset: 0,
            ended: false,
        };
        Chunks { data, quiet }
    }
}

/// The best cut of `bytes` at or before its end: after a line end, at a quiet place if one is
/// near. `None` where no line ends.
fn cut(bytes: &[u8], quiet: QuietAt) -> Option<usize> {
    let last = memrchr(b'\n', bytes)? + 1;
    let mut at = last;
    for _ in 0..64 {
        if quiet(&bytes[at.saturating_sub(LOOK_BACK)..at]) {
            return Some(at);
        }
        // A step back over what was looked at.
        let back = at.saturating_sub(LOOK_BACK);
        match memrchr(b'\n', &bytes[..back]) {
            Some(end) if last - end < PATIENCE => at = end + 1,
            _ => break,
        }
    }
    Some(last)
}

impl Iterator for Chunks {
    type Item = Result<Chunk>;

    fn next(&mut self) -> Option<Result<Chunk>> {
        let quiet = self.quiet;
        match &mut self.data {
            ChunksData::Mapped { map, at, size } => {
                let bytes = &map.bytes()[*at..];
                if bytes.is_empty() {
                    return None;
                }
                let len = if bytes.len() <= *size {
                    bytes.len()
                } else {
                    match cut(&bytes[..*size], quiet) {
                        Some(len) => len,
                        None => memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1),
                    }
                };
                let from = *at;
                *at += len;
                let data = ChunkData::Mapped(Arc::clone(map), from, *at);
                Some(Ok(Chunk {
                    data,
                    offset: from as u64,
                    dropped: 0,
                }))
            }
            ChunksData::Read {
                reader,
                name,
                rest,
                offset,
                ended,
            } => match next_read(&mut **reader, rest, ended, quiet) {
                Ok(None) => None,
                Ok(Some((bytes, dropped))) => {
                    let start = *offset;
                    *offset += bytes.len() as u64 + dropped;
                    Some(Ok(Chunk {
                        data: ChunkData::Read(bytes),
                        offset: start,
                        dropped,
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

/// The next block of whole lines; what follows its last line end goes to `rest`.
fn next_read(
    reader: &mut (dyn Read + Send),
    rest: &mut Vec<u8>,
    ended: &mut bool,
    quiet: QuietAt,
) -> std::io::Result<Option<(Vec<u8>, u64)>> {
    let mut bytes = std::mem::take(rest);
    loop {
        if !*ended {
            let have = bytes.len();
            bytes.resize(have.max(READ / 2) + READ, 0);
            let n = fill(reader, &mut bytes[have..])?;
            *ended = have + n < bytes.len();
            bytes.truncate(have + n);
        }
        if *ended {
            return Ok((!bytes.is_empty()).then_some((bytes, 0)));
        }
        if let Some(at) = cut(&bytes, quiet) {
            rest.extend_from_slice(&bytes[at..]);
            bytes.truncate(at);
            return Ok(Some((bytes, 0)));
        }
        if bytes.len() >= LONGEST_LINE {
            let over = (bytes.len() - LONGEST_LINE) as u64;
            bytes.truncate(LONGEST_LINE);
            let (bytes, dropped) = drop_line(reader, bytes, rest, ended)?;
            return Ok(Some((bytes, dropped + over)));
        }
    }
}

/// Drops the rest of a line that is too long, up to its end.
fn drop_line(
    reader: &mut (dyn Read + Send),
    mut bytes: Vec<u8>,
    rest: &mut Vec<u8>,
    ended: &mut bool,
) -> std::io::Result<(Vec<u8>, u64)> {
    let mut block = vec![0; READ];
    let mut dropped = 0;
    loop {
        let n = fill(reader, &mut block)?;
        *ended = n < block.len();
        match memchr(b'\n', &block[..n]) {
            Some(end) => {
                bytes.push(b'\n');
                rest.extend_from_slice(&block[end + 1..n]);
                return Ok((bytes, dropped + end as u64));
            }
            None => dropped += n as u64,
        }
        if *ended {
            return Ok((bytes, dropped));
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
            |_| true,
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
    fn a_line_without_end_is_cut_and_the_rest_counted() {
        let mut text = vec![b'x'; LONGEST_LINE + 5_000_000];
        text.extend_from_slice(b"\nnext\n");
        let (all, dropped, _) = read_all(&text);
        assert_eq!(all.len() as u64 + dropped, text.len() as u64);
        assert!(all.ends_with(b"x\nnext\n") && dropped > 4_000_000);
    }
}
