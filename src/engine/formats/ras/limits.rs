//! The limits of RAS' answers: JSON has about 450 bytes for each rank of each communicator, text a line.

/// Bytes of the longest input that is read.
pub(super) const MAX_RAS_BYTES: usize = 256 << 20;

/// Ranks that a text counts without naming them, of all its communicators together: their numbers follow from
/// the size, so a few bytes of text could ask for any number.
pub(super) const MAX_UNNAMED_RANKS: u32 = 1 << 20;

/// Operations of a communicator for which ranks without a name get their counts: NCCL counts five.
pub(super) const MAX_OPERATIONS: usize = 64;

/// Lines in which the header of a text is looked for: a loop may print the time before it.
pub(super) const MAX_LINES_BEFORE_HEADER: usize = 4;

/// Bytes of such a line.
pub(super) const MAX_TIME_LINE_BYTES: usize = 48;
