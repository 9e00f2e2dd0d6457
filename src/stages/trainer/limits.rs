//! The limits of the stages that follow a trainer's steps.

/// Bytes of a line that are held at most; no call is that long.
pub(super) const MAX_CALL_LINE_BYTES: u64 = 1 << 24;

/// Bytes copied at a time.
pub(super) const COPY_BLOCK_BYTES: u64 = 1 << 20;

/// Bytes searched at a time for the end of a line.
pub(super) const LINE_SEARCH_BYTES: u64 = 1 << 12;

/// Steps that a comparison needs.
pub(crate) const MIN_STEPS_COMPARED: usize = 8;

/// Most steps that are unlike the others; more are no exception.
pub(crate) const MAX_ODD_STEPS: usize = 10;
