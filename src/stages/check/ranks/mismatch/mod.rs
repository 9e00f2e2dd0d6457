//! Ranks that call different things: the first call at which a communicator's members part.

mod finding;
mod parting;
pub(super) mod same_kind;
mod sequel;
mod usual;

use crate::stages::check::finding::{Evidence, Finding, Spot};
use crate::stages::check::streams::compare::Ranked;
use crate::stages::check::streams::reread::Detail;
use crate::stages::check::streams::why::Why;
use crate::stages::check::streams::{Caller, Way};
pub(crate) use parting::parting;
use rustc_hash::FxHashMap;

/// Stretches of streams that were read again.
pub(crate) type Details = FxHashMap<(Caller, Way), Vec<Detail>>;

/// Calls looked at behind a difference, to say what became of the call that is missing.
pub(crate) const AHEAD: u64 = 16;

/// What a call must be the same in.
type Mark<'a> = (&'a [u8], u64, u32, u64, i64);

/// A reduction by the user has a number of its own in every process.
const USERS: u64 = 5;

fn mark(call: &Detail) -> Mark<'_> {
    let redop = call.redop.min(USERS);
    (&call.op, call.count, call.datatype, redop, call.root)
}

/// Where a communicator's members part.
#[derive(Debug)]
pub(crate) enum Parting {
    /// They make different calls.
    Different(Box<Finding>),
    /// Some have made fewer calls, and the same ones so far.
    Behind,
    /// It may be the log that is not right.
    Unknown(Why),
}

/// A member's calls of the stretch that was read again.
pub(crate) struct Calls<'a> {
    pub(crate) member: Ranked,
    pub(crate) list: &'a [Detail],
}

impl<'a> Calls<'a> {
    pub(crate) fn at(&self, seq: u64) -> Option<&'a Detail> {
        let at = self.list.binary_search_by_key(&seq, |call| call.seq);
        self.list.get(at.ok()?)
    }

    /// The same operation at two places, of any size.
    fn same_op(&self, seq: u64, other: &Calls<'_>, other_seq: u64) -> bool {
        match (self.at(seq), other.at(other_seq)) {
            (Some(a), Some(b)) => a.op == b.op,
            _ => false,
        }
    }

    /// The same call at two places.
    pub(crate) fn same(&self, seq: u64, other: &Calls<'_>, other_seq: u64) -> bool {
        match (self.at(seq), other.at(other_seq)) {
            (Some(a), Some(b)) => mark(a) == mark(b),
            _ => false,
        }
    }
}

/// The line of a call.
pub(crate) fn spot(call: &Detail) -> Evidence {
    Evidence {
        at: Spot::Byte {
            input: call.input,
            at: call.at,
        },
        text: None,
    }
}
