//! The ranks of the job. Communicators connect the GPUs of a job; the one that has all of them has the job's
//! ranks.

use super::comm_id::CommId;
use super::input_processes::DisjointSets;
use super::{CommIdentity, MergedMembers, SpeakerDevice};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;

/// A communicator as far as its members were seen.
#[derive(Debug, Default)]
pub struct SeenCommunicator {
    /// Its size; 0 if unknown.
    pub nranks: u32,
    /// The numbers of its members' GPUs.
    pub gpus: Vec<usize>,
    /// Its ranks that were seen, each once.
    pub ranks: usize,
}

impl SeenCommunicator {
    fn count_missing(&self) -> usize {
        (self.nranks as usize).saturating_sub(self.ranks)
    }
}

/// A communicator that has all GPUs of its job which were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobWorld {
    /// Its place among the communicators.
    pub at: usize,
    /// All its ranks were seen.
    pub is_whole: bool,
    /// Its ranks are the job's: fewer members are missing than were seen. Of fewer members, any group of the job may
    /// look like the whole.
    pub has_job_ranks: bool,
}

/// The communicators of one size of a job.
#[derive(Debug, Default)]
struct CommunicatorsOfSize {
    /// The members that they lack.
    missing: usize,
    /// How many of them each GPU is in.
    of_gpu: FxHashMap<usize, usize>,
}

impl CommunicatorsOfSize {
    fn add_communicator(&mut self, missing: usize, gpus: &[usize]) {
        self.missing += missing;
        for gpu in gpus {
            *self.of_gpu.entry(*gpu).or_default() += 1;
        }
    }

    /// True where the members that are missing can be `absent` GPUs without lines, of `gpus` with lines, each in as
    /// many of these communicators as the others are, or GPUs with lines that are in fewer: these lack a line.
    /// `without` other communicators on each GPU lack these, too.
    fn can_lack(&self, absent: usize, gpus: usize, without: usize) -> bool {
        let most = self.of_gpu.values().max().copied().unwrap_or(0);
        let lines: usize = self.of_gpu.values().sum();
        let torn = (most * gpus).saturating_sub(lines);
        let others = self.missing.saturating_sub(without * absent);
        others <= absent * most.saturating_sub(without) + torn
    }
}

/// The jobs of some GPUs.
#[derive(Debug, Default)]
pub struct ConnectedJobs {
    /// The job of each GPU, as one of its GPUs.
    pub job_of: Vec<usize>,
    /// By job, the communicators that have all its GPUs, if none of the job is larger, and the members that others lack
    /// can be those that it lacks, too: otherwise the job has ranks which it has not, and which they are decides the
    /// numbers. In their order, those with the job's ranks first.
    pub worlds: FxHashMap<usize, Vec<JobWorld>>,
}

impl ConnectedJobs {
    /// Finds the jobs of `gpus` GPUs that communicators connect.
    pub fn new(gpus: usize, communicators: &[SeenCommunicator]) -> ConnectedJobs {
        let mut sets = DisjointSets::new(gpus);
        for communicator in communicators {
            for pair in communicator.gpus.windows(2) {
                sets.join_sets(pair[0], pair[1]);
            }
        }
        let job_of: Vec<usize> = (0..gpus).map(|gpu| sets.find_root(gpu)).collect();
        let mut size: FxHashMap<usize, usize> = FxHashMap::default();
        for job in &job_of {
            *size.entry(*job).or_default() += 1;
        }
        // The largest communicator of each job, and those of this size with all GPUs.
        let mut largest: FxHashMap<usize, (u32, Vec<usize>)> = FxHashMap::default();
        let mut sizes: FxHashMap<usize, BTreeMap<u32, CommunicatorsOfSize>> = FxHashMap::default();
        for (at, communicator) in communicators.iter().enumerate() {
            let Some(first) = communicator.gpus.first() else {
                continue;
            };
            let job = job_of[*first];
            let of_size = sizes
                .entry(job)
                .or_default()
                .entry(communicator.nranks)
                .or_default();
            of_size.add_communicator(communicator.count_missing(), &communicator.gpus);
            let (nranks, those) = largest.entry(job).or_default();
            if communicator.nranks > *nranks {
                (*nranks, *those) = (communicator.nranks, Vec::new());
            }
            if communicator.nranks == *nranks && communicator.gpus.len() == size[&job] {
                those.push(at);
            }
        }
        let worlds = largest.into_iter().map(|(job, (_, those))| {
            let worlds = those.into_iter().filter_map(|at| {
                let (missing, nranks) =
                    (communicators[at].count_missing(), communicators[at].nranks);
                let mut sizes = sizes[&job].iter();
                let has_all = sizes
                    .all(|(of, all)| all.can_lack(missing, size[&job], usize::from(*of == nranks)));
                has_all.then_some(JobWorld {
                    at,
                    is_whole: missing == 0,
                    has_job_ranks: missing < communicators[at].ranks,
                })
            });
            let mut worlds = Vec::from_iter(worlds);
            worlds.sort_by_key(|world| !world.has_job_ranks);
            (job, worlds)
        });
        ConnectedJobs {
            job_of,
            worlds: worlds.filter(|(_, those)| !those.is_empty()).collect(),
        }
    }
}

/// The ranks of processes in their jobs, as far as INIT lines of (almost) all ranks report them.
#[derive(Debug, Default, PartialEq)]
pub struct JobRanks {
    /// Processes with one rank. `None`: two communicators of all ranks differ in it.
    of_process: FxHashMap<u32, Option<u32>>,
    /// Members of communicators of all ranks of a job, and those of processes with several ranks by their GPUs. `None`:
    /// two GPUs are it.
    of_member: FxHashMap<CommIdentity, Option<u32>>,
}

/// Notes a rank of a key, which has none if it has several.
fn note_rank<K: Eq + Hash>(ranks: &mut FxHashMap<K, Option<u32>>, key: K, rank: u32) {
    let known = ranks.entry(key).or_insert(Some(rank));
    *known = known.filter(|known| *known == rank);
}

impl JobRanks {
    /// The ranks where lines give no ids (before NCCL 2.18): every process has one rank in communicators of the
    /// largest size, and these are all ranks of that size, each once.
    fn by_counting(unnamed: &BTreeMap<u32, ProcessRanks>) -> JobRanks {
        let processes: BTreeSet<u32> = unnamed.values().flatten().map(|(of, _)| *of).collect();
        let mut found = JobRanks::default();
        if let Some((nranks, members)) = unnamed.last_key_value() {
            let is_one = |ranks: &Vec<u32>| ranks.iter().all(|rank| *rank == ranks[0]);
            let all: BTreeSet<u32> = members.values().flatten().copied().collect();
            let counts = [all.len(), members.len(), processes.len()];
            // The first rank of a job is the first of all its communicators, and the last one the last.
            let is_end = |of_job: u32, end: fn(u32) -> u32| {
                let mut own = members.iter().filter(|(_, ranks)| ranks[0] == of_job);
                let process = own.next().map(|(process, _)| process);
                let ranks = unnamed
                    .iter()
                    .filter_map(|(size, of)| Some((end(*size), of.get(process?)?)));
                let mut ranks = ranks.flat_map(|(end, of)| of.iter().map(move |rank| *rank == end));
                ranks.all(|is_end| is_end)
            };
            let has_all =
                is_end(0, |_| 0) && is_end(nranks.saturating_sub(1), |size| size.saturating_sub(1));
            if counts == [*nranks as usize; 3] && members.values().all(is_one) && has_all {
                let ranks = members.iter();
                found.of_process = ranks.map(|(of, ranks)| (*of, Some(ranks[0]))).collect();
            }
        }
        found
    }

    /// The rank of a member of a communicator; `process` is its real one.
    pub fn rank_of(&self, process: u32, identity: Option<&CommIdentity>) -> Option<u32> {
        let of_member = identity.and_then(|own| self.of_member.get(own));
        let rank = of_member.or_else(|| self.of_process.get(&process));
        rank.copied().flatten()
    }
}

impl MergedMembers {
    /// The number of INIT lines so far that named a rank, equal ones once: more may change the ranks of jobs.
    pub fn count_named_ranks(&self) -> usize {
        self.sides.len()
    }

    /// The processes, devices and identities of the INIT lines so far.
    fn iter_gpus(&self, aliases: &[u32]) -> impl Iterator<Item = (SpeakerDevice, CommIdentity)> {
        self.sides.iter().map(|&(process, dev, identity)| {
            let process = aliases.get(process as usize).copied().unwrap_or(process);
            (
                SpeakerDevice { process, dev },
                *self.identities.get(identity),
            )
        })
    }

    /// Groups the INIT lines so far by communicator, those without ids by size; `aliases` are
    /// [`MergedMembers::process_aliases`].
    pub(super) fn group_init_lines(
        &self,
        aliases: &[u32],
    ) -> (NamedRanks, BTreeMap<u32, ProcessRanks>) {
        let (mut named, mut unnamed) = (NamedRanks::new(), BTreeMap::new());
        for (gpu, own) in self.iter_gpus(aliases) {
            let members: &mut ProcessRanks = match own.comm_id {
                Some(id) => named.entry((id, own.nranks)).or_default(),
                None => unnamed.entry(own.nranks).or_default(),
            };
            members.entry(gpu.process).or_default().push(own.rank);
        }
        (named, unnamed)
    }

    /// Finds the ranks of all jobs by the INIT lines of all inputs; `aliases` are [`MergedMembers::process_aliases`].
    pub fn find_job_ranks(&self, aliases: &[u32]) -> JobRanks {
        self.find_ranks_by_worlds(aliases, |world| world.has_job_ranks)
    }

    /// The same by the INIT lines so far, where lines that are missing may yet come.
    pub fn find_job_ranks_so_far(&self, aliases: &[u32]) -> JobRanks {
        self.find_ranks_by_worlds(aliases, |world| world.is_whole)
    }

    fn find_ranks_by_worlds(&self, aliases: &[u32], is_known: fn(&JobWorld) -> bool) -> JobRanks {
        let (named, unnamed) = self.group_init_lines(aliases);
        if named.is_empty() {
            return JobRanks::by_counting(&unnamed);
        }
        let mut found = JobRanks::default();
        let worlds = find_worlds(&named, aliases.len(), is_known).into_iter();
        let worlds: FxHashSet<_> = worlds.map(|(key, _)| *key).collect();
        let mut of_gpu = FxHashMap::default();
        for (gpu, own) in self.iter_gpus(aliases) {
            if own
                .comm_id
                .is_some_and(|id| worlds.contains(&(id, own.nranks)))
            {
                found.of_member.insert(own, Some(own.rank));
                note_rank(&mut found.of_process, gpu.process, own.rank);
                note_rank(&mut of_gpu, gpu, own.rank);
            }
        }
        for (gpu, own) in self.iter_gpus(aliases) {
            if found.of_process.get(&gpu.process) == Some(&None)
                && let Some(rank) = of_gpu.get(&gpu).copied().flatten()
            {
                note_rank(&mut found.of_member, own, rank);
            }
        }
        found
    }
}

/// The ranks that INIT lines give to processes in a communicator.
pub(super) type ProcessRanks = BTreeMap<u32, Vec<u32>>;

/// Communicators by id and size.
pub(super) type NamedRanks = BTreeMap<(CommId, u32), ProcessRanks>;

/// Finds the communicators that have the ranks of a job, of so many processes.
pub(super) fn find_worlds(
    named: &NamedRanks,
    processes: usize,
    is_known: impl Fn(&JobWorld) -> bool,
) -> Vec<(&(CommId, u32), &ProcessRanks)> {
    let seen = named.iter().map(|((_, nranks), members)| SeenCommunicator {
        nranks: *nranks,
        gpus: members.keys().map(|process| *process as usize).collect(),
        ranks: FxHashSet::from_iter(members.values().flatten()).len(),
    });
    let jobs = ConnectedJobs::new(processes, &Vec::from_iter(seen));
    let named = Vec::from_iter(named);
    let worlds = jobs.worlds.values().flatten();
    let worlds = worlds.filter(|world| is_known(world));
    worlds.map(|world| named[world.at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::comm_id::CommId;

    /// The process, id, rank and size of an INIT line.
    type InitOfProcess = (u32, Option<u64>, u32, u32);

    /// Members of processes with these INIT lines.
    fn members_of(sides: &[InitOfProcess]) -> MergedMembers {
        gpus_of(&Vec::from_iter(sides.iter().map(|side| (*side, None))))
    }

    /// The same with their devices.
    fn gpus_of(sides: &[(InitOfProcess, Option<u32>)]) -> MergedMembers {
        let mut merged = MergedMembers::default();
        for &((process, id, rank, nranks), dev) in sides {
            let pid = Some(100 + u64::from(process));
            let process = merged.origins.intern_process(b"host", pid, true);
            let comm_id = id.map(CommId::from_printed);
            let identity = merged.identities.intern(CommIdentity {
                rank,
                nranks,
                comm_id,
            });
            merged.sides.insert((process, dev, identity));
        }
        merged
    }

    /// The rank of each process in a communicator that has no ranks of its own to give.
    fn ranks_of(sides: &[InitOfProcess]) -> Vec<Option<u32>> {
        let merged = members_of(sides);
        let ranks = merged.find_job_ranks(&merged.process_aliases());
        let processes = 0..merged.origins.processes.items().len() as u32;
        processes
            .map(|process| ranks.rank_of(process, None))
            .collect()
    }

    #[test]
    fn the_communicator_of_all_ranks_has_the_ranks_of_the_job() {
        let pair = |id: u64, first: u32| [(first, Some(id), 0, 2), (first + 1, Some(id), 1, 2)];
        let world: Vec<_> = (0..4).map(|p| (p, Some(9), p, 4)).collect();
        let groups = [pair(1, 0), pair(2, 2)].concat();
        let all = [&groups[..], &world].concat();
        let ranks = [Some(0), Some(1), Some(2), Some(3)];
        assert_eq!(ranks_of(&all), ranks);
        // A rank that is missing everywhere leaves the others' known.
        let others: Vec<_> = all.iter().filter(|of| of.0 != 3).copied().collect();
        assert_eq!(ranks_of(&others), ranks[..3]);
        // Its lines may yet come.
        let merged = members_of(&others);
        let so_far = merged.find_job_ranks_so_far(&merged.process_aliases());
        assert_eq!(so_far.rank_of(0, None), None);
        // Of a job without a communicator of all ranks, the first ranks of hosts have one, and lack those beside them.
        for nranks in [4, 5] {
            let firsts = (0..4).map(move |p| (p, Some(9), p, nranks));
            let of_host = (0..4).map(|p| (p, Some(20 + u64::from(p)), 0, 2));
            assert_eq!(ranks_of(&Vec::from_iter(firsts.chain(of_host))), [None; 4]);
        }
        // A group that lacks the line of a rank which the world has.
        let torn: Vec<_> = all.iter().skip(1).copied().collect();
        assert_eq!(ranks_of(&torn), [Some(1), Some(2), Some(3), Some(0)]);
        // Of two ranks of eight, nothing shows that the larger communicator has all.
        assert_eq!(
            ranks_of(&[(0, Some(9), 5, 8), (1, Some(9), 6, 8)]),
            [None; 2]
        );
        // Of two jobs each has its own.
        let both: Vec<_> = (0..4).map(|p| (4 + p, Some(8), 3 - p, 4)).collect();
        let backwards = [Some(3), Some(2), Some(1), Some(0)];
        assert_eq!(
            ranks_of(&[&all[..], &both].concat()),
            [ranks, backwards].concat()
        );
        // Another communicator of all ranks in another order: who is meant is unknown.
        let other: Vec<_> = (0..4).map(|p| (p, Some(7), (p + 1) % 4, 4)).collect();
        assert_eq!(ranks_of(&[&world[..], &other].concat()), [None; 4]);
    }

    #[test]
    fn a_process_with_several_ranks_has_those_of_the_lines() {
        let merged = members_of(&[(0, Some(9), 0, 2), (0, Some(9), 1, 2), (0, Some(5), 0, 1)]);
        let ranks = merged.find_job_ranks(&merged.process_aliases());
        let identity = |rank, id| CommIdentity {
            rank,
            nranks: 2,
            comm_id: Some(CommId::from_printed(id)),
        };
        assert_eq!(ranks.rank_of(0, Some(&identity(1, 9))), Some(1));
        assert_eq!(ranks.rank_of(0, Some(&identity(0, 5))), None);
        // The device of an INIT line is one rank of the job.
        let world = (0..3).map(|rank| ((0, Some(9), rank, 3), Some(7 - rank)));
        let pair = (0..2).map(|rank| ((0, Some(5), rank, 2), Some(5 + rank)));
        let merged = gpus_of(&Vec::from_iter(world.chain(pair)));
        let ranks = merged.find_job_ranks(&merged.process_aliases());
        assert_eq!(ranks.rank_of(0, Some(&identity(0, 5))), Some(2));
        assert_eq!(ranks.rank_of(0, Some(&identity(1, 5))), Some(1));
        assert_eq!(ranks.rank_of(0, None), None);
    }

    #[test]
    fn without_ids_the_largest_size_counts() {
        let world = (0..4).map(|p| (p, None, p, 4));
        let halves = (0..4).map(|p| (p, None, p % 2, 2));
        let ranks = [Some(0), Some(1), Some(2), Some(3)];
        let all: Vec<_> = world.clone().chain(halves.clone()).collect();
        assert_eq!(ranks_of(&all), ranks);
        // The first ranks of four hosts.
        let firsts = (0..4).map(|p| (p, None, 0, 2));
        let firsts: Vec<_> = world.clone().chain(firsts).collect();
        assert_eq!(ranks_of(&firsts), [None; 4]);
        let partly: Vec<_> = world.take(3).chain(halves).collect();
        assert_eq!(ranks_of(&partly), [None; 4]);
    }
}
