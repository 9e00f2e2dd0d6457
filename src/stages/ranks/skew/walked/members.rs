//! Who makes the calls of logs.

use crate::count::caller::{Caller, caller_in};
use crate::members::MergedMembers;
use crate::output::table::Row;
use crate::stages::skew::rows::{SkewBuilder, SkewCaller};
use rustc_hash::FxHashMap;

/// A member, as far as it was met in a log.
#[derive(Clone, Copy)]
pub(super) struct LogMember {
    pub(super) process: u32,
    /// The number of its sequence of calls.
    pub(super) sequence: usize,
    /// Known from its first call with a time on.
    caller: Option<Option<SkewCaller>>,
}

/// What an operation's name tells.
pub(super) struct SkewOp {
    pub(super) number: u32,
    /// Ranks wait for each other.
    pub(super) compared: bool,
}

/// The members of the log in hand.
pub(super) struct LogMembers<'m> {
    merged: &'m MergedMembers,
    members: Vec<Option<LogMember>>,
    /// By process, communicator and what it is.
    sequences: FxHashMap<(u32, u64, u32), usize>,
}

impl<'m> LogMembers<'m> {
    pub(super) fn new(merged: &'m MergedMembers) -> LogMembers<'m> {
        LogMembers {
            merged,
            members: Vec::new(),
            sequences: FxHashMap::default(),
        }
    }

    /// The next log begins: its lines tell who a member is.
    pub(super) fn begin_log(&mut self) {
        self.members.clear();
    }

    /// A member by its number.
    #[inline]
    pub(super) fn member_by_number(&mut self, number: u32) -> LogMember {
        match self.members.get(number as usize) {
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
        let at = number as usize;
        if self.members.len() <= at {
            self.members.resize(at + 1, None);
        }
        *self.members[at].insert(LogMember {
            process,
            sequence,
            caller: None,
        })
    }

    /// Who a member is, which has made a call with a time; `None` where that is not known.
    #[inline]
    pub(super) fn caller_of_member(
        &mut self,
        number: u32,
        aliases: &[u32],
        taken: &mut SkewBuilder,
    ) -> Option<SkewCaller> {
        let member = self.members.get_mut(number as usize)?.as_mut()?;
        let merged = self.merged;
        *member
            .caller
            .get_or_insert_with(|| resolve_caller(taken, merged, aliases, number))
    }
}

#[cold]
fn resolve_caller(
    taken: &mut SkewBuilder,
    merged: &MergedMembers,
    aliases: &[u32],
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
    } = caller_in(merged, merged, aliases, member);
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
