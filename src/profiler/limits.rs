//! Limits of the recorder.

use std::time::Duration;

/// Events of a ring: a thread of NCCL that makes a call every 2 us fills it in 10 ms, and the writer is woken when
/// half is full. 400 KB a thread that communicates.
pub const RING_EVENTS: usize = 4096;
/// Events of a thread after which the room in its ring is looked at: looking costs a cache line of the writer's.
pub(crate) const EVENTS_PER_LOOK: u32 = 256;
/// Threads with a ring at a time, so that the memory is bounded. A process has two for each communicator at most.
pub(crate) const MAX_LANES: usize = 256;
/// How long an event may wait for its frame.
pub const FLUSH_PERIOD: Duration = Duration::from_millis(100);
/// How long the end of the process may wait for the last frame.
pub(crate) const EXIT_WAIT: Duration = Duration::from_secs(2);
/// How long `init` may wait for another `init`.
pub(crate) const INIT_WAIT: Duration = Duration::from_secs(1);
/// Communicators of a process with calls in the file.
pub(crate) const MAX_COMMS: usize = nccl_pipe_recording::limits::MAX_COMMS as usize;
/// Files of one name that are tried: a container's processes have the same number again and again.
pub(crate) const MAX_NAMESAKES: u32 = 1000;
/// Proxy operations, and steps of them, that a thread has open at a time.
pub(crate) const MAX_OPEN_PROXIES: usize = 4096;
/// Texts of one kind that are known by their address.
pub(crate) const KNOWN_WORDS: usize = 64;
/// Bytes of a name that NCCL gives to something.
pub(crate) const MAX_WORD_BYTES: usize = 32;
/// Tasks with a kernel that a thread has seen begin and not end.
pub(crate) const MAX_OPEN_KERNELS: usize = 4096;
