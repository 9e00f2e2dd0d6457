//! Why a process could not set up a process group, by the text of PyTorch's exception.
//!
//! ```text
//! [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by
//!     key '0', but store->get('0') got error: wait timeout after 600000ms
//! Timed out after 601 seconds waiting for clients. 3/4 clients joined.
//! The client socket has timed out after 60000ms while trying to connect to (n1, 29500).
//! ```
//!
//! From `ProcessGroupNCCL.cpp` and `TCPStore.cpp` of PyTorch; versions before 2.1 have *retreiving*.

use crate::token::dec_u32;
use memchr::memmem;

/// What a process did not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupFailure<'a> {
    /// The id of a communicator.
    Id {
        /// The process's rank there.
        rank: u32,
        /// The rank there that makes the id.
        from: u32,
        /// It waited until its time was up; else the connection to the store was lost.
        waited: bool,
    },
    /// The other processes of the job.
    Clients {
        /// How many came.
        came: u32,
        /// How many there are.
        all: u32,
    },
    /// A connection to the store, at this address.
    Store(&'a [u8]),
}

/// What an exception's text reports of that.
pub fn find_setup_failure(text: &[u8]) -> Option<SetupFailure<'_>> {
    let after = |words: &[u8]| Some(&text[memmem::find(text, words)? + words.len()..]);
    let number = |text| Some(dec_u32(text).ok()?.1);
    if let Some(rest) = after(b"is setting up NCCL communicator and retr") {
        let at = text.len() - rest.len();
        let begin = text[..at].iter().rposition(|&b| b == b'[')?;
        let timeout = [&b"imeout"[..], b"imed out"];
        return Some(SetupFailure::Id {
            rank: number(&text[begin + 1..])?,
            from: number(after(b"ncclUniqueId from [")?)?,
            waited: timeout
                .iter()
                .any(|&words| memmem::find(rest, words).is_some()),
        });
    }
    if let Some(rest) = after(b" waiting for clients. ") {
        let (rest, came) = dec_u32(rest).ok()?;
        let all = number(rest.strip_prefix(b"/")?)?;
        return Some(SetupFailure::Clients { came, all });
    }
    let rest = after(b"timed out after ").and(after(b" while trying to connect to ("))?;
    let end = rest.iter().position(|&b| b == b')')?;
    Some(SetupFailure::Store(&rest[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_read() {
        let id = |waited| SetupFailure::Id {
            rank: 12,
            from: 0,
            waited,
        };
        let told = [
            (
                "[12] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d \
                 key-value store by key '0', but store->get('0') got error: wait timeout after 14000ms",
                Some(id(true)),
            ),
            (
                "RuntimeError: [12] is setting up NCCL communicator and retreiving ncclUniqueId from [0] via \
                 c10d key-value store by key '0', but store->get('0') got error: Socket Timeout",
                Some(id(true)),
            ),
            (
                "[12] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d \
                 key-value store by key '0', but store->get('0') got error: Connection reset by peer",
                Some(id(false)),
            ),
            (
                "Timed out after 601 seconds waiting for clients. 3/4 clients joined.",
                Some(SetupFailure::Clients { came: 3, all: 4 }),
            ),
            (
                "The client socket has timed out after 60000ms while trying to connect to (n1, 29500).",
                Some(SetupFailure::Store(b"n1, 29500")),
            ),
            ("[12] is setting up NCCL communicator and retrieving", None),
            ("NCCL error in: x.cpp:9, unhandled system error", None),
        ];
        for (text, expect) in told {
            assert_eq!(find_setup_failure(text.as_bytes()), expect, "{text}");
        }
    }
}
