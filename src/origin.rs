//! Who printed a line: hosts, processes, devices and the members of communicators, interned so
//! that a call carries one small number.

use crate::grammar::message::init::{Event, Init};
use crate::twice::{self, Again, End, Print, Twice};
use rustc_hash::FxHashMap;

/// Which process: a host and a pid. `None` where the header is missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Process {
    /// The host as printed.
    pub host: Box<[u8]>,
    /// The process id.
    pub pid: Option<u64>,
}

/// Names a process and the CUDA device that was current.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Index of the [`Process`].
    pub process: u32,
    /// The device in the header's brackets.
    pub dev: Option<u32>,
}

/// A communicator as one process names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    /// Index of the [`Place`].
    pub place: u32,
    /// The communicator's address.
    pub comm: u64,
    /// Its size as the COLL lines print it.
    pub nranks: Option<u32>,
    /// In a chunk: how often the address was given anew in it before. Merged: index of the
    /// [`Identity`] plus one, 0 where none is known.
    pub identity: u32,
}

/// What INIT lines say of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// This process's rank in the communicator.
    pub rank: u32,
    /// Its size.
    pub nranks: u32,
    /// The id all members share.
    pub comm_id: Option<u64>,
}

/// An INIT line in a chunk.
#[derive(Debug, Clone, Copy)]
pub struct InitAt {
    /// Index of the process in the chunk.
    pub process: u32,
    /// The generation of the address that begins here.
    pub generation: u32,
    /// What the line says.
    pub init: Init,
    /// Where it stands in the input.
    pub at: u64,
}

/// A table of distinct values, numbered in the order they came.
#[derive(Debug, Clone)]
pub struct Interner<T> {
    items: Vec<T>,
    index: FxHashMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Interner {
            items: Vec::new(),
            index: FxHashMap::default(),
        }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Interner<T> {
    /// The number of `item`, new or known.
    pub fn intern(&mut self, item: T) -> u32 {
        if let Some(&at) = self.index.get(&item) {
            return at;
        }
        let at = u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        self.items.push(item.clone());
        self.index.insert(item, at);
        at
    }

    /// The number of `item`, if it is known.
    pub fn find(&self, item: &T) -> Option<u32> {
        self.index.get(item).copied()
    }

    /// All values by number.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// The value of a number.
    pub fn get(&self, at: u32) -> &T {
        &self.items[at as usize]
    }
}

/// Everyone met in a chunk, or, merged, in all inputs.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    /// Processes.
    pub processes: Interner<Process>,
    /// Processes with their device.
    pub places: Interner<Place>,
    /// Communicators as processes name them.
    pub members: Interner<Member>,
    /// For each process: whether a header of it was seen where nothing could have been glued
    /// to its host.
    pub clean: Vec<bool>,
    /// For each member: the first position its address was seen at, by its process.
    pub first_at: Vec<u64>,
    /// For each member: by what its call there is known again ([`crate::twice`]).
    pub prints: Vec<Print>,
}

impl Origins {
    /// The number of a process; `clean` says that its header stood where a header begins.
    pub fn process(&mut self, host: &[u8], pid: Option<u64>, clean: bool) -> u32 {
        let at = self.processes.intern(Process {
            host: host.into(),
            pid,
        });
        if self.clean.len() <= at as usize {
            self.clean.push(clean);
        } else if clean {
            self.clean[at as usize] = true;
        }
        at
    }

    /// The number of a process with its device.
    pub fn place(&mut self, process: u32, dev: Option<u32>) -> u32 {
        self.places.intern(Place { process, dev })
    }

    /// The number of a member, first seen at `at` with a call that is known again by `print`.
    pub fn member(&mut self, member: Member, at: u64, print: impl FnOnce() -> Print) -> u32 {
        let index = self.members.intern(member);
        if self.first_at.len() <= index as usize {
            self.first_at.push(at);
            self.prints.push(print());
        }
        index
    }
}

/// How a chunk's numbers read in the merged tables.
#[derive(Debug, Default)]
pub struct Renumbered {
    /// Merged process by the chunk's.
    pub processes: Vec<u32>,
    /// Merged place by the chunk's.
    pub places: Vec<u32>,
    /// Merged member by the chunk's.
    pub members: Vec<u32>,
}

/// Since when something is known: an input and a position in it. No input but the one in hand is
/// ever looked at, so a new one need not touch what was learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Since {
    input: u32,
    at: u64,
}

/// Everyone met so far, with what the INIT lines said of them.
#[derive(Debug, Default)]
pub struct Merged {
    /// The merged tables; a member's `identity` is an index into `identities` plus one.
    pub origins: Origins,
    /// What INIT lines said.
    pub identities: Interner<Identity>,
    // What an address of a process means now.
    current: FxHashMap<(u32, u64), u32>,
    // What it meant before the chunk added last, and from which positions on in it.
    recent: FxHashMap<(u32, u64), Vec<(u64, u32)>>,
    // What an address of a process meant all along; 0 where it meant several things.
    sole: FxHashMap<(u32, u64), u32>,
    // Who uses an address, and since when.
    users: FxHashMap<u64, FxHashMap<u32, Since>>,
    // Since when a process is known to use any address.
    using: FxHashMap<u32, Since>,
    // The number of the input in hand.
    input: u32,
    /// Processes wrote over each other's bytes: a host at the start of a line may be glued too.
    pub overwritten: bool,
    /// Which inputs have the same calls.
    pub twice: Twice,
}

impl Merged {
    /// Adds a chunk that follows what was added before.
    pub fn add(&mut self, chunk: &Origins, inits: &[InitAt]) -> Renumbered {
        let mut to = Renumbered::default();
        for (process, &clean) in chunk.processes.items().iter().zip(&chunk.clean) {
            to.processes
                .push(self.origins.process(&process.host, process.pid, clean));
        }
        for place in chunk.places.items() {
            let process = to.processes[place.process as usize];
            to.places.push(self.origins.place(process, place.dev));
        }
        // What each generation of an address means in this chunk.
        let mut meaning: FxHashMap<(u32, u64, u32), u32> = FxHashMap::default();
        for at in inits {
            let process = to.processes[at.process as usize];
            let identity = self.identity(&at.init);
            meaning.insert((process, at.init.comm, at.generation), identity);
            self.uses(process, at.init.comm, at.at);
            self.twice.init(process, &at.init, at.at);
        }
        let firsts = chunk.first_at.iter().zip(&chunk.prints);
        for (member, (&first_at, &print)) in chunk.members.items().iter().zip(firsts) {
            let place = to.places[member.place as usize];
            let process = self.origins.places.get(place).process;
            let identity = if member.identity == 0 {
                self.current
                    .get(&(process, member.comm))
                    .copied()
                    .unwrap_or(0)
            } else {
                meaning
                    .get(&(process, member.comm, member.identity))
                    .copied()
                    .unwrap_or(0)
            };
            self.uses(process, member.comm, first_at);
            let merged = Member {
                place,
                identity,
                ..*member
            };
            let number = self.origins.member(merged, first_at, Print::default);
            self.twice.call(number, process, first_at, print);
            to.members.push(number);
        }
        self.recent.clear();
        for at in inits {
            let key = (to.processes[at.process as usize], at.init.comm);
            let identity = self.identity(&at.init);
            let before = self.current.insert(key, identity).unwrap_or(0);
            if identity > 0 {
                let sole = self.sole.entry(key).or_insert(identity);
                *sole = if *sole == identity { identity } else { 0 };
            }
            let meanings = self.recent.entry(key).or_insert_with(|| vec![(0, before)]);
            meanings.push((at.at, identity));
        }
        to
    }

    /// What an address meant at a position of the chunk added last.
    fn meaning_at(&self, key: (u32, u64), at: u64) -> u32 {
        match self.recent.get(&key) {
            Some(list) => list.iter().rfind(|m| m.0 <= at).map_or(0, |m| m.1),
            None => self.current.get(&key).copied().unwrap_or(0),
        }
    }

    /// A member met at the merge: a call whose line had to be joined.
    pub fn joined(&mut self, place: u32, comm: u64, nranks: Option<u32>, at: u64) -> u32 {
        let process = self.origins.places.get(place).process;
        let identity = self.meaning_at((process, comm), at);
        self.uses(process, comm, at);
        self.origins.member(
            Member {
                place,
                comm,
                nranks,
                identity,
            },
            at,
            Print::default,
        )
    }

    /// A call whose line, `text`, had to be joined; `member` is who made it.
    pub fn joined_call(&mut self, member: u32, text: &[u8], at: u64) {
        let place = self.origins.members.get(member).place;
        let process = self.origins.places.get(place).process;
        self.twice.call(member, process, at, twice::print(text));
    }

    /// An INIT line that had to be joined: it counts if nothing was known of its address.
    pub fn joined_init(&mut self, process: u32, init: &Init, at: u64) {
        let identity = self.identity(init);
        self.current.entry((process, init.comm)).or_insert(identity);
        self.uses(process, init.comm, at);
    }

    /// Begins the next input: what was learnt holds from its first byte.
    pub fn next_input(&mut self) {
        self.input += 1;
    }

    /// The inputs in hand are read: see [`Twice::end`].
    pub fn end_input(&mut self, ends: impl Iterator<Item = End>) -> Vec<Option<Again>> {
        self.twice.end(self.origins.processes.items(), ends)
    }

    /// The processes known before `at` to use the address `comm`.
    pub fn users_before(&self, comm: u64, at: u64) -> impl Iterator<Item = u32> {
        let users = self.users.get(&comm).into_iter().flatten();
        users
            .filter(move |&(_, &since)| self.position(since) < at)
            .map(|(&process, _)| process)
    }

    /// What is known of a member whose process really is `real`.
    pub fn identity_as(&self, member: &Member, real: u32) -> Option<Identity> {
        let process = self.origins.places.get(member.place).process;
        self.identity_of(member)
            .or_else(|| self.sole_identity(process, real, member.comm))
    }

    /// What `comm` is to the process `real`, if that is another one than `process` (a glued
    /// name of it) and only one thing is known of it.
    pub fn sole_identity(&self, process: u32, real: u32, comm: u64) -> Option<Identity> {
        let index = self
            .sole
            .get(&(real, comm))
            .filter(|_| process != real)?
            .checked_sub(1)?;
        Some(*self.identities.get(index))
    }

    /// True where a process is known before `at` to use some address.
    pub fn is_using(&self, process: u32, at: u64) -> bool {
        let since = self.using.get(&process);
        since.is_some_and(|&since| self.position(since) < at)
    }

    /// What is known of a member.
    pub fn identity_of(&self, member: &Member) -> Option<Identity> {
        let index = member.identity.checked_sub(1)?;
        Some(*self.identities.get(index))
    }

    /// For each process the one it really is: a host with bytes of a glued line in front
    /// (`0mew0`) is the host that was seen clean with the same pid (`mew0`).
    pub fn aliases(&self) -> Vec<u32> {
        let processes = self.origins.processes.items();
        let mut clean_of: FxHashMap<u64, Vec<u32>> = FxHashMap::default();
        for (at, process) in (0_u32..).zip(processes) {
            if let (Some(pid), true) = (process.pid, self.origins.clean[at as usize]) {
                clean_of.entry(pid).or_default().push(at);
            }
        }
        let real = |(at, process): (u32, &Process)| {
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
            let candidates = process.pid.and_then(|pid| clean_of.get(&pid));
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

    fn identity(&mut self, init: &Init) -> u32 {
        match init.event {
            Event::End => 0,
            Event::Init => {
                let Init {
                    rank,
                    nranks,
                    comm_id,
                    ..
                } = *init;
                self.identities.intern(Identity {
                    rank,
                    nranks,
                    comm_id,
                }) + 1
            }
        }
    }

    fn uses(&mut self, process: u32, comm: u64, at: u64) {
        let now = Since {
            input: self.input,
            at,
        };
        let users = self.users.entry(comm).or_default();
        let since = users.entry(process).or_insert(now);
        *since = now.min(*since);
        let since = self.using.entry(process).or_insert(now);
        *since = now.min(*since);
    }

    /// Where that is in the input in hand: 0 for what earlier ones said.
    fn position(&self, since: Since) -> u64 {
        if since.input == self.input {
            since.at
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_off_a_host_as_often_as_they_were_glued_to_it() {
        let mut merged = Merged {
            overwritten: true,
            ..Merged::default()
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
            merged.origins.process(host, Some(pid), clean);
        }
        assert_eq!(merged.aliases(), [0, 0, 0, 0, 4]);
        merged.overwritten = false;
        assert_eq!(merged.aliases(), [0, 1, 1, 1, 4]);
    }
}
