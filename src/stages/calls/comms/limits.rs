//! The limits of nccl-comms, which trade memory for speed or for the order of rows; and marks among gaps.

/// Bytes of a chunk in the second walk: its calls are held in memory.
pub(super) const ROW_CHUNK_BYTES: usize = 2 << 20;

/// Rows that are written at a time: their text is still in a core's own cache when the kernel copies it.
/// Writing 1 MB at a time took four times as long.
pub(super) const ROWS_PER_BLOCK: usize = 1024;

/// Threads that a chunk has work for: one that walks it, or some that make its rows.
pub(super) const THREADS_PER_CHUNK: usize = 8;

/// A row moves by fewer calls: about two steps of 1,024 ranks.
pub(super) const MAX_ROW_MOVE_CALLS: u64 = 1 << 18;

/// Bytes of a rank's PARAM trace that wait to be written.
pub(super) const MAX_WAITING_TRACE_BYTES: usize = 16 << 10;

/// Comparisons of recorded calls with those of a log, to find what their numbers are off by.
pub(super) const MAX_OFFSET_COMPARISONS: usize = 1 << 26;

/// Bytes of rows in memory that wait until the log's last call is read; others are in a temporary file.
pub(super) const MAX_WAITING_ROW_BYTES: usize = 64 << 20;

/// The shapes of calls with unknown bytes: they are no other calls.
pub(super) const UNKNOWN_LOGGED_SHAPE: u32 = u32::MAX;
pub(super) const UNKNOWN_RECORDED_SHAPE: u32 = u32::MAX - 1;

/// Marks a call without a record.
pub(super) const NO_TIMING: u32 = u32::MAX;

/// Marks a call made in the gap of its line.
pub(super) const GAP_OF_ITS_LINE: u32 = u32::MAX - 1;

/// The gap of a call that waited and was then found to be made in that of its line.
pub(super) const FOUND_AT_ITS_LINE: u32 = u32::MAX;

/// Times in ns from which they count since 1970: no process or session lasts 31 years.
pub(in crate::stages) const MIN_NS_SINCE_1970: u64 = 1_000_000_000_000_000_000;

pub(super) const NS_PER_SECOND: i64 = 1_000_000_000;

/// Time zones differ by multiples of this many ns.
pub(super) const NS_PER_ZONE_STEP: i64 = 15 * 60 * NS_PER_SECOND;

/// How far time zones are from UTC, in ns: Baker Island is 12 hours behind, Kiribati 14 ahead.
pub(super) const ZONES: std::ops::RangeInclusive<i64> =
    -12 * 3600 * NS_PER_SECOND..=14 * 3600 * NS_PER_SECOND;

/// How many times the usual ns a line may follow its enqueue by where it could be another call's.
pub(super) const MAX_USUAL_DISTANCES: i64 = 10;

/// The most ns from a call's enqueue to NCCL's line, in which a program may set up a communicator.
pub(super) const MAX_NS_TO_LINE: i64 = 10 * NS_PER_SECOND;

/// Bytes of the largest element: a barrier has one.
pub(super) const MAX_BARRIER_BYTES: u128 = 8;
