//! Thresholds of this room.

/// Calls that must be equal before the lines of the program are compared: ranks that make equal calls in
/// different lines do so from the start.
pub(super) const MIN_EQUAL_CALLS_BEFORE: u64 = 2;
