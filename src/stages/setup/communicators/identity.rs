//! Groups sides to communicators, and finds their members' places in the job.

use super::fold::CommunicatorSide;
use super::purpose::PurposeLabel;
use crate::members::SpeakerProcess;
use crate::members::comm_id::CommId;
use crate::members::job_ranks::{ConnectedJobs, JobWorld, SeenCommunicator};
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

impl MergedCommunicator {
    /// True for a communicator of all ranks of a job, which few members of it may lack lines of.
    pub(crate) fn is_world(&self) -> bool {
        self.place.known_ranks().is_some() && self.nranks == Some(self.place.world)
    }
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

/// Where ranks in a job are from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum JobRanksBasis {
    /// The order of hosts and devices: they are only likely.
    #[default]
    HostOrder,
    /// A communicator that has all GPUs which were seen, and lacks more of them than it has: a larger one may exist.
    LargestSeen,
    /// The communicator of all ranks of the job.
    World,
}

/// Places of a communicator's members in the job.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CommunicatorJobRanks {
    /// The members' ranks in the job, in the order of their ranks in it, as far as known.
    pub(crate) ranks: Vec<u32>,
    /// Number of ranks in the job.
    pub(crate) world: u32,
    /// Where the ranks are from.
    pub(crate) basis: JobRanksBasis,
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

    /// The members' ranks in the job, if a communicator of all its ranks gives them.
    pub(crate) fn known_ranks(&self) -> Option<&[u32]> {
        (self.basis == JobRanksBasis::World).then_some(&self.ranks[..])
    }

    /// The distance of neighbours in the job's ranks, where these are known.
    pub(crate) fn known_stride(&self) -> Option<u32> {
        self.known_ranks().and_then(|_| self.stride())
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

/// The GPUs of communicators by number, and their jobs.
#[derive(Debug, Default)]
struct NumberedGpus {
    numbers: FxHashMap<JobGpu, usize>,
    gpus: Vec<JobGpu>,
    jobs: ConnectedJobs,
}

/// The number of a communicator's ranks that have lines.
fn count_ranks_seen(of: &MergedCommunicator, sides: &[CommunicatorSide]) -> usize {
    let ranks = of.sides.iter().filter_map(|&at| sides[at].rank);
    ranks.collect::<FxHashSet<u32>>().len()
}

/// True for a communicator whose sides are known to be of one.
fn is_named(communicator: &MergedCommunicator) -> bool {
    !matches!(communicator.key, CommunicatorKey::Own(_))
}

impl NumberedGpus {
    fn new(all: &[MergedCommunicator], sides: &[CommunicatorSide]) -> NumberedGpus {
        let mut found = NumberedGpus::default();
        for &at in all.iter().filter(|c| is_named(c)).flat_map(|c| &c.sides) {
            let gpu = gpu_of_side(&sides[at]);
            found.numbers.entry(gpu).or_insert_with(|| {
                found.gpus.push(gpu);
                found.gpus.len() - 1
            });
        }
        let seen = all.iter().map(|communicator| SeenCommunicator {
            nranks: communicator.nranks.unwrap_or(0),
            gpus: match is_named(communicator) {
                true => found.number_members(communicator, sides),
                false => Vec::new(),
            },
            ranks: count_ranks_seen(communicator, sides),
        });
        found.jobs = ConnectedJobs::new(found.gpus.len(), &Vec::from_iter(seen));
        found
    }

    /// The numbers of a communicator's GPUs, in the order of its sides.
    fn number_members(&self, of: &MergedCommunicator, sides: &[CommunicatorSide]) -> Vec<usize> {
        let members = of.sides.iter().map(|&at| gpu_of_side(&sides[at]));
        members.map(|gpu| self.numbers[&gpu]).collect()
    }

    /// The first communicator of all ranks of each job.
    fn iter_worlds(&self) -> impl Iterator<Item = (usize, JobWorld)> {
        let worlds = self.jobs.worlds.iter();
        worlds.filter_map(|(job, those)| Some((*job, *those.first()?)))
    }
}

/// The ranks in their job of the GPUs of all jobs with a communicator of all ranks, each seen, no two with one GPU or one
/// rank. Sides may be known by their calls alone: members that made none are missing.
pub(crate) fn find_job_ranks(sides: &[CommunicatorSide]) -> BTreeMap<JobGpu, u32> {
    let all = group_sides(sides);
    let numbered = NumberedGpus::new(&all, sides);
    let mut ranks = BTreeMap::new();
    let worlds = numbered.iter_worlds().map(|(_, world)| world);
    for world in worlds.filter(|world| world.is_whole) {
        let members = all[world.at].sides.iter().map(|&at| &sides[at]);
        let own: BTreeMap<JobGpu, u32> = members
            .filter_map(|side| Some((gpu_of_side(side), side.rank?)))
            .collect();
        let distinct: FxHashSet<u32> = own.values().copied().collect();
        if distinct.len() == own.len() {
            ranks.extend(own);
        }
    }
    ranks
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
    let numbered = NumberedGpus::new(all, sides);
    let mut rank: FxHashMap<usize, u32> = FxHashMap::default();
    let mut worlds: FxHashMap<usize, JobWorld> = FxHashMap::default();
    for (job, known) in numbered.iter_worlds() {
        worlds.insert(job, known);
        let world = &all[known.at];
        let gpus = numbered.number_members(world, sides).into_iter();
        let ranks = world.sides.iter().map(|&at| sides[at].rank);
        rank.extend(gpus.zip(ranks).filter_map(|(gpu, rank)| Some((gpu, rank?))));
    }
    let sizes = worlds
        .values()
        .map(|world| (world.at, all[world.at].nranks.unwrap_or(0)));
    let sizes: FxHashMap<usize, u32> = sizes.collect();
    // All others follow the order of hosts and devices.
    let mut rest: Vec<usize> = (0..numbered.gpus.len())
        .filter(|&at| !worlds.contains_key(&numbered.jobs.job_of[at]))
        .collect();
    rest.sort_by_cached_key(|&at| {
        let (process, dev) = numbered.gpus[at];
        let SpeakerProcess { host, pid } = &processes[process as usize];
        (natural_parts(host).collect::<Vec<_>>(), dev, *pid)
    });
    let count = u32::try_from(rest.len()).unwrap_or(u32::MAX);
    let order: FxHashMap<usize, u32> = rest.into_iter().zip(0..).collect();
    for communicator in all.iter_mut().filter(|c| is_named(c)) {
        let members = numbered.number_members(communicator, sides);
        let Some(&first) = members.first() else {
            continue;
        };
        let world = worlds.get(&numbered.jobs.job_of[first]);
        let ranks: Option<Vec<u32>> = members
            .iter()
            .map(|gpu| rank.get(gpu).or_else(|| order.get(gpu)).copied())
            .collect();
        let ranks = ranks.unwrap_or_default();
        communicator.place = CommunicatorJobRanks {
            whole: communicator.nranks == u32::try_from(ranks.len()).ok(),
            ranks,
            world: world.map_or(count, |world| sizes[&world.at]),
            basis: match world {
                None => JobRanksBasis::HostOrder,
                Some(world) if world.has_job_ranks => JobRanksBasis::World,
                Some(_) => JobRanksBasis::LargestSeen,
            },
        };
    }
}

/// Splits a name for sorting as people count: `node2` before `node10`.
pub(crate) fn natural_parts(name: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    name.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
        .map(|part| match std::str::from_utf8(part).map(str::parse) {
            Ok(Ok(number)) => (number, &[][..]),
            _ => (u64::MAX, part),
        })
}
