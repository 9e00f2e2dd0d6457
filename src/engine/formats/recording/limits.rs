//! Limits of a recording.

/// Captured calls of a process that are held, to tell launches of their graphs from calls that were dropped. A
/// capture has some thousand.
pub(super) const MAX_CAPTURED_CALLS: usize = 1 << 20;

/// Pairs of ranks whose messages are numbered: those of a rank.
pub(super) const MAX_PEERS: usize = 1 << 20;
