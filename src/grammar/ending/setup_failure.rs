//! Why a process could not set up a process group or pass a barrier, by the text of PyTorch's exception or error.
//!
//! ```text
//! [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by
//!     key '0', but store->get('0') got error: wait timeout after 600000ms
//! Timed out after 601 seconds waiting for clients. 3/4 clients joined.                  2.3; `workers` before
//! Timed out initializing process group in store based barrier on rank: 3, for key: store_based_barrier_key:1
//!     (world_size=4, worker_count=3, timeout=0:30:00)
//! The client socket has timed out after 60000ms while trying to connect to (n1, 29500).
//! The server socket has failed to listen on any local network address. port: 29500, ..., name: EADDRINUSE
//! torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError
//! RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.
//! ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8123): address already in use
//! [Rank 0]: Ranks 4, 5 failed to pass monitoredBarrier in 2000000 ms
//! Rank 3 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 1.
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
    Clients(MissingClients),
    /// A connection to the store, at this address; old versions do not print it.
    Store(&'a [u8]),
    /// The port at which a server was to listen.
    Port {
        /// Its number, where the text has it.
        port: Option<u32>,
        /// The server is the job's store.
        is_store: bool,
    },
    /// The other nodes of torchrun's rendezvous.
    Nodes,
    /// The ranks that did not come to a monitored barrier, as the text lists them; only the first rank names them.
    Barrier(&'a [u8]),
    /// Gloo's connections to the other processes; the reason that it gives.
    Mesh(&'a [u8]),
    /// Another process's part of a call of Gloo's, for this number of milliseconds; not all lines have it.
    Peer(Option<u32>),
    /// The connection to another process, which ended or closed it.
    PeerLost {
        /// What had the connection.
        of: &'static str,
        /// The rank of that process in the group, where the text names it.
        from: Option<u32>,
    },
    /// A value in the store that another process was to set.
    Value,
    /// The connection to the store, which was lost.
    StoreLost,
}

/// How many processes came to the start of a job, or of a process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingClients {
    /// How many came.
    pub came: u32,
    /// How many there are.
    pub all: u32,
    /// The process group, by the number of groups that the job has made with it.
    pub group: Option<u32>,
}

/// What an exception's text reports of that.
pub fn find_setup_failure(text: &[u8]) -> Option<SetupFailure<'_>> {
    let after = |words: &[u8]| Some(&text[memmem::find(text, words)? + words.len()..]);
    let number = |text| Some(dec_u32(text).ok()?.1);
    let lost = |of, from| Some(SetupFailure::PeerLost { of, from });
    let own = memmem::find(text, b"is setting up ");
    if let (Some(at), Some(rest)) = (own, after(b"CCL communicator and retr")) {
        let begin = text[..at].iter().rposition(|&b| b == b'[')?;
        let timeout = [&b"imeout"[..], b"imed out"];
        return Some(SetupFailure::Id {
            rank: number(&text[begin + 1..])?,
            from: match after(b" by key '").and_then(first_of_pair) {
                Some(first) => first,
                None => number(after(b"cclUniqueId from [")?)?,
            },
            waited: timeout
                .iter()
                .any(|&words| memmem::find(rest, words).is_some()),
        });
    }
    if let Some(missing) = find_missing_clients(text) {
        return Some(SetupFailure::Clients(missing));
    }
    if after(b"client socket has ").is_some() {
        let rest = after(b" connect to any network address of ");
        let rest = rest.or_else(|| after(b" while trying to connect to "))?;
        let rest = rest.strip_prefix(b"(").unwrap_or(rest);
        let end = rest.iter().position(|b| b")\n".contains(b));
        return Some(SetupFailure::Store(&rest[..end.unwrap_or(rest.len())]));
    }
    if let Some(failure) = find_port_failure(text) {
        return Some(failure);
    }
    if let Some(failure) = find_gloo_failure(text) {
        return Some(failure);
    }
    find_late_barrier(text).or_else(|| {
        let has = |words: &[&[u8]]| words.iter().any(|&words| after(words).is_some());
        if has(&[b"RendezvousTimeoutError"]) {
            Some(SetupFailure::Nodes)
        } else if has(&[b"Error: connect() timed out."]) {
            Some(SetupFailure::Store(b""))
        } else if has(&[
            b"Error: Socket Timeout",
            b"Error: wait timeout after ",
            b"] waitForInput: ",
        ]) {
            Some(SetupFailure::Value)
        } else if has(&[
            b"] Read timeout [",
            b"] Write timeout [",
            b"Application timeout caused pair closure",
        ]) {
            Some(SetupFailure::Peer(None))
        } else if has(&[b"] Connection closed by peer ["]) {
            lost("Gloo", None)
        } else if has(&[b"Terminating process because "]) {
            lost(
                "JAX's coordination service",
                after(b"/task:").and_then(number),
            )
        } else {
            let lost = [
                &b"RendezvousConnectionError"[..],
                b"._call_store(\"",
                b"Error: Connection reset by peer",
                b"Error: failed to recv, got 0 bytes",
                b"Error: Broken pipe",
                b"TCPStore server has shut down too early",
                b" failed on SocketImpl",
            ];
            has(&lost).then_some(SetupFailure::StoreLost)
        }
    })
}

fn find_missing_clients(text: &[u8]) -> Option<MissingClients> {
    let after = |words: &[u8]| Some(&text[memmem::find(text, words)? + words.len()..]);
    let number = |text| Some(dec_u32(text).ok()?.1);
    let counts = after(b" waiting for clients. ").or_else(|| after(b" waiting for workers. "));
    if let Some(counts) = counts {
        let (rest, came) = dec_u32(counts).ok()?;
        return Some(MissingClients {
            came,
            all: number(rest.strip_prefix(b"/")?)?,
            group: None,
        });
    }
    after(b" in store based barrier ")?;
    Some(MissingClients {
        came: number(after(b"worker_count=")?)?,
        all: number(after(b"world_size=")?)?,
        group: after(b"store_based_barrier_key:").and_then(number),
    })
}

/// What Gloo reports of its connections.
fn find_gloo_failure(text: &[u8]) -> Option<SetupFailure<'_>> {
    let after = |words: &[u8]| Some(&text[memmem::find(text, words)? + words.len()..]);
    let number = |text| Some(dec_u32(text).ok()?.1);
    if let Some(reason) = after(b"Gloo connectFullMesh failed with ") {
        return Some(SetupFailure::Mesh(reason));
    }
    if let Some(at) = memmem::find(text, b"] connect [")
        && after(b": Connection refused").is_some()
    {
        return Some(SetupFailure::Mesh(&text[at + b"] ".len()..]));
    }
    if let Some(rest) = after(b"Timed out waiting ")
        && after(b" operation to complete").is_some()
    {
        return Some(SetupFailure::Peer(number(rest)));
    }
    let rest = after(b" reached monitoredBarrier, but ")?;
    let by = memmem::find(rest, b" from rank ").map(|at| &rest[at + b" from rank ".len()..]);
    Some(SetupFailure::PeerLost {
        of: "Gloo",
        from: by.and_then(number),
    })
}

/// The communicator of a send and its receive is that of two ranks, with the key `4:5`, and the rank from which it
/// gets its id is a rank of the pair: always 0, the lower one.
fn first_of_pair(key: &[u8]) -> Option<u32> {
    let (rest, first) = dec_u32(key).ok()?;
    let (rest, second) = dec_u32(rest.strip_prefix(b":")?).ok()?;
    rest.starts_with(b"'").then_some(first.min(second))
}

/// The words for a port, or an address with it, that another process has.
const IN_USE_WORDS: [&[u8]; 3] = [
    b"ddress already in use",
    b"EADDRINUSE",
    b" is already in use",
];

fn find_port_failure(text: &[u8]) -> Option<SetupFailure<'_>> {
    let has = |words: &[u8]| memmem::find(text, words).is_some();
    let is_in_use = IN_USE_WORDS.iter().any(|&words| has(words));
    let is = is_in_use || has(b"server socket has failed to listen on any local");
    is.then(|| SetupFailure::Port {
        port: find_port(text),
        is_store: has(b"server socket has failed to "),
    })
}

/// Finds the port in the text about an address: `bind to [::]:29511`, `('0.0.0.0', 8123)`, `port: 29511`, `Port 29511`.
pub(super) fn find_port(text: &[u8]) -> Option<u32> {
    let words: [&[u8]; 5] = [b" bind", b" listen", b"ddress", b" addr", b"ort "];
    let begins = words.iter().filter_map(|words| memmem::find(text, words));
    let text = &text[begins.min()?..];
    let mut at = 0;
    while let Some(next) = text[at..].iter().position(u8::is_ascii_digit) {
        let from = at + next;
        let digits = text[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        at = from + digits;
        let before = text[..from].trim_ascii_end();
        let is_marked =
            before.ends_with(b":") || before.ends_with(b"',") || before.ends_with(b"ort");
        let is_whole = text.get(at).is_none_or(|b| !b.is_ascii_alphanumeric());
        let port = dec_u32(&text[from..at]).ok().map(|(_, port)| port);
        if is_marked && is_whole && digits > 2 {
            return port.filter(|port| *port <= u32::from(u16::MAX));
        }
    }
    None
}

/// `Ranks 4, 5 failed to pass monitoredBarrier in 2 ms`.
fn find_late_barrier(text: &[u8]) -> Option<SetupFailure<'_>> {
    let before = |words: &[u8]| Some(&text[..memmem::find(text, words)?]);
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
        let clients = |came, all, group| SetupFailure::Clients(MissingClients { came, all, group });
        let port = |port, is_store| SetupFailure::Port {
            port: Some(port),
            is_store,
        };
        let lost = |of, from| Some(SetupFailure::PeerLost { of, from });
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
                Some(clients(3, 4, None)),
            ),
            (
                "Timed out after 6 seconds waiting for workers. 1/2 workers joined.",
                Some(clients(1, 2, None)),
            ),
            (
                "RuntimeError: Timed out initializing process group in store based barrier on rank: 3, for key: \
                 store_based_barrier_key:1 (world_size=4, worker_count=2, timeout=0:30:00)",
                Some(clients(2, 4, Some(1))),
            ),
            (
                "RuntimeError: [12] is setting up HCCL communicator and retrieving hcclUniqueId from [0] via c10d \
                 key-value store by key '0', but store->get('0') got error: failed to recv, got 0 bytes",
                Some(id(false)),
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
                Some(port(29500, true)),
            ),
            (
                "The server socket has failed to listen on any local network address. The server socket has failed to \
                 bind to [::]:4479 (errno: 98 - Address already in use).",
                Some(port(4479, true)),
            ),
            (
                "[E socket.cpp:4] [c10d] The server socket has failed to listen on any local network address.",
                Some(SetupFailure::Port {
                    port: None,
                    is_store: true,
                }),
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
                "Rank 3 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 1. P",
                lost("Gloo", Some(1)),
            ),
            (
                "F0926 17:26:32.0 81 client.h:77] Terminating process because the JAX distributed service detected fatal errors.",
                lost("JAX's coordination service", None),
            ),
            (
                "ERROR: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8123): address already in use",
                Some(port(8123, false)),
            ),
            (
                "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5571')",
                Some(port(5571, false)),
            ),
            (
                "panic: listen tcp :9091: bind: address already in use",
                Some(port(9091, false)),
            ),
            ("Port 6007 is already in use.", Some(port(6007, false))),
            (
                "Error: listen EADDRINUSE: address already in use :::3001",
                Some(port(3001, false)),
            ),
            (
                "Error: Address already in use (os error 98)",
                Some(SetupFailure::Port {
                    port: None,
                    is_store: false,
                }),
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
                lost("Gloo", None),
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
