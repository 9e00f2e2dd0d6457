//! The limits of Snoopie's files.

/// Lines of a head that are probed: rows may come before the header.
pub(super) const MAX_SNOOPIE_PROBED_LINES: usize = 64;

/// Bytes of the longest line that is read: a call stack has some hundred frames of twenty digits.
pub(super) const MAX_SNOOPIE_LINE_BYTES: u64 = 1 << 16;

/// Bytes of a table that are read.
pub(super) const MAX_TABLE_BYTES: u64 = 1 << 30;

/// Rows of a table; the tool writes no larger ones.
pub(super) const MAX_TABLE_ROWS: usize = 1 << 20;

/// Frames of a call stack.
pub(super) const MAX_STACK_FRAMES: usize = 1 << 10;

/// Columns of a row: 11 in known versions, and room for later ones.
pub(super) const MAX_COLUMNS: usize = 16;
