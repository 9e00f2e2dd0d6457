//! The ranks of the job, by communicator.

use super::gather::{self, Gather};
use super::made;
use super::members::Members;
use crate::count::calls::{Options as Read, Progress};
use crate::error::Result;
use crate::members::comm_id::CommId;
use crate::report::Report;
use crate::source::Origin;
use crate::stages::{self, kept};
use std::collections::{BTreeMap, BTreeSet};

/// The ranks of the job, by communicator.
#[derive(Debug, Default)]
pub(crate) struct Ranks(BTreeMap<CommId, Vec<u32>>);

impl Ranks {
    /// True where none is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of a communicator's members, by their ranks in it.
    pub(crate) fn members(&self, id: &CommId) -> Option<&[u32]> {
        self.0.get(id).map(|members| &members[..])
    }

    /// All of them, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        let all: BTreeSet<u32> = self.0.values().flatten().copied().collect();
        all.into_iter()
    }

    /// The communicators, the largest first.
    pub(crate) fn communicators(&self) -> impl Iterator<Item = (CommId, &[u32])> {
        let mut all: Vec<_> = self.0.iter().map(|(id, of)| (*id, &of[..])).collect();
        all.sort_by_key(|(id, members)| (std::cmp::Reverse(members.len()), *members, *id));
        all.into_iter()
    }
}

/// Reads them off all `origins`: of communicators that calls are made on, and all of whose members are
/// known.
///
/// # Errors
/// No input could be read.
pub(crate) fn ranks(
    origins: &[Origin],
    read: &Read,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Ranks> {
    let tally = gather::tally(read.window.is_some());
    let mut gather = Gather::new(read, &tally, origins.len());
    let new = || kept::partial(&tally);
    let merged = stages::read(&mut gather, origins, read, report, progress, new)?;
    gather.rest(&merged);
    let found = gather.finish(&merged);
    let calls = made(&found.calls);
    let used: BTreeSet<CommId> = calls.iter().filter_map(|made| made.who.comm_id).collect();
    let members = Members::of(found.sides, found.processes, &calls);
    let mut all = members.whole();
    all.retain(|id, _| used.contains(id));
    Ok(Ranks(all))
}
