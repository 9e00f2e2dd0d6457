//! The ranks that differ from those that wait for a call: behind, silent, ahead, or in no call at all.

use super::group_report::WatchdogProgress;
use super::{WatchdogMessage, WatchdogRecord, describe_ranks};
use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::wording::verb_form;
use std::collections::{BTreeMap, BTreeSet};

/// The ranks that differ from those that wait, in the order in which that explains a wait.
pub(super) enum OddGroupRanks<'a> {
    /// They have not made the call.
    Behind(BTreeSet<u32>),
    /// They printed nothing; true if the group's ranks are those of the job.
    Silent(BTreeSet<u32>, bool),
    /// The only rank in the job that prints lines and waits for no call.
    Absent(&'a AbsentRank),
    /// All have made the call, and these went on.
    Ahead(BTreeSet<u32>),
    /// These completed it.
    Past(BTreeSet<u32>),
    /// All have made the call, and these have enqueued the fewest.
    Fewest {
        ranks: BTreeSet<u32>,
        fewest: i64,
        most: i64,
    },
    /// None differs.
    Unknown,
}

impl OddGroupRanks<'_> {
    pub(super) fn describe_odd(&self) -> String {
        match self {
            OddGroupRanks::Behind(ranks) => {
                let is = verb_form(ranks.len(), "is", "are");
                format!(", and {} {is} behind", describe_ranks(ranks))
            }
            OddGroupRanks::Silent(ranks, of_job) => {
                let group = if *of_job { "" } else { " of the group" };
                format!(
                    ", and {}{group} printed no such line",
                    describe_ranks(ranks)
                )
            }
            OddGroupRanks::Ahead(ranks) => {
                let has = verb_form(ranks.len(), "has", "have");
                format!(
                    "; all have made it, but {} {has} gone further than the others",
                    describe_ranks(ranks)
                )
            }
            OddGroupRanks::Past(ranks) => format!(", and {} went past it", describe_ranks(ranks)),
            OddGroupRanks::Fewest {
                ranks,
                fewest,
                most,
            } => {
                let has = verb_form(ranks.len(), "has", "have");
                format!(
                    "; all have made it, and {} {has} enqueued the fewest calls ({fewest}, the \
                     others up to {most})",
                    describe_ranks(ranks)
                )
            }
            OddGroupRanks::Absent(_) | OddGroupRanks::Unknown => String::new(),
        }
    }

    /// The one rank to look at, if it is one, where the ranks `waiting` wait.
    pub(super) fn rank_to_blame(&self, waiting: &BTreeSet<u32>) -> Option<u32> {
        let ranks = match self {
            OddGroupRanks::Absent(absent) => return Some(absent.rank),
            OddGroupRanks::Silent(_, false)
            | OddGroupRanks::Fewest { .. }
            | OddGroupRanks::Unknown => return None,
            OddGroupRanks::Past(past) if past.len() >= waiting.len() => waiting,
            OddGroupRanks::Behind(ranks)
            | OddGroupRanks::Silent(ranks, _)
            | OddGroupRanks::Ahead(ranks)
            | OddGroupRanks::Past(ranks) => ranks,
        };
        ranks.first().copied().filter(|_| ranks.len() == 1)
    }
}

/// The only rank in the job that waits in no call: it has lines but no call that timed out, or it alone has no line.
pub(super) struct AbsentRank {
    rank: u32,
    /// The rank and its process.
    name: String,
    pub(super) is_silent: bool,
    /// How many ranks wait.
    waiting: usize,
}

impl AbsentRank {
    pub(super) fn find(records: &[WatchdogRecord], names: RankNames<'_>) -> Option<AbsentRank> {
        let all: BTreeSet<u32> = records.iter().filter_map(|record| record.global).collect();
        let mut absent = all.clone();
        for record in records {
            if matches!(record.what, WatchdogMessage::Timeout(_)) {
                // One that waits may be any of those without a call.
                absent.remove(&record.global?);
            }
        }
        // INIT lines show who is silent in other ways.
        let is_silent = absent.is_empty() && names.found.communicators.is_empty();
        if is_silent {
            // One silent rank is a gap in the others' numbers.
            let last = *all.last()?;
            let is_one = all.len() == last as usize && all.len() > 1;
            absent.extend((0..last).filter(|rank| is_one && !all.contains(rank)));
        }
        let rank = absent.first().copied().filter(|_| absent.len() == 1)?;
        let side = names.found.side_of_job_rank(rank);
        Some(AbsentRank {
            rank,
            name: side.map_or_else(|| format!("rank {rank}"), |side| names.describe_actor(side)),
            is_silent,
            waiting: all.len() - usize::from(!is_silent),
        })
    }

    /// The sentence that comes before those of its calls.
    pub(super) fn describe_absence(&self) -> String {
        let what = match self.is_silent {
            true => "printed no line of the watchdog",
            false => "waits in no call of any group",
        };
        let others = match self.waiting {
            1 => "another waits".to_owned(),
            n => format!("{n} ranks wait"),
        };
        format!(
            "{} {what}, and {others} in calls that timed out; ",
            self.name
        )
    }
}

/// The ranks that have not made the call.
pub(super) fn ranks_behind(
    far: &BTreeMap<u32, (WatchdogProgress, &WatchdogRecord)>,
    seq: u64,
) -> BTreeSet<u32> {
    let seq = i64::try_from(seq).unwrap_or(i64::MAX);
    let behind = far.iter().filter(|(_, (far, _))| far.enqueued < seq);
    behind.map(|(&rank, _)| rank).collect()
}

/// The few ranks that made more calls than the others, which all made equally many.
pub(super) fn ranks_ahead(
    far: &BTreeMap<u32, (WatchdogProgress, &WatchdogRecord)>,
) -> BTreeSet<u32> {
    let least = far.values().map(|(far, _)| far.enqueued).min().unwrap_or(0);
    let ahead = far.iter().filter(|(_, (far, _))| far.enqueued > least);
    let ahead: BTreeSet<u32> = ahead.map(|(&rank, _)| rank).collect();
    match 2 * ahead.len() < far.len() {
        true => ahead,
        false => BTreeSet::new(),
    }
}

/// The ranks with the fewest calls, if at least as many ranks made more.
pub(super) fn ranks_with_fewest_calls(
    far: &BTreeMap<u32, (WatchdogProgress, &WatchdogRecord)>,
) -> OddGroupRanks<'static> {
    let enqueued = far.iter().map(|(rank, (far, _))| (*rank, far.enqueued));
    let calls = enqueued.clone().map(|(_, calls)| calls);
    let (fewest, most) = (calls.clone().min(), calls.max());
    let (Some(fewest), Some(most)) = (fewest, most) else {
        return OddGroupRanks::Unknown;
    };
    let ranks = enqueued.filter(|(_, calls)| *calls == fewest);
    let ranks: BTreeSet<u32> = ranks.map(|(rank, _)| rank).collect();
    if 2 * ranks.len() > far.len() {
        return OddGroupRanks::Unknown;
    }
    OddGroupRanks::Fewest {
        ranks,
        fewest,
        most,
    }
}
