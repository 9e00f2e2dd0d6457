//! The hosts, processes, devices and communicator members that print lines, and the operations: by
//! number, so that a call carries small numbers.

pub mod comm_id;
pub mod duplicate_inputs;
mod identities;
mod input_processes;
mod interner;
pub mod job_ranks;
pub mod jobs;
mod limits;
mod merge;
mod ops;
mod process_names;
pub mod recent_interner;
mod speakers;

pub use input_processes::DisjointSets;
pub use interner::Interner;
pub use ops::OpInterner;
pub use speakers::{SpeakerComm, SpeakerDevice, SpeakerProcess, Speakers};

use crate::grammar::message::communicator::init::CommInit;
use crate::members::comm_id::CommId;
use crate::members::duplicate_inputs::{
    CallFingerprint, DuplicateInputs, EarlierInputs, InputCallsEnd,
};
use input_processes::InputProcesses;
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
    /// The parsed line.
    pub init: CommInit,
    /// Its position in the input.
    pub at: u64,
}

/// A chunk's numbers in the merged tables.
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

/// All members so far, with the facts of the INIT lines.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct MergedMembers {
    /// The merged tables; a member's `identity` is an index into `identities` plus one.
    pub origins: Speakers,
    /// The identities that INIT lines gave.
    pub identities: Interner<CommIdentity>,
    // The present meaning of an address of a process.
    current: FxHashMap<(u32, u64), u32>,
    // The INIT line of the present input that gave it.
    given: FxHashMap<(u32, u64), CommInit>,
    // By a communicator's id: the first process that gave it, and whether others did.
    given_by: FxHashMap<u64, (u32, bool)>,
    // Its meaning before the chunk added last, and its meanings in that chunk by position.
    recent: FxHashMap<(u32, u64), Vec<(u64, u32)>>,
    // Splits of a communicator with one color that a process made, for NCCL without child numbers.
    children: FxHashMap<(u32, CommId, i64), u32>,
    /// The identities that INIT lines gave to processes and their devices.
    sides: FxHashSet<(u32, Option<u32>, u32)>,
    // The only meaning that an address of a process had; 0 if it had several.
    sole: FxHashMap<(u32, u64), u32>,
    // The processes that use an address.
    users: FxHashMap<u64, FxHashSet<u32>>,
    // Processes of several pids use one address.
    shares: bool,
    // Processes that use any address.
    using: FxHashSet<u32>,
    // Processes with INIT lines that introduce addresses.
    introduced: FxHashSet<u32>,
    // Processes that use an address that no whole INIT line introduced.
    strange: FxHashSet<u32>,
    // Processes that only have headers with other text glued to them, by pid.
    nameless: FxHashMap<u64, Vec<u32>>,
    // The processes of the present input.
    here: FxHashSet<u32>,
    /// The processes of each input, joined: as [`Self::twice`], of inputs that are read here.
    #[serde(skip)]
    beside: InputProcesses,
    // The processes so far that were found to be another one.
    moved: u32,
    /// Processes wrote over each other's bytes: a host at the start of a line may be glued too.
    pub overwritten: bool,
    /// The inputs that have the same calls: found where they are read, and not sent on.
    #[serde(skip)]
    pub twice: DuplicateInputs,
}

impl MergedMembers {
    /// Keeps only the names of `before`: a walk after another one gives a process its number again,
    /// wherever the chunks end.
    pub fn with_names_after(before: &MergedMembers) -> MergedMembers {
        let Speakers {
            processes,
            clean,
            unclean,
            named,
            ..
        } = &before.origins;
        MergedMembers {
            origins: Speakers {
                processes: processes.clone(),
                clean: clean.clone(),
                unclean: unclean.clone(),
                named: named.clone(),
                ..Speakers::default()
            },
            overwritten: before.overwritten,
            ..MergedMembers::default()
        }
    }

    /// Like `with_names_after`, from the names themselves.
    pub fn with_process_names(names: &[SpeakerProcess]) -> MergedMembers {
        let mut merged = MergedMembers::default();
        for SpeakerProcess { host, pid } in names {
            merged.origins.intern_process(host, *pid, true);
        }
        merged
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

    /// Adds the chunk's lines before `until` in their order, so that the facts at a place do not depend on
    /// where chunks end.
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
                if self.here.insert(process) {
                    let input = self.twice.input_at(met_at);
                    self.beside.add_process(process, input);
                }
                self.add_process_devices(chunk, to);
            } else if let (Some(init), true) = (init, given == Some(first)) {
                to.inits += 1;
                self.add_init(to.processes[init.process as usize], init);
            } else if let (Some(member), Some(at)) = (member, called) {
                self.add_first_call(member, at, chunk, to);
            } else {
                break;
            }
        }
        if until == u64::MAX {
            for &(process, at) in &chunk.met_again {
                let input = self.twice.input_at(at);
                self.beside
                    .add_process(to.processes[process as usize], input);
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
            // All members begin before one is complete: an id that others have too is right.
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
            self.add_sole_meaning(key, identity);
            self.sides.insert((process, init.dev, identity - 1));
        }
        self.set_meaning(key, identity, *at);
        self.twice.add_init(process, init, *at);
    }

    /// Adds a chunk's member at its first call.
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

    /// Returns the number of the member that made a call at a position of the present chunk.
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

    /// Adds a call of `member` with the line `text`, which had to be joined.
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

    /// Adds an INIT line that had to be joined, which is known from `at` on: it counts if its address has
    /// no meaning yet.
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

    /// Begins the next input: all facts hold from its first byte.
    pub fn begin_next_input(&mut self) {
        self.given.clear();
        self.given_by.clear();
        self.here.clear();
    }

    /// Ends the present inputs: see [`DuplicateInputs::end_inputs`].
    pub fn end_input(
        &mut self,
        ends: impl Iterator<Item = InputCallsEnd>,
    ) -> Vec<Option<EarlierInputs>> {
        self.twice.end_inputs(&self.origins, ends)
    }
}
