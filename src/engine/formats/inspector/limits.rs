//! The limits of Inspector's files.

/// Lines of a head that are probed: the first ones of a cut file may have no header.
pub(super) const MAX_PROBED_LINES: usize = 4;

/// Levels of nested values that the fast way reads.
pub(super) const MAX_VALUE_DEPTH: u8 = 8;

/// Bytes of a collective's name; the longest has 13.
pub(super) const MAX_COLLECTIVE_NAME: usize = 24;
