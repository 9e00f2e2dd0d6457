//! Where a communicator's members part.

use super::finding::{CallGroups, report_mismatch};
use super::{FirstDifference, MemberCalls};
use crate::calls::compare::{KnownCalls, group_members};
use crate::calls::same::Content;
use crate::grammar::values::is_known_op;
use crate::stages::check::ranks::difference_context::DifferenceContext;
use crate::stages::check::streams::compare::DifferingComm;
use crate::stages::check::streams::unjudged_reason::UnjudgedReason;
use crate::stages::check::streams::{CALLS_PER_HASH_BLOCK, ProcessComm, StreamKind};
use std::collections::BTreeSet;

/// Finds where the members of `apart` part; `kin` are other callers that make the same calls.
pub(in crate::stages::check::ranks) fn find_first_difference(
    apart: &DifferingComm,
    kin: &[ProcessComm],
    case: &DifferenceContext<'_>,
) -> FirstDifference {
    let first = apart.block * CALLS_PER_HASH_BLOCK;
    let calls = first..first + CALLS_PER_HASH_BLOCK;
    let stretch = DifferingStretch::new(apart, case);
    let all = &stretch.all;
    for seq in calls.clone() {
        let groups = stretch.group_by_call(seq);
        if groups.len() > 1 {
            if let Some(why) = stretch.find_log_fault_at(seq, &groups) {
                return FirstDifference::Unknown(why);
            }
            let kin = kin
                .iter()
                .filter_map(|caller| case.details.get(&(*caller, StreamKind::Collective)));
            let similar: Vec<MemberCalls<'_>> = kin
                .map(|list| MemberCalls {
                    member: all[0].member,
                    list,
                })
                .collect();
            let groups = groups.into_iter().map(|(_, group)| group).collect();
            let groups = CallGroups { seq, groups, all };
            return match report_mismatch(apart, groups, &similar, case.names) {
                Some(finding) => FirstDifference::Different(Box::new(finding)),
                None => stretch.report_fewer_calls(seq),
            };
        }
        if all.iter().any(|calls| calls.member.calls <= seq) {
            return stretch.report_fewer_calls(seq);
        }
    }
    stretch.report_fewer_calls(calls.end)
}

/// The members' calls of the stretch in which they part.
struct DifferingStretch<'a> {
    all: Vec<MemberCalls<'a>>,
    /// NCCL's number of a call is one for all members.
    counted: bool,
    /// The log begins in the middle of the job.
    is_late: bool,
}

impl<'a> DifferingStretch<'a> {
    fn new(apart: &DifferingComm, case: &DifferenceContext<'a>) -> DifferingStretch<'a> {
        let members = apart.members.iter();
        let calls = members.map(|member| case.calls_of(member.collectives()));
        // Sends and receives count too, and each rank has its own.
        let mut callers = apart.members.iter().filter_map(|member| member.caller);
        let counted = !callers.any(|at| case.messaging.contains(&case.caller_at(at)));
        DifferingStretch {
            all: calls.collect(),
            counted,
            is_late: apart.is_late,
        }
    }

    /// The members that make the same call there, by the call.
    fn group_by_call(&self, seq: u64) -> Vec<(Content<'a>, Vec<usize>)> {
        let calls = self.all.iter().enumerate();
        group_members(calls.filter_map(|(at, calls)| Some((at, calls.content_at(seq)?))))
    }

    /// Why it may be the log that is not right where members call different things.
    fn find_log_fault_at(
        &self,
        seq: u64,
        groups: &[(Content<'_>, Vec<usize>)],
    ) -> Option<UnjudgedReason> {
        // Both ranks have made as many calls before it.
        if self.differ_in_call_numbers(seq) {
            Some(UnjudgedReason::Numbers)
        } else if self.is_late && !self.are_in_step(seq) {
            Some(UnjudgedReason::Late)
        } else if groups.iter().any(|(content, _)| !is_known_op(content.op))
            || is_swapped_by_tear(seq, &self.all)
        {
            Some(UnjudgedReason::Damaged)
        } else {
            None
        }
    }

    /// Some have made fewer calls, if the log is right.
    fn report_fewer_calls(&self, seq: u64) -> FirstDifference {
        if self.is_late && !self.are_in_step(seq) {
            FirstDifference::Unknown(UnjudgedReason::Late)
        } else if seq
            .checked_sub(1)
            .is_some_and(|seq| self.differ_in_call_numbers(seq))
        {
            FirstDifference::Unknown(UnjudgedReason::Numbers)
        } else {
            FirstDifference::Behind
        }
    }

    /// NCCL itself counted other calls of some members there: the log lacks lines.
    fn differ_in_call_numbers(&self, seq: u64) -> bool {
        self.counted && self.have_other_numbers(seq) && self.counts_every_call(seq)
    }

    /// The members' calls have different numbers there.
    fn have_other_numbers(&self, seq: u64) -> bool {
        let calls = || self.all.iter().filter_map(|calls| calls.call_at(seq));
        let first = calls().next().map(|call| call.line.op_count);
        calls().any(|call| Some(call.line.op_count) != first)
    }

    /// NCCL's numbers were the same before, and rose by one. NCCL does not count calls for which a
    /// rank has no work on the network: with several ranks on a host, the number is meaningless to
    /// the others.
    fn counts_every_call(&self, seq: u64) -> bool {
        let lists = self.all.iter().flat_map(|calls| calls.list);
        let before = lists.filter(|call| call.seq < seq);
        let before: BTreeSet<u64> = before.map(|call| call.seq).collect();
        let rises = |calls: &MemberCalls<'_>| {
            let pairs = calls.list.windows(2).filter(|w| w[1].seq < seq);
            let mut next = pairs.filter(|w| w[1].seq == w[0].seq + 1);
            next.all(|w| w[1].line.op_count == w[0].line.op_count + 1)
        };
        !before.into_iter().any(|seq| self.have_other_numbers(seq)) && self.all.iter().all(rises)
    }

    /// A log that begins in the middle has ranks at different calls: where they were not in step,
    /// one that is of another kind than the last shows it.
    fn are_in_step(&self, seq: u64) -> bool {
        let Some(calls) = self.all.iter().min_by_key(|calls| calls.list.len()) else {
            return false;
        };
        let before = calls.list.windows(2).filter(|w| w[1].seq < seq);
        before.filter(|w| w[0].content() != w[1].content()).count() >= 2
    }
}

/// True if two calls of a rank are swapped only because one was torn and the other is between its
/// pieces.
fn is_swapped_by_tear(seq: u64, all: &[MemberCalls<'_>]) -> bool {
    let torn = |calls: &MemberCalls<'_>| {
        let both = calls.call_at(seq).zip(calls.call_at(seq + 1));
        both.is_some_and(|(a, b)| a.line.joined || b.line.joined)
    };
    let swapped = |a: &MemberCalls<'_>, b: &MemberCalls<'_>| {
        a.is_same_call(seq, b, seq + 1) && a.is_same_call(seq + 1, b, seq)
    };
    let mut those = all.iter().filter(|calls| torn(calls));
    those.any(|calls| all.iter().any(|other| swapped(calls, other)))
}
