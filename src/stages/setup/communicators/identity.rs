//! Groups sides to communicators, and finds their members' places in the job.

use super::fold::CommunicatorSide;
use super::purpose::PurposeLabel;
use crate::members::SpeakerProcess;
use crate::members::comm_id::CommId;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// A communicator.
#[derive(Debug, Default, Clone)]
pub(crate) struct MergedCommunicator {
    /// Its identity.
    pub(crate) key: CommunicatorKey,
    /// Its sides, by rank.
    pub(crate) sides: Vec<usize>,
    /// Its size.
    pub(crate) nranks: Option<u32>,
    /// The communicator it was split from.
    pub(crate) parent: Option<usize>,
    /// Its purpose.
    pub(crate) label: PurposeLabel,
    /// Its members' ranks in the job.
    pub(crate) place: CommunicatorJobRanks,
}

/// Identity of a communicator that all its members know.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum CommunicatorKey {
    /// The shared id, and the size.
    Id(CommId, u32),
    /// No shared identity: the address in one process.
    Own(usize),
    /// No printed identity, but counting leaves one possibility: the first of its sides.
    Counted(usize, CountingEvidence),
}

/// How counting shows that sides are one communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CountingEvidence {
    /// Each process has this one and no other.
    Only,
    /// Each process has one of this size, and each rank is there once.
    Ranks,
    /// Each process has one of this size, which is the largest.
    Largest,
    /// Each process has this many of the size, made in this order.
    Order(u32),
}

impl Default for CommunicatorKey {
    fn default() -> Self {
        CommunicatorKey::Own(usize::MAX)
    }
}

impl CommunicatorKey {
    /// Formats the id.
    pub(crate) fn format_id(&self) -> Option<String> {
        match self {
            CommunicatorKey::Id(id, _) => Some(id.to_string()),
            CommunicatorKey::Own(_) | CommunicatorKey::Counted(..) => None,
        }
    }
}

/// A GPU of the job: a process and the device its communicators are on.
pub(crate) type JobGpu = (u32, Option<u32>);

/// Places of a communicator's members in the job.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CommunicatorJobRanks {
    /// The members' ranks in the job, in the order of their ranks in it, as far as known.
    pub(crate) ranks: Vec<u32>,
    /// Number of ranks in the job.
    pub(crate) world: u32,
    /// The ranks are those of a communicator that has all members of the others; otherwise they follow the
    /// order of hosts and devices.
    pub(crate) sure: bool,
    /// All its members are known.
    pub(crate) whole: bool,
}

impl CommunicatorJobRanks {
    /// Returns the distance between neighbours, if all distances are equal.
    pub(crate) fn stride(&self) -> Option<u32> {
        if !self.whole {
            return None;
        }
        let mut steps = self.ranks.windows(2).map(|w| w[1].checked_sub(w[0]));
        let first = steps.next()??;
        (first > 0 && steps.all(|step| step == Some(first))).then_some(first)
    }

    /// True if it has every rank of the job.
    pub(crate) fn has_all_job_ranks(&self) -> bool {
        self.whole && self.world > 0 && self.ranks.len() == self.world as usize
    }
}

/// Groups sides to communicators, in the order of their first sides.
pub(crate) fn group_sides(sides: &[CommunicatorSide]) -> Vec<MergedCommunicator> {
    let mut keys: Vec<CommunicatorKey> = Vec::with_capacity(sides.len());
    let mut index: FxHashMap<CommunicatorKey, usize> = FxHashMap::default();
    let mut all: Vec<MergedCommunicator> = Vec::new();
    for (at, side) in sides.iter().enumerate() {
        // A parent is before its children.
        let parent = side.parent.map(|parent| keys[parent].clone());
        let key = match side.comm_id {
            Some(id) => CommunicatorKey::Id(id, side.nranks.unwrap_or(0)),
            None => CommunicatorKey::Own(at),
        };
        let which = *index.entry(key.clone()).or_insert_with(|| {
            all.push(MergedCommunicator {
                key: key.clone(),
                nranks: side.nranks,
                ..MergedCommunicator::default()
            });
            all.len() - 1
        });
        let parent = parent.and_then(|parent| index.get(&parent).copied());
        all[which].parent = all[which].parent.or(parent);
        all[which].sides.push(at);
        keys.push(key);
    }
    for communicator in &mut all {
        communicator.sides.sort_by_key(|&at| (sides[at].rank, at));
    }
    all
}

/// Returns the GPU of a side.
pub(crate) fn gpu_of_side(side: &CommunicatorSide) -> JobGpu {
    (side.process, side.dev)
}

/// The GPUs of all jobs. Communicators connect the GPUs of a job.
#[derive(Debug, Default)]
struct ConnectedGpus {
    numbers: FxHashMap<JobGpu, usize>,
    gpus: Vec<JobGpu>,
    /// The job of each GPU, as one of its GPUs.
    jobs: Vec<usize>,
}

/// The communicator that has all GPUs of a job: its ranks are the job's.
#[derive(Debug, Default)]
struct JobWorld {
    nranks: u32,
    /// The rank of each of its GPUs that lines report.
    ranks: Vec<(usize, u32)>,
    /// No two members have one GPU or one rank, and none is unknown.
    is_whole: bool,
}

/// True for a communicator whose sides are known to be of one.
fn is_named(communicator: &MergedCommunicator) -> bool {
    !matches!(communicator.key, CommunicatorKey::Own(_))
}

impl ConnectedGpus {
    fn new(all: &[MergedCommunicator], sides: &[CommunicatorSide]) -> ConnectedGpus {
        let mut found = ConnectedGpus::default();
        for &at in all.iter().filter(|c| is_named(c)).flat_map(|c| &c.sides) {
            let gpu = gpu_of_side(&sides[at]);
            found.numbers.entry(gpu).or_insert_with(|| {
                found.gpus.push(gpu);
                found.gpus.len() - 1
            });
        }
        let mut sets = DisjointSets::new(found.gpus.len());
        for communicator in all.iter().filter(|c| is_named(c)) {
            for pair in found.number_members(communicator, sides).windows(2) {
                sets.join_sets(pair[0], pair[1]);
            }
        }
        found.jobs = (0..found.gpus.len()).map(|at| sets.find_root(at)).collect();
        found
    }

    /// The numbers of a communicator's GPUs, in the order of its sides.
    fn number_members(&self, of: &MergedCommunicator, sides: &[CommunicatorSide]) -> Vec<usize> {
        let members = of.sides.iter().map(|&at| gpu_of_side(&sides[at]));
        members.map(|gpu| self.numbers[&gpu]).collect()
    }

    /// The worlds by job: the first communicator that has all GPUs of its job, if none of the job is larger.
    /// A larger one shows that the inputs lack some ranks, and which they are decides the numbers.
    fn find_worlds(
        &self,
        all: &[MergedCommunicator],
        sides: &[CommunicatorSide],
    ) -> FxHashMap<usize, JobWorld> {
        let mut size: FxHashMap<usize, usize> = FxHashMap::default();
        for job in &self.jobs {
            *size.entry(*job).or_default() += 1;
        }
        let members = all
            .iter()
            .filter(|c| is_named(c))
            .filter_map(|communicator| {
                let gpus = self.number_members(communicator, sides);
                let job = self.jobs[*gpus.first()?];
                Some((job, communicator, gpus))
            });
        let mut largest: FxHashMap<usize, u32> = FxHashMap::default();
        let mut worlds: FxHashMap<usize, JobWorld> = FxHashMap::default();
        for (job, communicator, gpus) in members {
            let nranks = communicator.nranks.unwrap_or(0);
            let most = largest.entry(job).or_default();
            *most = nranks.max(*most);
            let is_larger = worlds.get(&job).is_none_or(|known| known.nranks < nranks);
            if gpus.len() != size[&job] || !is_larger {
                continue;
            }
            let ranks = gpus.iter().zip(&communicator.sides);
            let ranks = ranks.filter_map(|(gpu, &at)| Some((*gpu, sides[at].rank?)));
            let ranks: Vec<_> = ranks.collect();
            let distinct = |of: &dyn Fn(&(usize, u32)) -> usize| {
                ranks.iter().map(of).collect::<FxHashSet<_>>().len()
            };
            let is_whole =
                [distinct(&|of| of.0), distinct(&|of| of.1 as usize)] == [nranks as usize; 2];
            worlds.insert(
                job,
                JobWorld {
                    nranks,
                    ranks,
                    is_whole,
                },
            );
        }
        worlds.retain(|job, world| world.nranks == largest[job]);
        worlds
    }
}

/// The ranks in their job of the GPUs of all jobs whose members are all known.
pub(crate) fn find_job_ranks(sides: &[CommunicatorSide]) -> BTreeMap<JobGpu, u32> {
    let all = group_sides(sides);
    let jobs = ConnectedGpus::new(&all, sides);
    let mut worlds = jobs.find_worlds(&all, sides);
    worlds.retain(|_, world| world.is_whole);
    let ranks = worlds.into_values().flat_map(|world| world.ranks);
    ranks.map(|(gpu, rank)| (jobs.gpus[gpu], rank)).collect()
}

/// Finds every communicator's members in the job.
///
/// If one of the communicators has all GPUs of its job, its ranks are the job's. Otherwise GPUs are numbered by
/// host and device, which is only likely.
pub(crate) fn place_in_job(
    all: &mut [MergedCommunicator],
    sides: &[CommunicatorSide],
    processes: &[SpeakerProcess],
) {
    let jobs = ConnectedGpus::new(all, sides);
    let worlds = jobs.find_worlds(all, sides);
    let rank: FxHashMap<usize, u32> = worlds.values().flat_map(|w| w.ranks.clone()).collect();
    // All others follow the order of hosts and devices.
    let mut rest: Vec<usize> = (0..jobs.gpus.len())
        .filter(|&at| !worlds.contains_key(&jobs.jobs[at]))
        .collect();
    rest.sort_by_cached_key(|&at| {
        let (process, dev) = jobs.gpus[at];
        let SpeakerProcess { host, pid } = &processes[process as usize];
        (natural_sort_key(host), dev, *pid)
    });
    let count = u32::try_from(rest.len()).unwrap_or(u32::MAX);
    let order: FxHashMap<usize, u32> = rest.into_iter().zip(0..).collect();
    for communicator in all.iter_mut().filter(|c| is_named(c)) {
        let members = jobs.number_members(communicator, sides);
        let Some(&first) = members.first() else {
            continue;
        };
        let world = worlds.get(&jobs.jobs[first]);
        let ranks: Option<Vec<u32>> = members
            .iter()
            .map(|gpu| rank.get(gpu).or_else(|| order.get(gpu)).copied())
            .collect();
        let ranks = ranks.unwrap_or_default();
        communicator.place = CommunicatorJobRanks {
            whole: communicator.nranks == u32::try_from(ranks.len()).ok(),
            ranks,
            world: world.map_or(count, |world| world.nranks),
            sure: world.is_some(),
        };
    }
}

/// Splits a name for sorting as people count: `node2` before `node10`.
pub(crate) fn natural_sort_key(name: &[u8]) -> Vec<(u64, Vec<u8>)> {
    name.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
        .map(|part| match std::str::from_utf8(part).map(str::parse) {
            Ok(Ok(number)) => (number, Vec::new()),
            _ => (u64::MAX, part.to_vec()),
        })
        .collect()
}

/// Disjoint sets that can be joined.
#[derive(Debug, Default)]
pub(crate) struct DisjointSets(Vec<usize>);

impl DisjointSets {
    /// Makes `n` sets of one.
    pub(crate) fn new(n: usize) -> DisjointSets {
        DisjointSets((0..n).collect())
    }

    /// Returns the root of the set of `at`.
    pub(crate) fn find_root(&mut self, at: usize) -> usize {
        let mut root = at;
        while self.0[root] != root {
            self.0[root] = self.0[self.0[root]];
            root = self.0[root];
        }
        root
    }

    /// Joins two sets; the lower root remains.
    pub(crate) fn join_sets(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find_root(a), self.find_root(b));
        self.0[a.max(b)] = a.min(b);
    }
}
