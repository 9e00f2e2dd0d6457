//! The calls of a chunk, for reading them again.

use crate::grammar::coll::Coll;
use crate::log::walk::{LogCall, LogVisitor, RepairedCall, insert_at_places};
use crate::members::OpInterner;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

/// The values on a call's line, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallLine {
    /// Elements.
    pub(crate) count: u64,
    /// The datatype's code.
    pub(crate) datatype: u32,
    /// The reduction's code.
    pub(crate) redop: u64,
    /// The root, or the peer.
    pub(crate) root: i64,
    /// NCCL's number of it; 0 for all calls in some versions.
    pub(crate) op_count: u64,
    /// The first byte of its line.
    pub(crate) at: u64,
    /// True if it was joined from pieces with another call's line between them: which of the two was made first
    /// is unknown.
    pub(crate) joined: bool,
}

impl CallLine {
    /// The call of this operation, without its communicator.
    pub(super) fn to_coll<'o>(&self, op: &'o [u8]) -> Coll<'o> {
        Coll {
            op,
            op_count: self.op_count,
            count: self.count,
            datatype: self.datatype,
            redop: self.redop,
            root: self.root,
            comm: 0,
            nranks: None,
            stream: 0,
        }
    }
}

/// A chunk's calls: all, or those on some addresses.
pub(crate) struct RereadChunk<'w> {
    comms: Option<&'w FxHashSet<u64>>,
    pub(super) ops: OpInterner,
    pub(super) list: Vec<CompactCall>,
    /// The number of calls before each slot.
    slots: Vec<usize>,
}

/// A call with numbers for names.
pub(super) struct CompactCall {
    pub(super) member: u32,
    pub(super) op: u32,
    pub(super) line: CallLine,
}

impl<'w> RereadChunk<'w> {
    pub(crate) fn new(comms: Option<&'w FxHashSet<u64>>) -> Self {
        RereadChunk {
            comms,
            ops: OpInterner::default(),
            list: Vec::new(),
            slots: Vec::new(),
        }
    }
}

impl RereadChunk<'_> {
    /// Makes a call compact if it is on one of the addresses.
    fn compact_call(&mut self, call: &LogCall<'_>, joined: bool) -> Option<CompactCall> {
        let coll = &call.coll;
        let is_wanted = self.comms.is_none_or(|comms| comms.contains(&coll.comm));
        is_wanted.then(|| CompactCall {
            member: call.member,
            op: self.ops.intern(coll.op).0,
            line: CallLine {
                count: coll.count,
                datatype: coll.datatype,
                redop: coll.redop,
                root: coll.root,
                op_count: coll.op_count,
                at: call.at,
                joined,
            },
        })
    }
}

impl LogVisitor for RereadChunk<'_> {
    fn call(&mut self, call: &LogCall<'_>) {
        let small = self.compact_call(call, false);
        self.list.extend(small);
    }

    fn slot(&mut self) {
        self.slots.push(self.list.len());
    }

    fn unify_processes(&mut self, _first: &[u32]) {}

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        let mut torn = Vec::new();
        for RepairedCall { slot, call, .. } in calls {
            let at = self.slots.get(*slot as usize).copied();
            let at = at.unwrap_or(self.list.len());
            torn.extend(self.compact_call(call, true).map(|small| (at, small)));
        }
        insert_at_places(&mut self.list, torn);
    }
}
