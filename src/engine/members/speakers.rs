//! Who spoke in a chunk, or in all of them.

use super::Interner;
use super::duplicate_inputs::CallFingerprint;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Which process: a host and a pid. `None` where the header is missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SpeakerProcess {
    /// The host as printed.
    pub host: Box<[u8]>,
    /// The process id.
    pub pid: Option<u64>,
}

/// Names a process and the CUDA device that was current.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SpeakerDevice {
    /// Index of the [`SpeakerProcess`].
    pub process: u32,
    /// The device in the header's brackets.
    pub dev: Option<u32>,
}

/// A communicator as one process names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SpeakerComm {
    /// Index of the [`SpeakerDevice`].
    pub place: u32,
    /// The communicator's address.
    pub comm: u64,
    /// Its size as the COLL lines print it.
    pub nranks: Option<u32>,
    /// In a chunk: another number wherever the address may mean something else. Merged: index of
    /// the [`Identity`](super::CommIdentity) plus one, 0 where none is known.
    pub identity: u32,
}

/// Everyone met in a chunk, or, merged, in all inputs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Speakers {
    /// Processes.
    pub processes: Interner<SpeakerProcess>,
    /// Processes with their device.
    pub places: Interner<SpeakerDevice>,
    /// Communicators as processes name them.
    pub members: Interner<SpeakerComm>,
    /// For each process: whether a header of it was seen where nothing could have been glued
    /// to its host.
    pub clean: Vec<bool>,
    /// Those of them by pid.
    pub(super) named: FxHashMap<u64, Vec<u32>>,
    /// In a chunk: names that other text may be glued to, by how many clean ones of their pid were
    /// met before. Whose they are is known at the merge.
    pub(super) glued: FxHashMap<(SpeakerProcess, usize), u32>,
    /// In a chunk: for each process the first position it was met at.
    pub(super) met_at: Vec<u64>,
    /// For each member: the first position its address was seen at, by its process.
    pub first_at: Vec<u64>,
    /// For each member: by what its call there is known again ([`crate::members::duplicate_inputs`]).
    pub prints: Vec<CallFingerprint>,
}

impl Speakers {
    /// The number of a process; `clean` says that its header stood where a header begins.
    pub fn intern_process(&mut self, host: &[u8], pid: Option<u64>, clean: bool) -> u32 {
        let at = self.processes.intern(SpeakerProcess {
            host: host.into(),
            pid,
        });
        if self.clean.len() <= at as usize {
            self.clean.push(false);
        }
        if clean && !self.clean[at as usize] {
            self.clean[at as usize] = true;
            if let Some(pid) = pid {
                self.named.entry(pid).or_default().push(at);
            }
        }
        at
    }

    /// The number in a chunk of the process whose header is on the line at `at`. A name that other
    /// text may be glued to, and that is like none met before, has a new one wherever more names
    /// of its pid are known.
    pub fn intern_speaker(&mut self, host: &[u8], pid: Option<u64>, clean: bool, at: u64) -> u32 {
        let index = if clean {
            self.intern_process(host, pid, true)
        } else if let Some(real) = pid.and_then(|pid| self.find_glued_process(host, pid)) {
            real
        } else {
            let named = pid.and_then(|pid| self.named.get(&pid));
            let process = SpeakerProcess {
                host: host.into(),
                pid,
            };
            let key = (process, named.map_or(0, Vec::len));
            match self.glued.get(&key) {
                Some(&known) => known,
                None => {
                    let new = self.processes.push(key.0.clone());
                    self.clean.push(false);
                    self.glued.insert(key, new);
                    new
                }
            }
        };
        if self.met_at.len() <= index as usize {
            self.met_at.push(at);
        }
        index
    }

    /// Whether there are names in a chunk that other text may be glued to.
    pub fn has_glued(&self) -> bool {
        !self.glued.is_empty()
    }

    /// Whether a process's name was seen where nothing could have been glued to it.
    pub fn is_clean(&self, process: u32) -> bool {
        self.clean.get(process as usize).copied().unwrap_or(false)
    }

    /// The process of a header that other text is glued to, or that lost its first bytes: the one
    /// with this pid whose name, seen clean, `host` is, ends with or is the end of. Of several the
    /// longest name.
    pub fn find_glued_process(&self, host: &[u8], pid: u64) -> Option<u32> {
        let name = |&at: &u32| &self.processes.get(at).host;
        if let Some(same) = self.find_clean_process(host, pid) {
            return Some(same);
        }
        let those = self.named.get(&pid)?.iter();
        those
            .filter(|at| is_glued(host, name(at)))
            .max_by_key(|at| name(at).len())
            .copied()
    }

    /// The process with this pid whose name, seen clean, `host` is.
    fn find_clean_process(&self, host: &[u8], pid: u64) -> Option<u32> {
        let mut those = self.named.get(&pid)?.iter().copied();
        those.find(|&at| *self.processes.get(at).host == *host)
    }

    /// The number of a process with its device.
    pub fn intern_device(&mut self, process: u32, dev: Option<u32>) -> u32 {
        self.places.intern(SpeakerDevice { process, dev })
    }

    /// The number of a member, first seen at `at` with a call that is known again by `print`.
    pub fn intern_member(
        &mut self,
        member: SpeakerComm,
        at: u64,
        print: impl FnOnce() -> CallFingerprint,
    ) -> u32 {
        let index = self.members.intern(member);
        if self.first_at.len() <= index as usize {
            self.first_at.push(at);
            self.prints.push(print());
        }
        index
    }
}

/// Whether `host`, as it is in a header that other text is in front of, may be `name`: with
/// bytes of that text, or without the first bytes of its own.
pub(crate) fn is_glued(host: &[u8], name: &[u8]) -> bool {
    host.ends_with(name) || name.ends_with(host)
}
