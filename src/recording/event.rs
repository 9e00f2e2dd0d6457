//! What a recorder sees, and what a file has.

/// The process that a file is of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Its number on its host.
    pub pid: u32,
    /// The host's name.
    pub host: Box<[u8]>,
    /// The wall clock in ns since 1970, read together with `monotonic_ns`.
    pub realtime_ns: u64,
    /// The clock of all events, in ns since the host started (`CLOCK_MONOTONIC`).
    pub monotonic_ns: u64,
    /// The version of NCCL's profiler interface that it uses.
    pub interface: u32,
    /// NCCL's mask of the kinds of events that were asked for.
    pub event_mask: u32,
    /// The job's rank, if the launcher gave one (`RANK`, `SLURM_PROCID` ...).
    pub rank: Option<u32>,
    /// Ranks of the job, likewise.
    pub world_size: Option<u32>,
}

impl ProcessFacts {
    /// Returns true if the kernels' channels were asked for (`ncclProfileKernelCh` of NCCL's mask).
    pub fn has_kernels(&self) -> bool {
        self.event_mask & (1 << 6) != 0
    }

    /// Returns the wall clock at an event's time: ns since 1970.
    pub fn realtime_of(&self, monotonic_ns: u64) -> Option<u64> {
        let since = i128::from(monotonic_ns) - i128::from(self.monotonic_ns);
        u64::try_from(i128::from(self.realtime_ns) + since).ok()
    }
}

/// A communicator of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommFacts {
    /// NCCL's hash, which all members share (`commId` of the log from NCCL 2.26.2 on); 0 if unknown.
    pub id: u64,
    /// The name that the program gave it; often empty.
    pub name: Box<[u8]>,
    /// Its ranks; 0 if unknown (interface 1 to 3).
    pub nranks: u32,
    /// Its nodes; 0 if unknown.
    pub nnodes: u32,
    /// The rank of this process in it; `None` if unknown.
    pub rank: Option<u32>,
}

/// What a call moves, and how: what calls of one kind have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordedShape {
    /// Elements: the caller's of a call, those of NCCL's task of a task.
    pub count: u64,
    /// The CUDA stream's address; 0 if unknown.
    pub stream: u64,
    /// The root of a collective, the peer of a message; -1 if unknown.
    pub peer: i32,
    /// Channels, at most or exactly (interface 4 on); 0 if unknown.
    pub channels: u16,
    /// The place in [`crate::names::OPS`].
    pub op: u8,
    /// The place in [`crate::names::DATATYPES`].
    pub datatype: u8,
    /// `ncclRedOp_t`; [`crate::names::UNKNOWN`] from interface 2 on.
    pub redop: u8,
    /// The place in [`crate::names::ALGOS`].
    pub algo: u8,
    /// The place in [`crate::names::PROTOS`].
    pub proto: u8,
}

impl Default for RecordedShape {
    fn default() -> RecordedShape {
        use crate::names::UNKNOWN;
        RecordedShape {
            count: 0,
            stream: 0,
            peer: -1,
            channels: 0,
            op: UNKNOWN,
            datatype: UNKNOWN,
            redop: UNKNOWN,
            algo: UNKNOWN,
            proto: UNKNOWN,
        }
    }
}

/// A call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallBegun {
    /// Its communicator, by its number in this file.
    pub comm: u32,
    /// Its number over all calls of the communicator in this process, from 0. A gap is a drop.
    pub number: u64,
    /// Its number over the collectives, or over the messages, of the communicator.
    pub ordinal: u64,
    /// What it is.
    pub shape: RecordedShape,
    /// It is captured into a CUDA graph and does not run.
    pub is_captured: bool,
    /// It is seen when NCCL launches it: interface 1 to 4 has no earlier event.
    pub is_launch: bool,
}

/// NCCL launches a task: the call, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskBegun {
    /// Its communicator.
    pub comm: u32,
    /// Its number over all tasks of the communicator, from 0.
    pub number: u64,
    /// The number of its call. A CUDA graph launches tasks of one call again and again.
    pub call: u64,
    /// NCCL's own number (`seqNumber`): by communicator and operation. Messages have none.
    pub seq: Option<u64>,
    /// What it is.
    pub shape: RecordedShape,
}

/// Times of a task's kernel on some of its channels. Spans of one task add up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelSpan {
    /// Channels that began.
    pub begun: u32,
    /// Channels that ended.
    pub ended: u32,
    /// The first start, by the GPU's clock (globaltimer, ns); 0 if unknown.
    pub start_ns: u64,
    /// The last stop, likewise.
    pub stop_ns: u64,
}

impl KernelSpan {
    /// Adds the times of other channels.
    pub fn merge(&mut self, other: KernelSpan) {
        self.begun = self.begun.saturating_add(other.begun);
        self.ended = self.ended.saturating_add(other.ended);
        self.start_ns = match (self.start_ns, other.start_ns) {
            (0, start) | (start, 0) => start,
            (start, other) => start.min(other),
        };
        self.stop_ns = self.stop_ns.max(other.stop_ns);
    }
}

/// An operation of the proxy thread for a task ended: the transfers of one channel to or from one peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyEnded {
    /// The communicator.
    pub comm: u32,
    /// Its task; `None` if that is another process's (PXN).
    pub task: Option<u64>,
    /// The rank at the other end.
    pub peer: i32,
    /// The channel.
    pub channel: u8,
    /// It sends.
    pub is_send: bool,
    /// Steps that it was to make.
    pub steps: u32,
    /// Bytes of a step at most.
    pub chunk_bytes: u32,
    /// From its start to its end, in ns.
    pub dur_ns: u64,
    /// Bytes that its steps moved; 0 if steps are not recorded.
    pub bytes: u64,
    /// Steps that were seen to end.
    pub ended: u32,
    /// Sums of what its steps waited for, in ns: the GPU, the peer (or the flush of a receive), the network.
    pub waits_ns: [u64; 3],
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A communicator is initialised: its number in this file.
    CommBegun(u32),
    /// A communicator is destroyed.
    CommEnded(u32),
    /// A call begins.
    Call(CallBegun),
    /// A task is launched.
    Task(TaskBegun),
    /// A task's launch ends: it is enqueued, and its proxy operations are posted.
    TaskEnded {
        /// Its communicator.
        comm: u32,
        /// Its number.
        number: u64,
    },
    /// Channels of a task's kernel began or ended.
    Kernel {
        /// Its communicator.
        comm: u32,
        /// Its number.
        number: u64,
        /// The times.
        span: KernelSpan,
    },
    /// An operation of the proxy thread ended.
    Proxy(ProxyEnded),
    /// Events of this thread that had no room.
    Dropped(u64),
}

/// An event and when it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedEvent {
    /// ns, by `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// What happened.
    pub event: Event,
}
