//! The calls that ranks wait in, in words.

use super::tail::{CallWords, SideCalls, TailCall};
use super::{CommunicatorGroup, RankTail};
use crate::stages::check::ranks::names::describe_process;
use crate::stages::check::wording::{list_names, rank_ranges};
use crate::stages::communicators::CommunicatorsSummary;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Calls by communicator and number, and the ranks that wait in them.
type Waiters<'r> = (BTreeSet<(usize, u64)>, Vec<&'r RankTail>);

/// Groups the ranks by the call that they wait in; `drawn` are calls with their columns from the end, which
/// give the order.
pub(super) fn list_waits<'c>(
    ranks: &[RankTail],
    sides: &SideCalls<'_>,
    words: &CallWords<'_>,
    drawn: impl Iterator<Item = (&'c TailCall, usize)>,
) -> Vec<(String, String)> {
    let columns = drawn.map(|(call, column)| ((call.communicator, call.place.seq), column));
    let columns: BTreeMap<(usize, u64), usize> = columns.collect();
    let mut groups: BTreeMap<(String, &str, Option<u32>), Waiters<'_>> = BTreeMap::new();
    for rank in ranks {
        let Some(call) = rank.unmet.and_then(|at| rank.calls.get(at)) else {
            continue;
        };
        let of = &sides.found.communicators[call.communicator];
        let key = (words.describe(call), of.label.of.name(), of.nranks);
        let (calls, who) = groups.entry(key).or_default();
        calls.insert((call.communicator, call.place.seq));
        who.push(rank);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (calls, who))| {
        let columns = calls.iter().filter_map(|call| columns.get(call));
        (Reverse(columns.max().copied().unwrap_or(0)), who.len())
    });
    let mut list = Vec::new();
    for ((call, label, nranks), (calls, who)) in groups {
        let group = CommunicatorGroup {
            label,
            nranks,
            communicators: calls.len(),
        };
        // Of several messages each has its own peer.
        let one = who.first().filter(|_| calls.len() == 1);
        let one = one.and_then(|rank| rank.calls.get(rank.unmet?));
        let call = match one {
            Some(one) => words.describe_in_communicator(one, sides),
            None => format!("{call}, {}", group.describe_group()),
        };
        list.push((call, name_ranks(&who, sides.found)));
    }
    list
}

impl CommunicatorGroup {
    /// `tensor, 8 ranks, 4 communicators`.
    pub fn describe_group(&self) -> String {
        let label = match self.label {
            "unknown" => "of unknown purpose",
            label => label,
        };
        let ranks = self.nranks.map(|n| format!(", {n} ranks"));
        let many = match self.communicators {
            1 => String::new(),
            n => format!(", {n} communicators"),
        };
        format!("{label}{}{many}", ranks.unwrap_or_default())
    }
}

/// `rank 12`, or the process where no rank in the job is known.
pub(super) fn name_rank(rank: &RankTail, found: &CommunicatorsSummary) -> String {
    let process = || describe_process(&found.processes[rank.gpu.0 as usize]);
    match (rank.rank, rank.gpu.1) {
        (Some(rank), _) => format!("rank {rank}"),
        (None, None) => process(),
        (None, Some(device)) => format!("{} GPU {device}", process()),
    }
}

/// `ranks 8-11, 13-15`.
fn name_ranks(who: &[&RankTail], found: &CommunicatorsSummary) -> String {
    let ranks: BTreeSet<u32> = who.iter().filter_map(|rank| rank.rank).collect();
    match ranks.len() {
        1 => format!("rank {}", rank_ranges(&ranks)),
        n if n == who.len() => format!("ranks {}", rank_ranges(&ranks)),
        _ => list_names(who.iter().map(|rank| name_rank(rank, found))),
    }
}
