//! What two calls must have in common to be the same one.

use super::super::limits::MAX_BARRIER_BYTES;
use crate::grammar::values::op_kind;
use crate::output::table::Row;
use rustc_hash::FxHashMap;

/// Calls of a communicator that have one order: collectives, and the messages of an operation with a peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum CallClass {
    Collectives,
    Messages(Box<[u8]>, Option<i64>),
}

impl CallClass {
    pub(super) fn of_row(row: &Row<'_>) -> CallClass {
        match op_kind(row.op).is_message() {
            true => CallClass::Messages(row.op.into(), row.root),
            false => CallClass::Collectives,
        }
    }
}

/// Operations with their bytes, by number. A barrier is an AllReduce of one element of a type that a trace does not
/// have: of calls as small as that the bytes are not compared.
#[derive(Debug, Default)]
pub(super) struct ComparedShapes {
    numbers: FxHashMap<(Box<[u8]>, Option<u128>), u32>,
    /// The operation of each, by number.
    ops: Vec<Box<[u8]>>,
}

impl ComparedShapes {
    /// Returns the number of a call's shape; `None` if its bytes are unknown, or the row has several calls.
    pub(super) fn number_of(&mut self, row: &Row<'_>) -> Option<u32> {
        if row.calls != 1 {
            return None;
        }
        let bytes = row.bytes();
        let is_small = bytes.map_or(row.count == Some(1), |bytes| bytes <= MAX_BARRIER_BYTES);
        let bytes = match row.op == b"AllReduce" && is_small {
            true => None,
            false => Some(bytes?),
        };
        let next = self.ops.len() as u32;
        let number = self.numbers.entry((row.op.into(), bytes));
        Some(*number.or_insert_with(|| {
            self.ops.push(row.op.into());
            next
        }))
    }

    /// Returns true if a call of this shape is of an operation.
    pub(super) fn is_of_op(&self, shape: u32, op: &[u8]) -> bool {
        self.ops.get(shape as usize).is_some_and(|of| **of == *op)
    }
}
