//! Resolves owners of connections at the merge: it knows the state of threads before a chunk.

use super::connection::ConnectionPath;
use super::fold::NetComm;
use super::net_stage::{ConnectionOwner, NetStage};
use super::owner::{ChunkOwner, OwnerClaim, ThreadActivity, TornSlotRange};
use crate::members::{CommIdentity, MergedMembers, MergedNumbers};
use crate::stages::setup::thread::SpeakerThread;

/// The chunk that is added.
pub(super) struct NetChunkContext<'a> {
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

impl NetStage {
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
            _ => ConnectionOwner::Unknown(self.lives.moment(
                process,
                self.current_input(),
                claim.inits,
            )),
        }
    }
}
