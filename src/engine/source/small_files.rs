//! Files so small that opening them costs as much as walking them: they are read whole, by the
//! worker that walks them, into memory that it uses again.

use super::coded::is_coded;
use super::limits::{MIN_CHUNK_BYTES, SMALL_FILES_BATCH_BYTES, TEXT_ALIGNMENT_BYTES};
use super::name::InputName;
use super::read::{fill_buffer, head_of, read_some};
use super::rejoin::LineRejoiner;
use std::cell::RefCell;
use std::fs::{self, File, Metadata};
use std::ops::Range;

/// Plain text files in order, each of at most one chunk.
pub struct SmallFileTexts<'b> {
    bytes: &'b [u8],
    at: &'b [Range<usize>],
}

impl<'b> SmallFileTexts<'b> {
    /// Returns the memory that the texts are in.
    pub fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    /// Returns the place of each text in it.
    pub fn text_ranges(&self) -> &'b [Range<usize>] {
        self.at
    }

    /// Returns each text by itself.
    pub fn iter_texts(&self) -> impl Iterator<Item = &'b [u8]> {
        let bytes = self.bytes;
        self.at.iter().map(|at| &bytes[at.clone()])
    }
}

/// The memory that a thread reads into.
#[derive(Default)]
struct SmallFileBuffer {
    bytes: Vec<u8>,
    at: Vec<Range<usize>>,
}

/// Reads `origins` and hands them to `take` in order. Small files without lines to join come together with
/// their texts, if `fits` accepts their first bytes, as [`super::Input::read_head`] gives them. Every other
/// input comes alone and without a text, also one that cannot be read: [`super::Input::open`] gives its error.
pub fn read_small_files<'o>(
    origins: &'o [InputName],
    rejoin: LineRejoiner,
    fits: impl Fn(&[u8]) -> bool,
    mut take: impl FnMut(&'o [InputName], Option<SmallFileTexts<'_>>),
) {
    thread_local! {
        static MEMORY: RefCell<SmallFileBuffer> = RefCell::default();
    }
    MEMORY.with_borrow_mut(|SmallFileBuffer { bytes, at }| {
        let mut first = 0;
        for (number, origin) in origins.iter().enumerate() {
            let used = at.last().map_or(0, |last| last.end);
            let text = read_small_file(origin, bytes, used, rejoin, &fits);
            let is_text = text.is_some();
            at.extend(text);
            let is_last = number + 1 == origins.len();
            let has_room = |last: &Range<usize>| last.end < SMALL_FILES_BATCH_BYTES;
            if is_text && !is_last && at.last().is_some_and(has_room) {
                continue;
            }
            let to = first + at.len();
            if first < to {
                take(&origins[first..to], Some(SmallFileTexts { bytes, at }));
                at.clear();
            }
            if !is_text {
                take(&origins[number..=number], None);
            }
            first = number + 1;
        }
    });
}

/// Opens a small file. Returns it with the length in its metadata, in bytes.
fn open_small_file(origin: &InputName) -> Option<(File, usize)> {
    let small = |meta: Metadata| {
        let len = usize::try_from(meta.len()).ok();
        len.filter(|&len| meta.is_file() && len <= MIN_CHUNK_BYTES)
    };
    match origin {
        // The metadata come first: to open a pipe waits for its writer.
        InputName::Path(path) => {
            let len = small(fs::metadata(path).ok()?)?;
            Some((File::open(path).ok()?, len))
        }
        // A listed file is no pipe: its path is looked up only once.
        InputName::Listed(path) | InputName::Member(path, _) => {
            let file = File::open(path).ok()?;
            let len = small(file.metadata().ok()?)?;
            Some((file, len))
        }
        _ => None,
    }
}

/// Reads all of `origin` into `buffer` after its `used` bytes. Returns the place of the text there.
fn read_small_file(
    origin: &InputName,
    buffer: &mut Vec<u8>,
    used: usize,
    rejoin: LineRejoiner,
    fits: impl Fn(&[u8]) -> bool,
) -> Option<Range<usize>> {
    let (mut file, len) = open_small_file(origin)?;
    // Room for one byte more shows a file that is longer than its metadata.
    let need = used + TEXT_ALIGNMENT_BYTES + len + 1;
    if buffer.len() < need {
        buffer.resize(need.next_power_of_two(), 0);
    }
    let start = buffer[used..].as_ptr().align_offset(TEXT_ALIGNMENT_BYTES);
    let used = used + start.min(TEXT_ALIGNMENT_BYTES);
    let room = &mut buffer[used..];
    // One read of the expected length gives what a map would have: no second read for the end.
    let mut n = read_some(&mut file, room).ok()?;
    if n != len {
        n += fill_buffer(&mut file, &mut room[n..]).ok()?;
    }
    let is_whole = n < room.len() && n <= MIN_CHUNK_BYTES;
    let text = &room[..n];
    let head = head_of(text);
    let is_text = is_whole && !is_coded(head) && !(rejoin.may_be_cut)(text) && fits(head);
    is_text.then_some(used..used + n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::mend::blocks::BLOCK_REJOINER;
    use std::path::Path;

    fn bytes(path: &Path) -> Option<Vec<u8>> {
        let mut found = None;
        let origins = [InputName::Path(path.to_owned())];
        read_small_files(
            &origins,
            BLOCK_REJOINER,
            |_| true,
            |_, texts| found = texts.map(|t| t.iter_texts().collect::<Vec<_>>().concat()),
        );
        found
    }

    #[test]
    fn a_small_text_is_all_its_bytes_and_none_of_those_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        for len in [
            0,
            1,
            5000,
            10,
            MIN_CHUNK_BYTES,
            4095,
            4096,
            4097,
            MIN_CHUNK_BYTES - 1,
            0,
        ] {
            let text: Vec<u8> = b"line\n".iter().copied().cycle().take(len).collect();
            fs::write(&path, &text).unwrap();
            assert!(bytes(&path) == Some(text), "{len}");
        }
    }

    #[test]
    fn texts_come_in_order_and_all_else_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let large = vec![b'x'; SMALL_FILES_BATCH_BYTES - 1];
        let files: [&[u8]; 7] = [b"a\n", b"", b"op,", b"b", &large, b"cd", b"\x1f\x8b"];
        for (at, bytes) in files.iter().enumerate() {
            fs::write(dir.path().join(at.to_string()), bytes).unwrap();
        }
        let origins = crate::source::expand_paths(&[dir.path().to_owned()], &[])
            .unwrap()
            .origins;
        let mut got = Vec::new();
        let fits = |head: &[u8]| !head.starts_with(b"op");
        read_small_files(&origins, BLOCK_REJOINER, fits, |of, texts| {
            let each = texts.map(|t| t.iter_texts().map(<[u8]>::to_vec).collect::<Vec<_>>());
            got.push((of.len(), each));
        });
        let of = |files: &[&[u8]]| Some(files.iter().map(|f| f.to_vec()).collect::<Vec<_>>());
        let want = [
            (2, of(&files[..2])),
            (1, None),
            (2, of(&files[3..5])),
            (1, of(&files[5..6])),
            (1, None),
        ];
        assert!(got == want);
    }

    #[test]
    fn what_is_not_a_small_text_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        assert!(bytes(&path).is_none() && bytes(dir.path()).is_none());
        read_small_files(
            &[InputName::stdin()],
            BLOCK_REJOINER,
            |_| true,
            |_, texts| assert!(texts.is_none()),
        );
        let large = vec![b'x'; MIN_CHUNK_BYTES + 1];
        for other in [&b"\x1f\x8b\x08\x00"[..], &large] {
            fs::write(&path, other).unwrap();
            assert!(bytes(&path).is_none());
        }
    }
}
