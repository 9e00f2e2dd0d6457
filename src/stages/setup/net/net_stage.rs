//! Facts and connections of all inputs.

use super::connection::{ConnectionChannels, ConnectionPath, ConnectionTransport, merge_channels};
use super::fact::{NetFact, NetFactKind};
use super::fold::{NetComm, NetLineCoverage, NetPartial};
use super::lifetimes::InitMoment;
use super::owner::OwnerClaim;
use super::pending_connections::{self, InitWaitEvent, PendingConnections, ThreadPending};
use super::sockets::SocketLines;
use super::thread_states::{ConnectionOwner, NetChunkContext, ThreadStates};
use crate::log::MergedChunk;
use crate::members::{Interner, MergedMembers, MergedNumbers};
pub(crate) use crate::stages::setup::first_line::FirstReportLine;
use crate::stages::setup::thread::SpeakerThread;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Facts and connections, by merged process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct NetStage {
    /// The facts, in the order they came.
    pub facts: Interner<NetFact>,
    /// The first line of each fact, by fact and process.
    pub said: BTreeMap<(u32, u32), FirstReportLine>,
    /// Connections, with their possible owners.
    pub links:
        BTreeMap<(u32, ConnectionOwner, ConnectionPath), (ConnectionChannels, FirstReportLine)>,
    /// Hops of rings and trees, with their possible owners.
    pub hops:
        BTreeMap<(u32, ConnectionOwner, ConnectionPath), (ConnectionChannels, FirstReportLine)>,
    /// Communicators by process.
    pub comms: BTreeSet<(u32, NetComm)>,
    states: ThreadStates,
    /// Interfaces, and connections that are tried again.
    pub(crate) sockets: SocketLines<FirstReportLine>,
    /// The log has TUNING lines.
    pub tuned: bool,
    /// Counts of parsed lines.
    pub coverage: NetLineCoverage,
    /// The names of the inputs that were begun.
    pub(super) inputs: Vec<String>,
    waiting: FxHashMap<SpeakerThread, OpenThreadConnections>,
}

/// Pending connections of a thread at the end of the chunks added.
#[derive(Debug, Default, Serialize, Deserialize)]
struct OpenThreadConnections {
    state: pending_connections::InitThreadState,
    held: PendingConnections<ConnectionOwner, FirstReportLine>,
}

impl NetStage {
    /// Adds a chunk that follows what was added before.
    pub fn add_chunk(&mut self, part: MergedChunk<'_, NetPartial>) {
        let MergedChunk {
            mut visit,
            to,
            line: before,
            merged,
            ..
        } = part;
        visit.end_chunk();
        let NetPartial {
            facts,
            links,
            threads,
            comms,
            tuned,
            coverage,
            nvls,
            waiting,
            inits,
            sockets,
        } = visit;
        let known = NetChunkContext {
            input: self.current_input(),
            merged,
            to,
            threads: &threads,
        };
        let input = known.input;
        let first = |line| FirstReportLine {
            input,
            line: before + line,
        };
        self.sockets.add_chunk(sockets, to, first);
        self.tuned |= tuned;
        self.coverage.read += coverage.read;
        self.coverage.known += coverage.known;
        let used = nvls.into_iter().map(|((process, algorithm), line)| {
            let fact = NetFact::new(NetFactKind::Nvls, "used", algorithm.name());
            ((process, fact), line)
        });
        for ((process, fact), line) in facts.into_iter().chain(used) {
            let key = (to.processes[process as usize], self.facts.intern(fact));
            add_first_line(&mut self.said, key, first(line));
        }
        for (process, named) in comms {
            let process = to.processes[process as usize];
            self.comms
                .insert((process, NetComm::from_init_line(&named, process, merged)));
        }
        let mut found = Vec::with_capacity(links.len());
        for (link, (channels, line)) in links {
            let process = to.processes[link.process as usize];
            let owner = self
                .states
                .resolve_owner(process, link.claim, &link.way, &known);
            found.push(((process, owner, link.way), channels, first(line)));
        }
        for (key, channels, first) in found {
            self.add_link(key, channels, first);
        }
        for (thread, of) in waiting {
            self.join_thread(thread.renumber(to), of, &known, first);
        }
        self.states.keep_chunk(&known);
        for (process, inits) in inits {
            let process = to.processes[process as usize];
            for (stage, named) in inits {
                let comm = NetComm::from_init_line(&named, process, merged);
                self.states
                    .lives
                    .add_init_line(process, input, stage, named.event, comm);
            }
        }
    }

    /// Adds later inputs that were read elsewhere; `to` has the numbers of their processes here. All lines
    /// of a thread that belong together are in inputs read together.
    pub fn merge(&mut self, other: NetStage, to: &MergedNumbers) {
        let before = u32::try_from(self.inputs.len()).unwrap_or(u32::MAX);
        let here = |process: u32| to.processes[process as usize];
        let placed = |first: FirstReportLine| first.shift_inputs(before);
        let owned = |owner: ConnectionOwner| match owner {
            ConnectionOwner::Unknown(moment) => {
                ConnectionOwner::Unknown(moment.shift_inputs(before))
            }
            owner => owner,
        };
        let facts = other.facts.items().iter().cloned();
        let facts: Vec<u32> = facts.map(|fact| self.facts.intern(fact)).collect();
        for ((process, fact), first) in other.said {
            let key = (here(process), facts[fact as usize]);
            add_first_line(&mut self.said, key, placed(first));
        }
        for ((process, owner, way), (channels, first)) in other.links.into_iter().chain(other.hops)
        {
            self.add_link((here(process), owned(owner), way), channels, placed(first));
        }
        let comms = other.comms.into_iter();
        self.comms
            .extend(comms.map(|(process, comm)| (here(process), comm)));
        self.states.merge(other.states, to, before);
        self.sockets.merge(other.sockets, to, before);
        self.tuned |= other.tuned;
        self.coverage.read += other.coverage.read;
        self.coverage.known += other.coverage.known;
        self.inputs.extend(other.inputs);
        for (of, mut open) in other.waiting {
            let of = of.renumber(to);
            self.free_waiting(of, InitWaitEvent::Other, None);
            self.waiting.entry(of).or_default().state = open.state;
            for (owner, way, channels, first) in open.held.take_all() {
                self.add_waiting(of, owned(owner), way, channels, placed(first));
            }
        }
    }

    /// Joins a thread's lines of a chunk to its pending connections; the last ones stay pending.
    fn join_thread(
        &mut self,
        thread: SpeakerThread,
        mut said: ThreadPending<OwnerClaim>,
        known: &NetChunkContext<'_>,
        first: impl Fn(u64) -> FirstReportLine,
    ) {
        let wait = |all: &mut Self, held: &mut PendingConnections<OwnerClaim, u64>| {
            for (claim, way, channels, line) in held.take_all() {
                let owner = all.states.resolve_owner(thread.process, claim, &way, known);
                all.add_waiting(thread, owner, way, channels, first(line));
            }
        };
        wait(self, &mut said.lead);
        if let Some(event) = said.first {
            self.free_waiting(thread, event, Some(known.merged));
        }
        if let Some(state) = said.state {
            self.waiting.entry(thread).or_default().state = state;
        }
        wait(self, &mut said.open);
    }

    /// Keeps a connection pending until its thread's next INIT line, unless the thread calls first.
    fn add_waiting(
        &mut self,
        thread: SpeakerThread,
        owner: ConnectionOwner,
        way: ConnectionPath,
        channels: ConnectionChannels,
        first: FirstReportLine,
    ) {
        let open = self.waiting.entry(thread).or_default();
        match open.state {
            pending_connections::InitThreadState::Waits => {
                open.held.add_channels(owner, way, channels, first);
            }
            pending_connections::InitThreadState::Calls => {
                self.add_link((thread.process, owner, way), channels, first);
            }
        }
    }

    /// Assigns pending connections to the communicator that is named now, if one is and it fits.
    fn free_waiting(
        &mut self,
        thread: SpeakerThread,
        event: InitWaitEvent,
        merged: Option<&MergedMembers>,
    ) {
        let Some(open) = self.waiting.get_mut(&thread) else {
            return;
        };
        for (owner, way, channels, first) in open.held.take_all() {
            let owner = match (event, merged) {
                (InitWaitEvent::Complete(named), Some(merged))
                    if way.can_be_printed_by(named.rank, named.nranks) =>
                {
                    ConnectionOwner::Comm(NetComm::from_init_line(&named, thread.process, merged))
                }
                _ => owner,
            };
            self.add_link((thread.process, owner, way), channels, first);
        }
    }

    fn add_link(
        &mut self,
        key: (u32, ConnectionOwner, ConnectionPath),
        channels: ConnectionChannels,
        first: FirstReportLine,
    ) {
        let all = match key.2.via {
            ConnectionTransport::Hop(_) => &mut self.hops,
            _ => &mut self.links,
        };
        let known = all.entry(key).or_insert((ConnectionChannels::new(), first));
        merge_channels(known, channels, first);
    }

    /// Begins input `number`; an earlier input of that number could not be read.
    pub(crate) fn begin_numbered_input(&mut self, number: usize, name: String) {
        self.inputs.truncate(number);
        self.inputs.push(name);
    }

    /// Returns the number of the current input.
    pub(crate) fn current_input(&self) -> u32 {
        u32::try_from(self.inputs.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Decides owners that need the whole log: a connection without an owner belongs to the only
    /// communicator of its process that it fits and that may have lived then. `aliases` has the real number
    /// of each process.
    pub fn settle_owners(&mut self, aliases: &[u32]) {
        let waiting: Vec<SpeakerThread> = self.waiting.keys().copied().collect();
        for thread in waiting {
            self.free_waiting(thread, InitWaitEvent::Other, None);
        }
        let real = |process: u32| aliases.get(process as usize).copied().unwrap_or(process);
        self.sockets.resolve_aliases(aliases);
        for ((process, fact), first) in std::mem::take(&mut self.said) {
            add_first_line(&mut self.said, (real(process), fact), first);
        }
        let comms = std::mem::take(&mut self.comms);
        self.comms = comms.into_iter().map(|(p, comm)| (real(p), comm)).collect();
        let mut of: FxHashMap<u32, Vec<NetComm>> = FxHashMap::default();
        for &(process, comm) in &self.comms {
            of.entry(process).or_default().push(comm);
        }
        // If a process has two names, the order of their lines is unknown.
        let glued: BTreeSet<u32> = (0..)
            .zip(aliases)
            .filter(|(p, real)| p != *real)
            .map(|(_, &real)| real)
            .collect();
        let links = std::mem::take(&mut self.links).into_iter();
        let hops = std::mem::take(&mut self.hops);
        for ((process, owner, way), (channels, first)) in links.chain(hops) {
            let process = real(process);
            let comms = of.get(&process).into_iter().flatten();
            let mut fit = comms.filter(|comm| match owner {
                ConnectionOwner::Address(at) => comm.comm == at && comm.fits_path(&way),
                ConnectionOwner::Comm(_) => false,
                ConnectionOwner::Unknown(at) => {
                    let lived = glued.contains(&process)
                        || self.states.lives.may_live_at(process, comm, at);
                    comm.fits_path(&way) && lived
                }
            });
            let owner = match (owner, fit.next(), fit.next()) {
                (ConnectionOwner::Comm(comm), ..) | (_, Some(&comm), None) => {
                    ConnectionOwner::Comm(comm)
                }
                (ConnectionOwner::Unknown(_), ..) => {
                    ConnectionOwner::Unknown(InitMoment::default())
                }
                (owner, ..) => owner,
            };
            self.add_link((process, owner, way), channels, first);
        }
        // They are for lines to come.
        self.states = ThreadStates::default();
    }
}

/// Keeps the first line of a fact of a process.
fn add_first_line(
    said: &mut BTreeMap<(u32, u32), FirstReportLine>,
    key: (u32, u32),
    first: FirstReportLine,
) {
    let known = said.entry(key).or_insert(first);
    *known = first.min(*known);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::net::hops::{self, HopGraph};
    use crate::stages::net::{NetSummary, pairs, table};
    use crate::stages::pieces::{made, walk};
    use crate::testing::sent;
    use proptest::prelude::*;

    #[test]
    fn pieces_of_any_size_give_the_same_rows() {
        for nccl in ["2.28", "2.16", "rccl-2.22"] {
            let log = made(nccl);
            let rows = |size: usize| {
                let mut all = NetStage::default();
                let merged = walk(&log, size, NetPartial::default, |part| {
                    all.add_chunk(part);
                    // Another machine may go on.
                    if size == 40_000 {
                        all = sent(&all);
                    }
                });
                let net = NetSummary::from_stage(all, &merged);
                let mut dot = Vec::new();
                pairs::write_dot(&net, &mut dot).unwrap();
                let hosts = table::Options { hosts: true };
                let job = table::Options { hosts: false };
                let tables = (
                    table::build_net_grid(&net, &job),
                    table::build_net_grid(&net, &hosts),
                );
                let hops = [HopGraph::Rings, HopGraph::Trees]
                    .map(|graph| hops::build_hop_grid(&net, graph));
                (tables, pairs::build_pair_grid(&net), hops, dot)
            };
            let whole = rows(log.len());
            assert!(whole.1.rows.len() > 20);
            for size in [1, 500, 3000, 40_000] {
                assert_eq!(rows(size), whole, "{nccl} {size}");
            }
        }
    }

    proptest! {
        /// A ring does not name its communicator: that follows from the lines before it.
        #[test]
        fn pieces_of_a_log_with_two_communicators_give_the_same_rings(
            lines in proptest::collection::vec((0..6_u8, 0..2_u64), 1..25),
            size in 1..800_usize,
        ) {
            let line = |&(kind, thread): &(u8, u64)| {
                let (comm, place) = match kind % 2 {
                    0 => ("0x259c", "rank 0 nranks 2"),
                    _ => ("0x1de1", "rank 2 nranks 4"),
                };
                let message = match kind {
                    0 | 1 => format!(
                        "ncclCommInitRankConfig comm {comm} {place} cudaDev 0 nvmlDev 0 busId 60 \
                         commId {comm}77 - Init START"
                    ),
                    2 | 3 => format!(
                        "AllGather: opCount 0 sendbuff 0x7fd9 recvbuff 0x7fda count 40 datatype 7 \
                         op 0 root 0 comm {comm} [nranks={}] stream (nil)",
                        2 + 2 * (kind % 2)
                    ),
                    4 => "Channel 00/02 : 0 1".to_owned(),
                    _ => "Channel 00/02 : 0 1 2 3".to_owned(),
                };
                format!("vm:2420:{} [0] NCCL INFO {message}\n", 2420 + thread)
            };
            let log: String = lines.iter().map(line).collect();
            let rows = |size: usize| {
                let mut all = NetStage::default();
                let merged = walk(log.as_bytes(), size, NetPartial::default, |part| {
                    all.add_chunk(part);
                });
                let net = NetSummary::from_stage(all, &merged);
                hops::build_hop_grid(&net, HopGraph::Rings)
            };
            prop_assert_eq!(rows(size), rows(log.len()));
        }
    }
}
