//! Which ranks are behind or ahead, by the operations that the ranks of each communicator launched.

use super::limits::{MAX_CIRCLE_RANKS, MAX_COUNT_GROUPS, MIN_SURE_VOTES};
use super::process_names::{LiveProcess, ProcessNames, list_processes};
use crate::formats::ras::{RasCommunicator, RasRank, RasSnapshot};
use std::collections::{BTreeMap, BTreeSet};

/// Operations by name.
type OpCounts = BTreeMap<Box<str>, u64>;

/// A communicator in which ranks differ.
#[derive(Debug)]
pub(super) struct CountDifference<'s> {
    pub(super) communicator: &'s RasCommunicator,
    /// The processes by their counts.
    pub(super) groups: Vec<CountGroup<'s>>,
}

/// Ranks of a communicator with equal counts.
#[derive(Debug)]
pub(super) struct CountGroup<'s> {
    pub(super) counts: &'s OpCounts,
    pub(super) members: BTreeMap<LiveProcess, &'s RasRank>,
}

/// How one group's counts are to another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountOrder {
    Level,
    Behind,
    Ahead,
    /// Behind in one operation and ahead in another.
    Mixed,
}

/// What the counts show.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CountVerdict {
    /// No count differs.
    Level,
    /// These are behind.
    Behind(OddProcesses),
    /// These are ahead, alone.
    Ahead(OddProcesses),
    /// These are behind those, and nothing shows which of both are wrong.
    Either {
        behind: BTreeSet<LiveProcess>,
        ahead: BTreeSet<LiveProcess>,
    },
    /// These are behind each other. `odd` is the one with unusual counts.
    Circle {
        processes: BTreeSet<LiveProcess>,
        odd: Option<LiveProcess>,
    },
}

/// Processes with odd counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OddProcesses {
    pub(super) processes: BTreeSet<LiveProcess>,
    /// They lack, or have, one operation of one communicator, and are level elsewhere.
    pub(super) is_single_call: bool,
    /// They are behind, or ahead, in all their communicators with other ranks.
    pub(super) is_everywhere: bool,
    /// Most ranks, or several communicators of the same kind, agree with the others.
    pub(super) is_certain: bool,
}

/// The differences of a snapshot.
pub(super) struct CountComparison<'s> {
    snapshot: &'s RasSnapshot,
    pub(super) differences: Vec<CountDifference<'s>>,
    behind: BTreeSet<LiveProcess>,
    ahead: BTreeSet<LiveProcess>,
}

impl<'s> CountComparison<'s> {
    /// Compares the ranks of each communicator.
    pub(super) fn new(snapshot: &'s RasSnapshot, names: &ProcessNames<'_>) -> CountComparison<'s> {
        let mut compared = CountComparison {
            snapshot,
            differences: Vec::new(),
            behind: BTreeSet::new(),
            ahead: BTreeSet::new(),
        };
        for communicator in &snapshot.communicators {
            let groups = group_ranks(communicator, names);
            if groups.len() < 2 || groups.len() > MAX_COUNT_GROUPS {
                continue;
            }
            for one in &groups {
                let orders = groups
                    .iter()
                    .map(|other| compare_counts(one.counts, other.counts));
                let orders: Vec<CountOrder> = orders.collect();
                let has = |order| {
                    orders
                        .iter()
                        .any(|of| [order, CountOrder::Mixed].contains(of))
                };
                let members = || one.members.keys().cloned();
                if has(CountOrder::Behind) {
                    compared.behind.extend(members());
                }
                if has(CountOrder::Ahead) {
                    compared.ahead.extend(members());
                }
            }
            compared.differences.push(CountDifference {
                communicator,
                groups,
            });
        }
        let is_different = |of: &CountDifference<'_>| {
            let first = of.groups[0].counts;
            let order = |group: &CountGroup<'_>| compare_counts(first, group.counts);
            of.groups
                .iter()
                .any(|group| order(group) != CountOrder::Level)
        };
        compared.differences.retain(is_different);
        compared
    }

    /// Judges the differences.
    pub(super) fn judge_counts(&self) -> CountVerdict {
        let both: BTreeSet<_> = self.behind.intersection(&self.ahead).cloned().collect();
        let lag = &self.behind - &both;
        let lead = &self.ahead - &both;
        if lag.is_empty() && both.is_empty() {
            return CountVerdict::Level;
        }
        if lag.is_empty() {
            return self.find_circle(&both);
        }
        // A rank between others is behind those that went on, so the last ones stopped.
        if !both.is_empty() || lag.len() < lead.len() {
            return CountVerdict::Behind(self.measure_odd(&lag, 0));
        }
        if lead.len() < lag.len() {
            return CountVerdict::Ahead(self.measure_odd(&lead, 0));
        }
        match self.vote_of_kin(&lead) {
            Some((true, votes)) => CountVerdict::Ahead(self.measure_odd(&lead, votes)),
            Some((false, votes)) => CountVerdict::Behind(self.measure_odd(&lag, votes)),
            None => CountVerdict::Either {
                behind: lag,
                ahead: lead,
            },
        }
    }

    /// Measures how odd `processes` are; `votes` communicators of the same kind show it.
    fn measure_odd(&self, processes: &BTreeSet<LiveProcess>, votes: usize) -> OddProcesses {
        let has_majority = |difference: &CountDifference<'_>| {
            let groups = difference.groups.iter();
            let all: usize = groups.map(|group| group.members.len()).sum();
            2 * processes.len() < all
        };
        OddProcesses {
            processes: processes.clone(),
            is_single_call: self.differs_by_one_call(),
            is_everywhere: self.is_odd_in_all(processes),
            is_certain: votes >= MIN_SURE_VOTES || self.differences.iter().any(has_majority),
        }
    }

    /// True if all that differs is one operation of one communicator.
    pub(super) fn differs_by_one_call(&self) -> bool {
        match &self.differences[..] {
            [only] => match &only.groups[..] {
                [one, other] => difference_in_calls(one.counts, other.counts) == 1,
                _ => false,
            },
            _ => false,
        }
    }

    /// True if it is behind a rank in some communicator.
    pub(super) fn is_behind(&self, process: &LiveProcess) -> bool {
        self.behind.contains(process)
    }

    /// The differences that a process has a part in, that of most ranks first.
    pub(super) fn differences_of<'d>(
        &'d self,
        process: &LiveProcess,
    ) -> Vec<&'d CountDifference<'s>> {
        let has_it = |of: &&CountDifference<'_>| of.group_of(process).is_some();
        let mut own: Vec<_> = self.differences.iter().filter(has_it).collect();
        own.sort_by_key(|of| {
            let members = of.groups.iter().map(|group| group.members.len());
            std::cmp::Reverse(members.sum::<usize>())
        });
        own
    }

    /// True if no communicator with a process of `processes` and used by several ranks is level.
    fn is_odd_in_all(&self, processes: &BTreeSet<LiveProcess>) -> bool {
        let differs: BTreeSet<_> = self
            .differences
            .iter()
            .map(|of| of.communicator.id)
            .collect();
        let known: BTreeSet<_> = self
            .differences
            .iter()
            .flat_map(|of| &of.groups)
            .flat_map(|group| &group.members)
            .filter(|(process, _)| processes.contains(process))
            .filter_map(|(_, rank)| rank.process.as_ref())
            .collect();
        let has_odd = |of: &RasCommunicator| {
            of.ranks
                .iter()
                .any(|rank| rank.process.as_ref().is_some_and(|p| known.contains(p)))
        };
        let is_used = |of: &RasCommunicator| {
            of.ranks.len() > 1
                && of
                    .ranks
                    .iter()
                    .any(|rank| rank.counts.values().any(|&n| n > 0))
        };
        let all = self.snapshot.communicators.iter();
        let mut own = all.filter(|of| has_odd(of) && is_used(of));
        own.all(|of| differs.contains(&of.id))
    }

    /// Asks the communicators of the same kind whether `lead` is the odd side of the only difference. Returns the
    /// answer with the number of these communicators.
    fn vote_of_kin(&self, lead: &BTreeSet<LiveProcess>) -> Option<(bool, usize)> {
        let [difference] = &self.differences[..] else {
            return None;
        };
        let (odd, votes) = self.find_odd_group(difference)?;
        Some((
            odd.members.keys().any(|process| lead.contains(process)),
            votes,
        ))
    }

    /// Returns the group of a communicator that the communicators of the same kind contradict: all of them have the
    /// counts of the other group.
    fn find_odd_group<'d>(
        &self,
        difference: &'d CountDifference<'s>,
    ) -> Option<(&'d CountGroup<'s>, usize)> {
        let [one, other] = &difference.groups[..] else {
            return None;
        };
        let used = |counts: &OpCounts| -> BTreeSet<Box<str>> {
            let used = counts.iter().filter(|&(_, &n)| n > 0);
            used.map(|(op, _)| op.clone()).collect()
        };
        let size = difference.communicator.size;
        let kin = self.snapshot.communicators.iter().filter(|of| {
            let is_other = of.id != difference.communicator.id && of.size == size;
            let first = of.ranks.first();
            let is_level = of
                .ranks
                .iter()
                .all(|rank| first.is_some_and(|first| first.counts == rank.counts));
            let has_ops = first.is_some_and(|first| used(&first.counts) == used(one.counts));
            is_other && is_level && has_ops && of.ranks.len() > 1
        });
        let kin: Vec<&OpCounts> = kin.map(|of| &of.ranks[0].counts).collect();
        let agree = |with: &CountGroup<'_>| {
            !kin.is_empty() && kin.iter().all(|counts| *counts == with.counts)
        };
        match (agree(one), agree(other)) {
            (true, false) => Some((other, kin.len())),
            (false, true) => Some((one, kin.len())),
            _ => None,
        }
    }

    /// Finds the ranks that are behind each other, and the one of them with unusual counts.
    fn find_circle(&self, both: &BTreeSet<LiveProcess>) -> CountVerdict {
        let mut orders: BTreeMap<(&LiveProcess, &LiveProcess), BTreeSet<bool>> = BTreeMap::new();
        for difference in self
            .differences
            .iter()
            .filter(|_| both.len() <= MAX_CIRCLE_RANKS)
        {
            let groups = &difference.groups;
            for (one, other) in groups
                .iter()
                .flat_map(|one| groups.iter().map(move |other| (one, other)))
            {
                let order = compare_counts(one.counts, other.counts);
                let behind: &[bool] = match order {
                    CountOrder::Level => continue,
                    CountOrder::Behind => &[true],
                    CountOrder::Ahead => &[false],
                    CountOrder::Mixed => &[true, false],
                };
                for a in one.members.keys().filter(|of| both.contains(of)) {
                    for b in other.members.keys().filter(|of| both.contains(of)) {
                        orders.entry((a, b)).or_default().extend(behind);
                    }
                }
            }
        }
        let crossed = orders.iter().filter(|(_, seen)| seen.len() == 2);
        let mut processes: BTreeSet<LiveProcess> = crossed
            .flat_map(|((a, b), _)| [(*a).clone(), (*b).clone()])
            .collect();
        if processes.is_empty() {
            processes = both.clone();
        }
        let is_small = processes.len() <= MAX_CIRCLE_RANKS;
        let has_one = |of: &&CountDifference<'_>| {
            is_small
                && processes
                    .iter()
                    .any(|process| of.group_of(process).is_some())
        };
        let crossed = self.differences.iter().filter(has_one);
        let odd = crossed
            .take(MAX_COUNT_GROUPS)
            .filter_map(|of| self.find_odd_group(of));
        let odd: BTreeSet<&LiveProcess> = odd
            .flat_map(|(group, _)| group.members.keys())
            .filter(|process| processes.contains(process))
            .collect();
        let odd = odd.first().filter(|_| odd.len() == 1).copied().cloned();
        CountVerdict::Circle { processes, odd }
    }
}

impl<'s> CountDifference<'s> {
    /// Returns the group of a process.
    pub(super) fn group_of(&self, process: &LiveProcess) -> Option<&CountGroup<'s>> {
        self.groups
            .iter()
            .find(|group| group.members.contains_key(process))
    }

    /// `it launched 10 AllReduce on communicator 0x42f1, ranks 1-7 launched 12`: the operation in which the process
    /// differs most from the largest other group.
    pub(super) fn describe_difference(&self, process: &LiveProcess, name: &str) -> Option<String> {
        let own = self.group_of(process)?;
        let others = self
            .groups
            .iter()
            .filter(|group| !group.members.contains_key(process));
        let other = others.max_by_key(|group| group.members.len())?;
        let apart = |op: &str| own.counts[op].abs_diff(other.counts[op]);
        let ops = own
            .counts
            .keys()
            .filter(|op| other.counts.contains_key(*op));
        let op = ops.max_by_key(|op| apart(op))?;
        Some(format!(
            "{name} launched {} {op} on communicator {}, {} launched {}",
            own.counts[op],
            self.communicator.id,
            list_processes(other.members.keys()),
            other.counts[op],
        ))
    }
}

/// Groups the ranks of a communicator by their counts.
fn group_ranks<'s>(
    communicator: &'s RasCommunicator,
    names: &ProcessNames<'_>,
) -> Vec<CountGroup<'s>> {
    let mut groups: BTreeMap<&OpCounts, CountGroup<'s>> = BTreeMap::new();
    for rank in communicator
        .ranks
        .iter()
        .filter(|rank| !rank.counts.is_empty())
    {
        let process = names.find_member(communicator, rank.rank, rank.process.as_ref());
        let new = || CountGroup {
            counts: &rank.counts,
            members: BTreeMap::new(),
        };
        let group = groups.entry(&rank.counts).or_insert_with(new);
        group.members.insert(process, rank);
    }
    groups.into_values().collect()
}

/// Compares counts in the operations that both have.
fn compare_counts(own: &OpCounts, other: &OpCounts) -> CountOrder {
    let (mut is_less, mut is_more) = (false, false);
    for (op, count) in own {
        if let Some(other) = other.get(op) {
            is_less |= count < other;
            is_more |= count > other;
        }
    }
    match (is_less, is_more) {
        (false, false) => CountOrder::Level,
        (true, false) => CountOrder::Behind,
        (false, true) => CountOrder::Ahead,
        (true, true) => CountOrder::Mixed,
    }
}

/// The number of operations by which counts differ.
fn difference_in_calls(own: &OpCounts, other: &OpCounts) -> u64 {
    let each = own
        .iter()
        .filter_map(|(op, &n)| Some(n.abs_diff(*other.get(op)?)));
    each.fold(0, u64::saturating_add)
}
