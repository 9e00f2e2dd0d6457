//! What the watchdog's lines of a process group report: the ranks that printed any, and how far each came.

use super::limits::MAX_GROUP_RANKS;
use super::{WatchdogMessage, WatchdogRecord};
use std::collections::{BTreeMap, BTreeSet};

/// The numbers of a rank's last calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WatchdogProgress {
    pub(super) enqueued: i64,
    pub(super) completed: i64,
}

/// What the lines of a process group report besides the calls that timed out.
#[derive(Default)]
pub(super) struct GroupReport<'a> {
    /// The progress that each rank reports, by its last line.
    pub(super) far: BTreeMap<u32, (WatchdogProgress, &'a WatchdogRecord)>,
    /// The first call that each rank waits for in vain: it completed those before.
    pub(super) waits: BTreeMap<u32, u64>,
    /// The ranks in the group that printed a line.
    spoke: BTreeSet<u32>,
    /// Ranks that signalled a time-out: they wait as well.
    signalled: BTreeSet<u32>,
    /// A rank in the job that printed a line, and its rank in the group is unknown: it may be any of those
    /// without a line.
    has_unknown: bool,
    /// Ranks in the group are not those in the job.
    pub(super) is_part_of_job: bool,
    /// The members without a line, by the number of members.
    silent: BTreeMap<u32, BTreeSet<u32>>,
}

impl<'a> GroupReport<'a> {
    fn add_speaker(&mut self, record: &'a WatchdogRecord) {
        let WatchdogRecord { rank, global, .. } = record;
        self.has_unknown |= rank.is_none() && global.is_some();
        self.is_part_of_job |= global.is_some() && rank != global;
        self.spoke.extend(*rank);
    }

    /// The ranks besides those `waiting` for call `seq` that wait for a later call, and those that wait for an earlier one.
    pub(super) fn split_other_waits(
        &self,
        seq: u64,
        waiting: &BTreeSet<u32>,
    ) -> (BTreeSet<u32>, BTreeSet<u32>) {
        let ranks = self.waits.keys().copied();
        let others = ranks.filter(|rank| !waiting.contains(rank));
        others.partition(|rank| self.waits[rank] > seq)
    }

    /// The members without a line, of `size` ones or as many as the lines show.
    pub(super) fn find_silent(&mut self, size: Option<u32>) -> BTreeSet<u32> {
        // A single line may be all that was pasted.
        let last = self.spoke.last().copied();
        let last = last.filter(|_| self.spoke.len() > 1 && !self.has_unknown);
        let size = size.or_else(|| last?.checked_add(1));
        match (last, size) {
            (Some(_), Some(size)) if size <= MAX_GROUP_RANKS => {
                let (spoke, signalled) = (&self.spoke, &self.signalled);
                let silent = self.silent.entry(size);
                let is_silent = |rank: &u32| !spoke.contains(rank) && !signalled.contains(rank);
                let find = || (0..size).filter(is_silent).collect();
                let silent = silent.or_insert_with(find);
                // A text without the lines of most ranks is an excerpt.
                match silent.len() <= spoke.len() {
                    true => silent.clone(),
                    false => BTreeSet::new(),
                }
            }
            _ => BTreeSet::new(),
        }
    }
}

/// The number of the call that a message gives up.
fn timed_out_call(message: &WatchdogMessage) -> Option<u64> {
    match message {
        WatchdogMessage::Timeout(timeout) => timeout.seq,
        WatchdogMessage::Work { at, .. } => u64::try_from((*at)?).ok(),
        _ => None,
    }
}

/// Collects what the lines of each process group report.
pub(super) fn collect_group_reports(
    records: &[WatchdogRecord],
) -> BTreeMap<Option<&[u8]>, GroupReport<'_>> {
    let mut groups: BTreeMap<Option<&[u8]>, GroupReport<'_>> = BTreeMap::new();
    for record in records {
        let group = groups.entry(record.group.as_deref()).or_default();
        match (&record.what, record.known_rank()) {
            (
                WatchdogMessage::Hccl(_)
                | WatchdogMessage::Differ(_)
                | WatchdogMessage::Stalled(_)
                | WatchdogMessage::Cut
                | WatchdogMessage::GaveUp,
                _,
            ) => continue,
            (
                &WatchdogMessage::Work {
                    enqueued,
                    completed,
                    signalled_by,
                    ..
                },
                Some(rank),
            ) => {
                let is_of_job = record.rank == record.global;
                group.signalled.extend(signalled_by.filter(|_| is_of_job));
                let now = WatchdogProgress {
                    enqueued,
                    completed,
                };
                group.far.insert(rank, (now, record));
            }
            _ => {}
        }
        // The calls of unnamed groups are of several, each with numbers of its own.
        let call = timed_out_call(&record.what).filter(|_| record.group.is_some());
        if let Some((rank, seq)) = record.known_rank().zip(call) {
            let first = group.waits.entry(rank).or_insert(seq);
            *first = seq.min(*first);
        }
        group.add_speaker(record);
    }
    // A line that is cut before its call may be of any group.
    for record in records {
        if matches!(record.what, WatchdogMessage::Cut) {
            groups
                .values_mut()
                .for_each(|group| group.add_speaker(record));
        }
    }
    groups
}
