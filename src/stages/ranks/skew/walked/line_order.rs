//! Replays the calls of any logs in line order, as the rows of nccl-comms.

use super::members::{LogMembers, SkewOp};
use super::{Options, SkewBuilder, SkewLog};
use crate::members::MergedMembers;
use crate::stages::skew::rows::TimedCall;
use crate::stages::skew::window::CallAfterArrival;

/// Replays calls.
pub(super) struct LineOrderReplay<'m> {
    members: LogMembers<'m>,
    options: &'m Options,
    /// The collectives that each (process, communicator) made so far.
    made: Vec<u64>,
    pub(super) taken: SkewBuilder,
}

impl<'m> LineOrderReplay<'m> {
    pub(super) fn new(merged: &'m MergedMembers, options: &'m Options) -> LineOrderReplay<'m> {
        LineOrderReplay {
            members: LogMembers::new(merged),
            options,
            made: Vec::new(),
            taken: SkewBuilder::default(),
        }
    }

    /// Replays the next log.
    pub(super) fn replay_log(&mut self, log: &SkewLog) {
        self.members.begin_log();
        let mut gaps = log.placement.gap_cursor();
        // Most calls belong to the gap of the call before.
        let mut known = (None, None);
        let mut timed = 0;
        for chunk in &log.chunks {
            let ops: Vec<SkewOp> = chunk.resolve_ops(&mut self.taken);
            for call in chunk.calls.iter_calls() {
                let Some(&number) = chunk.members.get(call.member as usize) else {
                    continue;
                };
                let member = self.members.member_by_number(number);
                let gap = gaps.next_gap(member.process);
                let Some(call) = call.made else { continue };
                if self.made.len() <= member.sequence {
                    self.made.resize(member.sequence + 1, 0);
                }
                let made = &mut self.made[member.sequence];
                let seq = *made;
                *made += 1;
                let op = &ops[call.op as usize];
                let Some(ns) = call.ns.filter(|_| op.compared) else {
                    continue;
                };
                timed += 1;
                let caller = self
                    .members
                    .caller_of_member(number, &log.renamed, &mut self.taken);
                let Some(caller) = caller else { continue };
                if known.0 != gap {
                    let step = gap.and_then(|gap| log.timeline.step_of(gap as usize));
                    known = (gap, step.map(|step| step.step));
                }
                let call = TimedCall {
                    op: op.number,
                    seq,
                    step: known.1,
                    ns,
                    after: CallAfterArrival::Unknown,
                };
                self.taken.add_arrival(caller, call, self.options);
            }
        }
        self.taken.count_timed_calls(timed, 0);
    }
}
