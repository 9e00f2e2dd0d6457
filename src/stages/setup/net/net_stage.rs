//! Facts and connections of all inputs.

use super::connection::{ConnectionChannels, ConnectionPath, ConnectionTransport};
use super::fact::{NetFact, NetFactKind};
use super::fold::{NetComm, NetLineCoverage, NetPartial};
use super::lifetimes::{CommLifetimes, InitMoment};
use super::owner::OwnerClaim;
use super::owner::{ChunkOwner, NetThread, ThreadActivity, TornSlotRange};
use super::pending_connections::{self, InitWaitEvent, PendingConnections, ThreadPending};
use crate::log::MergedChunk;
use crate::members::{CommIdentity, Interner, MergedMembers, MergedNumbers};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The first line that reports something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FirstReportLine {
    /// The input's number.
    pub input: u32,
    /// The line, from 0.
    pub line: u64,
}

impl FirstReportLine {
    /// Renumbers the input if `inputs` others come before.
    pub(crate) fn shift_inputs(self, inputs: u32) -> FirstReportLine {
        FirstReportLine {
            input: self.input.saturating_add(inputs),
            ..self
        }
    }
}

/// Facts and connections, by merged process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct NetStage {
    /// The facts, in the order they came.
    pub facts: Interner<NetFact>,
    /// The first line of each fact, by fact and process.
    pub said: FxHashMap<(u32, u32), FirstReportLine>,
    /// Connections, with their possible owners.
    pub links:
        FxHashMap<(u32, ConnectionOwner, ConnectionPath), (ConnectionChannels, FirstReportLine)>,
    /// Hops of rings and trees, with their possible owners.
    pub hops:
        FxHashMap<(u32, ConnectionOwner, ConnectionPath), (ConnectionChannels, FirstReportLine)>,
    /// Communicators by process.
    pub comms: BTreeSet<(u32, NetComm)>,
    lives: CommLifetimes,
    /// The log has TUNING lines.
    pub tuned: bool,
    /// Counts of parsed lines.
    pub coverage: NetLineCoverage,
    /// The names of the inputs that were begun.
    pub(super) inputs: Vec<String>,
    // State of threads at the end of the chunk added last.
    calls: FxHashMap<NetThread, u32>,
    last: FxHashMap<u32, u32>,
    inits: FxHashMap<NetThread, NetComm>,
    waiting: FxHashMap<NetThread, OpenThreadConnections>,
}

/// Pending connections of a thread at the end of the chunks added.
#[derive(Debug, Default, Serialize, Deserialize)]
struct OpenThreadConnections {
    state: pending_connections::InitThreadState,
    held: PendingConnections<ConnectionOwner, FirstReportLine>,
}

/// The chunk that is added.
struct NetChunkContext<'a> {
    merged: &'a MergedMembers,
    to: &'a MergedNumbers,
    threads: &'a ThreadActivity,
}

impl NetChunkContext<'_> {
    /// Finds the last torn call of a process, or of one of its threads, in a range of slots.
    fn last_torn_member(
        &self,
        process: u32,
        tid: Option<Option<u64>>,
        late: TornSlotRange,
    ) -> Option<u32> {
        let own = |(by, of): NetThread| {
            self.to.processes[by as usize] == process && tid.is_none_or(|tid| tid == of)
        };
        self.threads.last_torn(late, own)
    }
}

/// Owner of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConnectionOwner {
    /// A known communicator.
    Comm(NetComm),
    /// The communicator at an address.
    Address(u64),
    /// A communicator that lived at this moment; once all is settled, the moment is the beginning.
    Unknown(InitMoment),
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
        } = visit;
        let known = NetChunkContext {
            merged,
            to,
            threads: &threads,
        };
        let input = self.current_input();
        let first = |line| FirstReportLine {
            input,
            line: before + line,
        };
        self.tuned |= tuned;
        self.coverage.read += coverage.read;
        self.coverage.known += coverage.known;
        let used = nvls.into_iter().map(|((process, algorithm), line)| {
            let fact = NetFact::new(NetFactKind::Nvls, "used", algorithm.name());
            ((process, fact), line)
        });
        for ((process, fact), line) in facts.into_iter().chain(used) {
            let key = (to.processes[process as usize], self.facts.intern(fact));
            let first = first(line);
            let said = self.said.entry(key).or_insert(first);
            *said = first.min(*said);
        }
        for (process, named) in comms {
            let process = to.processes[process as usize];
            self.comms
                .insert((process, NetComm::from_init_line(&named, process, merged)));
        }
        let mut found = Vec::with_capacity(links.len());
        for (link, (channels, line)) in links {
            let process = to.processes[link.process as usize];
            let owner = self.resolve_owner(process, link.claim, &link.way, &known);
            found.push(((process, owner, link.way), channels, first(line)));
        }
        for (key, channels, first) in found {
            self.add_link(key, channels, first);
        }
        for ((process, tid), of) in waiting {
            let thread = (to.processes[process as usize], tid);
            self.join_thread(thread, of, &known, first);
        }
        self.keep_threads(&known);
        for (process, inits) in inits {
            let process = to.processes[process as usize];
            for (stage, named) in inits {
                let comm = NetComm::from_init_line(&named, process, merged);
                self.lives
                    .add_init_line(process, input, (stage, named.event), comm);
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
            let first = placed(first);
            let said = (here(process), facts[fact as usize]);
            let said = self.said.entry(said).or_insert(first);
            *said = first.min(*said);
        }
        for ((process, owner, way), (channels, first)) in other.links.into_iter().chain(other.hops)
        {
            self.add_link((here(process), owned(owner), way), channels, placed(first));
        }
        let comms = other.comms.into_iter();
        self.comms
            .extend(comms.map(|(process, comm)| (here(process), comm)));
        self.lives.merge(other.lives, here, before);
        self.tuned |= other.tuned;
        self.coverage.read += other.coverage.read;
        self.coverage.known += other.coverage.known;
        self.inputs.extend(other.inputs);
        let thread = |(process, tid): NetThread| (here(process), tid);
        let calls = other.calls.into_iter();
        self.calls
            .extend(calls.map(|(of, member)| (thread(of), to.members[member as usize])));
        let last = other.last.into_iter();
        self.last
            .extend(last.map(|(process, member)| (here(process), to.members[member as usize])));
        let inits = other.inits.into_iter();
        self.inits
            .extend(inits.map(|(of, comm)| (thread(of), comm)));
        for (of, mut open) in other.waiting {
            let of = thread(of);
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
        thread: NetThread,
        mut said: ThreadPending<OwnerClaim>,
        known: &NetChunkContext<'_>,
        first: impl Fn(u64) -> FirstReportLine,
    ) {
        let wait = |all: &mut Self, held: &mut PendingConnections<OwnerClaim, u64>| {
            for (claim, way, channels, line) in held.take_all() {
                let owner = all.resolve_owner(thread.0, claim, &way, known);
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
        thread: NetThread,
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
                self.add_link((thread.0, owner, way), channels, first);
            }
        }
    }

    /// Assigns pending connections to the communicator that is named now, if one is and it fits.
    fn free_waiting(
        &mut self,
        thread: NetThread,
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
                    ConnectionOwner::Comm(NetComm::from_init_line(&named, thread.0, merged))
                }
                _ => owner,
            };
            self.add_link((thread.0, owner, way), channels, first);
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
        known.0.extend(channels);
        known.1 = first.min(known.1);
    }

    /// Returns the owner of a connection of the chunk.
    fn resolve_owner(
        &self,
        process: u32,
        (whose, inits, late): OwnerClaim,
        way: &ConnectionPath,
        known: &NetChunkContext<'_>,
    ) -> ConnectionOwner {
        let of_member = |member: u32| {
            let member = known.merged.origins.members.get(member);
            let CommIdentity {
                rank,
                nranks,
                comm_id,
            } = known.merged.identity_of(member)?;
            Some(NetComm {
                comm_id,
                comm: member.comm,
                rank,
                nranks,
            })
        };
        let comm = match whose {
            ChunkOwner::Init(named) => Some(NetComm::from_init_line(&named, process, known.merged)),
            ChunkOwner::Call(member) => {
                let torn =
                    late.and_then(|late| known.last_torn_member(process, Some(late.tid), late));
                of_member(known.to.members[torn.unwrap_or(member) as usize])
            }
            ChunkOwner::Before { tid, init, call } => {
                let thread = (process, tid);
                let torn = late.and_then(|late| known.last_torn_member(process, Some(tid), late));
                let begun = self.inits.get(&thread).filter(|_| init && torn.is_none());
                begun.copied().or_else(|| {
                    let merged = |member: u32| known.to.members[member as usize];
                    let own = torn.map(merged).or(self.calls.get(&thread).copied());
                    let any = || {
                        let (member, from) = call.map_or((None, 0), |(m, from)| (Some(m), from));
                        let after = late.map(|late| TornSlotRange { from, ..late });
                        let torn =
                            after.and_then(|late| known.last_torn_member(process, None, late));
                        torn.or(member).map(merged)
                    };
                    own.or_else(any)
                        .or_else(|| self.last.get(&process).copied())
                        .and_then(of_member)
                })
            }
            ChunkOwner::Address(comm) => return ConnectionOwner::Address(comm),
        };
        match comm {
            Some(comm) if comm.fits_path(way) => ConnectionOwner::Comm(comm),
            _ => ConnectionOwner::Unknown(self.lives.moment(process, self.current_input(), inits)),
        }
    }

    /// Keeps the state of threads at the end of a chunk.
    fn keep_threads(&mut self, known: &NetChunkContext<'_>) {
        let NetChunkContext { to, threads, .. } = known;
        let mut last: FxHashMap<u32, (u64, u32)> = FxHashMap::default();
        let mut own: FxHashMap<NetThread, (u64, u32)> = FxHashMap::default();
        for ((process, tid), at, member) in threads.last_calls() {
            let process = to.processes[process as usize];
            let call = (at, to.members[member as usize]);
            let newest = last.entry(process).or_insert(call);
            *newest = call.max(*newest);
            let newest = own.entry((process, tid)).or_insert(call);
            *newest = call.max(*newest);
        }
        for &thread in own.keys() {
            self.inits.remove(&thread);
        }
        for ((process, tid), at, init) in threads.open_inits() {
            let thread = (to.processes[process as usize], tid);
            let called = own.get(&thread).map_or(0, |call| call.0);
            match init {
                Some(named) if at > called => {
                    let comm = NetComm::from_init_line(&named, thread.0, known.merged);
                    self.inits.insert(thread, comm);
                }
                _ => {
                    self.inits.remove(&thread);
                }
            }
        }
        let newest = |(key, call): (NetThread, (u64, u32))| (key, call.1);
        self.calls.extend(own.into_iter().map(newest));
        self.last
            .extend(last.into_iter().map(|(p, call)| (p, call.1)));
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
        let waiting: Vec<NetThread> = self.waiting.keys().copied().collect();
        for thread in waiting {
            self.free_waiting(thread, InitWaitEvent::Other, None);
        }
        let real = |process: u32| aliases.get(process as usize).copied().unwrap_or(process);
        for ((process, fact), first) in std::mem::take(&mut self.said) {
            let said = self.said.entry((real(process), fact)).or_insert(first);
            *said = first.min(*said);
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
                    let lived =
                        glued.contains(&process) || self.lives.may_live_at(process, comm, at);
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::net::hops::{self, HopGraph};
    use crate::stages::net::{NetSummary, pairs, table};
    use crate::stages::pieces::{made, walk};
    use crate::testing::sent;

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
}
