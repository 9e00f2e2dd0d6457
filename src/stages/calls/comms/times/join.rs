//! Finds the call of the log for each recorded call.

use super::super::limits::NO_TIMING;
use super::align::{CallAlignment, align_by_number, align_in_order};
use super::clocks::{PlacedRun, clear_untimely_places};
use super::logged::{LoggedMember, LoggedProcess, LoggedSequences};
use super::records::{RecordOrder, RecordedCall, RecordedClasses, RecordedMember, TimingRecords};
use super::shapes::{CallClass, ComparedShapes};
use crate::members::comm_id::CommId;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// How many records fill no call, by reason.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RefusedRecords {
    /// The log does not have the communicator and rank.
    pub(super) elsewhere: u64,
    /// The log has other operations or bytes there.
    pub(super) other: u64,
    /// They fit several calls.
    pub(super) ambiguous: u64,
    /// Their times do not fit the time stamps of the log.
    pub(super) untimely: u64,
    /// The log or the records lack calls, and no time proves which of the others they are.
    pub(super) unproven: u64,
}

/// The records of a log's calls.
#[derive(Debug, Default)]
pub(super) struct JoinedRecords {
    /// For each call of a member's class the number of its timing.
    by_call: FxHashMap<(u32, CallClass), Vec<u32>>,
    pub(super) refused: RefusedRecords,
}

impl JoinedRecords {
    /// Joins all records with the calls of a log.
    pub(super) fn join_records(
        records: &TimingRecords,
        logged: &LoggedSequences,
        shapes: &ComparedShapes,
    ) -> JoinedRecords {
        let mut joined = JoinedRecords::default();
        let by_name = list_members_by_name(logged);
        let mut processes: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let mut numbered: BTreeMap<LoggedProcess, Vec<_>> = BTreeMap::new();
        for (of, classes) in &records.members {
            let is_ordered =
                |(_, order): &(CallClass, RecordOrder)| matches!(order, RecordOrder::Order { .. });
            if classes.keys().any(is_ordered) {
                let process = (of.input, &of.host, of.pid);
                processes.entry(process).or_default().push((of, classes));
            } else {
                let members = of
                    .comm_id
                    .zip(of.rank)
                    .and_then(|named| by_name.get(&named));
                let members = members.into_iter().flatten();
                let aligned = members.map(|at| align_classes(classes, *at, logged, shapes));
                for run in joined.place_classes(logged, classes, aligned.collect()) {
                    let process = logged.members[run.of.0 as usize].process();
                    numbered.entry(process).or_default().push(run);
                }
            }
        }
        for runs in numbered.into_values() {
            joined.take_runs(records, runs);
        }
        for members in processes.values() {
            joined.join_process(records, members, logged, shapes);
        }
        joined
    }

    /// Joins the records of a process, which is the one of the log in which all of its communicators fit.
    fn join_process(
        &mut self,
        records: &TimingRecords,
        members: &[(&RecordedMember, &RecordedClasses)],
        logged: &LoggedSequences,
        shapes: &ComparedShapes,
    ) {
        let candidates = |of: &RecordedMember| -> Vec<u32> {
            let all = (0..).zip(&logged.members);
            let own = all.filter(|(_, member)| is_member(of, member));
            own.map(|(at, _)| at).collect()
        };
        let process_of =
            |at: u32| -> Option<LoggedProcess> { Some(logged.members.get(at as usize)?.process()) };
        let members = members
            .iter()
            .map(|(of, classes)| (candidates(of), *classes));
        let mut members: Vec<_> = members.collect();
        // Those with few candidates spare the alignments of the others.
        members.sort_by_key(|(candidates, _)| candidates.len());
        let named = members.iter().map(|(candidates, _)| -> BTreeSet<_> {
            candidates.iter().filter_map(|at| process_of(*at)).collect()
        });
        let named = named.reduce(|some, others| &some & &others);
        // A process with a communicator that the log does not have is another job's.
        if named.as_ref().is_none_or(BTreeSet::is_empty) {
            members.iter_mut().for_each(|(of, _)| of.clear());
        }
        let all = || members.iter().flat_map(|(candidates, _)| candidates);
        // These calls may be missing from their own process, and fit another one by chance.
        let mut lacking = all().filter_map(|at| logged.members.get(*at as usize));
        let is_unsure = named.is_some_and(|named| named.len() > 1);
        if is_unsure && lacking.any(|member| logged.may_lack_calls(member)) {
            let calls = members.iter().flat_map(|(_, classes)| classes.values());
            self.refused.unproven += calls.map(Vec::len).sum::<usize>() as u64;
            return;
        }
        let all: BTreeSet<LoggedProcess> = all().filter_map(|at| process_of(*at)).collect();
        let is_known = all.len() == 1;
        let mut possible = all;
        let mut found = Vec::new();
        for (candidates, classes) in members {
            let aligned = candidates.iter().filter_map(|at| {
                let process = process_of(*at).filter(|process| possible.contains(process))?;
                Some((process, align_classes(classes, *at, logged, shapes)))
            });
            let aligned: Vec<(LoggedProcess, AlignedClasses)> = aligned.collect();
            if !is_known {
                let fitting = aligned.iter().filter(|(_, all)| all.can_fit());
                possible = fitting.map(|(process, _)| process.clone()).collect();
            }
            found.push((classes, aligned));
        }
        let mut runs = Vec::new();
        let only = possible.first().filter(|_| possible.len() == 1);
        for (classes, mut aligned) in found {
            aligned.retain(|(process, _)| only.is_none_or(|only| only == process));
            let mut all: Vec<AlignedClasses> = aligned.into_iter().map(|(_, all)| all).collect();
            // Communicators of one process with the same calls cannot be distinguished.
            let fitting = all.iter().filter(|all| all.can_fit()).count();
            if only.is_some() && fitting == 1 {
                all.retain(AlignedClasses::can_fit);
            } else if fitting > 0 {
                let calls = classes.values().map(Vec::len).sum::<usize>();
                self.refused.ambiguous += calls as u64;
                continue;
            }
            runs.extend(self.place_classes(logged, classes, all));
        }
        self.take_runs(records, runs);
    }

    /// Places the records of a member in the calls of all ranks that they were aligned with.
    fn place_classes<'a>(
        &mut self,
        logged: &'a LoggedSequences,
        classes: &'a RecordedClasses,
        aligned: Vec<AlignedClasses>,
    ) -> Vec<PlacedRun<'a>> {
        let count = |calls: &Vec<RecordedCall>| calls.len() as u64;
        if aligned.is_empty() {
            self.refused.elsewhere += classes.values().map(count).sum::<u64>();
        }
        let mut runs = Vec::new();
        for AlignedClasses {
            member,
            classes: all,
        } in aligned
        {
            for (key, found) in all {
                let Some(calls) = classes.get(&key) else {
                    continue;
                };
                let places = match found {
                    CallAlignment::Other => {
                        self.refused.other += count(calls);
                        continue;
                    }
                    CallAlignment::Ambiguous => {
                        self.refused.ambiguous += count(calls);
                        continue;
                    }
                    CallAlignment::Places(places) => places,
                };
                let unplaced = places.iter().filter(|place| place.is_none()).count() as u64;
                let of = &logged.members[member as usize];
                // A dump has a call's number too, but counts calls of one group as one: where it is the place, none is missing.
                let mut placed = calls.iter().zip(&places);
                let mut is_moved =
                    || placed.any(|(call, place)| place.is_some_and(|at| at as u64 != call.number));
                let is_open = match key.1 {
                    RecordOrder::Order { is_contiguous } => {
                        self.refused.ambiguous += unplaced;
                        logged.may_lack_calls(of) || (!is_contiguous && is_moved())
                    }
                    _ => {
                        self.refused.elsewhere += unplaced;
                        logged.may_lack_numbers(of)
                    }
                };
                let of = (member, key.0);
                if let Some(lines) = logged.calls.get(&of) {
                    runs.push(PlacedRun {
                        of,
                        calls,
                        lines,
                        places,
                        is_open,
                    });
                }
            }
        }
        runs
    }

    /// Takes the records of a process, as far as their times allow.
    fn take_runs(&mut self, records: &TimingRecords, mut runs: Vec<PlacedRun<'_>>) {
        let cleared = clear_untimely_places(&mut runs, records);
        self.refused.untimely += cleared.untimely;
        self.refused.unproven += cleared.unproven;
        for run in runs {
            let by_call = self.by_call.entry(run.of).or_default();
            for (call, place) in run.calls.iter().zip(run.places) {
                let Some(at) = place else { continue };
                if by_call.len() <= at {
                    by_call.resize(at + 1, NO_TIMING);
                }
                by_call[at] = call.timing;
            }
        }
    }

    /// Returns the number of the timing of a member's call.
    pub(super) fn timing_of_call(&self, of: &(u32, CallClass), at: usize) -> Option<u32> {
        let timing = *self.by_call.get(of)?.get(at)?;
        (timing != NO_TIMING).then_some(timing)
    }
}

/// Recorded calls beside those of a rank.
struct AlignedClasses {
    member: u32,
    classes: Vec<((CallClass, RecordOrder), CallAlignment)>,
}

impl AlignedClasses {
    fn can_fit(&self) -> bool {
        let mut found = self.classes.iter();
        found.all(|(_, found)| *found != CallAlignment::Other)
    }
}

/// Lists the ranks of communicators by id, as NCCL and as Inspector prints it, and rank.
fn list_members_by_name(logged: &LoggedSequences) -> FxHashMap<(CommId, u32), BTreeSet<u32>> {
    let mut by_name: FxHashMap<_, BTreeSet<u32>> = FxHashMap::default();
    for (at, member) in (0..).zip(&logged.members) {
        if let (Some(id), Some(rank)) = (member.comm_id, member.rank) {
            for id in [id, id.as_inspector_prints()] {
                by_name.entry((id, rank)).or_default().insert(at);
            }
        }
    }
    by_name
}

/// Returns true if a record's communicator and process, as far as they are known, are those of a rank. Ranks make the same
/// calls at the same times, so its number or the process id must be known.
fn is_member(of: &RecordedMember, member: &LoggedMember) -> bool {
    fn do_agree<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
        a.zip(b).is_none_or(|(a, b)| a == b)
    }
    let is_named = of.rank.and(member.rank).is_some() || of.pid.and(member.pid).is_some();
    is_named
        && (of.comm_id.is_none() || of.comm_id == member.comm_id)
        && do_agree(of.rank, member.rank)
        && do_agree(of.nranks, member.nranks)
        && do_agree(of.pid, member.pid)
        && (of.host.is_empty() || member.host.is_empty() || of.host == member.host)
}

fn align_classes(
    classes: &RecordedClasses,
    member: u32,
    logged: &LoggedSequences,
    shapes: &ComparedShapes,
) -> AlignedClasses {
    let of = logged.members.get(member as usize);
    let begins = of.is_some_and(|of| of.first == 0);
    let is_counted = of.is_some_and(|of| of.is_counted);
    // Records go on behind the log's calls: without NCCL's count the log may lack any of them.
    let is_unsure = |places: &[Option<usize>]| !is_counted && places.contains(&None);
    let by_number = |calls: &[(u64, u32)], all: &[u32]| match align_by_number(calls, all, begins) {
        CallAlignment::Places(places) if is_unsure(&places) => CallAlignment::Ambiguous,
        found => found,
    };
    let align = |(class, order): &(CallClass, RecordOrder), calls: &[RecordedCall]| {
        let all = logged.calls.get(&(member, class.clone()));
        let (all, sure) = all.map_or((&[][..], &[][..]), |all| {
            (&all.shapes[..], &all.shapes[..all.sure])
        });
        let numbered =
            || -> Vec<(u64, u32)> { calls.iter().map(|call| (call.number, call.shape)).collect() };
        match order {
            RecordOrder::OfCommunicator => by_number(&numbered(), sure),
            RecordOrder::OfOperation(op) => {
                let own = sure.iter().enumerate();
                let own = own.filter(|(_, shape)| shapes.is_of_op(**shape, op));
                let (at, own): (Vec<usize>, Vec<u32>) = own.unzip();
                match by_number(&numbered(), &own) {
                    CallAlignment::Places(places) => {
                        let places = places.iter().map(|place| at.get((*place)?).copied());
                        CallAlignment::Places(places.collect())
                    }
                    refused => refused,
                }
            }
            RecordOrder::Order { is_contiguous } => {
                let recorded: Vec<u32> = calls.iter().map(|call| call.shape).collect();
                align_in_order(&recorded, all, *is_contiguous)
            }
        }
    };
    AlignedClasses {
        member,
        classes: classes
            .iter()
            .map(|(key, calls)| (key.clone(), align(key, calls)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::table::{Row, Timing};

    /// Joins the dump of a rank, its records from number `from`, with the calls of two processes: of what bytes each is, from what
    /// opCount they begin, and whether INIT lines give their rank, which is 0 in both (a part of the job).
    fn join(from: u64, first_op_count: u64, rank: Option<u32>) -> (usize, RefusedRecords) {
        let (mut logged, mut shapes) = (LoggedSequences::default(), ComparedShapes::default());
        for (pid, bytes) in [(1, [8000, 64, 640]), (2, [8000, 64, 6400])] {
            for (at, bytes) in (0..).zip(bytes) {
                let row = Row {
                    op: b"AllGather",
                    only_bytes: Some(bytes),
                    calls: 1,
                    pid: Some(pid),
                    rank,
                    op_count: Some(first_op_count + at),
                    ..Row::default()
                };
                logged.add_call(&row, &mut shapes);
            }
        }
        let mut records = TimingRecords::default();
        for (seq, bytes) in (from..).zip([8000, 64, 640]) {
            let timing = Timing {
                pg_name: b"0",
                ..Timing::default()
            };
            let row = Row {
                op: b"AllGather",
                only_bytes: Some(bytes),
                calls: 1,
                rank: Some(0),
                seq: Some(seq),
                src: b"flight",
                timing: Some(&timing),
                ..Row::default()
            };
            records.add_record(&row, &mut shapes);
        }
        let joined = JoinedRecords::join_records(&records, &logged, &shapes);
        let filled = joined.by_call.values().flatten();
        let filled = filled.filter(|timing| **timing != NO_TIMING).count();
        (filled, joined.refused)
    }

    #[test]
    fn one_fit_among_calls_that_others_may_lack_proves_nothing() {
        assert_eq!(join(0, 0, Some(0)), (3, RefusedRecords::default()));
        let unproven = RefusedRecords {
            unproven: 3,
            ..RefusedRecords::default()
        };
        // The log lacks its first calls: those of the dump may be of the other process.
        assert_eq!(join(0, 7, Some(0)), (0, unproven));
        // The dump lacks its first calls, and the log begins with those that look like the next ones.
        assert_eq!(join(7, 0, Some(0)).1.unproven, 3);
        let elsewhere = RefusedRecords {
            elsewhere: 3,
            ..RefusedRecords::default()
        };
        // Nothing shows what rank the calls are of.
        assert_eq!(join(0, 0, None), (0, elsewhere));
    }
}
