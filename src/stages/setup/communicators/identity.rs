//! Groups sides to communicators, and finds their members' places in the job.

use super::fold::CommunicatorSide;
use super::purpose::PurposeLabel;
use crate::members::SpeakerProcess;
use crate::members::comm_id::CommId;
use rustc_hash::FxHashMap;

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

/// Finds every communicator's members in the job.
///
/// Communicators connect the GPUs of a job. If one of them has all GPUs of its job, its ranks are the
/// job's. Otherwise GPUs are numbered by host and device, which is only likely.
pub(crate) fn place_in_job(
    all: &mut [MergedCommunicator],
    sides: &[CommunicatorSide],
    processes: &[SpeakerProcess],
) {
    let mut numbers: FxHashMap<JobGpu, usize> = FxHashMap::default();
    let mut gpus: Vec<JobGpu> = Vec::new();
    let named = |c: &MergedCommunicator| !matches!(c.key, CommunicatorKey::Own(_));
    for &at in all.iter().filter(|c| named(c)).flat_map(|c| &c.sides) {
        numbers.entry(gpu_of_side(&sides[at])).or_insert_with(|| {
            gpus.push(gpu_of_side(&sides[at]));
            gpus.len() - 1
        });
    }
    let mut job = DisjointSets::new(gpus.len());
    for communicator in all.iter().filter(|c| named(c)) {
        let mut members = communicator
            .sides
            .iter()
            .map(|&at| numbers[&gpu_of_side(&sides[at])]);
        if let Some(first) = members.next() {
            members.for_each(|other| job.join_sets(first, other));
        }
    }
    let mut size: FxHashMap<usize, usize> = FxHashMap::default();
    for at in 0..gpus.len() {
        *size.entry(job.find_root(at)).or_default() += 1;
    }
    // The first communicator that has all GPUs of its job.
    let mut rank: FxHashMap<usize, u32> = FxHashMap::default();
    let mut world: FxHashMap<usize, u32> = FxHashMap::default();
    for communicator in all.iter().filter(|c| named(c)) {
        let members: Vec<(usize, Option<u32>)> = communicator
            .sides
            .iter()
            .map(|&at| (numbers[&gpu_of_side(&sides[at])], sides[at].rank))
            .collect();
        let Some(&(first, _)) = members.first() else {
            continue;
        };
        let root = job.find_root(first);
        if members.len() != size[&root] || world.contains_key(&root) {
            continue;
        }
        world.insert(root, communicator.nranks.unwrap_or(0));
        for (gpu, of) in members {
            rank.extend(of.map(|of| (gpu, of)));
        }
    }
    // All others follow the order of hosts and devices.
    let mut rest: Vec<usize> = (0..gpus.len())
        .filter(|&at| !world.contains_key(&job.find_root(at)))
        .collect();
    rest.sort_by_cached_key(|&at| {
        let (process, dev) = gpus[at];
        let SpeakerProcess { host, pid } = &processes[process as usize];
        (natural_sort_key(host), dev, *pid)
    });
    let count = u32::try_from(rest.len()).unwrap_or(u32::MAX);
    let order: FxHashMap<usize, u32> = rest.into_iter().zip(0..).collect();
    for communicator in all
        .iter_mut()
        .filter(|c| !matches!(c.key, CommunicatorKey::Own(_)))
    {
        let members: Vec<usize> = communicator
            .sides
            .iter()
            .map(|&at| numbers[&gpu_of_side(&sides[at])])
            .collect();
        let Some(&first) = members.first() else {
            continue;
        };
        let of = world.get(&job.find_root(first)).copied();
        let ranks: Option<Vec<u32>> = members
            .iter()
            .map(|gpu| rank.get(gpu).or_else(|| order.get(gpu)).copied())
            .collect();
        let ranks = ranks.unwrap_or_default();
        communicator.place = CommunicatorJobRanks {
            whole: communicator.nranks == u32::try_from(ranks.len()).ok(),
            ranks,
            world: of.unwrap_or(count),
            sure: of.is_some(),
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
