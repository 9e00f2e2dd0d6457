//! Text in UTF-16, as the `>` of Windows' PowerShell writes it, read as UTF-8.

use super::fill_buffer;
use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use encoding_rs_io::DecodeReaderBytesBuilder;
use std::io::{self, Cursor, Read};

/// So many bytes are looked at: without a byte order mark a few letters are no proof.
pub(super) const ENCODING_HEAD_BYTES: usize = 32;

/// A reader of text that was looked at.
pub(super) type DecodedTextReader = Box<dyn Read + Send>;

/// What `reader` gives, in UTF-8, and whether it is UTF-16.
pub(super) fn decode_utf16(mut reader: DecodedTextReader) -> io::Result<(DecodedTextReader, bool)> {
    let mut head = vec![0; ENCODING_HEAD_BYTES];
    let n = fill_buffer(&mut *reader, &mut head)?;
    head.truncate(n);
    let encoding = detect_utf16(&head);
    let whole = Cursor::new(head).chain(reader);
    let text: DecodedTextReader = match encoding {
        None => Box::new(whole),
        Some(_) => Box::new(
            DecodeReaderBytesBuilder::new()
                .encoding(encoding)
                .strip_bom(true)
                .build(whole),
        ),
    };
    Ok((text, encoding.is_some()))
}

/// UTF-16 if `head`, the first bytes, begins with its mark, or has a zero beside each letter.
pub(super) fn detect_utf16(head: &[u8]) -> Option<&'static Encoding> {
    match head {
        // UTF-32 begins as UTF-16 does.
        [0xff, 0xfe, 0, 0, ..] => None,
        // The mark alone proves nothing: in a log most letters have a zero beside them.
        [0xff, 0xfe, rest @ ..] if is_mostly_zero(rest, 1) => Some(UTF_16LE),
        [0xfe, 0xff, rest @ ..] if is_mostly_zero(rest, 0) => Some(UTF_16BE),
        _ => {
            let head = &head[..head.len().min(ENCODING_HEAD_BYTES)];
            let is_letter = |&b: &u8| matches!(b, b'\t' | b'\n' | b'\r' | 0x1b | 0x20..0x7f);
            let are = |of: fn([u8; 2]) -> (u8, u8)| {
                let mut pairs = head.chunks_exact(2).map(|pair| of([pair[0], pair[1]]));
                head.len() == ENCODING_HEAD_BYTES
                    && pairs.all(|(letter, zero)| is_letter(&letter) && zero == 0)
            };
            if are(|[a, b]| (a, b)) {
                Some(UTF_16LE)
            } else {
                are(|[a, b]| (b, a)).then_some(UTF_16BE)
            }
        }
    }
}

/// True where at least half of the pairs of `bytes` have a zero at `place`.
fn is_mostly_zero(bytes: &[u8], place: usize) -> bool {
    let pairs = bytes.chunks_exact(2);
    let all = pairs.len();
    2 * pairs.filter(|pair| pair[place] == 0).count() >= all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "host:1:2 [0] NCCL INFO cudaDriverVersion 12010 \u{2588}\u{1f600}\n";

    fn bytes(text: &str, big: bool) -> Vec<u8> {
        let of = |unit: u16| {
            if big {
                unit.to_be_bytes()
            } else {
                unit.to_le_bytes()
            }
        };
        text.encode_utf16().flat_map(of).collect()
    }

    fn read(bytes: &[u8]) -> (Vec<u8>, bool) {
        let (mut reader, is_utf16) = decode_utf16(Box::new(Cursor::new(bytes.to_vec()))).unwrap();
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        (text, is_utf16)
    }

    #[test]
    fn utf_16_is_read_with_and_without_its_mark() {
        for big in [false, true] {
            for mark in ["", "\u{feff}"] {
                let (text, is_utf16) = read(&bytes(&format!("{mark}{TEXT}"), big));
                assert_eq!((text.as_slice(), is_utf16), (TEXT.as_bytes(), true));
            }
        }
        // A byte too many is no letter.
        let mut cut = bytes(TEXT, false);
        cut.push(b'x');
        assert!(read(&cut).0.starts_with(TEXT.as_bytes()));
    }

    #[test]
    fn all_else_is_left_as_it_is() {
        let zeros = [&[0; 100][..], TEXT.as_bytes()].concat();
        let utf32: Vec<u8> = [0xff, 0xfe, 0, 0, b'h', 0, 0, 0].to_vec();
        let few = bytes("NCCL", false);
        for text in [TEXT.as_bytes(), b"", b"h", &zeros, &utf32, &few] {
            assert_eq!(read(text), (text.to_vec(), false));
        }
    }
}
