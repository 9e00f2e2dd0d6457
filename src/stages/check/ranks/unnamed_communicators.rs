//! Communicators that no line names, put together if counting leaves only one way.
//!
//! Up to NCCL 2.17 INIT lines have no id, and logs of calls alone have none: then a communicator is
//! one address in each process, and no line reports which addresses are one communicator. But if a
//! log has N processes and each of them uses one communicator of N ranks, these are one: a second
//! would have no members left. That holds as far as the log has all ranks of its job, so a finding
//! of this kind is less than sure, and its reason names the evidence ([`CountingEvidence`]).

use crate::stages::check::finding::Confidence;
use crate::stages::check::streams::unjudged_reason::UnjudgedReason;
use crate::stages::communicators::{
    CommunicatorsSummary, CountingEvidence, JobGpu, MergedCommunicator, Named, gpu_of_side,
};
use std::collections::{BTreeMap, BTreeSet};

/// What counting leaves open.
#[derive(Debug, Default)]
pub(crate) struct UnnamedComms {
    /// Why members are not known, by the communicators' size.
    why: BTreeMap<u32, UnjudgedReason>,
    /// Sides that may be of one communicator; some members have no lines in the log.
    pub(crate) few: Option<Vec<usize>>,
}

impl UnnamedComms {
    /// Why the members of a communicator of `nranks` are not known.
    pub(crate) fn reason_unknown(&self, nranks: Option<u32>) -> UnjudgedReason {
        let why = nranks.and_then(|n| self.why.get(&n));
        why.copied().unwrap_or(UnjudgedReason::Unnamed)
    }
}

/// Returns the confidence in sides that were put together as one communicator, and why.
pub(crate) fn confidence_of_grouping(told: CountingEvidence, nranks: u32) -> (Confidence, String) {
    let each = format!("each of the {nranks} processes in the log");
    let (sure, since) = match told {
        CountingEvidence::Only => (
            Confidence::Medium,
            format!("{each} uses one communicator of {nranks} ranks and no other"),
        ),
        CountingEvidence::Ranks => (
            Confidence::Medium,
            format!(
                "{each} uses exactly one communicator of {nranks} ranks, and each rank appears \
                     once"
            ),
        ),
        CountingEvidence::Largest => (
            Confidence::Low,
            format!(
                "{each} uses exactly one communicator of {nranks} ranks, besides smaller ones; if \
                 the job has more processes, it may be several communicators"
            ),
        ),
        CountingEvidence::Order(many) => (
            Confidence::Medium,
            format!(
                "{each} made {many} communicators of {nranks} ranks; they are matched in the order \
                 in which they were made"
            ),
        ),
    };
    (
        sure,
        format!("no line names its members: it is treated as one communicator because {since}"),
    )
}

/// How a communicator was put together, if it was.
pub(crate) fn grouping_of(communicator: &MergedCommunicator) -> Option<(CountingEvidence, u32)> {
    match communicator.key {
        Named::Counted(_, told) => Some((told, communicator.nranks?)),
        _ => None,
    }
}

/// Sides of communicators of one size that no line names.
#[derive(Default)]
struct UnnamedCommsOfSize {
    /// By process, in the order in which they were made or first used.
    of: BTreeMap<JobGpu, Vec<usize>>,
    /// Their addresses.
    known: BTreeSet<u64>,
    /// Addresses in calls of unknown processes.
    stray: BTreeSet<u64>,
}

/// Puts together the sides that can be only one communicator, and returns the rest.
pub(crate) fn group_unnamed_communicators(found: &mut CommunicatorsSummary) -> UnnamedComms {
    // All processes with a communicator of more than one rank, and those with others besides.
    let mut all: BTreeMap<JobGpu, usize> = BTreeMap::new();
    let mut sizes: BTreeMap<u32, UnnamedCommsOfSize> = BTreeMap::new();
    let (mut largest, mut ids) = (0, BTreeSet::new());
    for communicator in &found.communicators {
        let Some(nranks) = communicator.nranks.filter(|&n| n > 1) else {
            continue;
        };
        largest = largest.max(nranks);
        for &at in &communicator.sides {
            let side = &found.sides[at];
            let named = found.processes[side.process as usize].pid.is_some();
            if named {
                *all.entry(gpu_of_side(side)).or_default() += 1;
            }
            if !matches!(communicator.key, Named::Own(_)) {
                ids.insert(nranks);
                continue;
            }
            let size = sizes.entry(nranks).or_default();
            if named {
                size.of.entry(gpu_of_side(side)).or_default().push(at);
                size.known.insert(side.comm);
            } else {
                size.stray.insert(side.comm);
            }
        }
    }
    let mut open = UnnamedComms::default();
    let mut taken: Vec<(u32, CountingEvidence, Vec<usize>)> = Vec::new();
    // Beside communicators with an id, those without one may be the same, their lines damaged.
    for (&nranks, size) in sizes.iter().filter(|(nranks, _)| !ids.contains(nranks)) {
        match size.find_only_grouping(nranks, largest, &all, found) {
            Ok((told, groups)) => taken.extend(groups.into_iter().map(|of| (nranks, told, of))),
            Err(why) => {
                if matches!(why, UnjudgedReason::Few(seen, _) if seen > 1) {
                    open.few = Some(size.of.values().flatten().copied().collect());
                }
                open.why.insert(nranks, why);
            }
        }
    }
    for (nranks, told, sides) in taken {
        found.unite_sides(nranks, told, sides);
    }
    open
}

impl UnnamedCommsOfSize {
    /// The communicators that these sides can only be.
    fn find_only_grouping(
        &self,
        nranks: u32,
        largest: u32,
        all: &BTreeMap<JobGpu, usize>,
        found: &CommunicatorsSummary,
    ) -> Result<(CountingEvidence, Vec<Vec<usize>>), UnjudgedReason> {
        let mut ranks = BTreeSet::new();
        let mut known = self.of.values().flatten();
        let twice = known.any(|&at| found.sides[at].rank.is_some_and(|rank| !ranks.insert(rank)));
        let many = self.of.values().map(Vec::len);
        let (least, most) = (many.clone().min().unwrap_or(0), many.max().unwrap_or(0));
        if self.of.len() < nranks as usize && nranks == largest && most == 1 && !twice {
            let seen = u32::try_from(self.of.len()).unwrap_or(u32::MAX);
            return Err(UnjudgedReason::Few(seen, nranks));
        }
        // Others may have members among those that the log lacks.
        let whole = self.of.len() == nranks as usize && all.len() == self.of.len();
        if !whole || largest > nranks {
            return Err(UnjudgedReason::Unnamed);
        }
        if self.stray.iter().any(|comm| !self.known.contains(comm)) {
            return Err(UnjudgedReason::TwoNames);
        }
        let groups: Vec<Vec<usize>> = (0..least)
            .map(|nth| self.of.values().map(|sides| sides[nth]).collect())
            .collect();
        let ranks = |group: &Vec<usize>| -> BTreeSet<u32> {
            group
                .iter()
                .filter_map(|&at| found.sides[at].rank)
                .collect()
        };
        let named = |group: &Vec<usize>| {
            let ranks = ranks(group);
            ranks.len() == group.len() && ranks.iter().copied().eq(0..nranks)
        };
        let unnamed = |group: &Vec<usize>| ranks(group).is_empty();
        let told = match least {
            _ if least != most => return Err(UnjudgedReason::Unnamed),
            1 if all.values().all(|&n| n == 1) && groups.iter().all(|g| named(g) || unnamed(g)) => {
                CountingEvidence::Only
            }
            1 if groups.iter().all(named) => CountingEvidence::Ranks,
            1 if groups.iter().all(unnamed) => CountingEvidence::Largest,
            1 => return Err(UnjudgedReason::Unnamed),
            // Communicators with the same members are made in the same order; first calls are not.
            n if groups.iter().all(named) => {
                CountingEvidence::Order(u32::try_from(n).unwrap_or(u32::MAX))
            }
            n => {
                return Err(UnjudgedReason::Several(
                    u32::try_from(n).unwrap_or(u32::MAX),
                    nranks,
                ));
            }
        };
        Ok((told, groups))
    }
}
