//! The limits of this room, and what each of them trades.

/// Splits of splits that a communicator's id can hold; a deeper communicator has no known id. Each level
/// adds 16 bytes to every id.
pub(super) const MAX_SPLIT_DEPTH: usize = 6;

/// Processes of one pid that may get their whole names later. More would find more names, and search
/// longer for each.
pub(super) const MAX_NAMELESS_PROCESSES: usize = 64;

/// Moves of a process's facts to its right name. Each move searches the facts of all processes.
pub(super) const MAX_IDENTITY_MOVES: u32 = 1 << 12;

/// Operations that are searched one by one; NCCL has fewer.
pub(super) const MAX_OPS_SEARCHED_LINEARLY: usize = 16;

/// Slots of the cache of operations' names: each of NCCL's own names has a slot to itself.
pub(super) const OP_CACHE_SLOTS: usize = 32;

/// Slots of an interner of recent values, as powers of two: few at first, since to clear them takes time.
pub(super) const INTERNER_SLOTS: std::ops::RangeInclusive<usize> = 512..=1 << 16;

/// Neighbouring slots that a value may be in. More find more repeated values, and search longer for a new one.
pub(super) const MAX_INTERNER_PROBES: usize = 8;

/// Jobs that a note about several names: more would bury the advice after them.
pub(super) const MAX_JOBS_LISTED: usize = 4;
