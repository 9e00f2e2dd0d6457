//! The limits of this room, and what each of them trades.

/// Changes that nccl-diff's answer gives with their values: with more it takes over three lines of 80 characters.
pub(super) const MAX_CHANGES_NAMED: usize = 4;
