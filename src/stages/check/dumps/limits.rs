//! Thresholds of this room.

/// Calls that must be equal before the lines of the program are compared: ranks that make equal calls in
/// different lines do so from the start.
pub(super) const MIN_EQUAL_CALLS_BEFORE: u64 = 2;

/// Clocks of hosts of one job differ by less, in ns. A collective that ended on one rank longer before another rank
/// made it is of another run.
pub(super) const MAX_CLOCK_DIFFERENCE_NS: u64 = 60_000_000_000;
