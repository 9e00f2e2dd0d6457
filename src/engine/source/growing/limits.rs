//! The limits of inputs that grow, and what each of them trades.

use std::time::Duration;

/// Paths with events that are kept until they are taken; with more any file may have grown.
pub(super) const MAX_CHANGED_PATHS: usize = 1 << 16;

/// The wait for more events after the first one: a line is often written in pieces.
pub(super) const WRITE_SETTLE_TIME: Duration = Duration::from_millis(4);

/// Bytes of a file that are read at a time.
pub(super) const GROWTH_READ_BYTES: usize = 1 << 20;

/// The time between two polls of files without events. Shorter ones show lines sooner and cost more calls.
pub(super) const ACTIVE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The time between two polls of folders and of all files.
pub(super) const SILENT_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes before the present place that are compared to recognise a file.
pub(super) const FILE_TAIL_BYTES: usize = 4 << 10;

/// Fewer bytes do not identify a file, since logs begin alike.
pub(super) const MIN_FILE_TAIL_BYTES: u64 = 1 << 10;

/// After this many growths without an event, a file is polled often.
pub(super) const MAX_UNHEARD_GROWTHS: u8 = 3;

/// Bytes that are read from a pipe after a signal: a kernel's pipe holds 64 KiB, and one that asks for more
/// gets 1 MiB.
pub(super) const MAX_BYTES_AFTER_SIGNAL: usize = 1 << 20;

/// A pipe without new bytes for this time is idle. The fuzz target of pipes that rest makes many of them.
pub(super) const PIPE_IDLE_TIME: Duration =
    Duration::from_millis(if cfg!(fuzzing) { 1 } else { 20 });

/// The time after which a pipe that never rests is reported like an idle one, unless
/// [`MIN_BYTES_HANDED_OVER`] have come, which fill a chunk anyway.
pub(super) const BUSY_PIPE_REPORT_INTERVAL: Duration = Duration::from_millis(40);

/// See [`BUSY_PIPE_REPORT_INTERVAL`].
pub(super) const MIN_BYTES_HANDED_OVER: usize = 1 << 20;
