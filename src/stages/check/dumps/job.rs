//! The dumps of one job by rank, and their calls by process group.

use crate::formats::flight::{DumpEntry, FlightCallState, FlightDump, FlightGroup, FlightOp};
use crate::stages::check::answer::judged::JudgedRecords;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One rank's dump.
#[derive(Debug)]
pub(super) struct RankDump {
    /// The number of its input.
    pub(super) input: u32,
    pub(super) dump: FlightDump,
    /// True if nothing of it is cut off or damaged.
    pub(super) is_whole: bool,
}

impl RankDump {
    /// True if no early call is forgotten.
    pub(super) fn has_all_calls(&self) -> bool {
        let first = self.dump.entries.first();
        first.is_none_or(|entry| entry.record_id == 0)
    }
}

/// All dumps, by rank in the job.
#[derive(Debug, Default)]
pub(super) struct DumpedJob {
    pub(super) ranks: BTreeMap<u32, RankDump>,
    /// The number of dumps without a rank, and of earlier dumps of a rank.
    pub(super) unused: u64,
    /// The ranks with a dump of another run.
    pub(super) other_runs: BTreeSet<u32>,
}

/// The collectives of a rank by number: the record of each, or the records of several that were coalesced.
pub(super) type DumpCallsBySeq<'d> = BTreeMap<u64, Vec<&'d DumpEntry>>;

/// A process group with the calls of those members that left a dump.
pub(super) struct GroupDumpCalls<'d> {
    pub(super) group: &'d FlightGroup,
    /// Its collectives, by the member's rank in the job and by their number in the group.
    pub(super) members: BTreeMap<u32, DumpCallsBySeq<'d>>,
    /// Its sends and receives, in the order in which each member made them.
    pub(super) messages: BTreeMap<u32, Vec<&'d DumpEntry>>,
}

impl DumpedJob {
    /// True if a rank left a whole dump of all its calls.
    pub(super) fn has_all_calls_of(&self, rank: u32) -> bool {
        let left = self.ranks.get(&rank);
        left.is_some_and(|left| left.is_whole && left.has_all_calls())
    }

    /// Collects dumps, each with the number of its input. Of two dumps of one rank it takes the one with the later
    /// calls: a job that was started again writes to the same files.
    pub(super) fn from_dumps(
        dumps: impl IntoIterator<Item = (u32, (FlightDump, bool))>,
    ) -> DumpedJob {
        let mut job = DumpedJob::default();
        for (input, (dump, is_whole)) in dumps {
            let Some(rank) = dump.rank else {
                job.unused += 1;
                continue;
            };
            let left = RankDump {
                input,
                dump,
                is_whole,
            };
            match job.ranks.entry(rank) {
                std::collections::btree_map::Entry::Vacant(new) => _ = new.insert(left),
                std::collections::btree_map::Entry::Occupied(mut old) => {
                    job.unused += 1;
                    if last_created_ns(&left.dump) > last_created_ns(&old.get().dump) {
                        old.insert(left);
                    }
                }
            }
        }
        job.other_runs = job.remove_other_runs();
        job.fill_groups();
        job
    }

    /// Gives groups that no dump lists the ranks that call in them: a dump may have no `pg_config`.
    fn fill_groups(&mut self) {
        let mut called: BTreeMap<Arc<str>, BTreeSet<u32>> = BTreeMap::new();
        for (&rank, left) in &self.ranks {
            let unlisted = left
                .dump
                .entries
                .iter()
                .filter(|entry| entry.group.ranks.is_empty());
            for entry in unlisted {
                called
                    .entry(entry.group.name.clone())
                    .or_default()
                    .insert(rank);
            }
        }
        let called = called.into_iter();
        let called: BTreeMap<Arc<str>, Arc<[u32]>> = called
            .map(|(name, ranks)| (name, ranks.into_iter().collect()))
            .collect();
        for left in self.ranks.values_mut() {
            for entry in &mut left.dump.entries {
                if entry.group.ranks.is_empty()
                    && let Some(ranks) = called.get(&entry.group.name)
                {
                    entry.group = Arc::new(FlightGroup {
                        ranks: ranks.clone(),
                        ..FlightGroup::clone(&entry.group)
                    });
                }
            }
        }
    }

    /// All ranks that the groups name.
    pub(super) fn ranks_in_groups(&self) -> BTreeSet<u32> {
        let groups = self.ranks.values().flat_map(|left| &left.dump.groups);
        groups
            .flat_map(|group| group.ranks.iter().copied())
            .collect()
    }

    /// Counts the ranks with a call, or an end of a message, that another whole dump has too.
    pub(super) fn count_judged_ranks(&self, groups: &[GroupDumpCalls<'_>]) -> JudgedRecords {
        let is_whole = |rank: u32| self.ranks.get(&rank).is_some_and(|left| left.is_whole);
        let mut compared: BTreeSet<u32> = BTreeSet::new();
        for grouped in groups {
            let ends = grouped.iter_messages().map(|call| [call.rank, call.peer]);
            compared.extend(
                ends.filter(|ends| ends.iter().all(|end| is_whole(*end)))
                    .flatten(),
            );
            let mut callers: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
            for (&rank, calls) in grouped.members.iter().filter(|(rank, _)| is_whole(**rank)) {
                calls
                    .keys()
                    .for_each(|seq| callers.entry(*seq).or_default().push(rank));
            }
            let shared = callers.into_values().filter(|ranks| ranks.len() > 1);
            compared.extend(shared.flatten());
        }
        let mut all = self.ranks_in_groups();
        all.extend(self.ranks.keys());
        JudgedRecords {
            job_ranks: all.len(),
            dumped: self.ranks.len(),
            cut: self.ranks.values().filter(|left| !left.is_whole).count(),
            compared: compared.len(),
            ..JudgedRecords::default()
        }
    }

    /// Groups the calls by the group's name and members: a new group may have the name of one that was destroyed.
    pub(super) fn group_calls(&self) -> Vec<GroupDumpCalls<'_>> {
        let mut all: BTreeMap<(&str, &[u32]), GroupDumpCalls<'_>> = BTreeMap::new();
        for (&rank, left) in &self.ranks {
            // The number that the messages of each group have, while no collective follows them.
            let mut with_messages: BTreeMap<(&str, &[u32]), u64> = BTreeMap::new();
            for entry in &left.dump.entries {
                let group = &*entry.group;
                // Some groups have no ranks; their calls cannot be compared.
                if !group.ranks.contains(&rank) || entry.op == FlightOp::Foreign {
                    continue;
                }
                let grouped =
                    all.entry((&group.name, &group.ranks))
                        .or_insert_with(|| GroupDumpCalls {
                            group,
                            members: BTreeMap::new(),
                            messages: BTreeMap::new(),
                        });
                let (seq, key) = (entry.collective_seq, (&*group.name, &*group.ranks));
                if matches!(entry.op, FlightOp::Send { .. } | FlightOp::Recv { .. }) {
                    with_messages.insert(key, seq);
                    grouped.messages.entry(rank).or_default().push(entry);
                } else if !entry.is_p2p {
                    let calls = grouped.members.entry(rank).or_default();
                    // The launch of coalesced messages has the number of the collective before it, which may have left
                    // the ring; behind the beginning of a ring it may be a launch of either.
                    let is_of_messages = || match with_messages.get(&key) {
                        Some(&with) => with == seq,
                        None => calls.is_empty() && !left.has_all_calls(),
                    };
                    if entry.op != FlightOp::Coalesced
                        || seq > 0 && !calls.contains_key(&seq) && !is_of_messages()
                    {
                        with_messages.remove(&key);
                        calls.entry(seq).or_default().push(entry);
                    }
                }
            }
        }
        // A member that made no call in a group is behind those that did.
        for grouped in all.values_mut() {
            if grouped.members.is_empty() {
                continue;
            }
            for rank in grouped.group.ranks.iter() {
                if self.ranks.contains_key(rank) {
                    grouped.members.entry(*rank).or_default();
                }
            }
        }
        all.into_values().collect()
    }
}

impl GroupDumpCalls<'_> {
    /// `process group 0 (default_pg)`.
    pub(super) fn describe_group(&self) -> String {
        let FlightGroup { name, desc, .. } = self.group;
        // A long name is a hash, which means nothing to a reader.
        let is_short = name.len() <= 8;
        match (is_short, &**desc) {
            (true, "" | "undefined") => format!("process group {name}"),
            (false, "" | "undefined") => "a process group".to_owned(),
            (true, desc) => format!("process group {name} ({desc})"),
            (false, desc) => format!("process group {desc}"),
        }
    }
}

/// The time of the last call of a dump.
pub(super) fn last_created_ns(dump: &FlightDump) -> Option<u64> {
    dump.entries
        .iter()
        .filter_map(|entry| entry.created_ns)
        .max()
}

/// True if a call did not end.
pub(super) fn is_open(calls: &[&DumpEntry]) -> bool {
    calls
        .iter()
        .any(|entry| entry.reached_state() != FlightCallState::Completed)
}

/// True if the watchdog gave a call up: it stopped to watch it, and the call did not end.
pub(super) fn is_given_up(calls: &[&DumpEntry]) -> bool {
    calls
        .iter()
        .any(|entry| entry.is_retired && entry.reached_state() != FlightCallState::Completed)
}
