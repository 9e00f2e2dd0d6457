//! Thresholds of this room.

/// Calls of each input that are kept at its end. More cost memory, fewer hide who waits for whom in a job of
/// few ranks.
pub(super) const MIN_LAST_CALLS_PER_INPUT: usize = 1 << 13;

/// Calls of each process that are kept at the end of an input. No rank is further ahead of the others:
/// CUDA's queue of launches holds 1,024, and a collective takes one or two.
pub(super) const LAST_CALLS_PER_PROCESS: usize = 512;
