//! The limits of copies of pipes, and what each of them trades.

/// Bytes of a copy that are held in memory; a larger copy is a file on a disk.
pub(super) const MAX_COPY_MEMORY_BYTES: u64 = 64 << 20;

/// The zstd level of kept text. Higher levels pack better and slow down the reading.
pub(super) const SPOOL_ZSTD_LEVEL: i32 = 1;

/// Bytes of a block of text that was not scanned.
pub(super) const SPOOL_BLOCK_BYTES: usize = 1 << 20;

/// Bytes that are packed together. More of them pack better and need more memory to unpack.
pub(super) const SPOOL_FRAME_BYTES: usize = 1 << 20;

/// The longest line that can have a note; a longer one is kept.
pub(super) const MAX_NOTED_PIECE_BYTES: usize = 1 << 16;

/// Bytes of blanks that are written at a time.
pub(super) const BLANKS_BYTES_PER_WRITE: usize = 1 << 16;
