//! Names of processes that other text is glued to, or that lost their first bytes.

use super::MergedMembers;
use super::limits::{MAX_IDENTITY_MOVES, MAX_NAMELESS_PROCESSES};
use super::speakers::{SpeakerProcess, Speakers, is_glued};
use rustc_hash::FxHashMap;

impl MergedMembers {
    /// Returns the number of a chunk's process, with the text taken off that is glued to its host. It
    /// knows the names before the process's first line in the chunk.
    pub(super) fn merge_process(&mut self, chunk: &Speakers, at: u32) -> u32 {
        let process = chunk.processes.get(at);
        let clean = chunk.clean.get(at as usize).copied().unwrap_or(true);
        let Some(pid) = process.pid.filter(|_| !clean) else {
            return self.merge_named_process(process);
        };
        if let Some(real) = self.origins.find_glued_process(&process.host, pid) {
            return real;
        }
        let new = self.origins.intern_process(&process.host, Some(pid), false);
        self.add_nameless(pid, new);
        new
    }

    /// Notes a process that only has headers with other text glued to them.
    pub(super) fn add_nameless(&mut self, pid: u64, process: u32) {
        let nameless = self.nameless.entry(pid).or_default();
        if !nameless.contains(&process) && nameless.len() < MAX_NAMELESS_PROCESSES {
            nameless.push(process);
        }
    }

    /// Returns the number of a process with a clean name, which processes without one may turn out to be.
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

    /// Gives the facts of a process to another one: it is that one, as a later name shows.
    fn move_identity(&mut self, process: u32, real: u32) {
        let of = |of: &FxHashMap<(u32, u64), u32>| -> Vec<(u64, u32)> {
            let own = of.iter().filter(|((of, _), _)| *of == process);
            own.map(|((_, comm), &meaning)| (*comm, meaning)).collect()
        };
        for (comm, meaning) in of(&self.current) {
            self.current.entry((real, comm)).or_insert(meaning);
        }
        for (comm, meaning) in of(&self.sole) {
            self.add_sole_meaning((real, comm), meaning);
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

    /// Counts the names of the present input that begin with bytes of another line: of two names with
    /// one pid the longer ends with the shorter, and begins as some line does.
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

    /// Returns for each process the one it really is.
    pub fn process_aliases(&self) -> Vec<u32> {
        let renamed = self.renamed_processes();
        let all = 0..self.origins.processes.items().len() as u32;
        all.map(|at| renamed.get(&at).copied().unwrap_or(at))
            .collect()
    }

    /// Returns the processes that really are another one, with that one: a host with bytes of a glued line in
    /// front (`0mew0`) is the clean host with the same pid (`mew0`).
    pub fn renamed_processes(&self) -> FxHashMap<u32, u32> {
        let processes = self.origins.processes.items();
        let real = |at: u32| {
            let process = &processes[at as usize];
            let clean = self.origins.is_clean(at);
            if clean && !self.overwritten {
                return None;
            }
            // A glued pointer may also have taken bytes of the host. A name that a line begins with may lack its first bytes
            // where other lines of the process introduce communicators by the longer one.
            let is_introduced = |at: u32| self.introduced.contains(&at);
            let fits = |&&c: &&u32| {
                let host = &processes[c as usize].host;
                let longer = process.host.len() > host.len() && process.host.ends_with(host);
                let shorter = process.host.len() < host.len() && host.ends_with(&process.host);
                match (clean, is_introduced(at), is_introduced(c)) {
                    (false, ..) => longer || host.ends_with(&process.host),
                    (true, false, true) => longer || shorter,
                    (true, own, other) => longer && own == other,
                }
            };
            let candidates = process.pid.and_then(|pid| self.origins.named.get(&pid));
            let length = |c: &u32| processes[*c as usize].host.len();
            let those = candidates.into_iter().flatten().filter(fits);
            // The shortest of the clean names has nothing glued to it.
            let real = match clean {
                true => those.min_by_key(|c| length(c)),
                false => those.max_by_key(|c| length(c)),
            };
            Some((at, *real?))
        };
        let first: FxHashMap<u32, u32> = match self.overwritten {
            true => (0..processes.len() as u32).filter_map(real).collect(),
            false => self
                .origins
                .unclean
                .iter()
                .copied()
                .filter_map(real)
                .collect(),
        };
        // The alias of a name may itself be a host with bytes glued to it.
        let twice = |real: u32| first.get(&real).copied().unwrap_or(real);
        first.iter().map(|(&at, &of)| (at, twice(of))).collect()
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

    #[test]
    fn a_host_without_its_first_bytes_is_the_one_that_introduces_communicators() {
        let mut merged = MergedMembers {
            overwritten: true,
            ..MergedMembers::default()
        };
        for (host, pid) in [(&b"rack7n12"[..], 7), (b"7n12", 7), (b"7n12", 8)] {
            merged.origins.intern_process(host, Some(pid), true);
        }
        assert_eq!(merged.process_aliases(), [1, 1, 2]);
        merged.introduced.insert(0);
        assert_eq!(merged.process_aliases(), [0, 0, 2]);
    }
}
