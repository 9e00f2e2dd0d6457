//! Why a process could not set up a process group or pass a barrier, by the text of PyTorch's exception or error.
//!
//! ```text
//! [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by
//!     key '0', but store->get('0') got error: wait timeout after 600000ms
//! Timed out after 601 seconds waiting for clients. 3/4 clients joined.
//! The client socket has timed out after 60000ms while trying to connect to (n1, 29500).
//! The server socket has failed to listen on any local network address. port: 29500, ..., name: EADDRINUSE
//! torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError
//! RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.
//! [Rank 0]: Ranks 4, 5 failed to pass monitoredBarrier in 2000000 ms
//! Gloo connectFullMesh failed with [../gloo/transport/tcp/pair.cc:144] no error
//! RuntimeError: Socket Timeout
//! RuntimeError: [../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete
//! RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.2]:5134
//! ```
//!
//! From `ProcessGroupNCCL.cpp`, `ProcessGroupGloo.cpp`, `TCPStore.cpp`, `socket.cpp` and
//! `elastic/rendezvous` of PyTorch; versions before 2.1 have *retreiving*.

use crate::token::dec_u32;
use memchr::memmem;

/// What a process did not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupFailure<'a> {
    /// The id of a communicator.
    Id {
        /// The process's rank in the process group.
        rank: u32,
        /// The rank in the process group that makes the id.
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
    /// A connection to the store, at this address; old versions do not print it.
    Store(&'a [u8]),
    /// The port at which the store was to listen.
    Port(Option<u32>),
    /// The other nodes of torchrun's rendezvous.
    Nodes,
    /// The ranks that did not come to a monitored barrier, as the text lists them; only the first rank names them.
    Barrier(&'a [u8]),
    /// Gloo's connections to the other processes; the reason that it gives.
    Mesh(&'a [u8]),
    /// Another process's part of a call of Gloo's, for this number of milliseconds; not all lines have it.
    Peer(Option<u32>),
    /// The connection of Gloo's to another process, which that process closed.
    PeerLost,
    /// A value in the store that another process was to set.
    Value,
    /// The connection to the store, which was lost.
    StoreLost,
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
            from: match after(b" by key '").and_then(first_of_pair) {
                Some(first) => first,
                None => number(after(b"ncclUniqueId from [")?)?,
            },
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
    if after(b"client socket has ").is_some() {
        let rest = after(b" connect to any network address of ");
        let rest = rest.or_else(|| after(b" while trying to connect to "))?;
        let rest = rest.strip_prefix(b"(").unwrap_or(rest);
        let end = rest.iter().position(|b| b")\n".contains(b));
        return Some(SetupFailure::Store(&rest[..end.unwrap_or(rest.len())]));
    }
    if after(b"server socket has failed to listen on any local").is_some() {
        let port = after(b" port: ").or_else(|| after(b"]:"));
        return Some(SetupFailure::Port(port.and_then(number)));
    }
    if let Some(rest) = after(b"Gloo connectFullMesh failed with ") {
        return Some(SetupFailure::Mesh(rest));
    }
    if let Some(rest) = after(b"Timed out waiting ")
        && after(b" operation to complete").is_some()
    {
        return Some(SetupFailure::Peer(number(rest)));
    }
    find_late_barrier(text).or_else(|| {
        let has = |words: &[&[u8]]| words.iter().any(|&words| after(words).is_some());
        if has(&[b"RendezvousTimeoutError"]) {
            Some(SetupFailure::Nodes)
        } else if has(&[b"Error: connect() timed out."]) {
            Some(SetupFailure::Store(b""))
        } else if has(&[b"Error: Socket Timeout", b"Error: wait timeout after "]) {
            Some(SetupFailure::Value)
        } else if has(&[
            b"] Read timeout [",
            b"] Write timeout [",
            b"Application timeout caused pair closure",
        ]) {
            Some(SetupFailure::Peer(None))
        } else if has(&[b"] Connection closed by peer ["]) {
            Some(SetupFailure::PeerLost)
        } else {
            let lost = [
                &b"RendezvousConnectionError"[..],
                b"Error: Connection reset by peer",
                b"Error: failed to recv, got 0 bytes",
                b"Error: Broken pipe",
            ];
            has(&lost).then_some(SetupFailure::StoreLost)
        }
    })
}

/// The communicator of a send and its receive is that of two ranks, with the key `4:5`, and the rank from which it
/// gets its id is a rank of the pair: always 0, the lower one.
fn first_of_pair(key: &[u8]) -> Option<u32> {
    let (rest, first) = dec_u32(key).ok()?;
    let (rest, second) = dec_u32(rest.strip_prefix(b":")?).ok()?;
    rest.starts_with(b"'").then_some(first.min(second))
}

/// `Ranks 4, 5 failed to pass monitoredBarrier in 2 ms`; `Rank 3 successfully reached monitoredBarrier, but ...`.
fn find_late_barrier(text: &[u8]) -> Option<SetupFailure<'_>> {
    let before = |words: &[u8]| Some(&text[..memmem::find(text, words)?]);
    if before(b" reached monitoredBarrier, but ").is_some() {
        return Some(SetupFailure::Barrier(b""));
    }
    let before = before(b" failed to pass monitoredBarrier")?;
    let list = &before[memmem::rfind(before, b"Rank")? + b"Rank".len()..];
    let list = list.strip_prefix(b"s").unwrap_or(list).trim_ascii();
    Some(SetupFailure::Barrier(list))
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
                "[12] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d \
                 key-value store by key '11:12', but store->get('11:12') got error: wait timeout",
                Some(SetupFailure::Id {
                    rank: 12,
                    from: 11,
                    waited: true,
                }),
            ),
            (
                "Timed out after 601 seconds waiting for clients. 3/4 clients joined.",
                Some(SetupFailure::Clients { came: 3, all: 4 }),
            ),
            (
                "The client socket has timed out after 60000ms while trying to connect to (n1, 29500).",
                Some(SetupFailure::Store(b"n1, 29500")),
            ),
            (
                "[E socket.cpp:9] [c10d] The client socket has timed out after 60s while trying to connect to 10.0.0.1:1234",
                Some(SetupFailure::Store(b"10.0.0.1:1234")),
            ),
            (
                "The client socket has failed to connect to any network address of (n1, 29500). The client socket has failed",
                Some(SetupFailure::Store(b"n1, 29500")),
            ),
            (
                "RuntimeError: connect() timed out. Original timeout was 9 ms.",
                Some(SetupFailure::Store(b"")),
            ),
            (
                "The server socket has failed to listen on any local network address. port: 29500, useIpv6: false",
                Some(SetupFailure::Port(Some(29500))),
            ),
            (
                "The server socket has failed to listen on any local network address. The server socket has failed to \
                 bind to [::]:4479 (errno: 98 - Address already in use).",
                Some(SetupFailure::Port(Some(4479))),
            ),
            (
                "[E socket.cpp:4] [c10d] The server socket has failed to listen on any local network address.",
                Some(SetupFailure::Port(None)),
            ),
            (
                "x.rendezvous.api.RendezvousTimeoutError",
                Some(SetupFailure::Nodes),
            ),
            (
                "RuntimeError: [Rank 0]: Ranks 4, 5 failed to pass monitoredBarrier in 2000 ms",
                Some(SetupFailure::Barrier(b"4, 5")),
            ),
            (
                "Rank 3 successfully reached monitoredBarrier, but received errors while waiting",
                Some(SetupFailure::Barrier(b"")),
            ),
            (
                "Gloo connectFullMesh failed with no error",
                Some(SetupFailure::Mesh(b"no error")),
            ),
            ("DistStoreError: Socket Timeout", Some(SetupFailure::Value)),
            (
                "RuntimeError: [/x/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 90ms for recv operation to complete",
                Some(SetupFailure::Peer(Some(90))),
            ),
            (
                "RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.2]:5134",
                Some(SetupFailure::PeerLost),
            ),
            (
                "RuntimeError: [../gloo/transport/tcp/pair.cc:9] Read timeout [10.0.0.2]:5134",
                Some(SetupFailure::Peer(None)),
            ),
            (
                "x.RendezvousConnectionError: The connection to the C10d store has failed.",
                Some(SetupFailure::StoreLost),
            ),
            (
                "RuntimeError: Connection reset by peer",
                Some(SetupFailure::StoreLost),
            ),
            (
                "ConnectionResetError: [Errno 104] Connection reset by peer",
                None,
            ),
            (
                "The server socket has failed to bind to [::]:4479 (errno: 98)",
                None,
            ),
            ("[12] is setting up NCCL communicator and retrieving", None),
            ("NCCL error in: x.cpp:9, unhandled system error", None),
        ];
        for (text, expect) in told {
            assert_eq!(find_setup_failure(text.as_bytes()), expect, "{text}");
        }
    }
}
