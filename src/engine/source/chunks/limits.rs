//! The limits of chunks, and what each of them trades.

use std::time::Duration;

/// Bytes of a chunk that is read: some of them are in memory at a time.
pub(super) const READ_CHUNK_BYTES: usize = crate::source::limits::MIN_CHUNK_BYTES;

/// Bytes that a cut is moved back at most to find a quiet place.
pub(super) const MAX_CUT_SHIFT_BYTES: usize = 1 << 20;

/// Bytes before a cut that are read to classify it.
pub(super) const CUT_LOOK_BACK_BYTES: usize = 48 << 10;

/// Cuts that are tried to find a quiet place.
pub(super) const MAX_CUT_TRIES: usize = 8;

/// Bytes that are read between two flushes at most: their results fit in memory.
pub(super) const MAX_BYTES_BETWEEN_FLUSHES: usize = 24 << 20;

/// The time between two flushes of a pipe that never rests.
pub(super) const BUSY_FLUSH_INTERVAL: Duration = Duration::from_millis(40);

/// A faster pipe is a copy of a finished log, since no job writes so fast: it is flushed less often.
pub(super) const COPY_SPEED_BYTES_PER_MS: u128 = 100 << 10;

/// The time between two flushes of such a copy.
pub(super) const COPY_FLUSH_INTERVAL: Duration = Duration::from_millis(500);

/// The time after its start in which such a copy has no such flush.
pub(super) const COPY_START_TIME: Duration = Duration::from_secs(1);
