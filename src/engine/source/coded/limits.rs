//! The limits of inputs that are packed or not in UTF-8.

/// Bytes that decide the encoding of any input. Fewer letters without a byte order mark prove nothing; a live
/// pipe must not wait for more.
pub(in crate::source) const ENCODING_HEAD_BYTES: usize = 32;

/// Packed bytes that are read at a time.
pub(super) const PACKED_READ_BYTES: usize = 64 << 10;
