//! Text in UTF-16, as the `>` of Windows' PowerShell writes it, read as UTF-8.

use super::UnpackDamageSlot;
use super::limits::{ENCODING_HEAD_BYTES, MIN_UTF16_LETTERS};
use super::mixed_text::{ByteOrder, MixedText, is_ascii_text};
use crate::source::read::read_first_bytes;
use std::io::{self, Cursor, Read};

/// A reader of text in a known encoding.
pub(super) type DecodedTextReader = Box<dyn Read + Send>;

/// Returns the text of `reader` in UTF-8, and whether it begins as UTF-16. Other programs may have added text of one
/// byte for each letter to it, and UTF-16 to that again. `damage` takes the first place where a byte is lost.
pub(super) fn decode_utf16(
    mut reader: DecodedTextReader,
    damage: &UnpackDamageSlot,
) -> io::Result<(DecodedTextReader, bool)> {
    let head = read_first_bytes(&mut *reader, ENCODING_HEAD_BYTES)?;
    let order = detect_utf16(&head);
    let whole = Cursor::new(head).chain(reader);
    let text: DecodedTextReader = match order {
        None => Box::new(whole),
        Some(order) => Box::new(MixedText::new(whole, order, damage.clone())),
    };
    Ok((text, order.is_some()))
}

/// Returns the byte order of text that begins with `bytes`, if it is UTF-16: text after a byte order mark, or
/// ASCII with a zero beside each letter. No byte beyond the first [`ENCODING_HEAD_BYTES`] counts, so that
/// all callers get one answer.
pub(super) fn detect_utf16(bytes: &[u8]) -> Option<ByteOrder> {
    let head = &bytes[..bytes.len().min(ENCODING_HEAD_BYTES)];
    let (order, rest) = match head {
        // UTF-32 begins as UTF-16 does.
        [0xff, 0xfe, 0, 0, ..] => return None,
        [0xff, 0xfe, rest @ ..] => (ByteOrder::Little, rest),
        [0xfe, 0xff, rest @ ..] => (ByteOrder::Big, rest),
        _ if head.len() < ENCODING_HEAD_BYTES => return None,
        [_, 0, ..] => (ByteOrder::Little, head),
        _ => (ByteOrder::Big, head),
    };
    let has_mark = rest.len() < head.len();
    let mut units = rest.chunks_exact(2).map(|pair| order.read_unit(pair));
    let is_text = match has_mark {
        true => is_text(units) && !is_mostly_ascii(rest),
        false => units.all(is_ascii_text),
    };
    is_text.then_some(order)
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

/// Returns true for a line of bytes with text in UTF-16: ASCII with a zero beside each letter. A file that does
/// not begin as UTF-16 is read as bytes; another program may have appended such lines.
pub fn contains_utf16_text(line: &[u8]) -> bool {
    let Some(first) = memchr::memchr(0, line) else {
        return false;
    };
    let mut pairs = line[first..].chunks_exact(2).take(MIN_UTF16_LETTERS);
    pairs.len() == MIN_UTF16_LETTERS
        && pairs.all(|pair| pair[0] == 0 && is_ascii_text(pair[1].into()))
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
        let bytes = Box::new(Cursor::new(bytes.to_vec()));
        let (mut reader, is_utf16) = decode_utf16(bytes, &UnpackDamageSlot::default()).unwrap();
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        (text, is_utf16)
    }

    #[test]
    fn a_line_among_bytes_is_seen_to_be_utf_16() {
        assert!(contains_utf16_text(&bytes("host:1:2 [0]", false)));
        assert!(contains_utf16_text(&bytes("host:1:2 [0]", true)));
        assert!(!contains_utf16_text(b"host:1:2 [0] NCCL\0INFO"));
        assert!(!contains_utf16_text(&[0; 99]) && !contains_utf16_text(b"h\0o\0"));
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
