//! Ranks that call different things: the first call at which a communicator's members part.

mod after_difference;
mod finding;
mod first_difference;
pub(super) mod same_kind;

use crate::calls::compare::{self, KnownCalls};
use crate::calls::same::Content;
use crate::stages::check::finding::{Evidence, Finding, LineSpot};
use crate::stages::check::streams::compare::CommMember;
use crate::stages::check::streams::unjudged_reason::UnjudgedReason;
use crate::stages::check::streams::wanted_streams::CallDetail;
use crate::stages::check::streams::{ProcessComm, StreamKind};
pub(crate) use finding::difference_kind;
pub(super) use first_difference::find_first_difference;
use rustc_hash::FxHashMap;

/// Stretches of streams that were read again.
pub(crate) type CallDetails = FxHashMap<(ProcessComm, StreamKind), Vec<CallDetail>>;

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

    /// True if two members make the same call at two places.
    pub(crate) fn is_same_call(&self, seq: u64, other: &MemberCalls<'_>, other_seq: u64) -> bool {
        compare::is_same_call(self, seq, other, other_seq)
    }
}

impl<'a> KnownCalls for MemberCalls<'a> {
    type Content = Content<'a>;
    type Op = &'a [u8];

    fn content_at(&self, seq: u64) -> Option<Content<'a>> {
        self.call_at(seq).map(CallDetail::content)
    }

    fn op_at(&self, seq: u64) -> Option<&'a [u8]> {
        self.call_at(seq).map(|call| &*call.op)
    }

    fn first_seq(&self) -> Option<u64> {
        self.list.first().map(|call| call.seq)
    }

    fn last_seq(&self) -> Option<u64> {
        self.list.last().map(|call| call.seq)
    }
}

/// The line of a call.
pub(crate) fn show_call(call: &CallDetail) -> Evidence {
    Evidence {
        at: LineSpot::Byte {
            input: call.input,
            at: call.line.at,
        },
        text: None,
    }
}
