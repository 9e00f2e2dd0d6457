//! Operations of NCCL's proxy thread: one call's traffic on one channel with one peer.

use super::event::ProfilerArgs;

/// Which way the data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransferSide {
    /// To the peer.
    Send,
    /// From the peer.
    Recv,
}

/// What a step of an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProxyWait {
    /// A free slot of the buffer (v1 to v3).
    Buffer,
    /// The GPU has not yet written the data, or not yet taken it.
    Gpu,
    /// The receiver has not yet announced room (v4 and later).
    Peer,
    /// The network has not yet sent the data, or it has not yet arrived.
    Net,
    /// The data is on its way from the NIC into the GPU's memory.
    Flush,
}

impl ProxyWait {
    /// All, in the order of a step.
    pub const ALL: [ProxyWait; 5] = [
        ProxyWait::Buffer,
        ProxyWait::Gpu,
        ProxyWait::Peer,
        ProxyWait::Net,
        ProxyWait::Flush,
    ];

    /// The wait of an event.
    pub(super) fn from_name(name: &[u8]) -> Option<ProxyWait> {
        Some(match name {
            b"SendBufferWait" | b"RecvBufferWait" => ProxyWait::Buffer,
            b"SendGpuWait" | b"RecvGpuWait" => ProxyWait::Gpu,
            b"SendPeerWait" => ProxyWait::Peer,
            b"SendWait" | b"RecvWait" => ProxyWait::Net,
            b"RecvFlushWait" => ProxyWait::Flush,
            _ => return None,
        })
    }

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            ProxyWait::Buffer => "buffer",
            ProxyWait::Gpu => "gpu",
            ProxyWait::Peer => "peer",
            ProxyWait::Net => "net",
            ProxyWait::Flush => "flush",
        }
    }
}

/// How many steps were posted, received, transmitted and done (v1 to v3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProxyPhases {
    /// Posted: to the GPU by a send, to the network by a receive.
    pub posted: u64,
    /// Steps of a send after the GPU wrote their data, or received steps of a receive.
    pub ready: u64,
    /// Steps that a send handed to the network, or flushed steps of a receive.
    pub transmitted: u64,
    /// Steps that a send's network has sent, or that the GPU has taken from a receive.
    pub done: u64,
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyOp {
    /// The call's operation; empty where the trace does not show the call.
    pub op: Box<[u8]>,
    /// The id of its communicator.
    pub comm: Option<u64>,
    /// The rank in it.
    pub rank: Option<u64>,
    /// Its SeqNum.
    pub seq: Option<u64>,
    /// Which way.
    pub side: TransferSide,
    /// The channel.
    pub channel: u64,
    /// The rank at the other end.
    pub peer: u64,
    /// Steps in all.
    pub steps: u64,
    /// Bytes of a step at most.
    pub chunk: u64,
    /// Bytes in all, if the plugin counts them correctly.
    pub bytes: Option<u64>,
    /// Bytes that the network plugin posted.
    pub net_bytes: u64,
    /// The steps by phase (v1 to v3).
    pub phases: Option<ProxyPhases>,
    /// When it was handed to the thread, in ns since the plugin began, as all its times.
    pub scheduled: Option<u64>,
    /// The end of the time in the thread's queue.
    pub scheduled_until: Option<u64>,
    /// The beginning of its progress.
    pub begin: Option<u64>,
    /// Its end.
    pub end: Option<u64>,
    /// The number of waits of its steps and their total ns, in the order of [`ProxyWait::ALL`].
    pub waits: [(u64, u64); 5],
    /// The last wait that began.
    pub last: Option<ProxyWait>,
    /// When the last step was done (v1 to v3).
    done_ns: Option<u64>,
    pub(super) is_stale: bool,
}

impl ProxyOp {
    pub(super) fn from_args(args: ProfilerArgs<'_>, side: TransferSide) -> ProxyOp {
        let number = |key| args.number(key).unwrap_or(0);
        let steps = |key| args.phase(key).map(|(steps, _)| steps);
        let phases = || {
            Some(ProxyPhases {
                posted: steps("POSTED")?,
                ready: steps("REM_FIFO_WAIT").or(steps("RECEIVED"))?,
                transmitted: steps("TRANSMITTED")?,
                done: steps("DONE")?,
            })
        };
        ProxyOp {
            op: Box::default(),
            comm: None,
            rank: None,
            seq: None,
            side,
            channel: number("Channel"),
            peer: number("Peer"),
            steps: number("Steps"),
            chunk: number("ChunkSize"),
            bytes: args.number("transSize"),
            net_bytes: 0,
            phases: phases(),
            scheduled: None,
            scheduled_until: None,
            begin: None,
            end: None,
            waits: [(0, 0); 5],
            last: None,
            done_ns: args.phase("DONE").map(|(_, ns)| ns),
            is_stale: false,
        }
    }

    /// Returns true if the arguments have its channel and peer.
    pub(super) fn is_same(&self, args: ProfilerArgs<'_>) -> bool {
        args.number("Channel") == Some(self.channel) && args.number("Peer") == Some(self.peer)
    }

    pub(super) fn add_wait(&mut self, wait: ProxyWait, ns: u64) {
        let (n, sum) = &mut self.waits[wait as usize];
        *n += 1;
        *sum = sum.saturating_add(ns);
    }

    /// Returns the steps with waits in the trace: the plugin keeps only the last 16, 32 or 1,024.
    pub fn steps_seen(&self) -> u64 {
        self.waits.iter().map(|(n, _)| *n).max().unwrap_or(0)
    }

    /// Ends an operation without an end if all of its steps are done.
    pub(super) fn end_if_done(&mut self) {
        let is_done = self.phases.is_some_and(|of| of.done >= self.steps.max(1));
        // An earlier operation's time may be left in its place.
        let own = |ns: &u64| Some(*ns) >= self.begin;
        self.end = self.end.or(self.done_ns.filter(own).filter(|_| is_done));
    }

    /// Returns true if it ended, with all its steps.
    pub fn is_complete(&self) -> bool {
        let all = self.phases.is_none_or(|phases| phases.done >= self.steps);
        all && self.end.is_some_and(|end| end > 0)
    }
}
