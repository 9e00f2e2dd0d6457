//! A wrong call, or a missing one, and what it changes.

use crate::fault::FaultKind;
use crate::job::SynthJob;
use crate::job::call::{CallCount, ScheduledCall};
use crate::options::{Options, Strategy};
use crate::truth::cells::TruthCells;

/// A wrong call, or a missing one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultPlan {
    pub(crate) kind: FaultKind,
    /// The rank in the job.
    pub(crate) rank: usize,
    /// In the trainer's numbers.
    pub(crate) step: u64,
    /// Where it is in the rank's program of a step.
    pub(super) at: usize,
    /// The second call, where two change places.
    pub(super) with: usize,
    /// The call as it should be.
    pub(super) expected: ScheduledCall,
    /// Its elements, where they differ by step.
    pub(super) tokens: u64,
    /// The call made in its place.
    pub(super) made: Option<ScheduledCall>,
    /// The job does not go on to its end.
    pub(crate) hangs: bool,
}

impl FaultPlan {
    /// The rank's calls of the step.
    pub(crate) fn edit_calls(
        &self,
        job: &SynthJob,
        calls: &mut Vec<ScheduledCall>,
        cells: &mut TruthCells,
    ) {
        match self.kind {
            FaultKind::Skip | FaultKind::Recv => {
                calls.remove(self.at);
            }
            FaultKind::Die | FaultKind::Stall => calls.truncate(self.at),
            FaultKind::Order | FaultKind::Crossed => calls.swap(self.at, self.with),
            FaultKind::Extra => calls.insert(self.at, self.expected),
            FaultKind::Retry => {
                let again = calls[..=self.at].to_vec();
                calls.splice(0..0, again);
            }
            FaultKind::Rest => calls.truncate(self.at),
            _ => {
                if let Some(mut made) = self.made {
                    // A call with elements that differ by step has its cells already.
                    if let CallCount::Fixed(count) = made.count {
                        let comm = job.procs[self.rank].members[made.slot].comm;
                        made.cell = cells.intern(made.op, made.dtype, count, job.comms[comm].kind);
                    }
                    if self.kind == FaultKind::Lone {
                        calls.insert(self.at, made);
                    } else {
                        calls[self.at] = made;
                    }
                }
            }
        }
    }

    /// The ranks that make another number of steps: those that share their data with the rank of
    /// the fault.
    pub(crate) fn ranks_of_other_steps(&self, options: &Options) -> Vec<usize> {
        let data = |rank: usize| rank / options.tp % options.shard_copies() / options.cp;
        let alone = self.kind == FaultKind::LoneSave || options.strategy == Strategy::Server;
        let same = |rank: &usize| *rank == self.rank || (!alone && data(*rank) == data(self.rank));
        (0..options.ranks).filter(same).collect()
    }
}
