//! The limits of inputs that are packed or not in UTF-8.

/// Bytes that decide the encoding of any input. Fewer letters without a byte order mark prove nothing; a live
/// pipe must not wait for more.
pub(in crate::source) const ENCODING_HEAD_BYTES: usize = 32;

/// ASCII bytes in a row that no text in UTF-16 has: half of its bytes are of other values, also where its letters
/// are Chinese.
pub(super) const MIN_OTHER_TEXT_BYTES: usize = 32;

/// Letters of UTF-16 that show a line among bytes to be UTF-16.
pub(super) const MIN_UTF16_LETTERS: usize = 8;

/// Packed bytes that are read at a time.
pub(super) const PACKED_READ_BYTES: usize = 64 << 10;
