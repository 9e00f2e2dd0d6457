//! The sides of a process in a summary, and the ranks of the job. There may be as many questions as
//! findings, so each is one look-up.

use super::CommunicatorsSummary;
use super::identity::{JobGpu, gpu_of_side};
use crate::members::SpeakerProcess;
use crate::members::comm_id::CommId;
use rustc_hash::FxHashMap;

/// The look-ups of a summary, made when the first is asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct SummaryLookups {
    sides: FxHashMap<SpeakerProcess, ProcessSides>,
    /// The rank in the job, where a communicator of all ranks gives it.
    job_ranks: FxHashMap<JobGpu, u32>,
    /// A side of each rank in the job; `None` if several processes have it: attempts of a job and jobs beside
    /// each other.
    side_of_rank: FxHashMap<u32, Option<usize>>,
}

/// The sides of a process, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProcessSides {
    pub(crate) all: Vec<usize>,
    /// The first of each rank in the job.
    pub(crate) of_job_rank: FxHashMap<u32, usize>,
    /// The first of each communicator and rank in it, where its rank in the job is known.
    pub(crate) of_member: FxHashMap<(Option<CommId>, Option<u32>), usize>,
}

impl SummaryLookups {
    fn new(found: &CommunicatorsSummary) -> SummaryLookups {
        let mut made = SummaryLookups::default();
        for world in found.communicators.iter().filter(|of| of.is_world()) {
            for &at in &world.sides {
                let side = &found.sides[at];
                let Some(rank) = side.rank else { continue };
                made.job_ranks.entry(gpu_of_side(side)).or_insert(rank);
                let known = made.side_of_rank.entry(rank).or_insert(Some(at));
                let is_same = |first: &usize| found.sides[*first].process == side.process;
                *known = known.filter(is_same);
            }
        }
        for (at, side) in found.sides.iter().enumerate() {
            let process = found.processes[side.process as usize].clone();
            let own = made.sides.entry(process).or_default();
            own.all.push(at);
            if let Some(rank) = made.job_ranks.get(&gpu_of_side(side)) {
                own.of_job_rank.entry(*rank).or_insert(at);
                let member = own.of_member.entry((side.comm_id, side.rank));
                member.or_insert(at);
            }
        }
        made
    }
}

impl CommunicatorsSummary {
    fn lookups(&self) -> &SummaryLookups {
        self.lookups.get_or_init(|| SummaryLookups::new(self))
    }

    /// The sides of a process, in their order.
    pub(crate) fn sides_of_process(&self, host: &[u8], pid: Option<u64>) -> &[usize] {
        self.process_sides(host, pid).map_or(&[], |own| &own.all)
    }

    /// The sides of a process; `None` if it has none.
    pub(crate) fn process_sides(&self, host: &[u8], pid: Option<u64>) -> Option<&ProcessSides> {
        let process = SpeakerProcess {
            host: host.into(),
            pid,
        };
        self.lookups().sides.get(&process)
    }

    /// The rank in the job of a side's GPU, where a communicator of all ranks gives it.
    pub(crate) fn job_rank_of_side(&self, side: usize) -> Option<u32> {
        let gpu = gpu_of_side(&self.sides[side]);
        self.lookups().job_ranks.get(&gpu).copied()
    }

    /// A side of a rank in the job, where the communicators of all ranks give it one process.
    pub(crate) fn side_of_job_rank(&self, rank: u32) -> Option<usize> {
        self.lookups().side_of_rank.get(&rank).copied().flatten()
    }
}
