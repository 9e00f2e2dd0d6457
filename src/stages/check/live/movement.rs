//! Whether a job moved between two answers of RAS.

use super::NumberedSnapshot;
use crate::formats::ras::{RasCommunicator, RasCountGroup, RasSnapshot};
use crate::members::comm_id::CommId;
use std::collections::{BTreeMap, BTreeSet};

/// What the first and the last answer show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Movement {
    /// There is one answer, or no count that both have.
    Unknown,
    /// Ranks launched operations between them.
    Moved,
    /// No count changed.
    Unchanged,
}

/// Returns the answers on one job, in their order: JSON if there is any, since a text does not have all counts.
pub(super) fn order_snapshots(all: &[NumberedSnapshot]) -> Vec<&NumberedSnapshot> {
    let has_json = all.iter().any(|of| of.snapshot.lists_all_ranks);
    let mut kept: Vec<&NumberedSnapshot> = all
        .iter()
        .filter(|of| of.snapshot.lists_all_ranks || !has_json)
        .collect();
    if kept.iter().all(|of| of.snapshot.stamp.is_some()) {
        kept.sort_by(|a, b| a.snapshot.stamp.cmp(&b.snapshot.stamp));
    }
    let Some(last) = kept.last().copied() else {
        return kept;
    };
    // Answers of an earlier attempt have other communicators.
    let ids = |of: &NumberedSnapshot| -> BTreeSet<CommId> {
        of.snapshot.communicators.iter().map(|of| of.id).collect()
    };
    let own = ids(last);
    let is_same_job = |of: &&NumberedSnapshot| {
        let those = ids(of);
        own.is_empty() || those.is_empty() || !own.is_disjoint(&those)
    };
    kept.retain(is_same_job);
    kept
}

impl Movement {
    /// Compares the first answer with the last.
    pub(super) fn of_snapshots(all: &[&NumberedSnapshot]) -> Movement {
        let (Some(first), Some(last)) = (all.first(), all.last()) else {
            return Movement::Unknown;
        };
        if all.len() < 2 {
            return Movement::Unknown;
        }
        Movement::between(&first.snapshot, &last.snapshot)
    }

    /// Compares two answers.
    pub(super) fn between(first: &RasSnapshot, last: &RasSnapshot) -> Movement {
        let known: BTreeMap<CommId, &RasCommunicator> =
            first.communicators.iter().map(|of| (of.id, of)).collect();
        let mut is_compared = false;
        for now in &last.communicators {
            let Some(before) = known.get(&now.id) else {
                // A text has a communicator from the time on at which its ranks differ.
                if !last.lists_all_ranks
                    && !now.ranks.is_empty()
                    && now.ranks.iter().any(|of| !of.counts.is_empty())
                {
                    return Movement::Moved;
                }
                continue;
            };
            if !before
                .unnamed
                .iter()
                .map(count_of)
                .eq(now.unnamed.iter().map(count_of))
            {
                return Movement::Moved;
            }
            for rank in &now.ranks {
                let at = before.ranks.binary_search_by_key(&rank.rank, |of| of.rank);
                let Ok(at) = at else { continue };
                for (op, count) in &rank.counts {
                    match before.ranks[at].counts.get(op) {
                        Some(earlier) if earlier != count => return Movement::Moved,
                        earlier => is_compared |= earlier.is_some(),
                    }
                }
            }
        }
        match is_compared {
            true => Movement::Unchanged,
            false => Movement::Unknown,
        }
    }
}

/// What a text has of ranks that it does not name.
fn count_of(group: &RasCountGroup) -> (&str, u64, u32) {
    (&group.op, group.count, group.ranks)
}
