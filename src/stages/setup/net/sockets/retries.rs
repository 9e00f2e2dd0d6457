//! Connections that NCCL tries again.

use crate::grammar::message::network::retry::ConnectRetry;
use crate::stages::setup::first_line::FirstReportLine;
use serde::{Deserialize, Serialize};

/// What a thread tries to reach, and why it failed so far.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct RetriedPeer {
    /// The address of the other end, as printed; NCCL prints it since 2.24.
    pub(crate) peer: Option<Box<[u8]>>,
    /// The system's words.
    pub(crate) error: Box<[u8]>,
}

impl RetriedPeer {
    pub(super) fn from_retry(retry: &ConnectRetry<'_>) -> RetriedPeer {
        RetriedPeer {
            peer: retry.peer.map(Into::into),
            error: retry.error.into(),
        }
    }
}

/// A thread's lines about one connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetryLines<L> {
    /// The number of lines.
    pub(crate) count: u64,
    /// The first.
    pub(crate) first: L,
    /// The last.
    pub(crate) last: L,
    /// The number of the last try, and how many there will be.
    pub(crate) tries: Option<(u32, u32)>,
    /// The first line's time stamp as printed; empty if there is none.
    pub(crate) since: Box<[u8]>,
}

impl<L: Ord + Copy> RetryLines<L> {
    /// Adds lines of the same connection.
    pub(super) fn add_following(&mut self, next: RetryLines<L>) {
        self.count += next.count;
        if next.first < self.first {
            (self.first, self.since) = (next.first, next.since);
        }
        if next.last > self.last {
            (self.last, self.tries) = (next.last, next.tries);
        }
    }

    /// Places the lines in all inputs.
    pub(super) fn place_lines(
        self,
        place: impl Fn(L) -> FirstReportLine,
    ) -> RetryLines<FirstReportLine> {
        RetryLines {
            count: self.count,
            first: place(self.first),
            last: place(self.last),
            tries: self.tries,
            since: self.since,
        }
    }
}
