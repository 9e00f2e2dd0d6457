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

/// Marks a call made in the gap of its line.
pub(super) const GAP_OF_ITS_LINE: u32 = u32::MAX - 1;

/// The gap of a call that waited and was then found to be made in that of its line.
pub(super) const FOUND_AT_ITS_LINE: u32 = u32::MAX;
