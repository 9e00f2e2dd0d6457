//! The processes, devices and communicators that print lines in a chunk, or in all of them.

use super::duplicate_inputs::fingerprints::CallFingerprint;
use super::interner::Interner;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A process: a host and a pid. `None` if the header is missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SpeakerProcess {
    /// The host as printed.
    pub host: Box<[u8]>,
    /// The process id.
    pub pid: Option<u64>,
}

/// A process and the CUDA device that was current.
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
    /// the [`CommIdentity`](super::CommIdentity) plus one, 0 if none is known.
    pub identity: u32,
}

/// All processes, devices and communicators of a chunk, or, merged, of all inputs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Speakers {
    /// Processes.
    pub processes: Interner<SpeakerProcess>,
    /// Processes with their device.
    pub places: Interner<SpeakerDevice>,
    /// Communicators as processes name them.
    pub members: Interner<SpeakerComm>,
    /// For each process: whether it has a header with nothing glued to its host.
    pub clean: Vec<bool>,
    /// The processes that were met first with something glued to them, or by no header of theirs.
    pub(super) unclean: Vec<u32>,
    /// The processes of clean headers by pid.
    pub(super) named: FxHashMap<u64, Vec<u32>>,
    /// In a chunk: names that other text may be glued to, and the number of clean names of their pid
    /// before them. The merge finds their processes.
    pub(super) glued: FxHashMap<(SpeakerProcess, usize), u32>,
    /// In a chunk: for each process its first position.
    pub(super) met_at: Vec<u64>,
    /// In a chunk of several texts: where the present one begins, and the processes that were met in a text
    /// before theirs, with their first position in it.
    pub(super) text_at: u64,
    pub(super) met_again: Vec<(u32, u64)>,
    /// For each member: the first position of its address.
    pub first_at: Vec<u64>,
    /// For each member: the fingerprint of its first call, to detect duplicate inputs.
    pub prints: Vec<CallFingerprint>,
}

impl Speakers {
    /// Returns the number of a process; `clean` if its header is where a header begins.
    pub fn intern_process(&mut self, host: &[u8], pid: Option<u64>, clean: bool) -> u32 {
        let at = self.processes.intern(SpeakerProcess {
            host: host.into(),
            pid,
        });
        if self.clean.len() <= at as usize {
            self.clean.push(false);
            if !clean {
                self.unclean.push(at);
            }
        }
        if clean && !self.clean[at as usize] {
            self.clean[at as usize] = true;
            if let Some(pid) = pid {
                self.named.entry(pid).or_default().push(at);
            }
        }
        at
    }

    /// Returns the number in a chunk of the process that printed the line at `at`. A name that other
    /// text may be glued to, and that is like no known one, gets a new number each time that more
    /// names of its pid are known.
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
        } else if self.met_at[index as usize] < self.text_at {
            let here = |(_, at): &&(u32, u64)| *at >= self.text_at;
            let mut met = self.met_again.iter().rev().take_while(here);
            if !met.any(|(process, _)| *process == index) {
                self.met_again.push((index, at));
            }
        }
        index
    }

    /// Begins another text of the chunk.
    pub fn begin_text(&mut self, at: u64) {
        self.text_at = at;
    }

    /// Returns true if other text may be glued to names in the chunk.
    pub fn has_glued(&self) -> bool {
        !self.glued.is_empty()
    }

    /// Returns true if a process's name appears with nothing glued to it.
    pub fn is_clean(&self, process: u32) -> bool {
        self.clean.get(process as usize).copied().unwrap_or(false)
    }

    /// Returns the process of a header that other text is glued to, or that lost its first bytes: of
    /// the clean names with this pid the one that `host` equals, or else the longest that `host` ends
    /// with or is the end of.
    pub fn find_glued_process(&self, host: &[u8], pid: u64) -> Option<u32> {
        let name = |at: u32| &*self.processes.get(at).host;
        let named = || self.named.get(&pid).into_iter().flatten().copied();
        let same = named().find(|&at| name(at) == host);
        same.or_else(|| {
            let glued = named().filter(|&at| is_glued(host, name(at)));
            glued.max_by_key(|&at| name(at).len())
        })
    }

    /// Returns the number of a process with its device.
    pub fn intern_device(&mut self, process: u32, dev: Option<u32>) -> u32 {
        self.places.intern(SpeakerDevice { process, dev })
    }

    /// Returns the number of a member; `at` and `print` are its call's, kept if it is the first.
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

/// Returns true if `host`, from a header with other text in front, may be `name`: with bytes of that
/// text, or without its own first bytes.
pub(super) fn is_glued(host: &[u8], name: &[u8]) -> bool {
    host.ends_with(name) || name.ends_with(host)
}
