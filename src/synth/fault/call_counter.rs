//! Counts the calls that are made, so that the truth can name the wrong one.

use crate::fault::plan::FaultPlan;
use crate::job::call::{CallOp, ScheduledCall};
use rustc_hash::FxHashMap;

/// A call that was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IssuedCall {
    /// The rank in the job.
    pub(super) rank: usize,
    /// What.
    pub(super) call: ScheduledCall,
    /// Elements in this step.
    pub(super) count: u64,
    /// The number, from 1, that PyTorch gives the work it belongs to.
    pub(super) work: u64,
}

impl IssuedCall {
    /// With it the work is handed over; a group is, with its last call.
    pub(crate) fn is_last(&self) -> bool {
        !self.call.more
    }
}

/// The rank's last call before its fault.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastCallBeforeFault {
    pub(super) call: ScheduledCall,
    pub(super) count: u64,
    pub(super) seq: u64,
    pub(super) line: u64,
}

/// A rank's calls on a communicator that are numbered together.
type CallSeries = (usize, Option<(CallOp, usize)>);

fn series_of_call(call: &ScheduledCall) -> CallSeries {
    let paired = matches!(call.op, CallOp::Send | CallOp::Recv);
    (call.slot, paired.then_some((call.op, call.root)))
}

/// Sees every call.
#[derive(Debug)]
pub(crate) struct CallCounter {
    rank: usize,
    step: u64,
    at: usize,
    /// The step of the fault is over.
    pub(crate) over: bool,
    /// Calls are to be handed on.
    pub(crate) live: bool,
    news: Vec<IssuedCall>,
    /// Calls of the rank before the fault.
    made: FxHashMap<CallSeries, u64>,
    /// Works by rank and communicator: collectives, and those between two ranks.
    works: FxHashMap<(usize, usize), [u64; 2]>,
    pub(super) last: Option<LastCallBeforeFault>,
    /// The line of the call that is wrong.
    pub(super) line: Option<u64>,
}

impl CallCounter {
    /// Without a wrong call there is nothing to look out for.
    pub(crate) fn new(plan: Option<&FaultPlan>) -> Self {
        Self {
            rank: plan.map_or(usize::MAX, |plan| plan.rank),
            step: plan.map_or(0, |plan| plan.step),
            at: plan.map_or(0, |plan| plan.at),
            over: plan.is_none(),
            live: false,
            news: Vec::new(),
            made: FxHashMap::default(),
            works: FxHashMap::default(),
            last: None,
            line: None,
        }
    }

    /// A rank has made the call at a place of its program; its line is this one.
    pub(crate) fn record_call(
        &mut self,
        rank: usize,
        place: (u64, usize),
        call: &ScheduledCall,
        count: u64,
        line: u64,
    ) {
        if rank == self.rank && !self.over {
            match place.cmp(&(self.step, self.at)) {
                std::cmp::Ordering::Less => {
                    let seq = self.made.entry(series_of_call(call)).or_default();
                    self.last = Some(LastCallBeforeFault {
                        call: *call,
                        count,
                        seq: *seq,
                        line,
                    });
                    *seq += 1;
                }
                std::cmp::Ordering::Equal => self.line = Some(line),
                std::cmp::Ordering::Greater => {}
            }
        }
        let work = self.works.entry((rank, call.slot)).or_default();
        // The calls of a group are one work, an exchange of all with all.
        let alone = call.task == 0 && !call.more;
        let number =
            &mut work[usize::from(alone && matches!(call.op, CallOp::Send | CallOp::Recv))];
        *number += u64::from(call.task == 0);
        if self.live {
            let work = *number;
            let call = *call;
            self.news.push(IssuedCall {
                rank,
                call,
                count,
                work,
            });
        }
    }

    /// The calls made since the last time.
    pub(crate) fn take_new_calls(&mut self) -> Vec<IssuedCall> {
        std::mem::take(&mut self.news)
    }

    /// The number of the rank's next such call.
    pub(super) fn next_number(&self, call: &ScheduledCall) -> u64 {
        self.made.get(&series_of_call(call)).copied().unwrap_or(0)
    }

    /// How many works a rank has handed to a communicator: collectives, and those between two.
    pub(super) fn count_works(&self, rank: usize, slot: usize) -> [u64; 2] {
        self.works.get(&(rank, slot)).copied().unwrap_or_default()
    }
}
