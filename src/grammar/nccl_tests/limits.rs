//! The limits of lines of nccl-tests.

/// Bytes of a line in which its first word of nccl-tests is: launchers and collectors put text before
/// it.
pub(super) const MAX_LABEL_BYTES: usize = 96;

/// Words that a launcher or a collector puts before a row.
pub(super) const MAX_LABEL_WORDS: usize = 6;

/// Columns of a table; the widest has 23.
pub(super) const MAX_TABLE_COLUMNS: usize = 40;
