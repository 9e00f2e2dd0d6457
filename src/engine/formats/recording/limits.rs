//! Limits of a recording.

/// Captured calls of a process that are held, to distinguish launches of their graphs from calls that were dropped. A
/// capture has some thousand.
pub(super) const MAX_CAPTURED_CALLS: usize = 1 << 20;

/// Peers of a process with numbered messages.
pub(super) const MAX_PEERS: usize = 1 << 20;
