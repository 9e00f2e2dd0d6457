//! The limits of this room, and what each of them trades.

/// Chunks of an unpacked file that are walked before it is its turn.
pub(super) const MAX_CHUNKS_AHEAD: usize = 4;

/// Calls that a log needs for each damaged line; with fewer, calls are placed by position.
pub(super) const MIN_CALLS_PER_DAMAGED_LINE: u64 = 100;

/// Damaged lines that are few in any log.
pub(super) const MAX_DAMAGED_LINES_IGNORED: u64 = 4;
