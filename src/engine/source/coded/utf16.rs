//! Text in UTF-16, as the `>` of Windows' PowerShell writes it, read as UTF-8.

use super::limits::{ENCODING_HEAD_BYTES, MIN_OTHER_TEXT_BYTES, MIN_UTF16_LETTERS};
use super::packed::{UnpackDamageSlot, record_damage};
use crate::source::read::read_first_bytes;
use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use encoding_rs_io::DecodeReaderBytesBuilder;
use std::io::{self, Cursor, Read};

/// A reader of text in a known encoding.
pub(super) type DecodedTextReader = Box<dyn Read + Send>;

/// Returns the text of `reader` in UTF-8, and whether it is UTF-16. Text of another encoding after it is noted in
/// `damage`.
pub(super) fn decode_utf16(
    mut reader: DecodedTextReader,
    damage: &UnpackDamageSlot,
) -> io::Result<(DecodedTextReader, bool)> {
    let head = read_first_bytes(&mut *reader, ENCODING_HEAD_BYTES)?;
    let encoding = detect_utf16(&head);
    let whole = Cursor::new(head).chain(reader);
    let text: DecodedTextReader = match encoding {
        None => Box::new(whole),
        Some(_) => Box::new(
            DecodeReaderBytesBuilder::new()
                .encoding(encoding)
                .strip_bom(true)
                .build(OneEncoding::new(whole, damage)),
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

/// Bytes of UTF-16, in which text of one byte for each letter is noted as damage: it would be read as other letters.
struct OneEncoding<R> {
    inner: R,
    damage: UnpackDamageSlot,
    given: u64,
    /// ASCII bytes that follow each other.
    run: usize,
    /// Letters of NCCL's name that follow each other.
    named: usize,
    is_noted: bool,
}

impl<R> OneEncoding<R> {
    fn new(inner: R, damage: &UnpackDamageSlot) -> OneEncoding<R> {
        OneEncoding {
            inner,
            damage: UnpackDamageSlot::clone(damage),
            given: 0,
            run: 0,
            named: 0,
            is_noted: false,
        }
    }

    fn look_at(&mut self, byte: u8) {
        const NAME: &[u8] = b"NCCL";
        self.run = match is_ascii_text(byte.into()) {
            true => self.run + 1,
            false => 0,
        };
        self.named = match NAME.get(self.named) {
            Some(&next) if next == byte => self.named + 1,
            _ => usize::from(byte == b'N'),
        };
        self.given += 1;
        if self.run >= MIN_OTHER_TEXT_BYTES || self.named == NAME.len() {
            let from = self.given - self.run as u64;
            let what = format!(
                "the text is UTF-16 up to byte {from} and goes on in another encoding: what follows is lost"
            );
            record_damage(&self.damage, what, true);
            self.is_noted = true;
        }
    }
}

impl<R: Read> Read for OneEncoding<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(to)?;
        for &byte in &to[..n] {
            if self.is_noted {
                break;
            }
            self.look_at(byte);
        }
        Ok(n)
    }
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
        let (text, is_utf16, damage) = read_with_damage(bytes);
        assert_eq!(damage, None);
        (text, is_utf16)
    }

    fn read_with_damage(bytes: &[u8]) -> (Vec<u8>, bool, Option<String>) {
        let damage = UnpackDamageSlot::default();
        let bytes = Box::new(Cursor::new(bytes.to_vec()));
        let (mut reader, is_utf16) = decode_utf16(bytes, &damage).unwrap();
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        let damage = damage.lock().unwrap().take();
        (text, is_utf16, damage.map(|damage| damage.what))
    }

    #[test]
    fn another_encoding_after_utf_16_is_damage() {
        for big in [false, true] {
            for after in [
                "h:1:2 [0] NCCL INFO x\n",
                "completed step: 5, seconds: 1.25, loss 2\n",
            ] {
                let first = bytes(
                    &format!("\u{feff}{TEXT}训练日志：第一步开始了\n").repeat(40),
                    big,
                );
                let (text, is_utf16, damage) =
                    read_with_damage(&[&first[..], after.as_bytes()].concat());
                assert!(is_utf16 && String::from_utf8_lossy(&text).contains(TEXT));
                let from = format!("UTF-16 up to byte {} ", first.len());
                let damage = damage.unwrap();
                // The line end's zero byte may be before or after its letter.
                let from_end = format!("UTF-16 up to byte {} ", first.len() - 1);
                assert!(
                    damage.contains(&from) || damage.contains(&from_end),
                    "{damage}"
                );
            }
        }
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
