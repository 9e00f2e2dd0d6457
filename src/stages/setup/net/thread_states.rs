//! Threads at the end of the chunks added: the merge resolves owners of connections by their state before
//! a chunk.

use super::connection::ConnectionPath;
use super::fold::NetComm;
use super::lifetimes::{CommLifetimes, InitMoment};
use super::owner::{ChunkOwner, OwnerClaim, ThreadActivity, TornSlotRange};
use crate::members::{CommIdentity, MergedMembers, MergedNumbers};
use crate::stages::setup::thread::SpeakerThread;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// The chunk that is added.
pub(super) struct NetChunkContext<'a> {
    /// The number of its input.
    pub(super) input: u32,
    pub(super) merged: &'a MergedMembers,
    pub(super) to: &'a MergedNumbers,
    pub(super) threads: &'a ThreadActivity,
}

impl NetChunkContext<'_> {
    /// Finds the last torn call of a process, or of one of its threads, in a range of slots.
    fn last_torn_member(
        &self,
        process: u32,
        tid: Option<Option<u64>>,
        late: TornSlotRange,
    ) -> Option<u32> {
        let own = |by: SpeakerThread| {
            by.renumber(self.to).process == process && tid.is_none_or(|tid| tid == by.tid)
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

/// State of threads at the end of the chunk added last.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ThreadStates {
    /// The member of each thread's last call.
    calls: FxHashMap<SpeakerThread, u32>,
    /// The member of each process's last call.
    last: FxHashMap<u32, u32>,
    /// The communicator that a thread initialises.
    inits: FxHashMap<SpeakerThread, NetComm>,
    /// Lifetimes of communicators.
    pub(super) lives: CommLifetimes,
}

impl ThreadStates {
    /// Adds later inputs that were read elsewhere, after `before` others.
    pub(super) fn merge(&mut self, other: ThreadStates, to: &MergedNumbers, before: u32) {
        let here = |process: u32| to.processes[process as usize];
        self.lives.merge(other.lives, here, before);
        let thread = |thread: SpeakerThread| thread.renumber(to);
        let calls = other.calls.into_iter();
        self.calls
            .extend(calls.map(|(of, member)| (thread(of), to.members[member as usize])));
        let last = other.last.into_iter();
        self.last
            .extend(last.map(|(process, member)| (here(process), to.members[member as usize])));
        let inits = other.inits.into_iter();
        self.inits
            .extend(inits.map(|(of, comm)| (thread(of), comm)));
    }

    /// Keeps the state of threads at the end of a chunk.
    pub(super) fn keep_chunk(&mut self, known: &NetChunkContext<'_>) {
        let NetChunkContext { to, threads, .. } = known;
        let mut last: FxHashMap<u32, (u64, u32)> = FxHashMap::default();
        let mut own: FxHashMap<SpeakerThread, (u64, u32)> = FxHashMap::default();
        for (thread, at, member) in threads.last_calls() {
            let thread = thread.renumber(to);
            let call = (at, to.members[member as usize]);
            let newest = last.entry(thread.process).or_insert(call);
            *newest = call.max(*newest);
            let newest = own.entry(thread).or_insert(call);
            *newest = call.max(*newest);
        }
        for &thread in own.keys() {
            self.inits.remove(&thread);
        }
        for (thread, at, init) in threads.open_inits() {
            let thread = thread.renumber(to);
            let called = own.get(&thread).map_or(0, |call| call.0);
            match init {
                Some(named) if at > called => {
                    let comm = NetComm::from_init_line(&named, thread.process, known.merged);
                    self.inits.insert(thread, comm);
                }
                _ => {
                    self.inits.remove(&thread);
                }
            }
        }
        let newest = |(key, call): (SpeakerThread, (u64, u32))| (key, call.1);
        self.calls.extend(own.into_iter().map(newest));
        self.last
            .extend(last.into_iter().map(|(p, call)| (p, call.1)));
    }

    /// Returns the owner of a connection of the chunk.
    pub(super) fn resolve_owner(
        &self,
        process: u32,
        claim: OwnerClaim,
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
        let late = claim.late;
        let comm = match claim.owner {
            ChunkOwner::Init(named) => Some(NetComm::from_init_line(&named, process, known.merged)),
            ChunkOwner::Call(member) => {
                let torn =
                    late.and_then(|late| known.last_torn_member(process, Some(late.tid), late));
                of_member(known.to.members[torn.unwrap_or(member) as usize])
            }
            ChunkOwner::Before { tid, init, call } => {
                let thread = SpeakerThread::new(process, tid);
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
            _ => ConnectionOwner::Unknown(self.lives.moment(process, known.input, claim.inits)),
        }
    }
}
