//! Thresholds of this room.

/// Lines that differ and are kept, of any job. More are dropped: each costs some 500 bytes.
pub(super) const MAX_WATCHDOG_LINES: usize = 1 << 14;

/// Ranks of a process group that are listed as silent. A damaged line may have any number.
pub(super) const MAX_GROUP_RANKS: u32 = 1 << 20;

/// Ranks in a description of their progress, which stays readable.
pub(super) const MAX_RANKS_DESCRIBED: usize = 16;

/// Calls of each stream that are searched for the one that timed out: those before the end of a hung job.
pub(crate) const CALLS_BEFORE_HANG: u64 = 64;

/// Pieces of a broken line: 40 columns, the narrowest terminal, cut a time-out's 300 bytes into 8.
pub(super) const MAX_WRAPPED_PIECES: usize = 8;

/// Bytes of a broken line that are joined; the lines have some 300.
pub(super) const MAX_WRAPPED_BYTES: usize = 1 << 11;

/// Ranks that a line of Horovod's lists and that are kept; a damaged line may have any number.
pub(super) const MAX_STALLED_RANKS: usize = 1 << 12;

/// How many tensors are named, each with the ranks that lack it.
pub(super) const MAX_TENSORS_NAMED: usize = 2;

/// Last words of watchdogs that are kept: they count only where nothing else of them is left. A job prints two a rank.
pub(super) const MAX_LAST_WORDS: usize = 256;

/// Bytes of a value in HCCL's text that are kept: a list of some 3,000 ranks that did not connect fits.
pub(super) const MAX_HCCL_VALUE_BYTES: usize = 1 << 14;
