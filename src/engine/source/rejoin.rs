//! Logs whose lines were cut at the ends of their writers' buffers. Where a line is cut, only who
//! reads logs knows: that is handed in.

use std::fmt;
use std::io::Read;
use std::sync::{Arc, Mutex};

/// Bytes of a writer's buffer: what C's library takes for a file or a pipe.
pub const STDIO_BUFFER_BYTES: usize = 4096;

/// What was put together in a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RejoinCounts {
    /// Processes that wrote whole buffers.
    pub processes: u64,
    /// Lines of calls that were joined.
    pub calls: u64,
    /// Other lines that were joined.
    pub others: u64,
    /// Where the first of them begins, in bytes of the log as it is put together.
    pub first: Option<u64>,
    /// Beginnings of lines whose ends are not in the log.
    pub unended: u64,
}

/// Where a reader says that it puts lines together, and which it did, once it is at the end.
pub(crate) type RejoinCountsSlot = Arc<Mutex<Option<RejoinCounts>>>;

/// A stream of bytes.
pub(crate) type RawByteReader = Box<dyn Read + Send>;

/// How the lines of a log are put together that was written in blocks.
#[derive(Clone, Copy)]
pub struct LineRejoiner {
    /// Whether the log that begins with these bytes was written in blocks.
    pub(crate) is_blocks: fn(&[u8]) -> bool,
    /// The log, put together; it is known to be in blocks, or else looked at.
    pub(crate) reader: fn(RawByteReader, RejoinCountsSlot, bool) -> RawByteReader,
}

impl fmt::Debug for LineRejoiner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejoin").finish_non_exhaustive()
    }
}
