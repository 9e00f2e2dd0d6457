//! The limits of this room, and what each of them trades.

/// Calls in a row that must be alike to show that two ranks are at the same place again.
pub(super) const CALLS_TO_REALIGN: usize = 16;

/// Calls that must be alike for it at the end of a sequence.
pub(super) const CALLS_TO_REALIGN_AT_END: usize = 4;

/// Calls that ranks may be apart.
pub(super) const MAX_CALLS_APART: usize = 4096;

/// Calls in a row that may be other ones.
pub(super) const MAX_OTHER_CALLS_IN_ROW: usize = 8;

/// Pieces into which a member's calls are cut: how often two ranks may part.
pub(super) const MAX_DIVERGENCES: usize = 64;

/// Common calls for each place with other ones: with fewer, the numbers of two ranks do not mean the same
/// calls. One place is always allowed, if twice as many calls are alike as differ.
pub(super) const MIN_ALIKE_PER_OTHER: usize = 16;
