//! Counts the calls between two marks by operation, and keeps the texts of NCCL's WARN lines.

use crate::calls::same::StreamKind;
use crate::grammar::coll::Coll;
use crate::grammar::message::NcclMessage;
use crate::grammar::values::Datatype;
use crate::log::walk::{LogCall, LogVisitor, MessageLine, RepairedCall};
use std::collections::BTreeMap;

/// Calls of one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpCallTotals {
    /// The number of calls.
    pub calls: u64,
    /// Their bytes: elements × the datatype's size.
    pub bytes: u128,
    /// Calls of datatypes with an unknown size: they have no bytes.
    pub unsized_calls: u64,
}

impl OpCallTotals {
    fn of_call(coll: &Coll<'_>) -> OpCallTotals {
        let size = Datatype::from_code(u64::from(coll.datatype)).and_then(Datatype::size);
        OpCallTotals {
            calls: 1,
            bytes: size.map_or(0, |size| u128::from(coll.count) * u128::from(size)),
            unsized_calls: u64::from(size.is_none()),
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
    fn count_call(&mut self, coll: &Coll<'_>) {
        let made = OpCallTotals::of_call(coll);
        match self.0.get_mut(coll.op) {
            Some(before) => before.add_totals(made),
            None => drop(self.0.insert(coll.op.into(), made)),
        }
    }

    pub(super) fn add_calls(&mut self, other: &CallsByOp) {
        for (op, made) in &other.0 {
            self.0.entry(op.clone()).or_default().add_totals(*made);
        }
    }

    /// The sum over all operations.
    pub fn total(&self) -> OpCallTotals {
        let mut all = OpCallTotals::default();
        self.0.values().for_each(|made| all.add_totals(*made));
        all
    }

    /// The totals of each operation, in the order of their names.
    pub fn each_op(&self) -> impl Iterator<Item = (&[u8], OpCallTotals)> {
        self.0.iter().map(|(op, made)| (&**op, *made))
    }
}

/// The counts of a piece of a log.
#[derive(Debug)]
pub(super) struct WatchChunk {
    /// The calls before the first mark, between it and the next, and so on.
    pub(super) gaps: Vec<CallsByOp>,
    /// The texts of WARN lines.
    pub(super) warned: Vec<Vec<u8>>,
    /// Calls by member.
    pub(super) by_member: Vec<WatchedMemberCalls>,
}

/// The calls of a member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WatchedMemberCalls {
    /// Collectives: all ranks of a communicator make equally many.
    pub(super) collectives: u64,
    /// `Send` calls: all ranks together make as many as `Recv` calls.
    pub(super) sent: u64,
    /// `Recv` calls.
    pub(super) received: u64,
}

impl Default for WatchChunk {
    fn default() -> WatchChunk {
        WatchChunk {
            gaps: vec![CallsByOp::default()],
            warned: Vec::new(),
            by_member: Vec::new(),
        }
    }
}

impl LogVisitor for WatchChunk {
    const MESSAGES: bool = true;

    fn message(&mut self, said: &MessageLine<'_>) {
        if let NcclMessage::Warn(warn) = &said.message {
            self.warned.push(warn.text.to_vec());
        }
    }

    fn call(&mut self, call: &LogCall<'_>) {
        if let Some(gap) = self.gaps.last_mut() {
            gap.count_call(&call.coll);
        }
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

    fn mark(&mut self) {
        self.gaps.push(CallsByOp::default());
    }

    fn slot(&mut self) {}

    fn unify_processes(&mut self, _first: &[u32]) {}

    // A torn line becomes whole with a later one: its call is counted there.
    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        calls.iter().for_each(|torn| self.call(&torn.call));
    }
}
