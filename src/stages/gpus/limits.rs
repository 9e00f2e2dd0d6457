//! Limits that keep memory bounded on damaged or unusual input.

/// Functions and intervals of nccl-cuda: flipped bytes make new names, which must not fill the memory.
pub(super) const MAX_KEPT_APART: usize = 1 << 16;

/// Names of kernels to remember the kind of; further names are matched each time, which is slower.
pub(super) const MAX_REMEMBERED_NAMES: usize = 1 << 16;

/// Names of kernels in a note.
pub(super) const MAX_NAMES_IN_NOTE: usize = 5;

/// Names of ranges; further ranges are left out with a warning.
pub(super) const MAX_RANGE_NAMES: usize = 1 << 14;
