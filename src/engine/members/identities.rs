//! The meanings of addresses: the rank and communicator that an address of a process names.

use super::comm_id::CommId;
use super::speakers::SpeakerComm;
use super::{CommIdentity, MergedMembers};
use crate::grammar::message::communicator::init::{CommInit, InitEvent};

impl MergedMembers {
    /// Gives an address another meaning from a position of the present chunk on.
    pub(super) fn set_meaning(&mut self, key: (u32, u64), identity: u32, at: u64) {
        let before = self.current.insert(key, identity).unwrap_or(0);
        let meanings = self.recent.entry(key).or_insert_with(|| vec![(0, before)]);
        meanings.push((at, identity));
    }

    /// Notes a meaning of an address, which is its only one unless it has another.
    pub(super) fn add_sole_meaning(&mut self, key: (u32, u64), identity: u32) {
        let sole = self.sole.entry(key).or_insert(identity);
        *sole = if *sole == identity { identity } else { 0 };
    }

    /// Returns the meaning of an address at a position of the chunk added last.
    fn meaning_at(&self, key: (u32, u64), at: u64) -> u32 {
        match self.recent.get(&key) {
            Some(list) => list.iter().rfind(|m| m.0 <= at).map_or(0, |m| m.1),
            None => self.current.get(&key).copied().unwrap_or(0),
        }
    }

    /// Returns the identity of a process's address at a position of the chunk added last.
    pub fn identity_at(&self, process: u32, comm: u64, at: u64) -> Option<CommIdentity> {
        let index = self.meaning_at((process, comm), at).checked_sub(1)?;
        Some(*self.identities.get(index))
    }

    /// Returns the identity of a member, if it is known.
    pub fn identity_of(&self, member: &SpeakerComm) -> Option<CommIdentity> {
        let index = member.identity.checked_sub(1)?;
        Some(*self.identities.get(index))
    }

    /// Returns the identity of a member if its process really is `real`.
    pub fn identity_as(&self, member: &SpeakerComm, real: u32) -> Option<CommIdentity> {
        let process = self.origins.places.get(member.place).process;
        self.identity_of(member)
            .or_else(|| self.sole_identity(process, real, member.comm))
    }

    /// Returns the only identity of `comm` in the process `real`, if `process` is another name of it (one
    /// that begins with bytes of another line, wherever its lines are). A call before the process was
    /// known comes before its INIT lines.
    pub fn sole_identity(&self, process: u32, real: u32, comm: u64) -> Option<CommIdentity> {
        let is_other = process != real && self.origins.clean.get(process as usize) == Some(&true);
        let index = self
            .sole
            .get(&(real, comm))
            .filter(|_| is_other)?
            .checked_sub(1)?;
        Some(*self.identities.get(index))
    }

    /// Returns the meaning that an INIT line gives its address; `own` is the meaning before, and `parent`
    /// that of the address that it was split from.
    pub(super) fn merge_identity(
        &mut self,
        process: u32,
        init: &CommInit,
        own: Option<u32>,
        parent: Option<u32>,
    ) -> u32 {
        if init.event == InitEvent::End {
            return 0;
        }
        let CommInit { rank, nranks, .. } = *init;
        let comm_id = match init.comm_id {
            Some(id) => Some(CommId::from_printed(id)),
            None => self.derive_split_id(process, init, own, parent),
        };
        self.identities.intern(CommIdentity {
            rank,
            nranks,
            comm_id,
        }) + 1
    }

    /// Returns the id of a split for which NCCL prints none.
    fn derive_split_id(
        &mut self,
        process: u32,
        init: &CommInit,
        own: Option<u32>,
        parent: Option<u32>,
    ) -> Option<CommId> {
        let id_of = |merged: &Self, index: Option<u32>| {
            let index = index?.checked_sub(1)?;
            merged.identities.get(index).comm_id
        };
        let split = init.split?;
        let color = split.color?;
        let parent = id_of(self, parent)?;
        if let Some(child) = split.child {
            return parent.split_child(child, color);
        }
        // Before 2.24 splits have no numbers: this is one more of its color, or the one that began.
        let begun = id_of(self, own).filter(|id| id.split_parent() == Some((parent, color)));
        if begun.is_some() && !init.start {
            return begun;
        }
        let children = self.children.entry((process, parent, color)).or_default();
        let child = *children;
        *children = child.saturating_add(1);
        parent.split_child(child, color)
    }

    /// Notes that a process uses an address.
    pub fn add_address_use(&mut self, process: u32, comm: u64) {
        let users = self.users.entry(comm).or_default();
        // Until processes share an address, all users of one have one number. A host's name may have bytes glued to it.
        let known = users.iter().next().copied();
        if users.insert(process) {
            let pid = |process: u32| self.origins.processes.get(process).pid;
            self.shares |= known.is_some_and(|user| pid(user) != pid(process));
            self.using.insert(process);
        }
    }

    /// Returns the processes that are known to use the address `comm`.
    pub fn users_of_address(&self, comm: u64) -> impl Iterator<Item = u32> {
        self.users.get(&comm).into_iter().flatten().copied()
    }

    /// Returns true if a process is known to use the address `comm`.
    pub fn is_user(&self, process: u32, comm: u64) -> bool {
        let users = self.users.get(&comm);
        users.is_some_and(|users| users.contains(&process))
    }

    /// Returns true if a process is known to use some address.
    pub fn uses_any_address(&self, process: u32) -> bool {
        self.using.contains(&process)
    }

    /// Returns true if a process owns only addresses that it is known to use: INIT lines introduced all
    /// of them, or no two processes have equal addresses.
    pub fn knows_addresses(&self, process: u32) -> bool {
        let introduced = self.introduced.contains(&process);
        !self.shares || (introduced && !self.strange.contains(&process))
    }
}
