//! The limits of the interposer's files.

/// Bytes of the longest line that is read.
pub(super) const MAX_CUDA_LINE_BYTES: u64 = 1 << 12;

/// Bytes of the longest snapshot that is read; the interposer writes eleven lines.
pub(super) const MAX_SNAPSHOT_BYTES: usize = 1 << 20;

/// Functions that a snapshot keeps; the interposer has ten.
pub(super) const MAX_FUNCTIONS: usize = 1000;

/// The longest plausible call, in µs: a day. Before a846db5 the interposer printed a variable that was
/// never set: 140285180914600 µs.
pub(super) const MAX_CALL_US: u64 = 86_400_000_000;
