//! Thresholds of this room.

/// Calls between two kept hashes of a stream. A smaller block keeps more hashes, a larger one makes more
/// calls be read again if streams differ.
pub const CALLS_PER_HASH_BLOCK: u64 = 256;

/// Calls by which two members may be shifted. More would cost time on calls that repeat; ranks that skip a
/// whole longer step are found by the calls of their steps.
pub(super) const MAX_CALL_SHIFT: u64 = 64;

/// Calls that must agree after a shift: one may agree by chance.
pub(super) const MIN_SHIFTED_CALLS: u64 = 2;

/// Calls that are compared around a place. Longer runs rarely repeat exactly.
pub(super) const MAX_CALLS_AROUND: u64 = 16;

/// Calls around a place that must repeat: one may repeat by chance.
pub(super) const MIN_CALLS_AROUND: usize = 2;

/// Times that ranks are let out of a circle. Ranks that come into circles more often use their communicators
/// in no order, and each time costs a search.
pub(super) const MAX_CIRCLE_RELEASES: usize = 256;

/// Calls before and after a difference that are searched for equal ones. Numbers in a damaged dump may be any.
pub(super) const MAX_CALLS_SEARCHED: u64 = 1 << 12;

/// Calls before one that show clearly whether it is usual there.
pub(super) const CALLS_TO_JUDGE_HABIT: usize = 16;

/// Calls of a program that are compared: with evaluations every few steps, the difference is this far away.
pub(super) const MAX_PROGRAM_CALLS_COMPARED: usize = 1 << 10;

/// Ranks that wait in one collective for a reason.
pub(super) const MIN_COMMON_WAITERS: usize = 2;

/// Calls after a circle that show, beside a quarter of those before it, that the ranks went on.
pub(super) const MIN_CALLS_WENT_ON: usize = 64;
