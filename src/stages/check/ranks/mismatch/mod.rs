//! Ranks that call different things: the first call at which a communicator's members part.

mod after_difference;
mod finding;
mod first_difference;
mod majority;
pub(super) mod same_kind;

use crate::stages::check::finding::{Evidence, Finding, LineSpot};
use crate::stages::check::streams::compare::CommMember;
use crate::stages::check::streams::reread::CallDetail;
use crate::stages::check::streams::unjudged_reason::UnjudgedReason;
use crate::stages::check::streams::{ProcessComm, StreamKind};
pub(crate) use first_difference::find_first_difference;
use rustc_hash::FxHashMap;

/// Stretches of streams that were read again.
pub(crate) type CallDetails = FxHashMap<(ProcessComm, StreamKind), Vec<CallDetail>>;

/// What a call must be the same in.
type CallMark<'a> = (&'a [u8], u64, u32, u64, i64);

/// Returns the reduction as a number that members can compare: from 5 on (`ncclNumOps`) numbers are
/// of reductions by the user, and each process numbers its own.
fn comparable_redop(call: &CallDetail) -> u64 {
    call.redop.min(5)
}

fn mark_of_call(call: &CallDetail) -> CallMark<'_> {
    let redop = comparable_redop(call);
    (&call.op, call.count, call.datatype, redop, call.root)
}

/// Where a communicator's members part.
#[derive(Debug)]
pub(crate) enum FirstDifference {
    /// They make different calls.
    Different(Box<Finding>),
    /// Some have made fewer calls, and the same ones so far.
    Behind,
    /// It may be the log that is not right.
    Unknown(UnjudgedReason),
}

/// A member's calls of the stretch that was read again.
pub(crate) struct MemberCalls<'a> {
    pub(crate) member: CommMember,
    pub(crate) list: &'a [CallDetail],
}

impl<'a> MemberCalls<'a> {
    pub(crate) fn call_at(&self, seq: u64) -> Option<&'a CallDetail> {
        let at = self.list.binary_search_by_key(&seq, |call| call.seq);
        self.list.get(at.ok()?)
    }

    /// The same operation at two places, of any size.
    fn is_same_operation(&self, seq: u64, other: &MemberCalls<'_>, other_seq: u64) -> bool {
        match (self.call_at(seq), other.call_at(other_seq)) {
            (Some(a), Some(b)) => a.op == b.op,
            _ => false,
        }
    }

    /// The same call at two places.
    pub(crate) fn is_same_call(&self, seq: u64, other: &MemberCalls<'_>, other_seq: u64) -> bool {
        match (self.call_at(seq), other.call_at(other_seq)) {
            (Some(a), Some(b)) => mark_of_call(a) == mark_of_call(b),
            _ => false,
        }
    }
}

/// The line of a call.
pub(crate) fn show_call(call: &CallDetail) -> Evidence {
    Evidence {
        at: LineSpot::Byte {
            input: call.input,
            at: call.at,
        },
        text: None,
    }
}
