//! The calls of a log by communicator and rank, in their order.

use super::super::limits::UNKNOWN_LOGGED_SHAPE;
use super::shapes::{CallClass, ComparedShapes};
use crate::members::comm_id::CommId;
use crate::output::table::Row;
use rustc_hash::FxHashMap;

/// A communicator of a process: its id and rank, or where those are unknown the process and the address.
type LoggedMemberKey = (
    Option<(CommId, u32)>,
    Option<(Box<[u8]>, Option<u64>, Option<u64>)>,
);

/// A rank of a communicator.
#[derive(Debug)]
pub(super) struct LoggedMember {
    pub(super) host: Box<[u8]>,
    pub(super) pid: Option<u64>,
    pub(super) comm_id: Option<CommId>,
    pub(super) rank: Option<u32>,
    pub(super) nranks: Option<u32>,
    /// The log has its first call, as NCCL's own count of operations shows.
    pub(super) begins: bool,
}

/// The shapes of the calls of a member's class.
type LoggedCalls = FxHashMap<(u32, CallClass), Vec<u32>>;

/// All ranks of communicators, and their calls.
#[derive(Debug, Default)]
pub(super) struct LoggedSequences {
    pub(super) members: Vec<LoggedMember>,
    by_key: FxHashMap<LoggedMemberKey, u32>,
    pub(super) calls: LoggedCalls,
}

impl LoggedSequences {
    /// Returns the number of a row's member.
    pub(super) fn number_of_member(&mut self, row: &Row<'_>) -> u32 {
        let named = row.comm_id.zip(row.rank);
        let place = || (row.host.into(), row.pid, row.comm);
        let key = (named, named.is_none().then(place));
        let next = self.members.len() as u32;
        *self.by_key.entry(key).or_insert_with(|| {
            self.members.push(LoggedMember {
                host: row.host.into(),
                pid: row.pid,
                comm_id: row.comm_id,
                rank: row.rank,
                nranks: row.nranks,
                begins: row.op_count.is_none_or(|count| count == 0),
            });
            next
        })
    }

    /// Adds the next call of the log.
    pub(super) fn add_call(&mut self, row: &Row<'_>, shapes: &mut ComparedShapes) {
        let key = (self.number_of_member(row), CallClass::of_row(row));
        let shape = shapes.number_of(row).unwrap_or(UNKNOWN_LOGGED_SHAPE);
        self.calls.entry(key).or_default().push(shape);
    }
}
