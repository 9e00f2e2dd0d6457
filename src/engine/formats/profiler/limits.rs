//! The limits of traces.

/// Bytes of the longest line that is read; an event has a few hundred.
pub(super) const MAX_TRACE_LINE_BYTES: u64 = 1 << 16;

/// Communicators with operations, and shapes, that are remembered; a trace has a few.
pub(super) const MAX_REMEMBERED: usize = 1 << 16;

/// ns by which a kernel may seem to begin before its call was enqueued, besides the drift of the two clocks.
pub(super) const CLOCK_SLACK_NS: u64 = 10_000;

/// The two clocks drift apart by at most one ns in this many.
pub(super) const DRIFT_ONE_IN: u64 = 10_000;
