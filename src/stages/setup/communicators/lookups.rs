//! Who is who in a summary: the sides of a process, and the ranks of the job. There may be as many questions as
//! findings, so each is one look-up.

use super::CommunicatorsSummary;
use super::identity::{JobGpu, gpu_of_side};
use crate::members::SpeakerProcess;
use rustc_hash::FxHashMap;

/// The look-ups of a summary, made when the first is asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct SummaryLookups {
    sides: FxHashMap<SpeakerProcess, Vec<usize>>,
    /// The rank in the job, where a communicator of all ranks gives it.
    job_ranks: FxHashMap<JobGpu, u32>,
    /// A side of each rank in the job; `None` if several processes have it: attempts of a job and jobs beside
    /// each other.
    side_of_rank: FxHashMap<u32, Option<usize>>,
}

impl SummaryLookups {
    fn new(found: &CommunicatorsSummary) -> SummaryLookups {
        let mut made = SummaryLookups::default();
        for (at, side) in found.sides.iter().enumerate() {
            let process = found.processes[side.process as usize].clone();
            made.sides.entry(process).or_default().push(at);
        }
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
        made
    }
}

impl CommunicatorsSummary {
    fn lookups(&self) -> &SummaryLookups {
        self.lookups.get_or_init(|| SummaryLookups::new(self))
    }

    /// The sides of a process, in their order.
    pub(crate) fn sides_of_process(&self, host: &[u8], pid: Option<u64>) -> &[usize] {
        let process = SpeakerProcess {
            host: host.into(),
            pid,
        };
        let known = self.lookups().sides.get(&process);
        known.map_or(&[], |sides| sides)
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
