//! What was called between two marks, by operation; and what NCCL warned of.

use crate::grammar::coll::Coll;
use crate::grammar::message::Message;
use crate::grammar::values::Datatype;
use crate::log::walk::{Call, Said, Torn, Visit};
use std::collections::BTreeMap;

/// Calls of one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Made {
    /// How many.
    pub calls: u64,
    /// Their bytes: elements × the datatype's size.
    pub bytes: u128,
    /// The calls among them whose datatype's size is unknown: they have no bytes.
    pub unsized_calls: u64,
}

impl Made {
    fn of(coll: &Coll<'_>) -> Made {
        let size = Datatype::from_code(u64::from(coll.datatype)).and_then(Datatype::size);
        Made {
            calls: 1,
            bytes: size.map_or(0, |size| u128::from(coll.count) * u128::from(size)),
            unsized_calls: u64::from(size.is_none()),
        }
    }

    fn add(&mut self, other: Made) {
        self.calls += other.calls;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.unsized_calls += other.unsized_calls;
    }
}

/// Calls by operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls(BTreeMap<Box<[u8]>, Made>);

impl Calls {
    fn call(&mut self, coll: &Coll<'_>) {
        let made = Made::of(coll);
        match self.0.get_mut(coll.op) {
            Some(before) => before.add(made),
            None => drop(self.0.insert(coll.op.into(), made)),
        }
    }

    pub(super) fn add(&mut self, other: &Calls) {
        for (op, made) in &other.0 {
            self.0.entry(op.clone()).or_default().add(*made);
        }
    }

    /// All of them together.
    pub fn all(&self) -> Made {
        let mut all = Made::default();
        self.0.values().for_each(|made| all.add(*made));
        all
    }

    /// By operation, in the order of their names.
    pub fn each(&self) -> impl Iterator<Item = (&[u8], Made)> {
        self.0.iter().map(|(op, made)| (&**op, *made))
    }
}

/// What is kept of a piece of a log.
#[derive(Debug)]
pub(super) struct Kept {
    /// The calls before the first mark, between it and the next, and so on.
    pub(super) gaps: Vec<Calls>,
    /// The texts of WARN lines.
    pub(super) warned: Vec<Vec<u8>>,
    /// Calls by member.
    pub(super) by_member: Vec<Turns>,
}

/// How often a member called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Turns {
    /// Collectives: all ranks of a communicator make the same number of them.
    pub(super) collectives: u64,
    /// `Send`: of all ranks together as many as `Recv`.
    pub(super) sent: u64,
    /// `Recv`.
    pub(super) received: u64,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept {
            gaps: vec![Calls::default()],
            warned: Vec::new(),
            by_member: Vec::new(),
        }
    }
}

impl Visit for Kept {
    const MESSAGES: bool = true;

    fn message(&mut self, said: &Said<'_>) {
        if let Message::Warn(warn) = &said.message {
            self.warned.push(warn.text.to_vec());
        }
    }

    fn call(&mut self, call: &Call<'_>) {
        if let Some(gap) = self.gaps.last_mut() {
            gap.call(&call.coll);
        }
        let member = call.member as usize;
        if self.by_member.len() <= member {
            self.by_member.resize(member + 1, Turns::default());
        }
        let turns = &mut self.by_member[member];
        *match call.coll.op {
            b"Send" => &mut turns.sent,
            b"Recv" => &mut turns.received,
            _ => &mut turns.collectives,
        } += 1;
    }

    fn mark(&mut self) {
        self.gaps.push(Calls::default());
    }

    fn slot(&mut self) {}

    // A torn line becomes whole with a later one: its call is counted there.
    fn torn(&mut self, calls: &[Torn<'_>]) {
        calls.iter().for_each(|torn| self.call(&torn.call));
    }
}
