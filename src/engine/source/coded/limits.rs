//! The limits of inputs that are packed or not in UTF-8.

/// Bytes that decide the encoding of any input. Fewer letters without a byte order mark prove nothing; a live
/// pipe must not wait for more.
pub(in crate::source) const ENCODING_HEAD_BYTES: usize = 32;

/// Units of UTF-16 in a row, each of two ASCII bytes, that are text of another encoding: of a Chinese text's letters
/// about a quarter look so.
pub(super) const MIN_OTHER_TEXT_UNITS: usize = 16;

/// The same with a line's end among their bytes, which one letter in some hundreds has.
pub(super) const MIN_OTHER_LINE_UNITS: usize = 8;

/// Letters of UTF-16 that show a line among bytes to be UTF-16.
pub(super) const MIN_UTF16_LETTERS: usize = 8;

/// Packed bytes that are read at a time.
pub(super) const PACKED_READ_BYTES: usize = 64 << 10;

/// Bytes of UTF-16 that are read at a time.
pub(super) const TEXT_READ_BYTES: usize = 64 << 10;

/// Unpacked text that is given at a time: of damaged data less than this is lost before the damage, and a pipe of packed
/// text is read by as much.
pub(super) const UNPACKED_BLOCK_BYTES: usize = 8 << 10;
