//! The limits of this room, and what each of them trades; and numbers that mean "none".

/// Bytes that calls waiting for their step may take, for one input and for all inputs without step lines
/// together. More memory lets the ranks' files of a longer job place each other. A call takes 1 to 2 bytes,
/// and 8 bytes more where the position of its line is kept: 1 GiB holds 500 million to 1,000 million calls.
pub(super) const MAX_HELD_BYTES: u64 = 1 << 30;

/// Stretches before the last step line that stay when the oldest calls are let go: ranks may be as many steps
/// ahead of the line, or after it.
pub(super) const STRETCHES_HELD_BACK: usize = 8;

/// Bytes that a pipe holds before anything is let go, if its calls are taken at its end alone: ranks that log
/// one after the other are placed by the first one's lines. 256 MiB hold more than 100 million calls.
pub(super) const MAX_PIPE_BYTES: u64 = 256 << 20;

/// Bytes of a packed step line, which count towards [`MAX_PIPE_BYTES`].
pub(super) const BYTES_PER_STEP_LINE: u64 = 64;

/// The fewest calls that are placed at each pause of a log that is still being written.
pub(super) const MIN_WINDOW_CALLS: u64 = 16 << 10;

/// The last calls that are never too many to be placed at each pause.
pub(super) const MIN_CALLS_TOO_MANY: u64 = 16 * MIN_WINDOW_CALLS;

/// Placed ranks that another rank's cuts are compared with.
pub(super) const MAX_MODEL_RANKS: usize = 4;

/// Cuts of a placed rank that are learned from.
pub(super) const MAX_CUTS_LEARNED: usize = 64;

/// Calls on each side of a cut that are learned from.
pub(super) const CALLS_AROUND_CUT: usize = 4096;

/// The share of the cuts, in thousandths, above which a boundary has most of them.
pub(super) const MOST_CUTS_THOUSANDTHS: i64 = 500;

/// Marks calls without a known stretch.
pub(super) const UNKNOWN_STRETCH: u32 = u32::MAX;

/// No key: the line's communicator has no id, or its rank is not known.
pub(super) const NO_SEQUENCE: u32 = u32::MAX;

/// No code: a call that was not met yet.
pub(super) const NO_CODE: u32 = u32::MAX;

/// The position of a call with a torn line: it is on two lines.
pub(super) const NO_LINE_POSITION: u64 = u64::MAX;
