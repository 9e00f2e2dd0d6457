//! Who printed a line: hosts, processes, devices and the members of communicators, interned so
//! that a call carries one small number; and so are the operations.

pub mod comm_id;
pub mod duplicate_inputs;
mod interner;
mod merge;
mod ops;
pub mod recent_interner;
mod speakers;

pub use interner::Interner;
pub use ops::OpInterner;
pub(crate) use speakers::is_glued;
pub use speakers::{SpeakerComm, SpeakerDevice, SpeakerProcess, Speakers};

use crate::grammar::message::communicator::init::{CommInit, InitEvent};
use crate::members::comm_id::CommId;
use crate::members::duplicate_inputs::{
    CallFingerprint, DuplicateInputs, EarlierInputs, InputCallsEnd,
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

/// What INIT lines report about an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommIdentity {
    /// This process's rank in the communicator.
    pub rank: u32,
    /// Its size.
    pub nranks: u32,
    /// The id all members share.
    pub comm_id: Option<CommId>,
}

/// An INIT line in a chunk.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct InitPosition {
    /// Index of the process in the chunk.
    pub process: u32,
    /// What the line says.
    pub init: CommInit,
    /// Where it is in the input.
    pub at: u64,
}

/// How a chunk's numbers read in the merged tables.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct MergedNumbers {
    /// Merged process by the chunk's.
    pub processes: Vec<u32>,
    /// Merged place by the chunk's.
    pub places: Vec<u32>,
    /// Merged member by the chunk's.
    pub members: Vec<u32>,
    /// How many INIT lines were added.
    pub inits: usize,
}

/// Of how many processes with one pid it is awaited that their names are met.
const MAX_NAMELESS_PROCESSES: usize = 64;

/// How often what is known of a process is looked up to be another's: each time takes as long as
/// much is known.
const MAX_IDENTITY_MOVES: u32 = 1 << 12;

/// Everyone met so far, with what the INIT lines said of them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct MergedMembers {
    /// The merged tables; a member's `identity` is an index into `identities` plus one.
    pub origins: Speakers,
    /// What INIT lines said.
    pub identities: Interner<CommIdentity>,
    // What an address of a process means now.
    current: FxHashMap<(u32, u64), u32>,
    // The INIT line that gave it, of the input in hand.
    given: FxHashMap<(u32, u64), CommInit>,
    /// By a communicator's id: the first process that gave it, and whether others did.
    given_by: FxHashMap<u64, (u32, bool)>,
    // What it meant before the chunk added last, and from which positions on in it.
    recent: FxHashMap<(u32, u64), Vec<(u64, u32)>>,
    // How many splits of a communicator with one color a process made, where NCCL does not say.
    children: FxHashMap<(u32, CommId, i64), u32>,
    // What an address of a process meant all along; 0 where it meant several things.
    sole: FxHashMap<(u32, u64), u32>,
    // Who uses an address.
    users: FxHashMap<u64, FxHashSet<u32>>,
    // An address is known to be used by more than one process.
    shares: bool,
    // Processes that are known to use any address.
    using: FxHashSet<u32>,
    // Processes whose addresses INIT lines introduce.
    introduced: FxHashSet<u32>,
    // Processes that use one that no whole INIT line introduced.
    strange: FxHashSet<u32>,
    // Processes whose headers were only seen with other text glued to them, by pid.
    nameless: FxHashMap<u64, Vec<u32>>,
    // The processes of the input in hand.
    here: FxHashSet<u32>,
    // How often what is known of one process was found to be another's.
    moved: u32,
    /// Processes wrote over each other's bytes: a host at the start of a line may be glued too.
    pub overwritten: bool,
    /// Which inputs have the same calls: that is known where they are read, and not sent on.
    #[serde(skip)]
    pub twice: DuplicateInputs,
}

impl MergedMembers {
    /// Nobody met yet whose calls are known, but who is who: a walk that comes after another gives
    /// the same processes the same numbers, wherever the chunks end.
    pub fn with_names_after(before: &MergedMembers) -> MergedMembers {
        let Speakers {
            processes,
            clean,
            named,
            ..
        } = &before.origins;
        MergedMembers {
            origins: Speakers {
                processes: processes.clone(),
                clean: clean.clone(),
                named: named.clone(),
                ..Speakers::default()
            },
            overwritten: before.overwritten,
            ..MergedMembers::default()
        }
    }

    /// The same where only the names are left of what was met.
    pub fn with_process_names(names: &[SpeakerProcess]) -> MergedMembers {
        let mut merged = MergedMembers::default();
        for SpeakerProcess { host, pid } in names {
            merged.origins.intern_process(host, *pid, true);
        }
        merged
    }

    /// The number of a chunk's process: this is where text that is glued to a host is taken off.
    /// All that is known of names is what comes before the process's first line in the chunk.
    fn merge_process(&mut self, chunk: &Speakers, at: u32) -> u32 {
        let process = chunk.processes.get(at);
        let clean = chunk.clean.get(at as usize).copied().unwrap_or(true);
        let Some(pid) = process.pid.filter(|_| !clean) else {
            return self.merge_named_process(process);
        };
        if let Some(real) = self.origins.find_glued_process(&process.host, pid) {
            return real;
        }
        let new = self.origins.intern_process(&process.host, Some(pid), false);
        let nameless = self.nameless.entry(pid).or_default();
        if !nameless.contains(&new) && nameless.len() < MAX_NAMELESS_PROCESSES {
            nameless.push(new);
        }
        new
    }

    /// The number of a process whose name is sure. It may have been met without knowing it.
    fn merge_named_process(&mut self, process: &SpeakerProcess) -> u32 {
        let known = self.origins.processes.find(process);
        let is_new = known.is_none_or(|known| !self.origins.is_clean(known));
        let nameless = process.pid.and_then(|pid| self.nameless.get_mut(&pid));
        let mut met = Vec::new();
        if let Some(nameless) = nameless.filter(|_| is_new) {
            let name = |at: u32| &self.origins.processes.get(at).host;
            met = nameless
                .extract_if(.., |at| is_glued(name(*at), &process.host))
                .collect();
        }
        if let (Some(&first), None) = (met.first(), known) {
            self.origins.processes.rename(first, process.clone());
        }
        let at = self
            .origins
            .intern_process(&process.host, process.pid, true);
        for other in met {
            if other != at && self.moved < MAX_IDENTITY_MOVES {
                self.moved += 1;
                self.move_identity(other, at);
            }
        }
        at
    }

    /// What is known of a process is another's, whose name was met later.
    fn move_identity(&mut self, process: u32, real: u32) {
        let of = |of: &FxHashMap<(u32, u64), u32>| -> Vec<(u64, u32)> {
            let own = of.iter().filter(|((of, _), _)| *of == process);
            own.map(|((_, comm), &meaning)| (*comm, meaning)).collect()
        };
        for (comm, meaning) in of(&self.current) {
            self.current.entry((real, comm)).or_insert(meaning);
        }
        for (comm, meaning) in of(&self.sole) {
            let sole = self.sole.entry((real, comm)).or_insert(meaning);
            *sole = if *sole == meaning { meaning } else { 0 };
        }
        for users in self.users.values_mut() {
            if users.contains(&process) {
                users.insert(real);
            }
        }
        for of in [&mut self.using, &mut self.introduced, &mut self.strange] {
            if of.contains(&process) {
                of.insert(real);
            }
        }
    }

    /// Adds a whole chunk that follows what was added before.
    pub fn add_chunk(&mut self, chunk: &Speakers, inits: &[InitPosition]) -> MergedNumbers {
        let mut to = self.begin_chunk();
        self.add_chunk_until(u64::MAX, &mut to, chunk, inits);
        to
    }

    /// Begins to add a chunk that follows what was added before.
    pub fn begin_chunk(&mut self) -> MergedNumbers {
        self.recent.clear();
        MergedNumbers::default()
    }

    /// Adds what comes before `until` in the chunk, in its order: so what is known at a place does
    /// not depend on where chunks end.
    pub fn add_chunk_until(
        &mut self,
        until: u64,
        to: &mut MergedNumbers,
        chunk: &Speakers,
        inits: &[InitPosition],
    ) {
        loop {
            let process = to.processes.len();
            let met_at = (process < chunk.processes.items().len())
                .then(|| chunk.met_at.get(process).copied().unwrap_or(0));
            let member = chunk.members.items().get(to.members.len());
            let called_at = chunk
                .first_at
                .get(to.members.len())
                .filter(|&&at| at < until);
            let init = inits.get(to.inits).filter(|init| init.at < until);
            let (called, given) = (called_at.copied(), init.map(|init| init.at));
            // A name is known from the beginning of its line.
            let first = called.into_iter().chain(given).min().unwrap_or(until);
            if let Some(met_at) = met_at
                && met_at <= first
            {
                let process = self.merge_process(chunk, process as u32);
                to.processes.push(process);
                self.here.insert(process);
                self.add_process_devices(chunk, to);
            } else if let (Some(init), true) = (init, given == Some(first)) {
                to.inits += 1;
                self.add_init(to.processes[init.process as usize], init);
            } else if let (Some(member), Some(at)) = (member, called) {
                self.add_first_call(member, at, chunk, to);
            } else {
                return;
            }
        }
    }

    /// Adds the places of the processes that were added.
    fn add_process_devices(&mut self, chunk: &Speakers, to: &mut MergedNumbers) {
        while let Some(place) = chunk.places.items().get(to.places.len())
            && let Some(&process) = to.processes.get(place.process as usize)
        {
            to.places
                .push(self.origins.intern_device(process, place.dev));
        }
    }

    /// Adds an INIT line.
    fn add_init(&mut self, process: u32, at: &InitPosition) {
        let InitPosition { init, at, .. } = at;
        let key = (process, init.comm);
        self.add_address_use(process, init.comm);
        self.introduced.insert(process);
        if let Some(id) = init.comm_id {
            let users = self.given_by.entry(id).or_insert((process, false));
            users.1 |= users.0 != process;
        }
        let shared =
            |id: Option<u64>| id.is_some_and(|id| self.given_by.get(&id).is_some_and(|u| u.1));
        let same = |given: &CommInit| {
            // All members begin before one is complete: the id that others have too is right.
            given.is_same_life(init) || given.completes(init) && shared(given.comm_id)
        };
        if self.given.get(&key).is_some_and(same) {
            return;
        }
        self.given.insert(key, *init);
        let means = |comm: u64| self.current.get(&(process, comm)).copied();
        let parent = init.split.and_then(|split| means(split.parent));
        let identity = self.merge_identity(process, init, means(init.comm), parent);
        if identity > 0 {
            let sole = self.sole.entry(key).or_insert(identity);
            *sole = if *sole == identity { identity } else { 0 };
        }
        self.set_meaning(key, identity, *at);
        self.twice.add_init(process, init, *at);
    }

    /// An address means something else from a position of the chunk in hand on.
    fn set_meaning(&mut self, key: (u32, u64), identity: u32, at: u64) {
        let before = self.current.insert(key, identity).unwrap_or(0);
        let meanings = self.recent.entry(key).or_insert_with(|| vec![(0, before)]);
        meanings.push((at, identity));
    }

    /// Adds a chunk's member where it makes its first call.
    fn add_first_call(
        &mut self,
        member: &SpeakerComm,
        at: u64,
        chunk: &Speakers,
        to: &mut MergedNumbers,
    ) {
        let print = chunk.prints.get(to.members.len()).copied();
        let place = to.places[member.place as usize];
        let number = self.merge_joined_member(place, member.comm, member.nranks, at);
        let process = self.origins.places.get(place).process;
        self.twice
            .add_call(number, process, at, print.unwrap_or_default());
        to.members.push(number);
    }

    /// What an address meant at a position of the chunk added last.
    fn meaning_at(&self, key: (u32, u64), at: u64) -> u32 {
        match self.recent.get(&key) {
            Some(list) => list.iter().rfind(|m| m.0 <= at).map_or(0, |m| m.1),
            None => self.current.get(&key).copied().unwrap_or(0),
        }
    }

    /// A call by its place, at a position of the chunk in hand: the number of its member.
    pub fn merge_joined_member(
        &mut self,
        place: u32,
        comm: u64,
        nranks: Option<u32>,
        at: u64,
    ) -> u32 {
        let process = self.origins.places.get(place).process;
        let identity = self.current.get(&(process, comm)).copied().unwrap_or(0);
        self.add_address_use(process, comm);
        if identity == 0 {
            self.strange.insert(process);
        }
        let member = SpeakerComm {
            place,
            comm,
            nranks,
            identity,
        };
        self.origins
            .intern_member(member, at, CallFingerprint::default)
    }

    /// A call whose line, `text`, had to be joined; `member` is who made it.
    pub fn add_joined_call(&mut self, member: u32, text: &[u8], at: u64) {
        let place = self.origins.members.get(member).place;
        let process = self.origins.places.get(place).process;
        self.twice.add_call(
            member,
            process,
            at,
            duplicate_inputs::fingerprint_call_line(text),
        );
    }

    /// An INIT line that had to be joined, which is known from `at` on: it counts if nothing was
    /// known of its address.
    pub fn add_joined_init(&mut self, process: u32, init: &CommInit, at: u64) {
        let key = (process, init.comm);
        if !self.current.contains_key(&key) {
            let parent = init.split.map(|split| (process, split.parent));
            let parent = parent.map(|parent| self.current.get(&parent).copied().unwrap_or(0));
            let identity = self.merge_identity(process, init, None, parent);
            self.set_meaning(key, identity, at);
        }
        self.add_address_use(process, init.comm);
        self.strange.insert(process);
    }

    /// What is known of a process's address at a position of the chunk added last.
    pub fn identity_at(&self, process: u32, comm: u64, at: u64) -> Option<CommIdentity> {
        let index = self.meaning_at((process, comm), at).checked_sub(1)?;
        Some(*self.identities.get(index))
    }

    /// Begins the next input: what was learnt holds from its first byte.
    pub fn begin_next_input(&mut self) {
        self.given.clear();
        self.given_by.clear();
        self.here.clear();
    }

    /// How many names of the input in hand begin with bytes of another line: of two names with one
    /// pid the longer ends with the shorter, and begins as some line does.
    pub fn partial_host_names(&self) -> u64 {
        let name = |at: u32| &*self.origins.processes.get(at).host;
        let begins = |rest: &[u8]| self.here.iter().any(|&at| name(at).starts_with(rest));
        let is_ghost = |&&at: &&u32| {
            let pid = self.origins.processes.get(at).pid;
            let same = pid
                .and_then(|pid| self.origins.named.get(&pid))
                .into_iter()
                .flatten();
            let mut rests = same.filter_map(|&real| name(at).strip_suffix(name(real)));
            rests.any(|rest| !rest.is_empty() && begins(rest))
        };
        self.here.iter().filter(is_ghost).count() as u64
    }

    /// The inputs in hand are read: see [`DuplicateInputs::end_inputs`].
    pub fn end_input(
        &mut self,
        ends: impl Iterator<Item = InputCallsEnd>,
    ) -> Vec<Option<EarlierInputs>> {
        self.twice.end_inputs(self.origins.processes.items(), ends)
    }

    /// The processes that are known to use the address `comm`.
    pub fn users_of_address(&self, comm: u64) -> impl Iterator<Item = u32> {
        self.users.get(&comm).into_iter().flatten().copied()
    }

    /// True where a process is known to use the address `comm`.
    pub fn is_user(&self, process: u32, comm: u64) -> bool {
        let users = self.users.get(&comm);
        users.is_some_and(|users| users.contains(&process))
    }

    /// What is known of a member whose process really is `real`.
    pub fn identity_as(&self, member: &SpeakerComm, real: u32) -> Option<CommIdentity> {
        let process = self.origins.places.get(member.place).process;
        self.identity_of(member)
            .or_else(|| self.sole_identity(process, real, member.comm))
    }

    /// What `comm` is to the process `real`, if that is another one than `process` (a name that
    /// begins with bytes of another line, wherever its lines are) and only one thing is known of
    /// it. What was met before its process was known was met before its INIT lines.
    pub fn sole_identity(&self, process: u32, real: u32, comm: u64) -> Option<CommIdentity> {
        let is_other = process != real && self.origins.clean.get(process as usize) == Some(&true);
        let index = self
            .sole
            .get(&(real, comm))
            .filter(|_| is_other)?
            .checked_sub(1)?;
        Some(*self.identities.get(index))
    }

    /// True where a process is known to use some address.
    pub fn uses_any_address(&self, process: u32) -> bool {
        self.using.contains(&process)
    }

    /// True where an address that a process was not seen to use is not its own: INIT lines
    /// introduced all that it used, or no two processes have equal addresses.
    pub fn knows_addresses(&self, process: u32) -> bool {
        let introduced = self.introduced.contains(&process);
        !self.shares || (introduced && !self.strange.contains(&process))
    }

    /// What is known of a member.
    pub fn identity_of(&self, member: &SpeakerComm) -> Option<CommIdentity> {
        let index = member.identity.checked_sub(1)?;
        Some(*self.identities.get(index))
    }

    /// For each process the one it really is: a host with bytes of a glued line in front
    /// (`0mew0`) is the host that was seen clean with the same pid (`mew0`).
    pub fn process_aliases(&self) -> Vec<u32> {
        let processes = self.origins.processes.items();
        let real = |(at, process): (u32, &SpeakerProcess)| {
            let clean = self.origins.clean[at as usize];
            if clean && !self.overwritten {
                return at;
            }
            // A glued pointer may also have taken bytes of the host.
            let fits = |&&c: &&u32| {
                let host = &processes[c as usize].host;
                let longer = process.host.len() > host.len() && process.host.ends_with(host);
                longer || (!clean && host.ends_with(&process.host))
            };
            let candidates = process.pid.and_then(|pid| self.origins.named.get(&pid));
            let length = |c: &u32| processes[*c as usize].host.len();
            let those = candidates.into_iter().flatten().filter(fits);
            // Of glued names the shortest has nothing glued to it.
            if clean {
                those.min_by_key(|c| length(c))
            } else {
                those.max_by_key(|c| length(c))
            }
            .copied()
            .unwrap_or(at)
        };
        let first: Vec<u32> = (0_u32..).zip(processes).map(real).collect();
        // What a name looks like may itself be a host with bytes glued to it.
        first.iter().map(|&at| first[at as usize]).collect()
    }

    /// The number of what an INIT line makes of its address; `own` is what it meant before, and
    /// `parent` what the address means that it was split from.
    fn merge_identity(
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

    /// The id of a split for which NCCL prints none.
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
        // Before 2.24 nothing numbers them: it is one more of its color, or the one that began.
        let begun = id_of(self, own).filter(|id| id.split_parent() == Some((parent, color)));
        if begun.is_some() && !init.start {
            return begun;
        }
        let children = self.children.entry((process, parent, color)).or_default();
        let child = *children;
        *children = child.saturating_add(1);
        parent.split_child(child, color)
    }

    /// A process is known to use an address.
    pub fn add_address_use(&mut self, process: u32, comm: u64) {
        let users = self.users.entry(comm).or_default();
        if users.insert(process) {
            // A host's name may have bytes glued to it.
            let pid = |process: u32| self.origins.processes.get(process).pid;
            self.shares |= users.iter().any(|&user| pid(user) != pid(process));
            self.using.insert(process);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_off_a_host_as_often_as_they_were_glued_to_it() {
        let mut merged = MergedMembers {
            overwritten: true,
            ..MergedMembers::default()
        };
        let hosts: [(&[u8], u64, bool); 5] = [
            (b"23d15187433a", 7, true),
            // The file's lines begin with what another process wrote there.
            (b"45f623d15187433a", 7, true),
            (b"0x55045f623d15187433a", 7, false),
            (b"623d15187433a", 7, false),
            (b"45f623d15187433a", 8, true),
        ];
        for (host, pid, clean) in hosts {
            merged.origins.intern_process(host, Some(pid), clean);
        }
        assert_eq!(merged.process_aliases(), [0, 0, 0, 0, 4]);
        merged.overwritten = false;
        assert_eq!(merged.process_aliases(), [0, 1, 1, 1, 4]);
    }
}
