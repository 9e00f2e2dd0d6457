//! Files so small that opening them costs as much as walking them: they are read whole, by the
//! worker that walks them, into memory that it uses again.

use super::chunks::SMALLEST;
use super::{Origin, binary, blocks, fill, first, packed};
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Read;

/// A plain text file that is one chunk however it is read.
pub struct Small<'b> {
    bytes: &'b [u8],
}

impl Small<'_> {
    /// Hands `origin` to `take` if it is such a file. `None` for all else, an error too: then
    /// [`super::Input::open`] says what it is.
    pub fn with<R>(origin: &Origin, take: impl FnOnce(Small<'_>) -> Option<R>) -> Option<R> {
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        BUFFER.with_borrow_mut(|buffer| {
            let n = read(origin, buffer)?;
            take(Small {
                bytes: &buffer[..n],
            })
        })
    }

    /// All its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Its first bytes, as [`super::Input::head`] gives them.
    pub fn head(&self) -> &[u8] {
        first(self.bytes)
    }
}

/// Reads all of `origin` into `buffer`; how much it was.
fn read(origin: &Origin, buffer: &mut Vec<u8>) -> Option<usize> {
    let Origin::Path(path) = origin else {
        return None;
    };
    // Asked before it is opened: to open a pipe waits for its writer.
    let meta = fs::metadata(path).ok()?;
    let len = usize::try_from(meta.len())
        .ok()
        .filter(|&n| n <= SMALLEST)?;
    if !meta.is_file() {
        return None;
    }
    // Room for one byte more shows a file that is longer than it says.
    if buffer.len() <= len {
        buffer.resize((len + 1).next_power_of_two(), 0);
    }
    let mut file = File::open(path).ok()?;
    // What is there at once and no more is as much as a map would have: no second look for the end.
    let mut n = file.read(buffer).ok()?;
    if n != len {
        n += fill(&mut file, &mut buffer[n..]).ok()?;
    }
    let head = first(&buffer[..n]);
    let is_whole = n < buffer.len() && n <= SMALLEST;
    let is_plain = packed(head).is_none() && binary(head).is_none();
    (is_whole && is_plain && !blocks::is_blocks(&buffer[..n])).then_some(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn bytes(path: &Path) -> Option<Vec<u8>> {
        Small::with(&Origin::Path(path.to_owned()), |s| Some(s.bytes().to_vec()))
    }

    #[test]
    fn a_small_text_is_all_its_bytes_and_none_of_those_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        for len in [0, 1, 5000, 10, SMALLEST, 4095, 4096, 4097, SMALLEST - 1, 0] {
            let text: Vec<u8> = b"line\n".iter().copied().cycle().take(len).collect();
            fs::write(&path, &text).unwrap();
            assert!(bytes(&path) == Some(text), "{len}");
        }
    }

    #[test]
    fn what_is_not_a_small_text_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        assert!(bytes(&path).is_none() && bytes(dir.path()).is_none());
        assert!(Small::with(&Origin::Stdin, |_| Some(())).is_none());
        let large = vec![b'x'; SMALLEST + 1];
        for other in [&b"\x1f\x8b\x08\x00"[..], b"\x7fELF\x02\x01", &large] {
            fs::write(&path, other).unwrap();
            assert!(bytes(&path).is_none());
        }
    }
}
