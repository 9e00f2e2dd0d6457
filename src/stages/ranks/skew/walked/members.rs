//! The members that make the calls of logs.

use crate::by_number::ByNumber;
use crate::count::caller::{Caller, caller_in};
use crate::members::MergedMembers;
use crate::members::job_ranks::JobRanks;
use crate::output::table::Row;
use crate::stages::skew::rows::{SkewBuilder, SkewCaller};
use rustc_hash::FxHashMap;

/// A member of the current log.
#[derive(Clone, Copy)]
pub(super) struct LogMember {
    pub(super) process: u32,
    /// The number of its sequence of calls.
    pub(super) sequence: usize,
    /// The caller, known from its first call with a time.
    caller: Option<Option<SkewCaller>>,
}

/// An operation.
pub(super) struct SkewOp {
    pub(super) number: u32,
    /// It is a collective, in which ranks wait for each other.
    pub(super) compared: bool,
}

/// The members of the current log.
pub(super) struct LogMembers<'m> {
    merged: &'m MergedMembers,
    members: ByNumber<Option<LogMember>>,
    /// The sequence of each process, communicator and identity.
    sequences: FxHashMap<(u32, u64, u32), usize>,
}

impl<'m> LogMembers<'m> {
    pub(super) fn new(merged: &'m MergedMembers) -> LogMembers<'m> {
        LogMembers {
            merged,
            members: ByNumber::default(),
            sequences: FxHashMap::default(),
        }
    }

    /// Begins the next log. Its lines name its members.
    pub(super) fn begin_log(&mut self) {
        self.members = ByNumber::default();
    }

    /// Returns a member by its number.
    #[inline]
    pub(super) fn member_by_number(&mut self, number: u32) -> LogMember {
        match self.members.get(number) {
            Some(Some(member)) => *member,
            _ => self.resolve_member(number),
        }
    }

    #[cold]
    fn resolve_member(&mut self, number: u32) -> LogMember {
        let own = self.merged.origins.members.get(number);
        let process = self.merged.origins.places.get(own.place).process;
        let next = self.sequences.len();
        let key = (process, own.comm, own.identity);
        let sequence = *self.sequences.entry(key).or_insert(next);
        *self.members.entry(number).insert(LogMember {
            process,
            sequence,
            caller: None,
        })
    }

    /// Returns the caller of a member that has made a call with a time; `None` if it is unknown.
    #[inline]
    pub(super) fn caller_of_member(
        &mut self,
        number: u32,
        renamed: &FxHashMap<u32, u32>,
        taken: &mut SkewBuilder,
    ) -> Option<SkewCaller> {
        let member = self.members.get_mut(number)?.as_mut()?;
        let merged = self.merged;
        *member
            .caller
            .get_or_insert_with(|| resolve_caller(taken, merged, renamed, number))
    }
}

#[cold]
fn resolve_caller(
    taken: &mut SkewBuilder,
    merged: &MergedMembers,
    renamed: &FxHashMap<u32, u32>,
    number: u32,
) -> Option<SkewCaller> {
    let member = merged.origins.members.get(number);
    let Caller {
        host,
        pid,
        dev,
        comm_id,
        rank,
        ..
    } = caller_in(merged, merged, renamed, &JobRanks::default(), member);
    taken.caller_of_row(&Row {
        host: &host,
        pid,
        dev,
        comm_id,
        rank,
        nranks: member.nranks,
        ..Row::default()
    })
}
