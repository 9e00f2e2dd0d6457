//! Which call goes wrong, and how.

use super::plan::FaultPlan;
use crate::error::Result;
use crate::fault::{Fault, FaultKind, refuse_fault};
use crate::job::SynthJob;
use crate::job::call::{CallCount, CallDtype, CallOp, ScheduledCall};
use crate::job::schedule::{ProgramStretch, build_program};
use crate::options::Options;
use crate::rng::hash_parts;
use crate::trainer::StepPrinter;
use crate::truth::cells::TruthCells;

/// Bytes that NCCL's LL protocol sends in one piece: calls of fewer bytes end with any contents.
/// `testdata/captured/ddp-datatype`: one fp16 among fp32, and the job goes on.
pub(super) const LL_LINE_BYTES: u128 = 8;

impl FaultPlan {
    /// Finds the wrong call of the options; `None` if no call is wrong.
    pub(crate) fn plan_fault(options: &Options, job: &SynthJob) -> Result<Option<FaultPlan>> {
        match options.fault {
            Some(fault) if fault.kind.is_of_calls() => {
                FaultSearch::new(options, fault).find_plan(job).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// Returns the elements of a call with a fixed count.
fn fixed_count(call: &ScheduledCall) -> Option<u64> {
    match call.count {
        CallCount::Fixed(count) => Some(count),
        CallCount::Tokens { .. } => None,
    }
}

fn call_bytes(call: &ScheduledCall) -> u128 {
    u128::from(fixed_count(call).unwrap_or(0)) * u128::from(call.dtype.size())
}

/// A pair of stages' Send or Recv, not one of a group.
fn is_paired(call: &ScheduledCall) -> bool {
    matches!(call.op, CallOp::Send | CallOp::Recv)
}

/// Returns the datatype after a missing or repeated cast.
fn wrong_dtype(dtype: CallDtype) -> CallDtype {
    match dtype {
        CallDtype::Fp32 => CallDtype::Fp16,
        CallDtype::Fp16 | CallDtype::Bf16 | CallDtype::Fp64 => CallDtype::Fp32,
        CallDtype::Fp8E4m3 => CallDtype::Bf16,
        CallDtype::Int64 => CallDtype::Int32,
        CallDtype::Int32 => CallDtype::Int64,
        CallDtype::Int8 => CallDtype::Uint8,
        CallDtype::Uint8 => CallDtype::Int8,
    }
}

/// Returns another operation with the same arguments.
fn wrong_op(op: CallOp) -> Option<CallOp> {
    match op {
        CallOp::AllReduce => Some(CallOp::Broadcast),
        CallOp::AllGather => Some(CallOp::ReduceScatter),
        CallOp::ReduceScatter => Some(CallOp::AllGather),
        CallOp::Broadcast => Some(CallOp::AllReduce),
        CallOp::Reduce => Some(CallOp::AllReduce),
        _ => None,
    }
}

struct FaultSearch<'a> {
    options: &'a Options,
    fault: Fault,
    /// The steps to look in, the wanted one first.
    steps: Vec<u64>,
}

impl<'a> FaultSearch<'a> {
    fn new(options: &'a Options, fault: Fault) -> Self {
        let (first, last) = (
            options.first_step(),
            options.first_step() + options.steps - 1,
        );
        // Ranks of a job that hangs come to no evaluation: after the last, if there are some.
        let evaluated = options.eval_every.and_then(|every| {
            let done = |step: u64| step + 1 - options.trainer.first_number();
            (first..last).rev().find(|&s| done(s).is_multiple_of(every))
        });
        let middle = (first + options.steps / 2).max(evaluated.map_or(0, |step| step + 1));
        // Some calls are made in every fourth step only.
        let steps = match fault.step {
            Some(step) => vec![step],
            // Data ends where an epoch does: before an evaluation, or at the end.
            None if matches!(fault.kind, FaultKind::MoreSteps | FaultKind::FewerSteps) => {
                vec![evaluated.unwrap_or(last)]
            }
            None => (0..4).map(|n| (middle + n).min(last)).collect(),
        };
        Self {
            options,
            fault,
            steps,
        }
    }

    fn find_plan(&self, job: &SynthJob) -> Result<FaultPlan> {
        if let Some(plan) = self
            .candidate_ranks()
            .find_map(|rank| self.plan_for_rank(job, rank))
        {
            if plan.kind.is_of_steps()
                && plan.ranks_of_other_steps(self.options).len() == self.options.ranks
            {
                return refuse_fault(format!(
                    "{}: all ranks share their data, so that none differs from the others",
                    plan.kind.name()
                ));
            }
            return Ok(plan);
        }
        let Fault {
            kind,
            step,
            rank,
            comm,
            ..
        } = self.fault;
        let who = rank.map_or("no rank".to_owned(), |rank| format!("rank {rank}"));
        let on = comm.map_or("a communicator of several ranks".to_owned(), |group| {
            format!("a {} communicator of several ranks", group.name())
        });
        let not = if rank.is_some() { "no" } else { "a" };
        let when = step.map_or(String::new(), |step| format!(" in step {step}"));
        let what = match kind {
            FaultKind::Root => "Broadcast or Reduce",
            FaultKind::Redop => "call with a reduction",
            FaultKind::Order => "pair of neighbouring calls that differ",
            FaultKind::Recv => "Send or Recv",
            FaultKind::Crossed => {
                "pair of neighbouring calls on two communicators that share ranks"
            }
            FaultKind::OtherGroup => "call that it could make on another communicator",
            FaultKind::Peer => "Send or Recv among three or more",
            FaultKind::Op => "call with another kind",
            _ => "call",
        };
        refuse_fault(format!(
            "{}: {who} makes {not} {what} on {on}{when}",
            kind.name()
        ))
    }

    /// Returns the requested rank, or all: the first and the one that prints come last.
    fn candidate_ranks(&self) -> impl Iterator<Item = usize> {
        let o = self.options;
        let printing = StepPrinter::new(o, 0).marker_rank();
        // A step without calls shows where its line is printed.
        let wanted = match self.fault.kind {
            FaultKind::SkipStep => self.fault.rank.or(Some(printing)),
            // The first rank is the one that mostly saves alone.
            FaultKind::LoneSave => self.fault.rank.or(Some(0)),
            _ => self.fault.rank,
        };
        let start = (hash_parts(o.seed, &[40]) % o.ranks as u64) as usize;
        let turn = move |i: usize| (start + i) % o.ranks;
        let shy = move |rank: &usize| *rank != 0 && *rank != printing;
        let quiet = (0..o.ranks).map(turn).filter(shy);
        let others = (0..o.ranks).map(turn).filter(move |rank| !shy(rank));
        let all = quiet.chain(others).filter(move |_| wanted.is_none());
        wanted.into_iter().chain(all)
    }

    fn plan_for_rank(&self, job: &SynthJob, rank: usize) -> Option<FaultPlan> {
        let calls = build_program(
            job,
            rank,
            self.options,
            ProgramStretch::Train,
            &mut TruthCells::default(),
        );
        let steps = self.steps.iter();
        steps.copied().find_map(|step| {
            // The calls made in this step, by their place in the program.
            let mine: Vec<usize> = (0..calls.len())
                .filter(|&i| step.is_multiple_of(calls[i].every))
                .collect();
            let fit: Vec<usize> = (0..mine.len())
                .filter(|&n| self.can_be_at(job, rank, &calls, &mine, n))
                .take(if self.fault.kind.is_of_steps() {
                    1
                } else {
                    usize::MAX
                })
                .collect();
            let drawn = hash_parts(self.options.seed, &[41, step, rank as u64]) as usize;
            let n = match fit.len() {
                0 => return None,
                // In the middle of the step.
                len if self.fault.kind.ends_calls() || self.fault.kind == FaultKind::Retry => {
                    fit[len / 4 + drawn % (len / 2).max(1)]
                }
                len => fit[drawn % len],
            };
            let with = mine.get(n + 1).copied().unwrap_or(mine[n]);
            Some(self.build_plan(job, rank, step, &calls, mine[n], with))
        })
    }

    /// The fault can be at the `n`th call that is made.
    fn can_be_at(
        &self,
        job: &SynthJob,
        rank: usize,
        calls: &[ScheduledCall],
        mine: &[usize],
        n: usize,
    ) -> bool {
        let call = &calls[mine[n]];
        let comm = &job.comms[job.procs[rank].members[call.slot].comm];
        let kind = self.fault.kind;
        if comm.ranks.len() < 2
            || (call.task > 0 && kind != FaultKind::Peer)
            || self
                .fault
                .comm
                .is_some_and(|group| group.truth_name() != comm.kind.name())
        {
            return false;
        }
        match kind {
            _ if kind.ends_calls() => return n > 0,
            _ if kind.is_of_steps() => return true,
            FaultKind::Peer => return is_paired(call) && comm.ranks.len() > 2,
            _ => {}
        }
        if call.more || fixed_count(call).is_none() || is_paired(call) != (kind == FaultKind::Recv)
        {
            return false;
        }
        match kind {
            FaultKind::Redop => {
                matches!(
                    call.op,
                    CallOp::AllReduce | CallOp::ReduceScatter | CallOp::Reduce
                )
            }
            FaultKind::Root => matches!(call.op, CallOp::Broadcast | CallOp::Reduce),
            FaultKind::Order => mine.get(n + 1).is_some_and(|&next| {
                let next = &calls[next];
                next.slot == call.slot
                    && next.backward == call.backward
                    && next.task == 0
                    && !next.more
                    && !is_paired(next)
                    && fixed_count(next).is_some()
                    && (next.op != call.op || call_bytes(next) != call_bytes(call))
            }),
            FaultKind::Crossed => mine.get(n + 1).is_some_and(|&next| {
                let next = &calls[next];
                next.slot != call.slot
                    && next.task == 0
                    && !next.more
                    && !is_paired(next)
                    && self.share_a_member(job, rank, call.slot, next.slot)
            }),
            FaultKind::OtherGroup => self.other_communicator(job, rank, call).is_some(),
            FaultKind::Op => wrong_op(call.op).is_some(),
            FaultKind::Rest => n > 0,
            FaultKind::Skip => self.shows_missing_call(calls, mine, n),
            _ => true,
        }
    }

    /// Two of a rank's communicators share another member: crossed, each waits for the other.
    fn share_a_member(&self, job: &SynthJob, rank: usize, a: usize, b: usize) -> bool {
        let members = |slot: usize| &job.comms[job.procs[rank].members[slot].comm].ranks;
        let shared = members(a).iter().filter(|r| members(b).contains(r));
        shared.count() > 1
    }

    /// Another communicator of the rank, of several ranks.
    fn other_communicator(
        &self,
        job: &SynthJob,
        rank: usize,
        call: &ScheduledCall,
    ) -> Option<usize> {
        let members = &job.procs[rank].members;
        let mine = &job.comms[members[call.slot].comm].ranks;
        (0..members.len()).find(|&slot| {
            let ranks = &job.comms[members[slot].comm].ranks;
            ranks.len() > 1 && ranks != mine
        })
    }

    /// True if the next call on the communicator is another one, so that the missing call can be named.
    fn shows_missing_call(&self, calls: &[ScheduledCall], mine: &[usize], n: usize) -> bool {
        let call = &calls[mine[n]];
        let alike = |other: &ScheduledCall| {
            (other.op, other.dtype, other.redop, other.root)
                == (call.op, call.dtype, call.redop, call.root)
                && fixed_count(other) == fixed_count(call)
        };
        let behind = mine[n + 1..].iter().map(|&i| &calls[i]);
        // In the next step the same calls come again, and perhaps some that come rarely.
        let again = calls.iter().filter(|call| call.every == 1);
        let mut next = behind
            .chain(again)
            .filter(|next| next.slot == call.slot && !is_paired(next));
        next.next().is_some_and(|next| !alike(next))
    }

    /// The fault at the `at`th of the rank's calls; `with` is the one that is made after it.
    fn build_plan(
        &self,
        job: &SynthJob,
        rank: usize,
        step: u64,
        calls: &[ScheduledCall],
        at: usize,
        with: usize,
    ) -> FaultPlan {
        let expected = calls[at];
        let made = self.wrong_call(job, rank, expected, calls[with]);
        FaultPlan {
            kind: self.fault.kind,
            rank,
            step,
            at,
            with,
            expected,
            tokens: expected.count_and_cell(self.options, step).0,
            made,
            hangs: self.does_hang(&expected, made.as_ref()),
        }
    }

    /// Returns the call made in place of another; `next` is the one after it.
    fn wrong_call(
        &self,
        job: &SynthJob,
        rank: usize,
        expected: ScheduledCall,
        next: ScheduledCall,
    ) -> Option<ScheduledCall> {
        let member = &job.procs[rank].members[expected.slot];
        let ranks = |comm: usize| job.comms[comm].ranks.len();
        let mut call = expected;
        match self.fault.kind {
            // A tensor that should have been reduced first, or a last batch that is shorter.
            FaultKind::Count => {
                call.count = CallCount::Fixed(match fixed_count(&expected).unwrap_or(0) {
                    count if count < 1024 => 4 * count,
                    count => count / 4 * 3,
                });
            }
            FaultKind::Datatype => call.dtype = wrong_dtype(call.dtype),
            FaultKind::Redop => call.redop = if call.redop == 0 { 2 } else { 0 },
            // A rank that takes itself for the root.
            FaultKind::Root => {
                call.root = match call.root == member.rank {
                    true => (member.rank + 1) % ranks(member.comm),
                    false => member.rank,
                };
            }
            FaultKind::Order | FaultKind::Crossed => return Some(next),
            FaultKind::Op => call.op = wrong_op(call.op).unwrap_or(call.op),
            FaultKind::Extra => {}
            // A barrier, or a look at something, that only one rank comes to.
            FaultKind::Lone => {
                (call.op, call.dtype, call.redop) = (CallOp::AllReduce, CallDtype::Int64, 0);
                (call.count, call.root) = (CallCount::Fixed(3), 0);
            }
            FaultKind::OtherGroup => {
                let slot = self.other_communicator(job, rank, &expected)?;
                let others = ranks(job.procs[rank].members[slot].comm);
                (call.slot, call.root) = (slot, call.root.min(others - 1));
            }
            FaultKind::Peer => {
                let n = ranks(member.comm);
                let next = (call.root + 1) % n;
                call.root = match next == member.rank {
                    true => (next + 1) % n,
                    false => next,
                };
            }
            _ => return None,
        }
        Some(call)
    }

    /// The job does not go on to its end with the call that is made.
    fn does_hang(&self, expected: &ScheduledCall, made: Option<&ScheduledCall>) -> bool {
        match (self.fault.kind, made) {
            (FaultKind::Redop, _) => false,
            (FaultKind::Datatype, Some(made)) => {
                let (a, b) = (call_bytes(expected), call_bytes(made));
                a != b && a.max(b) > LL_LINE_BYTES
            }
            _ => true,
        }
    }
}
