//! The limits of reports.

/// Bytes of the longest output that is read; a row has a few hundred.
pub(super) const MAX_STATS_BYTES: usize = 256 << 20;

/// Lines into which a terminal may cut a row: the widest table has some 400 characters.
pub(super) const MAX_PIECES_OF_ROW: usize = 8;

/// Keys of an object; nsys writes a dozen.
pub(super) const MAX_OBJECT_KEYS: usize = 64;
