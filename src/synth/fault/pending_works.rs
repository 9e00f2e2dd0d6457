//! Finds which of the ranks' calls end: those that their peers make too.
//!
//! A rank's calls run one after the other. A collective runs to its end once all members run
//! theirs and they are the same; a Send once its peer runs the Recv.

use crate::fault::call_counter::IssuedCall;
use crate::fault::search::LL_LINE_BYTES;
use crate::job::SynthJob;
use crate::job::call::CallOp;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// What PyTorch hands to NCCL at once: a call, or a group of them.
#[derive(Debug)]
pub(super) struct TorchWork {
    /// Slot of the communicator in its process.
    pub(super) slot: usize,
    /// PyTorch's number of it, among collectives or among those between two ranks.
    pub(super) seq: u64,
    /// Between two ranks.
    pub(super) paired: bool,
    /// PyTorch's name of it (`opTypeToString` in `torch/csrc/distributed/c10d/Work.cpp`).
    pub(super) op: &'static str,
    /// Elements in.
    pub(super) numel_in: u64,
    /// Elements out.
    pub(super) numel_out: u64,
    parts: Vec<WorkPart>,
    left: usize,
}

#[derive(Debug, Clone, Copy)]
enum WorkPart {
    Collective {
        comm: usize,
        index: u64,
        same: CallAgreement,
        bytes: u128,
    },
    /// Communicator, sender, receiver and number: a Send and a Recv each.
    Pair((usize, usize, usize, u64)),
}

/// The fields on which members must agree, besides the bytes: the operation, and the root if there is one.
type CallAgreement = (CallOp, usize);

/// Ranks that run the same call, with what they take it for and its bytes.
type CallMeeting = Vec<(usize, CallAgreement, u128)>;

/// The calls that run or wait.
#[derive(Debug)]
pub(crate) struct PendingWorks<'a> {
    job: &'a SynthJob,
    streams: Vec<VecDeque<TorchWork>>,
    group: Vec<Option<TorchWork>>,
    made: FxHashMap<(usize, usize), u64>,
    paired: FxHashMap<(usize, usize, usize, bool), u64>,
    meetings: FxHashMap<(usize, u64), CallMeeting>,
    pairs: FxHashMap<(usize, usize, usize, u64), usize>,
    /// Ranks that have ended their last call.
    emptied: Vec<usize>,
}

impl<'a> PendingWorks<'a> {
    /// Nothing runs.
    pub(crate) fn new(job: &'a SynthJob) -> Self {
        let ranks = job.procs.len();
        Self {
            job,
            streams: (0..ranks).map(|_| VecDeque::new()).collect(),
            group: (0..ranks).map(|_| None).collect(),
            made: FxHashMap::default(),
            paired: FxHashMap::default(),
            meetings: FxHashMap::default(),
            pairs: FxHashMap::default(),
            emptied: Vec::new(),
        }
    }

    /// A rank makes a call; true where its first work is to [`Pending::begin`] now.
    pub(crate) fn push(&mut self, made: IssuedCall) -> bool {
        let IssuedCall {
            rank,
            call,
            count,
            work: seq,
        } = made;
        let member = &self.job.procs[rank].members[call.slot];
        let n = self.job.comms[member.comm].ranks.len() as u64;
        let (numel_in, numel_out) = match call.op {
            CallOp::AllGather => (count, n * count),
            CallOp::ReduceScatter => (n * count, count),
            CallOp::AlltoAll => (n * count, n * count),
            _ => (count, count),
        };
        let part = self.build_part(rank, &made);
        match &mut self.group[rank] {
            // An exchange of all with all: all sends and all receives.
            Some(work) => {
                match call.op {
                    CallOp::Send => work.numel_in += count,
                    _ => work.numel_out += count,
                }
                work.parts.push(part);
            }
            group => {
                *group = Some(TorchWork {
                    slot: call.slot,
                    seq,
                    paired: !call.more && matches!(call.op, CallOp::Send | CallOp::Recv),
                    op: if call.more {
                        "ALLTOALL_BASE"
                    } else {
                        torch_op_name(call.op)
                    },
                    numel_in,
                    numel_out: if call.more { 0 } else { numel_out },
                    parts: vec![part],
                    left: 0,
                });
            }
        }
        if call.more {
            return false;
        }
        let Some(mut work) = self.group[rank].take() else {
            return false;
        };
        work.left = work.parts.len();
        self.streams[rank].push_back(work);
        self.streams[rank].len() == 1
    }

    fn build_part(&mut self, rank: usize, made: &IssuedCall) -> WorkPart {
        let call = &made.call;
        let member = &self.job.procs[rank].members[call.slot];
        if let CallOp::Send | CallOp::Recv = call.op {
            let sends = call.op == CallOp::Send;
            let (from, to) = if sends {
                (member.rank, call.root)
            } else {
                (call.root, member.rank)
            };
            let number = self
                .paired
                .entry((member.comm, from, to, sends))
                .or_default();
            let key = (member.comm, from, to, *number);
            *number += 1;
            return WorkPart::Pair(key);
        }
        let index = self.made.entry((rank, member.comm)).or_default();
        let part = WorkPart::Collective {
            comm: member.comm,
            index: *index,
            same: (call.op, call.root),
            bytes: u128::from(made.count) * u128::from(call.dtype.size()),
        };
        *index += 1;
        part
    }

    /// The first work of a rank begins to run, and what that lets end, ends at once.
    pub(super) fn run_first_work(&mut self, rank: usize) {
        let mut starting = vec![rank];
        while let Some(rank) = starting.pop() {
            for rank in self.begin_first_work(rank) {
                if self.end_first_work(rank) {
                    starting.push(rank);
                } else {
                    self.emptied.push(rank);
                }
            }
        }
    }

    /// Begins the first work of a rank. Returns the ranks with a first work that has met all it needs.
    pub(crate) fn begin_first_work(&mut self, rank: usize) -> Vec<usize> {
        let mut met = Vec::new();
        let Some(work) = self.streams[rank].front_mut() else {
            return met;
        };
        for part in std::mem::take(&mut work.parts) {
            self.meet_part(rank, part, &mut met);
        }
        met.retain(|&rank| {
            self.streams[rank].front_mut().is_some_and(|work| {
                work.left -= 1;
                work.left == 0
            })
        });
        met
    }

    /// The first work of a rank has ended; true where the next is to begin.
    pub(crate) fn end_first_work(&mut self, rank: usize) -> bool {
        self.streams[rank].pop_front();
        !self.streams[rank].is_empty()
    }

    /// The process is gone, and what it handed over with it.
    pub(crate) fn remove_process(&mut self, rank: usize) {
        self.streams[rank].clear();
        for meeting in self.meetings.values_mut() {
            meeting.retain(|(member, ..)| *member != rank);
        }
        self.pairs.retain(|_, waiting| *waiting != rank);
    }

    /// Runs a part of a rank's call and collects the ranks with parts that end by it.
    fn meet_part(&mut self, rank: usize, part: WorkPart, ended: &mut Vec<usize>) {
        match part {
            WorkPart::Pair(key) => match self.pairs.remove(&key) {
                Some(other) => ended.extend([rank, other]),
                None => {
                    self.pairs.insert(key, rank);
                }
            },
            WorkPart::Collective {
                comm,
                index,
                same,
                bytes,
            } => {
                let meeting = self.meetings.entry((comm, index)).or_default();
                meeting.push((rank, same, bytes));
                if meeting.len() < self.job.comms[comm].ranks.len() {
                    return;
                }
                let all = self.meetings.remove(&(comm, index)).unwrap_or_default();
                if all.iter().any(|(_, other, _)| *other != same) {
                    return;
                }
                // The rank with the fewest bytes is served and goes on; one that wants more waits
                // (`testdata/captured/ddp-count`).
                let least = all.iter().map(|&(_, _, bytes)| bytes).min().unwrap_or(0);
                let most = all.iter().map(|&(_, _, bytes)| bytes).max().unwrap_or(0);
                let served = all
                    .iter()
                    .filter(|&&(_, _, bytes)| bytes == least || most <= LL_LINE_BYTES);
                ended.extend(served.map(|&(rank, ..)| rank));
            }
        }
    }

    /// Takes the ranks that have ended their last call since the last time.
    pub(super) fn take_emptied_ranks(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.emptied)
    }

    /// No call of the rank runs.
    pub(crate) fn is_idle(&self, rank: usize) -> bool {
        self.streams[rank].is_empty()
    }

    /// The call of a rank that runs and does not end.
    pub(super) fn stuck_work(&self, rank: usize) -> Option<&TorchWork> {
        self.streams[rank].front()
    }

    /// The first of a rank's calls on a communicator that did not end.
    pub(super) fn first_pending_work(
        &self,
        rank: usize,
        slot: usize,
        paired: bool,
    ) -> Option<&TorchWork> {
        let mut works = self.streams[rank].iter();
        works.find(|work| work.slot == slot && work.paired == paired)
    }
}

fn torch_op_name(op: CallOp) -> &'static str {
    match op {
        CallOp::AllReduce => "ALLREDUCE",
        CallOp::AllGather => "_ALLGATHER_BASE",
        CallOp::ReduceScatter => "_REDUCE_SCATTER_BASE",
        CallOp::Broadcast => "BROADCAST",
        CallOp::Reduce => "REDUCE",
        CallOp::AlltoAll => "ALLTOALL_BASE",
        CallOp::Gather => "GATHER",
        CallOp::Scatter => "SCATTER",
        CallOp::Send => "SEND",
        CallOp::Recv => "RECV",
    }
}
