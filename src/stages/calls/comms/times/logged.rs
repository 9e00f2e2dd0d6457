//! The calls of a log by communicator and rank, in their order.

use super::super::limits::UNKNOWN_LOGGED_SHAPE;
use super::shapes::{CallClass, ComparedShapes};
use crate::grammar::stamp::{StampReader, TimeStamp};
use crate::members::comm_id::CommId;
use crate::output::table::Row;
use rustc_hash::{FxHashMap, FxHashSet};

/// A communicator of a process: its id and rank, or where those are unknown the process and the address.
type LoggedMemberKey = (
    Option<(CommId, u32)>,
    Option<(Box<[u8]>, Option<u64>, Option<u64>)>,
);

/// A process of the log.
pub(super) type LoggedProcess = (Box<[u8]>, Option<u64>);

/// A rank of a communicator.
#[derive(Debug)]
pub(super) struct LoggedMember {
    pub(super) host: Box<[u8]>,
    pub(super) pid: Option<u64>,
    pub(super) comm_id: Option<CommId>,
    pub(super) rank: Option<u32>,
    pub(super) nranks: Option<u32>,
    /// NCCL's own count (opCount) at its first call in the log: a communicator's first call has 0.
    pub(super) first: u64,
    /// The calls so far.
    made: u64,
    /// NCCL's count rose by one with each call so far: the log lacks none.
    pub(super) is_counted: bool,
    /// NCCL's count rose by more than the calls: the log lacks some.
    has_gap: bool,
}

impl LoggedMember {
    pub(super) fn process(&self) -> LoggedProcess {
        (self.host.clone(), self.pid)
    }
}

/// The calls of a member's class.
#[derive(Debug, Default)]
pub(super) struct LoggedClass {
    pub(super) shapes: Vec<u32>,
    /// How many calls come before the member's first gap.
    pub(super) sure: usize,
    /// The time stamps of their lines, up to the last call with one.
    stamps: Vec<Option<TimeStamp>>,
}

impl LoggedClass {
    /// Returns the time stamp of a call's line.
    pub(super) fn stamp_of_call(&self, at: usize) -> Option<TimeStamp> {
        *self.stamps.get(at)?
    }
}

/// All ranks of communicators, and their calls.
#[derive(Debug, Default)]
pub(super) struct LoggedSequences {
    pub(super) members: Vec<LoggedMember>,
    by_key: FxHashMap<LoggedMemberKey, u32>,
    /// Lines of the log are damaged: any of its calls may be missing.
    pub(super) is_damaged: bool,
    /// The processes that are known to lack calls, by NCCL's count of any communicator.
    lacking: FxHashSet<LoggedProcess>,
    reader: StampReader,
    pub(super) calls: FxHashMap<(u32, CallClass), LoggedClass>,
}

impl LoggedSequences {
    /// Returns true if a member's process is known to lack calls, or may have made those of damaged lines.
    pub(super) fn may_lack_calls(&self, member: &LoggedMember) -> bool {
        self.is_damaged || self.lacking.contains(&member.process())
    }

    /// Returns true if a call's place may differ from its number: calls are missing, and NCCL's count does not show where.
    pub(super) fn may_lack_numbers(&self, member: &LoggedMember) -> bool {
        !member.is_counted && (member.has_gap || self.is_damaged)
    }

    /// Returns the number of a row's member.
    pub(super) fn number_of_member(&mut self, row: &Row<'_>) -> u32 {
        let named = row.comm_id.zip(row.rank);
        let place = || (row.host.into(), row.pid, row.comm);
        let key = (named, named.is_none().then(place));
        let next = self.members.len() as u32;
        *self.by_key.entry(key).or_insert_with(|| {
            let first = row.op_count.unwrap_or(0);
            if first > 0 {
                self.lacking.insert((row.host.into(), row.pid));
            }
            self.members.push(LoggedMember {
                host: row.host.into(),
                pid: row.pid,
                comm_id: row.comm_id,
                rank: row.rank,
                nranks: row.nranks,
                first,
                made: 0,
                is_counted: true,
                has_gap: false,
            });
            next
        })
    }

    /// Adds the next call of the log.
    pub(super) fn add_call(&mut self, row: &Row<'_>, shapes: &mut ComparedShapes) {
        let key = (self.number_of_member(row), CallClass::of_row(row));
        let shape = shapes.number_of(row).unwrap_or(UNKNOWN_LOGGED_SHAPE);
        let of = &mut self.members[key.0 as usize];
        let counted = row.op_count.unwrap_or(0).saturating_sub(of.first);
        if counted > of.made && !of.has_gap {
            of.has_gap = true;
            self.lacking.insert(of.process());
        }
        of.is_counted &= of.has_gap || counted == of.made;
        of.made += row.calls;
        let class = self.calls.entry(key).or_default();
        if let Some(stamp) = self.reader.stamp(row.time) {
            class.stamps.resize(class.shapes.len(), None);
            class.stamps.push(Some(stamp));
        }
        class.shapes.push(shape);
        if !of.has_gap {
            class.sure = class.shapes.len();
        }
    }
}
