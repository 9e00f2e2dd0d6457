//! The limits of this room, and what each of them trades.

/// Calls that wait for their step take at most so many bytes of memory, of one input and of the inputs
/// without step lines together. More memory lets the ranks' files of a longer job place each other. A
/// call takes 1 to 2 bytes, and 8 bytes more where the place of its line is kept: 1 GiB holds 500
/// million to 1,000 million calls.
pub(super) const MAX_HELD_BYTES: u64 = 1 << 30;

/// Stretches before the last step line that stay when the oldest calls are let go: ranks may be so many
/// steps ahead of the line, or behind it.
pub(super) const STRETCHES_HELD_BACK: usize = 8;

/// Where a pipe's calls are taken at its end alone, nothing is let go before what is held takes so many bytes: ranks
/// whose logs follow each other are placed by the first one's lines. 256 MiB hold more than 100 million calls.
pub(super) const MAX_PIPE_BYTES: u64 = 256 << 20;

/// What a step's line takes of these bytes, packed.
pub(super) const BYTES_PER_STEP_LINE: u64 = 64;
