//! Inputs with bytes that are not their text: packed, or in UTF-16.

mod limits;
mod mixed_text;
mod packed;
mod utf16;

pub(super) use limits::ENCODING_HEAD_BYTES;
pub use packed::UnpackDamage;
pub(super) use packed::{PackCodec, UnpackDamageSlot, check_length};

pub use utf16::contains_utf16_text;

use super::read::read_first_bytes;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

/// The text of an input, unpacked and in UTF-8.
pub(super) struct DecodedText {
    pub(super) reader: Box<dyn Read + Send>,
    pub(super) is_packed: bool,
    pub(super) is_utf16: bool,
}

/// Opens the text of `bytes`, unpacked and in UTF-8.
pub(super) fn decode_text(
    mut bytes: Box<dyn Read + Send>,
    damage: &UnpackDamageSlot,
) -> io::Result<DecodedText> {
    // The longest magic number has 4 bytes.
    let magic = read_first_bytes(&mut *bytes, 4)?;
    let codec = PackCodec::detect_codec(&magic);
    let whole = Box::new(Cursor::new(magic).chain(bytes));
    let unpacked = packed::open_unpacker(codec, whole, damage)?;
    let (reader, is_utf16) = utf16::decode_utf16(unpacked, damage)?;
    Ok(DecodedText {
        reader,
        is_packed: codec.is_some(),
        is_utf16,
    })
}

/// Returns true for a file that begins with `head`, of at least 4 bytes, and is packed.
pub fn is_packed(head: &[u8]) -> bool {
    PackCodec::detect_codec(head).is_some()
}

/// Returns the program that unpacks a file.
pub(super) fn unpack_program(path: &Path) -> Option<&'static str> {
    let is_file = path.metadata().is_ok_and(|known| known.is_file());
    let mut file = File::open(path).ok().filter(|_| is_file)?;
    match PackCodec::detect_codec(&read_first_bytes(&mut file, 4).ok()?)? {
        PackCodec::Gzip => Some("zcat"),
        PackCodec::Zstd => Some("zstdcat"),
        PackCodec::Part => None,
    }
}

/// Returns true for a file that begins with `head` and is packed or UTF-16: its bytes are not its text.
pub fn is_coded(head: &[u8]) -> bool {
    is_packed(head) || utf16::detect_utf16(head).is_some()
}
