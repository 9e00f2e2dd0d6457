//! The limits of counting, which trade memory for speed; and the marks in counts.

use std::ops::RangeInclusive;

/// Later steps after which a step is settled if no sink takes calls early.
pub(super) const STEPS_UNTIL_SETTLED: usize = 64;

/// Small files that a worker walks in one go: handing one over costs as much as walking some.
pub(super) const FILES_PER_BATCH: usize = 32;

/// Batches after a torn log in which logs are walked one by one.
pub(super) const BATCHES_WALKED_APART: usize = 32;

/// Cells that wait to be added up, in all; a single log is not limited.
pub(super) const MAX_WAITING_CELLS: usize = 1 << 20;

/// Kinds of durations that are kept apart. A recorder has a few.
pub(super) const MAX_DURATION_KINDS: usize = 64;

/// Durations in a list before they become a histogram. A table may have a key for every few calls, and a
/// histogram of calls of up to a second takes 180 kB, of any calls 450 kB. After a list of 64 kB that is about
/// 55 bytes for each call at most.
pub(super) const MAX_LISTED_DURATIONS: usize = 8192;

/// Cells in a part, if no group has more: the text of their rows stays in a core's own cache.
pub(super) const CELLS_PER_PART: usize = 1024;

/// No note unless one in this many calls leaves a column empty: some calls precede the INIT lines of their
/// rank, and some follow the last step.
pub(super) const MIN_UNKNOWN_ONE_IN: u64 = 10;

/// Calls that a thread counts at a time.
pub(super) const CALLS_PER_SHARE: usize = 1 << 16;

/// Keys that a chunk finds again without a hash table: few at first, since a small file has few, and clearing
/// places costs more than using them.
pub(super) const RECENT_KEY_PLACES: RangeInclusive<usize> = 256..=4096;

/// Values that wait until they are sorted.
pub(super) const MAX_UNSORTED_VALUES: usize = 1 << 16;

// Marks in a key or a packed count.

/// A datatype without a name in a table.
pub const UNNAMED_DATATYPE: u64 = u64::MAX;

/// The datatype of a call with known bytes only: its elements are bytes.
pub const BYTE_DATATYPE: u64 = u64::MAX - 1;

/// No reduction, or reductions are not distinguished.
pub const NO_REDUCTION: u64 = u64::MAX;

/// No root, or roots are not distinguished.
pub const NO_ROOT: i64 = i64::MIN;

/// The size of a call with unknown bytes.
pub const UNKNOWN_SIZE: u64 = u64::MAX;

/// Set beside the key of calls that are not all of one size.
pub(super) const UNEVEN_SIZES_BIT: u64 = 1 << 63;
