//! Dumps of several runs of a job in one place: a file that an earlier attempt left, or another job's.

use super::job::{DumpedJob, RankDump, last_created_ns};
use super::limits::MAX_CLOCK_DIFFERENCE_NS;
use crate::formats::flight::{DumpEntry, FlightGroup, FlightOp};
use crate::grammar::values::{OpKind, op_kind};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

/// A collective of a group: the hash of the group's name and members, and the call's number.
type CallOfGroup = (u64, u64);

/// Dumps that can be of one run.
#[derive(Default)]
struct DumpedRun {
    ranks: BTreeSet<u32>,
    /// The members of the default group.
    world: Option<Arc<[u32]>>,
    /// The last creation of each collective, and its first end.
    times: FxHashMap<CallOfGroup, CallTimes>,
    /// The last creation of any call.
    last: Option<u64>,
}

/// When ranks created a collective at the latest, and saw its end at the earliest, in ns since 1970.
#[derive(Clone, Copy, Default)]
struct CallTimes {
    created: Option<u64>,
    ended: Option<u64>,
}

impl CallTimes {
    fn of_entry(entry: &DumpEntry) -> CallTimes {
        CallTimes {
            created: entry.created_ns,
            ended: entry.completed_ns.filter(|_| waits_for_all(entry)),
        }
    }

    fn merge(&mut self, other: CallTimes) {
        self.created = self.created.max(other.created);
        self.ended = self.ended.into_iter().chain(other.ended).min();
    }

    /// True where a call ended before a rank of the other dumps made it.
    fn ends_before(self, other: CallTimes) -> bool {
        let limit = self
            .ended
            .map(|ended| ended.saturating_add(MAX_CLOCK_DIFFERENCE_NS));
        limit.zip(other.created).is_some_and(|(end, at)| end < at)
    }
}

/// True for a collective that no rank ends before all have made it.
fn waits_for_all(entry: &DumpEntry) -> bool {
    matches!(&entry.op, FlightOp::Collective(op)
        if matches!(op_kind(op.as_bytes()), OpKind::AllReduce | OpKind::PerRank))
}

impl DumpedRun {
    fn of_rank(rank: u32, left: &RankDump) -> DumpedRun {
        let mut hashes: FxHashMap<*const FlightGroup, u64> = FxHashMap::default();
        let mut run = DumpedRun {
            ranks: BTreeSet::from([rank]),
            last: last_created_ns(&left.dump),
            ..DumpedRun::default()
        };
        let default = left.dump.groups.iter().find(|group| is_default(group));
        run.world = default.map(|group| group.ranks.clone());
        for entry in left.dump.entries.iter().filter(|entry| !entry.is_p2p) {
            let group = &entry.group;
            let hash = *hashes
                .entry(Arc::as_ptr(group))
                .or_insert_with(|| FxBuildHasher.hash_one((&group.name, &group.ranks)));
            let times = run.times.entry((hash, entry.collective_seq)).or_default();
            times.merge(CallTimes::of_entry(entry));
        }
        run
    }

    /// True unless the worlds differ, or a collective ended in one before a rank of the other made it.
    fn can_be_with(&self, other: &DumpedRun) -> bool {
        let worlds = self.world.as_ref().zip(other.world.as_ref());
        let is_one_world = worlds.is_none_or(|(own, other)| own == other);
        let mut both = other.times.iter();
        is_one_world
            && both.all(|(call, theirs)| {
                let own = self.times.get(call).copied().unwrap_or_default();
                !own.ends_before(*theirs) && !theirs.ends_before(own)
            })
    }

    fn merge(&mut self, other: DumpedRun) {
        self.ranks.extend(other.ranks);
        self.world = self.world.take().or(other.world);
        self.last = self.last.max(other.last);
        for (call, times) in other.times {
            self.times.entry(call).or_default().merge(times);
        }
    }
}

fn is_default(group: &FlightGroup) -> bool {
    &*group.desc == "default_pg" || &*group.name == "0"
}

impl DumpedJob {
    /// Keeps the dumps of the run with the most of them, the later of two, and returns the ranks of the others.
    pub(super) fn remove_other_runs(&mut self) -> BTreeSet<u32> {
        let mut runs: Vec<DumpedRun> = Vec::new();
        for (&rank, left) in &self.ranks {
            let own = DumpedRun::of_rank(rank, left);
            match runs.iter_mut().find(|run| run.can_be_with(&own)) {
                Some(run) => run.merge(own),
                None => runs.push(own),
            }
        }
        let kept = runs.iter().max_by_key(|run| (run.ranks.len(), run.last));
        let kept = kept.map_or_else(BTreeSet::new, |run| run.ranks.clone());
        let all: BTreeSet<u32> = self.ranks.keys().copied().collect();
        self.ranks.retain(|rank, _| kept.contains(rank));
        &all - &kept
    }
}
