//! Who makes the calls of logs.

use crate::count::who::{Who, who_as};
use crate::members::Merged;
use crate::output::table::Row;
use crate::stages::skew::rows::{Caller, Taken};
use rustc_hash::FxHashMap;

/// A member, as far as it was met in a log.
#[derive(Clone, Copy)]
pub(super) struct Member {
    pub(super) process: u32,
    /// The number of its sequence of calls.
    pub(super) sequence: usize,
    /// Known from its first call with a time on.
    caller: Option<Option<Caller>>,
}

/// What an operation's name tells.
pub(super) struct Op {
    pub(super) number: u32,
    /// Ranks wait for each other.
    pub(super) compared: bool,
}

/// The members of the log in hand.
pub(super) struct Members<'m> {
    merged: &'m Merged,
    members: Vec<Option<Member>>,
    /// By process, communicator and what it is.
    sequences: FxHashMap<(u32, u64, u32), usize>,
}

impl<'m> Members<'m> {
    pub(super) fn new(merged: &'m Merged) -> Members<'m> {
        Members {
            merged,
            members: Vec::new(),
            sequences: FxHashMap::default(),
        }
    }

    /// The next log begins: its lines tell who a member is.
    pub(super) fn next_log(&mut self) {
        self.members.clear();
    }

    /// A member by its number.
    #[inline]
    pub(super) fn get(&mut self, number: u32) -> Member {
        match self.members.get(number as usize) {
            Some(Some(member)) => *member,
            _ => self.new_member(number),
        }
    }

    #[cold]
    fn new_member(&mut self, number: u32) -> Member {
        let own = self.merged.origins.members.get(number);
        let process = self.merged.origins.places.get(own.place).process;
        let next = self.sequences.len();
        let key = (process, own.comm, own.identity);
        let sequence = *self.sequences.entry(key).or_insert(next);
        let at = number as usize;
        if self.members.len() <= at {
            self.members.resize(at + 1, None);
        }
        *self.members[at].insert(Member {
            process,
            sequence,
            caller: None,
        })
    }

    /// Who a member is, which has made a call with a time; `None` where that is not known.
    #[inline]
    pub(super) fn caller(
        &mut self,
        number: u32,
        aliases: &[u32],
        taken: &mut Taken,
    ) -> Option<Caller> {
        let member = self.members.get_mut(number as usize)?.as_mut()?;
        let merged = self.merged;
        *member
            .caller
            .get_or_insert_with(|| caller(taken, merged, aliases, number))
    }
}

#[cold]
fn caller(taken: &mut Taken, merged: &Merged, aliases: &[u32], number: u32) -> Option<Caller> {
    let member = merged.origins.members.get(number);
    let Who {
        host,
        pid,
        dev,
        comm_id,
        rank,
        ..
    } = who_as(merged, merged, aliases, member);
    taken.caller(&Row {
        host: &host,
        pid,
        dev,
        comm_id,
        rank,
        nranks: member.nranks,
        ..Row::default()
    })
}
