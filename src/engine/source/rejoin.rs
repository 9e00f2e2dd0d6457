//! Logs with lines that were cut at the ends of their writers' buffers, or by a launcher's tags. The
//! caller hands in the functions that find and join such lines.

use std::io::Read;
use std::sync::{Arc, Mutex};

/// Counts of the lines that were joined in a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RejoinCounts {
    /// Processes that wrote whole buffers.
    pub processes: u64,
    /// Lines of calls that were joined.
    pub calls: u64,
    /// Other lines that were joined.
    pub others: u64,
    /// The first byte of the first of them in the joined log.
    pub first: Option<u64>,
    /// Beginnings of lines without ends in the log.
    pub unended: u64,
    /// The log had its newest line first, and was turned round.
    pub is_turned: bool,
}

/// The place where a reader that joins lines notes its counts, at its end.
pub(crate) type RejoinCountsSlot = Arc<Mutex<Option<RejoinCounts>>>;

/// A stream of bytes.
pub(crate) type RawByteReader = Box<dyn Read + Send>;

impl LineRejoiner {
    /// For what has no lines.
    pub const NONE: LineRejoiner = LineRejoiner {
        may_be_cut: |_| false,
        reader: |bytes, _| bytes,
    };
}

/// The functions that join the cut lines of a log.
#[derive(Debug, Clone, Copy)]
pub struct LineRejoiner {
    /// Returns true if lines may be cut in the log that begins with these bytes.
    pub(crate) may_be_cut: fn(&[u8]) -> bool,
    /// Returns the log with joined lines.
    pub(crate) reader: fn(RawByteReader, RejoinCountsSlot) -> RawByteReader,
}
