//! Reads that a signal does not end, and reads of a file from a place.

use super::limits::{INPUT_HEAD_BYTES, MIN_READ_BYTES};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Opens a file; one that is a named pipe also before it has a writer.
pub(super) fn open_without_waiting(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Reads once; a signal that interrupts the call does not fail it.
pub(crate) fn read_some(reader: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Reads until `buffer` is full or the input ends; returns the number of bytes read.
pub(crate) fn fill_buffer(
    reader: &mut (impl Read + ?Sized),
    buffer: &mut [u8],
) -> io::Result<usize> {
    let mut n = 0;
    while n < buffer.len() {
        match read_some(reader, &mut buffer[n..])? {
            0 => break,
            k => n += k,
        }
    }
    Ok(n)
}

/// Reads the first bytes, at most `most`.
pub(crate) fn read_first_bytes(
    reader: &mut (impl Read + ?Sized),
    most: usize,
) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    Read::take(reader, most as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Returns the bytes that decide the format of an input that begins with `bytes`.
pub(super) fn head_of(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(INPUT_HEAD_BYTES)]
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

/// Adds bytes to `buffer` until it has `most` of them, the input ends or it is idle. The room, which is set to 0
/// first, grows with what has come: a small input costs no large buffer.
pub(crate) fn fill_until_idle(
    reader: &mut (impl Read + ?Sized),
    buffer: &mut Vec<u8>,
    most: usize,
) -> io::Result<FillEnd> {
    let mut n = buffer.len();
    let end = loop {
        if n >= most {
            break Ok(FillEnd::Full);
        }
        if n == buffer.len() {
            buffer.resize(most.min((2 * n).max(MIN_READ_BYTES)), 0);
        }
        match read_some(reader, &mut buffer[n..]) {
            Ok(0) => break Ok(FillEnd::Ended),
            Ok(k) => n += k,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break Ok(FillEnd::Idle),
            Err(e) => break Err(e),
        }
    };
    buffer.truncate(n);
    end
}

/// Gives the bytes that it reads to `copy`, too.
pub(super) struct CopyingReader<R, F> {
    pub(super) inner: R,
    pub(super) copy: F,
}

impl<R: Read, F: FnMut(&[u8]) -> io::Result<()>> Read for CopyingReader<R, F> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(to)?;
        (self.copy)(&to[..n])?;
        Ok(n)
    }
}

/// Reads an open file from a place, without the position that all its readers share.
pub(super) struct PositionedReader {
    file: Arc<File>,
    at: u64,
}

impl PositionedReader {
    /// Begins at byte `from`.
    pub(super) fn new(file: Arc<File>, from: u64) -> PositionedReader {
        PositionedReader { file, at: from }
    }
}

impl Read for PositionedReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(to, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small input costs no large buffer; a large one fills it.
    #[test]
    fn the_room_grows_with_what_comes() {
        let most = 100 * MIN_READ_BYTES;
        let fill = |len: usize| {
            let (text, mut buffer) = (vec![b'x'; len], b"rest".to_vec());
            let end = fill_until_idle(&mut &text[..], &mut buffer, most).unwrap();
            assert!(buffer[4..] == text[..(most - 4).min(len)]);
            (end, buffer.capacity())
        };
        let (end, room) = fill(180);
        assert!(end == FillEnd::Ended && room < 2 * MIN_READ_BYTES, "{room}");
        assert_eq!(fill(most - 5).0, FillEnd::Ended);
        assert_eq!(fill(most).0, FillEnd::Full);
    }
}
