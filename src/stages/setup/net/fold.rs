//! Facts and connections of one chunk.

use super::connection::{
    ConnectionChannels, ConnectionLines, ConnectionPath, GraphHop, merge_channels,
};
use super::fact::{NetFact, collect_facts};
use super::init_line_comm::InitLineComm;
use super::owner::OwnerClaim;
use super::owner::{ChunkOwner, ThreadActivity};
use super::pending_connections::{InitWaitEvent, PendingConnections, ThreadPending};
use super::sockets::SocketLines;
use crate::grammar::message::NcclMessage;
use crate::grammar::message::communicator::init::{self, InitStage};
use crate::grammar::message::graph::GraphMessage;
use crate::grammar::message::network::channel::ChannelConnection;
use crate::grammar::message::tuning::{Algorithm, TuningMessage};
use crate::log::walk::{LogCall, LogVisitor, MessageLine, RepairedCall};
use crate::members::MergedMembers;
use crate::members::comm_id::CommId;
use crate::stages::setup::thread::SpeakerThread;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Facts and connections of one chunk.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct NetPartial {
    /// The first line that reports a fact, by process and fact.
    pub(super) facts: FxHashMap<(u32, NetFact), u64>,
    pub(super) links: FxHashMap<ConnectionLines, (ConnectionChannels, u64)>,
    pub(super) threads: ThreadActivity,
    /// Connections that wait for an INIT line.
    pub(super) waiting: FxHashMap<SpeakerThread, ThreadPending<OwnerClaim>>,
    /// INIT lines of each process.
    pub(super) inits: FxHashMap<u32, Vec<(InitStage, InitLineComm)>>,
    /// Communicators that INIT lines name.
    pub(super) comms: BTreeSet<(u32, InitLineComm)>,
    pub(super) tuned: bool,
    /// The first call that the NVLink switches served, by process.
    pub(super) nvls: FxHashMap<(u32, Algorithm), u64>,
    pub(super) coverage: NetLineCoverage,
    pub(super) sockets: SocketLines<u64>,
}

/// Counts of NCCL's lines that are not calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetLineCoverage {
    /// Lines that were parsed.
    pub read: u64,
    /// Lines of a known kind that are not parsed.
    pub known: u64,
}

/// A communicator as a process knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NetComm {
    /// The id that its members share.
    pub comm_id: Option<CommId>,
    /// Its address.
    pub comm: u64,
    /// The process's rank in it.
    pub rank: u32,
    /// Its size.
    pub nranks: u32,
}

impl NetComm {
    /// Returns the communicator of an INIT line of the chunk added last.
    pub(super) fn from_init_line(
        named: &InitLineComm,
        process: u32,
        merged: &MergedMembers,
    ) -> NetComm {
        let identity = merged.identity_at(process, named.comm, named.at);
        NetComm {
            comm_id: identity.and_then(|identity| identity.comm_id),
            comm: named.comm,
            rank: named.rank,
            nranks: named.nranks,
        }
    }

    /// True if the process can print a line of this path for it.
    pub fn fits_path(&self, way: &ConnectionPath) -> bool {
        way.can_be_printed_by(self.rank, self.nranks)
    }
}

impl NetPartial {
    fn add_fact(&mut self, process: u32, fact: NetFact, line: u64) {
        self.facts.entry((process, fact)).or_insert(line);
    }

    fn add_connection(&mut self, thread: SpeakerThread, c: &ChannelConnection<'_>, line: u64) {
        let channel = (c.channel, c.index.unwrap_or(0));
        self.add_path(
            thread,
            c.of.map(|tail| tail.comm),
            ConnectionPath::from_connection(c),
            channel,
            line,
        );
    }

    /// Adds the hops of a line about rings and trees.
    fn add_hops(&mut self, thread: SpeakerThread, graph: &GraphMessage<'_>, line: u64) {
        let mut hop = |of: Option<u64>, hop, (from, to), index| {
            self.add_path(
                thread,
                of,
                ConnectionPath::from_hop(hop, from, to),
                (index, 0),
                line,
            );
        };
        match graph {
            GraphMessage::Ring(ring) if ring.cut => {}
            GraphMessage::Ring(ring) => {
                let ranks: Vec<u32> = ring.ranks().collect();
                for pair in ranks.windows(2) {
                    hop(None, GraphHop::RingOfAll, (pair[0], pair[1]), ring.channel);
                }
                if let (Some(&first), Some(&last)) = (ranks.first(), ranks.last()) {
                    hop(None, GraphHop::RingEnd, (last, first), ring.channel);
                }
            }
            GraphMessage::Neighbours(ring) => {
                if let Ok(next) = u32::try_from(ring.next) {
                    let of = ring.of.map(|tail| tail.comm);
                    hop(of, GraphHop::Ring, (ring.rank, next), ring.ring);
                }
            }
            GraphMessage::Trees(trees) => {
                let of = trees.of.map(|tail| tail.comm);
                for tree in trees.iter() {
                    if let Some(parent) = tree.parent {
                        hop(of, GraphHop::Tree, (tree.rank, parent), tree.index);
                    }
                }
            }
            GraphMessage::Tree(tree) => {
                if let Some(parent) = tree.parent {
                    hop(None, GraphHop::Tree, (tree.rank, parent), tree.index);
                }
            }
            _ => {}
        }
    }

    fn add_path(
        &mut self,
        thread: SpeakerThread,
        of: Option<u64>,
        way: ConnectionPath,
        channel: (u32, u32),
        line: u64,
    ) {
        let process = thread.process;
        let channels = ConnectionChannels::from([channel]);
        let (whose, late) = match of {
            Some(comm) => (ChunkOwner::Address(comm), None),
            None => self.threads.find_owner(thread),
        };
        let inits = self.inits.get(&process).map_or(0, Vec::len);
        let claim = OwnerClaim {
            owner: whose,
            inits: u32::try_from(inits).unwrap_or(u32::MAX),
            late,
        };
        if matches!(whose, ChunkOwner::Address(_) | ChunkOwner::Init(_)) {
            return self.add_link(process, claim, way, channels, line);
        }
        self.end_wait_by_call(thread);
        match self.waiting.entry(thread).or_default().pending_mut() {
            Some(held) => held.add_channels(claim, way, channels, line),
            None => self.add_link(process, claim, way, channels, line),
        }
    }

    fn add_link(
        &mut self,
        process: u32,
        claim: OwnerClaim,
        way: ConnectionPath,
        channels: ConnectionChannels,
        line: u64,
    ) {
        let link = ConnectionLines {
            process,
            claim,
            way,
        };
        let known = self.links.entry(link);
        let known = known.or_insert_with(|| (ConnectionChannels::new(), line));
        merge_channels(known, channels, line);
    }

    /// Ends the chunk.
    pub(super) fn end_chunk(&mut self) {
        let called: BTreeSet<SpeakerThread> =
            self.threads.last_whole_calls().map(|call| call.0).collect();
        for thread in called {
            self.end_wait_by_call(thread);
        }
    }

    /// Frees a thread's pending connections if it has called since they began to wait.
    fn end_wait_by_call(&mut self, thread: SpeakerThread) {
        let called = self.threads.last_call_time(thread);
        let waiting = self.waiting.entry(thread).or_default();
        if let Some(mut held) = waiting.end_by_call(called) {
            self.free_waiting(thread, &mut held, InitWaitEvent::Other);
        }
    }

    /// Assigns pending connections to the communicator that is named now, if one is and it fits.
    fn free_waiting(
        &mut self,
        thread: SpeakerThread,
        held: &mut PendingConnections<OwnerClaim, u64>,
        event: InitWaitEvent,
    ) {
        for (claim, way, channels, line) in held.take_all() {
            let claim = match event {
                InitWaitEvent::Complete(named)
                    if way.can_be_printed_by(named.rank, named.nranks) =>
                {
                    OwnerClaim::of_owner(ChunkOwner::Init(named))
                }
                _ => claim,
            };
            self.add_link(thread.process, claim, way, channels, line);
        }
    }

    fn add_init_line(&mut self, thread: SpeakerThread, line: &init::InitLine<'_>, at: u64) {
        let process = thread.process;
        let named = InitLineComm::from_init(&line.init, at);
        let inits = self.inits.entry(process).or_default();
        inits.push((line.stage, named));
        if line.init.event == init::InitEvent::Init {
            self.comms.insert((process, named));
        }
        self.end_wait_by_call(thread);
        // Versions that print ids print a START too.
        let names = line.stage == InitStage::InitComplete
            && line.init.comm_id.is_none()
            && !self.threads.is_begun(thread);
        let event = match names {
            true => InitWaitEvent::Complete(named),
            false => InitWaitEvent::Other,
        };
        match line.stage {
            InitStage::InitStart => self.threads.begin_init(thread, named),
            _ => self.threads.end_init(thread),
        }
        let now = self.threads.count_line();
        let mut held = self
            .waiting
            .entry(thread)
            .or_default()
            .end_by_init_line(event, now);
        self.free_waiting(thread, &mut held, event);
    }
}

impl LogVisitor for NetPartial {
    const MESSAGES: bool = true;

    #[inline(always)]
    fn call(&mut self, call: &LogCall<'_>) {
        self.threads.add_call(call.member, call.process, call.tid);
    }

    fn slot(&mut self) {
        self.threads.add_slot();
    }

    // Which of two names of a process printed a line first is not used (`NetStage::settle_owners`).
    fn unify_processes(&mut self, _first: &[u32]) {}

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        self.threads.add_torn_calls(calls);
    }

    fn message(&mut self, said: &MessageLine<'_>) {
        let (process, line) = (said.process, said.line);
        let thread = SpeakerThread::new(process, said.tid);
        self.sockets.take_message(said);
        match &said.message {
            NcclMessage::Plain(..) => self.coverage.known += 1,
            _ => self.coverage.read += 1,
        }
        match &said.message {
            NcclMessage::Connection(c) => return self.add_connection(thread, c, line),
            NcclMessage::Graph(GraphMessage::Trees(_) | GraphMessage::Ring(_)) => {
                self.end_wait_by_call(thread);
                let now = self.threads.count_line();
                self.waiting.entry(thread).or_default().begin_init(now);
            }
            NcclMessage::Tuning(TuningMessage::Choice(choice)) => {
                self.tuned = true;
                if matches!(choice.algorithm, Algorithm::Nvls | Algorithm::NvlsTree) {
                    let used = (process, choice.algorithm);
                    self.nvls.entry(used).or_insert(line);
                }
                return;
            }
            NcclMessage::Init(init) => self.add_init_line(thread, init, said.at),
            _ => {}
        }
        if let NcclMessage::Graph(graph) = &said.message {
            self.add_hops(thread, graph, line);
        }
        collect_facts(&said.message, |fact| self.add_fact(process, fact, line));
    }
}
