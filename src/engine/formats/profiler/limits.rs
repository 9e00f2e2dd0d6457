//! The limits of traces.

/// Bytes of the longest line that is read; an event has a few hundred.
pub(super) const MAX_TRACE_LINE_BYTES: u64 = 1 << 16;

/// Communicators with operations, and shapes, that are remembered; a trace has a few.
pub(super) const MAX_REMEMBERED: usize = 1 << 16;

/// ns by which a kernel may seem to begin before its call was made, besides the drift of the two clocks.
pub(super) const CLOCK_SLACK_NS: u64 = 10_000;

/// The two clocks drift apart by at most one ns in this many.
pub(super) const DRIFT_ONE_IN: u64 = 10_000;

/// Calls that wait until the kernel times of later ones are compared with theirs. A trace has fewer: the plugin's
/// pools hold 8 to 256 by default, and a call takes up to 755 MB of its memory.
pub(super) const MAX_HELD_CALLS: usize = 1 << 14;
