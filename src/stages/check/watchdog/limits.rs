//! Thresholds of this room.

/// Lines that differ and are kept, of any job. More are dropped: each costs some 500 bytes.
pub(super) const MAX_WATCHDOG_LINES: usize = 1 << 14;

/// Ranks of a process group that are listed as silent. A damaged line may have any number.
pub(super) const MAX_GROUP_RANKS: u32 = 1 << 20;

/// Ranks whose progress is described in a sentence, which stays readable.
pub(super) const MAX_RANKS_DESCRIBED: usize = 16;
