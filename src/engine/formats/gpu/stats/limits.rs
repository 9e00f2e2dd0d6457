//! The limits of reports.

/// Bytes of the longest output that is read; a row has a few hundred.
pub(super) const MAX_STATS_BYTES: usize = 256 << 20;

/// Keys of an object; nsys writes a dozen.
pub(super) const MAX_OBJECT_KEYS: usize = 64;
