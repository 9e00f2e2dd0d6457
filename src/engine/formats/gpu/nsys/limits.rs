//! The limits of exports.

/// Bytes of the longest text or blob of a row that is read. The log inside is read in pieces.
pub(super) const MAX_FIELD_BYTES: i32 = 16 << 20;

/// Ranges before a call of CUDA that are searched for the one around it.
pub(super) const MAX_RANGES_BACK: usize = 64;
