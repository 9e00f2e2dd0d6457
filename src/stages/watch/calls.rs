//! Calls by operation, calls by member, and NCCL's warnings.

use crate::calls::same::StreamKind;
use crate::grammar::coll::Coll;
use crate::grammar::message::NcclMessage;
use crate::grammar::values::Datatype;
use crate::log::walk::{LogCall, LogVisitor, MessageLine, RepairedCall};
use std::collections::BTreeMap;

/// Calls of one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpCallTotals {
    /// Number of calls.
    pub calls: u64,
    /// Their bytes: elements × the datatype's size.
    pub bytes: u128,
    /// Calls with a datatype of unknown size: they add no bytes.
    pub unsized_calls: u64,
}

impl OpCallTotals {
    fn of_call(coll: &Coll<'_>) -> OpCallTotals {
        let size = Datatype::from_code(u64::from(coll.datatype)).and_then(Datatype::size);
        let bytes = size.map(|size| u128::from(coll.count) * u128::from(size));
        OpCallTotals::of_equal_calls(1, bytes)
    }

    /// Returns the totals of calls of `bytes` each.
    pub(super) fn of_equal_calls(calls: u64, bytes: Option<u128>) -> OpCallTotals {
        OpCallTotals {
            calls,
            bytes: bytes.unwrap_or(0).saturating_mul(u128::from(calls)),
            unsized_calls: if bytes.is_none() { calls } else { 0 },
        }
    }

    fn add_totals(&mut self, other: OpCallTotals) {
        self.calls += other.calls;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.unsized_calls += other.unsized_calls;
    }
}

/// Calls by operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallsByOp(BTreeMap<Box<[u8]>, OpCallTotals>);

impl CallsByOp {
    pub(super) fn add_totals(&mut self, op: &[u8], made: OpCallTotals) {
        match self.0.get_mut(op) {
            Some(before) => before.add_totals(made),
            None => drop(self.0.insert(op.into(), made)),
        }
    }

    pub(super) fn add_calls(&mut self, other: &CallsByOp) {
        for (op, made) in &other.0 {
            self.add_totals(op, *made);
        }
    }

    /// Returns the totals of all operations.
    pub fn total(&self) -> OpCallTotals {
        let mut all = OpCallTotals::default();
        self.0.values().for_each(|made| all.add_totals(*made));
        all
    }

    /// Returns the totals of each operation, in the order of their names.
    pub fn each_op(&self) -> impl Iterator<Item = (&[u8], OpCallTotals)> {
        self.0.iter().map(|(op, made)| (&**op, *made))
    }
}

/// The calls and warnings of a piece of a log.
#[derive(Debug, Default)]
pub(super) struct WatchChunk {
    pub(super) calls: CallsByOp,
    /// Texts of WARN lines.
    pub(super) warned: Vec<Vec<u8>>,
    /// Calls by member.
    pub(super) by_member: Vec<WatchedMemberCalls>,
}

/// Numbers of a member's calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WatchedMemberCalls {
    /// Collectives. All ranks of a communicator make equally many.
    pub(super) collectives: u64,
    /// `Send`. All ranks together make as many as `Recv`.
    pub(super) sent: u64,
    /// `Recv` calls.
    pub(super) received: u64,
}

impl LogVisitor for WatchChunk {
    const MESSAGES: bool = true;

    fn message(&mut self, said: &MessageLine<'_>) {
        if let NcclMessage::Warn(warn) = &said.message {
            self.warned.push(warn.text.to_vec());
        }
    }

    fn call(&mut self, call: &LogCall<'_>) {
        let made = OpCallTotals::of_call(&call.coll);
        self.calls.add_totals(call.coll.op, made);
        let member = call.member as usize;
        if self.by_member.len() <= member {
            self.by_member
                .resize(member + 1, WatchedMemberCalls::default());
        }
        let turns = &mut self.by_member[member];
        match StreamKind::of_coll(&call.coll) {
            Some(StreamKind::Send(_)) => turns.sent += 1,
            Some(StreamKind::Recv(_)) => turns.received += 1,
            Some(StreamKind::Collective) => turns.collectives += 1,
            None => {}
        }
    }

    fn mark(&mut self) {}

    fn slot(&mut self) {}

    fn unify_processes(&mut self, _first: &[u32]) {}

    // A torn line becomes whole with a later line: its call is counted there.
    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        calls.iter().for_each(|torn| self.call(&torn.call));
    }
}
