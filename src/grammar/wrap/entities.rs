//! HTML's entities: `-&gt;`, `&lt;0&gt;`, `&#39;`.

use super::{UnwrapBuffer, WrappedLine};
use memchr::memchr_iter;

/// Bytes of the longest entity, such as `&#x1f600;`.
const MAX_ENTITY_BYTES: usize = 10;

/// Appends the line with its entities decoded. Returns true if it has one.
pub(super) fn decode_entities(line: &WrappedLine<'_>, out: &mut UnwrapBuffer) -> bool {
    let text = line.text;
    let mut at = 0;
    for and in memchr_iter(b'&', text) {
        let Some((character, len)) = decode_entity(&text[and..]) else {
            continue;
        };
        out.append_from(line.start + at, &text[at..and]);
        let mut bytes = [0; 4];
        let meant = character.encode_utf8(&mut bytes).as_bytes();
        out.append_from(line.start + and, meant);
        at = and + len;
    }
    if at > 0 {
        out.append_from(line.start + at, &text[at..]);
    }
    at > 0
}

/// Returns the character of the entity that `text` begins with, and its length.
fn decode_entity(text: &[u8]) -> Option<(char, usize)> {
    let end = text
        .iter()
        .take(MAX_ENTITY_BYTES)
        .position(|&b| b == b';')?;
    let character = match &text[1..end] {
        b"gt" => '>',
        b"lt" => '<',
        b"amp" => '&',
        b"quot" => '"',
        b"apos" => '\'',
        b"nbsp" => ' ',
        [b'#', number @ ..] => {
            let number = std::str::from_utf8(number).ok()?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            match char::from_u32(code.ok()?)? {
                '\u{a0}' => ' ',
                // A line stays one line.
                '\n' => return None,
                character => character,
            }
        }
        _ => return None,
    };
    Some((character, end + 1))
}
