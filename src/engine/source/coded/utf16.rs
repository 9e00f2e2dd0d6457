//! Text in UTF-16, as the `>` of Windows' PowerShell writes it, read as UTF-8.

use super::limits::ENCODING_HEAD_BYTES;
use crate::source::read::read_first_bytes;
use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use encoding_rs_io::DecodeReaderBytesBuilder;
use std::io::{self, Cursor, Read};

/// A reader of text in a known encoding.
pub(super) type DecodedTextReader = Box<dyn Read + Send>;

/// Returns the text of `reader` in UTF-8, and whether it is UTF-16.
pub(super) fn decode_utf16(mut reader: DecodedTextReader) -> io::Result<(DecodedTextReader, bool)> {
    let head = read_first_bytes(&mut *reader, ENCODING_HEAD_BYTES)?;
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

/// Returns the encoding of text that begins with `bytes`, if it is UTF-16: text after a byte order mark, or
/// ASCII with a zero beside each letter. No byte beyond the first [`ENCODING_HEAD_BYTES`] counts, so that
/// all callers get one answer.
pub(super) fn detect_utf16(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(ENCODING_HEAD_BYTES)];
    let (encoding, rest) = match head {
        // UTF-32 begins as UTF-16 does.
        [0xff, 0xfe, 0, 0, ..] => return None,
        [0xff, 0xfe, rest @ ..] => (UTF_16LE, rest),
        [0xfe, 0xff, rest @ ..] => (UTF_16BE, rest),
        _ if head.len() < ENCODING_HEAD_BYTES => return None,
        [_, 0, ..] => (UTF_16LE, head),
        _ => (UTF_16BE, head),
    };
    let has_mark = rest.len() < head.len();
    let mut units = rest.chunks_exact(2).map(|pair| match encoding == UTF_16LE {
        true => u16::from_le_bytes([pair[0], pair[1]]),
        false => u16::from_be_bytes([pair[0], pair[1]]),
    });
    let is_text = match has_mark {
        true => is_text(units) && !is_mostly_ascii(rest),
        false => units.all(is_ascii_text),
    };
    is_text.then_some(encoding)
}

/// True for text without a control character or half of a surrogate pair. The last unit may be the first
/// half of a pair that is cut.
fn is_text(units: impl Iterator<Item = u16>) -> bool {
    let mut letters = char::decode_utf16(units).peekable();
    while let Some(letter) = letters.next() {
        let is_sound = match letter {
            Ok(letter) => !letter.is_control() || matches!(letter, '\t' | '\n' | '\r' | '\x1b'),
            Err(half) => letters.peek().is_none() && half.unpaired_surrogate() < 0xdc00,
        };
        if !is_sound {
            return false;
        }
    }
    true
}

/// True if five sixths of `bytes` are ASCII: two letters of ASCII look like one of UTF-16, and damaged bytes like a
/// mark, but of UTF-16's own bytes only about half are in that range.
fn is_mostly_ascii(bytes: &[u8]) -> bool {
    let ascii = bytes.iter().filter(|&&byte| is_ascii_text(byte.into()));
    6 * ascii.count() > 5 * bytes.len()
}

fn is_ascii_text(unit: u16) -> bool {
    matches!(unit, 0x09 | 0x0a | 0x0d | 0x1b | 0x20..=0x7e)
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
        // Few of its letters have a zero beside them.
        let far = "\u{feff}训练日志：第一步开始了，请等待。\nhost:1:2 [0] NCCL INFO x\n";
        for text in [far, &format!("{far}{TEXT}")] {
            let (read, is_utf16) = read(&bytes(text, false));
            assert_eq!((&read[..], is_utf16), (&text.as_bytes()[3..], true));
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
        // Numbers after a mark.
        let numbers = [&[0xff, 0xfe][..], &[0x01, 0xd8].repeat(20)].concat();
        let damaged = [&[0xff, 0xfe, 0x80, b' '][..], TEXT.as_bytes()].concat();
        for text in [
            TEXT.as_bytes(),
            b"",
            b"h",
            &zeros,
            &utf32,
            &few,
            &numbers,
            &damaged,
        ] {
            assert_eq!(read(text), (text.to_vec(), false));
        }
    }
}
