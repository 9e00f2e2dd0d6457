//! When the job of a log began anew: processes that take the place of those before them.
//!
//! A restarted job goes on under new pids, and its first step number may be the one printed last,
//! or higher after a lost stretch. So a restart is known by its processes. Processes that share a
//! communicator are of one attempt, and a group of new ones about as large as the job's is the
//! next attempt. Where no line names the communicators (INIT lines without `commId` up to NCCL 2.17,
//! or none at all), an attempt has as many processes as its largest communicator has ranks, and
//! the next process is the next attempt's.

use crate::members::{InitPosition, MergedMembers, MergedNumbers};
use rustc_hash::FxHashMap;

/// Where new processes took over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptStart {
    /// The first line of theirs, in bytes of the input.
    pub at: u64,
    /// Their first lines are INIT lines. Else they were only counted, and the processes of a log
    /// that begins in the middle of a job appear one after the other too.
    pub sure: bool,
    /// Their largest communicator is smaller than that of those before: they may be another job
    /// beside it, such as an inference server.
    pub smaller: bool,
}

/// What the INIT lines of a log show of its processes.
#[derive(Debug, Default)]
pub(crate) struct AttemptFinder {
    /// How many processes and members were known before this log.
    processes: u32,
    members: usize,
    /// Processes known before spoke in this log.
    goes_on: bool,
    /// The first INIT line of a process, in bytes of the input, and its largest communicator.
    inits: FxHashMap<u32, (u64, u32)>,
    /// A process of each communicator, by its id.
    one_of: FxHashMap<u64, u32>,
    /// Another process that shares a communicator; followed to its end, the same for all of them.
    with: FxHashMap<u32, u32>,
}

/// Processes that belong together.
#[derive(Debug, Clone, Copy)]
struct ProcessGroup {
    /// Its first line, in bytes of the input.
    at: u64,
    /// The first call on the communicator that came last.
    until: u64,
    /// Each process begins with an INIT line.
    by_init: bool,
    /// Ranks of the largest communicator.
    nranks: u32,
    processes: u32,
}

impl ProcessGroup {
    /// No process.
    const NONE: ProcessGroup = ProcessGroup {
        at: u64::MAX,
        until: 0,
        by_init: true,
        nranks: 0,
        processes: 0,
    };

    fn add_group(&mut self, other: &ProcessGroup) {
        self.at = self.at.min(other.at);
        self.until = self.until.max(other.until);
        self.by_init &= other.by_init;
        self.nranks = self.nranks.max(other.nranks);
        self.processes += other.processes;
    }

    /// True where each rank of the largest communicator has its process.
    fn is_whole(&self) -> bool {
        self.processes >= self.nranks
    }

    /// True where this can be the job as it went on after `before`: not much smaller, and the
    /// processes before make no communicator any more.
    fn can_follow(&self, before: &ProcessGroup) -> bool {
        self.nranks >= before.nranks.div_ceil(2) && before.until < self.at
    }
}

impl AttemptFinder {
    /// Begins a log, after what was merged before.
    pub(crate) fn new(merged: &MergedMembers) -> AttemptFinder {
        let origins = &merged.origins;
        AttemptFinder {
            processes: u32::try_from(origins.processes.items().len()).unwrap_or(u32::MAX),
            members: origins.members.items().len(),
            ..AttemptFinder::default()
        }
    }

    /// Adds the INIT lines of a chunk; it follows what was added before.
    pub(crate) fn add_inits(&mut self, inits: &[InitPosition], to: &MergedNumbers) {
        self.goes_on |= to.processes.iter().any(|&process| process < self.processes);
        for init in inits {
            let process = to.processes[init.process as usize];
            let (at, nranks) = self.inits.entry(process).or_insert((init.at, 0));
            *at = init.at.min(*at);
            *nranks = init.init.nranks.max(*nranks);
            if let Some(id) = init.init.comm_id {
                let one = *self.one_of.entry(id).or_insert(process);
                let (a, b) = (self.find_root(process), self.find_root(one));
                self.with.insert(a.max(b), a.min(b));
            }
        }
    }

    /// The process that represents all that `process` shares communicators with.
    fn find_root(&mut self, mut process: u32) -> u32 {
        while let Some(&with) = self.with.get(&process)
            && with != process
        {
            // Chains are halved while they are followed.
            let beyond = self.with.get(&with).copied().unwrap_or(with);
            self.with.insert(process, beyond);
            process = beyond;
        }
        process
    }

    /// Where new processes took over, in order.
    pub(crate) fn find_attempt_starts(&mut self, merged: &MergedMembers) -> Vec<AttemptStart> {
        let mut processes = self.new_process_groups(merged);
        // Of those that no communicator's id joins, by their first lines.
        let mut alone: Vec<ProcessGroup> = Vec::new();
        let mut joined: FxHashMap<u32, ProcessGroup> = FxHashMap::default();
        for (process, group) in processes.drain() {
            if self.with.contains_key(&process) {
                let root = self.find_root(process);
                joined
                    .entry(root)
                    .or_insert(ProcessGroup::NONE)
                    .add_group(&group);
            } else {
                alone.push(group);
            }
        }
        let mut groups: Vec<ProcessGroup> = joined.into_values().collect();
        groups.extend(group_by_count(alone));
        groups.retain(|group| group.nranks > 1);
        groups.sort_unstable_by_key(|group| (group.at, group.until));
        let mut now = self.goes_on.then_some(ProcessGroup::NONE);
        let mut begins = Vec::new();
        for group in groups {
            if now.is_some_and(|now| !group.can_follow(&now)) {
                continue;
            }
            let smaller = now.is_some_and(|now| group.nranks < now.nranks);
            if now.is_some() {
                begins.push(AttemptStart {
                    at: group.at,
                    sure: group.by_init,
                    smaller,
                });
            }
            if !smaller {
                now = Some(group);
            }
        }
        begins
    }

    /// The processes that this log was the first to show.
    fn new_process_groups(&self, merged: &MergedMembers) -> FxHashMap<u32, ProcessGroup> {
        let origins = &merged.origins;
        let mut seen: FxHashMap<u32, ProcessGroup> = FxHashMap::default();
        let mut see = |process: u32, at: u64, until: u64, nranks: u32, by_init: bool| {
            // A line without a header has no process, and a host that was only seen glued to other
            // text is none.
            let clean = origins
                .clean
                .get(process as usize)
                .copied()
                .unwrap_or(false);
            if process < self.processes || !clean || origins.processes.get(process).pid.is_none() {
                return;
            }
            let group = seen.entry(process).or_insert(ProcessGroup::NONE);
            if at < group.at {
                (group.at, group.by_init) = (at, by_init);
            }
            group.until = group.until.max(until);
            group.nranks = group.nranks.max(nranks);
            group.processes = 1;
        };
        let members = origins.members.items().iter().zip(&origins.first_at);
        for (member, &at) in members.skip(self.members) {
            let process = origins.places.get(member.place).process;
            see(process, at, at, member.nranks.unwrap_or(0), false);
        }
        for (&process, &(at, nranks)) in &self.inits {
            see(process, at, 0, nranks, true);
        }
        seen
    }
}

/// Groups processes by attempts, each of as many as its largest communicator has ranks. Leaves out
/// attempts with too few processes.
fn group_by_count(mut processes: Vec<ProcessGroup>) -> Vec<ProcessGroup> {
    processes.sort_unstable_by_key(|process| (process.at, process.until));
    let mut groups: Vec<ProcessGroup> = Vec::new();
    for process in processes {
        match groups.last_mut() {
            Some(group) if !group.is_whole() => group.add_group(&process),
            _ => groups.push(process),
        }
    }
    groups.retain(ProcessGroup::is_whole);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::message::communicator::init::{CommInit, InitEvent};
    use crate::members::Speakers;

    /// Where processes take over in a log: each line is a process, the id of a communicator of an
    /// INIT line or 0 for a call, and the ranks of the communicator. The same however it is cut.
    fn begins(lines: &[(u64, u64, u32)]) -> Vec<(u64, bool)> {
        let begins = cut(lines, lines.len());
        (1..lines.len()).for_each(|size| assert_eq!(cut(lines, size), begins));
        begins
    }

    fn cut(lines: &[(u64, u64, u32)], size: usize) -> Vec<(u64, bool)> {
        let mut merged = MergedMembers::default();
        let mut attempts = AttemptFinder::new(&merged);
        for (chunk, lines) in (0..).zip(lines.chunks(size)) {
            let (mut origins, mut inits) = (Speakers::default(), Vec::new());
            for (line, &(pid, id, nranks)) in ((chunk * size) as u64..).zip(lines) {
                let process = origins.intern_process(b"h", Some(pid), true);
                let place = origins.intern_device(process, None);
                let at = 100 * line;
                if id > 0 {
                    let init = CommInit {
                        event: InitEvent::Init,
                        comm: 7,
                        rank: 0,
                        nranks,
                        dev: None,
                        comm_id: Some(id).filter(|&id| id != u64::MAX),
                        split: None,
                        start: false,
                    };
                    inits.push(InitPosition { process, init, at });
                } else {
                    let member = crate::members::SpeakerComm {
                        place,
                        comm: 7,
                        nranks: Some(nranks),
                        identity: 0,
                    };
                    origins.intern_member(
                        member,
                        at,
                        crate::members::duplicate_inputs::CallFingerprint::default,
                    );
                }
            }
            let to = merged.add_chunk(&origins, &inits);
            attempts.add_inits(&inits, &to);
        }
        let begins = attempts.find_attempt_starts(&merged);
        begins.iter().map(|b| (b.at / 100, b.sure)).collect()
    }

    #[test]
    fn a_communicator_of_new_processes_is_the_next_attempt() {
        let first = [(1, 5, 2), (2, 5, 2), (1, 0, 2), (2, 0, 2)];
        assert_eq!(begins(&first), []);
        let again = [&first[..], &[(4, 6, 2), (3, 6, 2), (3, 0, 2), (4, 0, 2)]].concat();
        assert_eq!(begins(&again), [(4, true)]);
        // One process of several, as in a rank's own file.
        assert_eq!(
            begins(&[(1, 5, 8), (1, 0, 8), (2, 6, 8), (2, 0, 8)]),
            [(2, true)]
        );
        // Processes that join old ones, and such as make a smaller group beside them.
        let joined = [&first[..], &[(3, 6, 3), (1, 6, 3), (2, 6, 3)]].concat();
        assert_eq!(begins(&joined), []);
        let large = [(1, 5, 8), (2, 5, 8), (3, 6, 2), (4, 6, 2), (5, 7, 3)];
        assert_eq!(begins(&large), []);
    }

    #[test]
    fn processes_are_counted_where_no_line_joins_them() {
        let calls = [(1, 0, 2), (2, 0, 2), (1, 0, 2), (2, 0, 2)];
        assert_eq!(begins(&calls), []);
        let again = [&calls[..], &[(3, 0, 2), (4, 0, 2), (3, 0, 2)]].concat();
        assert_eq!(begins(&again), [(4, false)]);
        // Not all of the job: which processes are missing is unknown.
        assert_eq!(begins(&[(1, 0, 4), (2, 0, 4), (3, 0, 4)]), []);
        let old = u64::MAX;
        let by_init = [(1, old, 2), (2, old, 2), (3, old, 2), (4, old, 2)];
        assert_eq!(begins(&by_init), [(2, true)]);
    }
}
