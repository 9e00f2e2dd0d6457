//! Communicators made by `ncclCommSplit` instead of from an id of their own.
//!
//! From `src/init.cc`: 2.21 and 2.22 print `parent`, `color`, `key` and the `commId`; 2.23 no
//! `commId`; 2.24 the number of the split, as `splitCount`, since 2.29 as `childCount`.

use crate::job::{JobCommMember, JobProcess, SynthJob};
use crate::options::{Nccl, Options};
use crate::rng::hash_parts;

/// A communicator's place below the job's first, which has all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobCommSplit {
    /// Which split of the parent it is. All ranks of the parent count all its splits.
    pub(crate) child: usize,
    /// The color that only its ranks pass.
    pub(crate) color: u64,
}

impl JobCommSplit {
    /// How the communicator `comm` was split from the first; `None` for the first, and where
    /// nothing is split.
    pub(crate) fn split_of_comm(
        options: &Options,
        job: &SynthJob,
        comm: usize,
    ) -> Option<JobCommSplit> {
        let ranks: Vec<u64> = job.comms[comm].ranks.iter().map(|&r| r as u64).collect();
        // As PyTorch does: the hash of the ranks.
        let color = hash_parts(8, &ranks) & 0x7fff_ffff;
        (options.split && comm > 0).then_some(JobCommSplit { child: comm, color })
    }

    /// The common part of its members' INIT lines, if not an id.
    pub(crate) fn common_id(self, nccl: Nccl, job: &SynthJob) -> Option<String> {
        let parent = job.comms.first()?.id;
        // Without a number it is known by how many of its color come before.
        let child = if nccl.since(Nccl::V2_24) {
            self.child
        } else {
            let (before, own) = (&job.comms[1..self.child], &job.comms[self.child]);
            before.iter().filter(|c| c.ranks == own.ranks).count()
        };
        nccl.since(Nccl::V2_23)
            .then(|| format!("{parent:#x}/{child}.{}", self.color))
    }

    /// The end of its INIT line, from `parent`.
    pub(crate) fn format_init_end(
        self,
        nccl: Nccl,
        job: &SynthJob,
        proc: &JobProcess,
        member: &JobCommMember,
        end: &str,
    ) -> String {
        let parent = proc.members[proc.world].ptr;
        let JobCommSplit { child, color } = self;
        let count = match nccl {
            n if n.since(Nccl::V2_29) => format!(" childCount {child}"),
            n if n.since(Nccl::V2_24) => format!(" splitCount {child}"),
            _ => String::new(),
        };
        let id = match nccl {
            n if n.since(Nccl::V2_23) => String::new(),
            _ => format!(" commId {:#x}", job.comms[member.comm].id),
        };
        let blank = if id.is_empty() && end == "START" {
            ""
        } else {
            " "
        };
        format!(
            " parent {parent:#x}{count} color {color} key {}{id}{blank}- Init {end}",
            member.rank
        )
    }
}
