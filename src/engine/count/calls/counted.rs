//! The counted calls, and how they are made of the counts of logs and of rows.

use crate::count::caller::{Caller, caller_of};
use crate::count::cells::{CellGatherer, CountCells, CountedStep};
use crate::count::durations::DurationKinds;
use crate::count::row_counts::RowCounts;
use crate::count::tally;
use crate::count::tally::{BYTE_DATATYPE, CallKey, CallVolume, NO_REDUCTION, NO_ROOT};
use crate::count::timed::TimedCalls;
use crate::count::times::DurationTotal;
use crate::grammar::values::{Datatype, RedOp, has_redop, has_root};
use crate::log;
use crate::log::timeline::StepKey;
use crate::members::MergedMembers;
use crate::members::OpInterner;
use crate::output::table::Row;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// The column `src` of a log's calls.
pub const LOG_SOURCE: &[u8] = log::FORMAT.name.as_bytes();

/// How long calls took, by step and key: for each kind of durations its number and the calls.
pub type TimesByKey = FxHashMap<(CountedStep, CallKey), Vec<(u32, TimedCalls)>>;

/// Calls of all inputs, counted.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CountedCalls {
    /// Operations by number.
    pub ops: OpInterner,
    /// The callers, by [`CallKey::member`].
    pub who: Vec<Caller>,
    /// The counts by step (`None` if unknown or not asked for) and key.
    pub cells: CountCells,
    /// Some input has step lines, or rows with a step.
    pub has_steps: bool,
    /// By step and key, where a tally is exact.
    pub(in crate::count) durations: FxHashMap<(CountedStep, CallKey), DurationTotal>,
    /// How long each call took by step, key and kind, where a tally keeps that.
    pub(in crate::count) times: FxHashMap<(CountedStep, CallKey, u32), TimedCalls>,
    /// The kinds of `times`.
    pub kinds: DurationKinds,
    /// Calls that were output before the input ended, by key over all steps; `cells` does not have them.
    pub given: Vec<(CallKey, CallVolume)>,
}

impl CountedCalls {
    /// The operations and callers that the keys of logs name, without calls.
    pub fn of_names(
        options: &tally::Options,
        merged: &MergedMembers,
        ops: &OpInterner,
    ) -> CountedCalls {
        CountedCalls {
            ops: ops.clone(),
            who: list_callers(options, merged),
            ..CountedCalls::default()
        }
    }

    /// Returns the total nanoseconds of the calls of a step and key; `None` unless each call has a duration.
    pub fn duration(&self, step: Option<u64>, key: &CallKey, value: &CallVolume) -> Option<u64> {
        self.durations
            .get(&(step.map(StepKey::from), *key))?
            .total_ns(value.calls)
    }

    /// Returns the calls of a key as a row of the call table, without their timing: the columns that the
    /// tally distinguishes.
    pub fn row_of_key(&self, step: Option<u64>, key: &CallKey, calls: u64) -> Row<'_> {
        let op = self.ops.name_of_op(key.op);
        let row = Row {
            step,
            nranks: (key.nranks > 0).then_some(key.nranks),
            op,
            count: key.elements_and_bytes().0,
            only_bytes: (key.datatype == BYTE_DATATYPE).then_some(key.size),
            datatype: Datatype::from_code(key.datatype),
            redop: Some(key.redop)
                .filter(|&r| r != NO_REDUCTION && has_redop(op))
                .map(RedOp),
            root: Some(key.root).filter(|&r| r != NO_ROOT && has_root(op)),
            calls,
            ..Row::default()
        };
        match self.who.get(key.member as usize) {
            None => row,
            Some(who) => who.fill_row(row),
        }
    }

    /// How long each call took, by key, and by step or over all steps; each with the number of its kind.
    pub fn durations_by_key(&self, by_step: bool) -> TimesByKey {
        let mut all = TimesByKey::default();
        for ((step, key, kind), one) in &self.times {
            let step = step.filter(|_| by_step);
            let of_key = all.entry((step, *key)).or_default();
            match of_key.iter_mut().find(|(known, _)| known == kind) {
                Some((_, all)) => all.merge(one),
                None => of_key.push((*kind, one.clone())),
            }
        }
        all
    }

    /// How many calls have a duration of each kind.
    pub fn count_timed_by_kind(&self) -> Vec<u64> {
        let mut calls = vec![0_u64; self.kinds.all_kinds().len()];
        for ((.., kind), one) in &self.times {
            let all = &mut calls[*kind as usize];
            *all = all.saturating_add(one.durations.count_calls());
        }
        calls
    }

    /// Calls with a duration of their own, and all.
    pub fn count_timed(&self) -> (u64, u64) {
        let sum = |all: u64, n: u64| all.saturating_add(n);
        let timed = self.count_timed_by_kind().into_iter().fold(0, sum);
        let mut all = 0;
        for at in 0..self.cells.iter_steps().count() {
            self.cells
                .each_count(at, |_, value| all = sum(all, value.calls));
        }
        (timed, all)
    }

    /// Returns the calls of each step in order; calls without a step last.
    pub fn calls_by_step(&self) -> impl Iterator<Item = (CountedStep, CallVolume)> {
        let steps = self.cells.iter_steps().enumerate();
        steps.map(|(at, (step, _))| {
            let mut all = CallVolume::default();
            self.cells.each_count(at, |_, value| all.merge(&value));
            (step, all)
        })
    }

    /// The calls over all steps, with other keys; those that become equal add up. Durations are left out.
    pub fn sum_over_steps(&self, change: impl Fn(&mut CallKey)) -> CountedCalls {
        let mut cells = CellGatherer::default();
        for ((_, mut key), value) in self.cells.list_counts() {
            change(&mut key);
            cells.push(None, key, value);
        }
        CountedCalls {
            ops: self.ops.clone(),
            who: self.who.clone(),
            cells: cells.into_cells(),
            ..CountedCalls::default()
        }
    }

    /// Adds the calls of other inputs that were counted in the same way, here or elsewhere.
    pub fn merge(&mut self, other: CountedCalls) {
        let mut callers: Vec<Caller> = Vec::new();
        let mut cells = CellGatherer::default();
        let mut durations: Vec<((CountedStep, CallKey), DurationTotal)> = Vec::new();
        let mut times: Vec<((CountedStep, CallKey, u32), TimedCalls)> = Vec::new();
        for calls in [std::mem::take(self), other] {
            let ops = calls.ops.op_names().map(|name| self.ops.intern(name).0);
            let ops: Vec<u32> = ops.collect();
            let (before, own) = (callers.len() as u32, calls.who.len() as u32);
            callers.extend(calls.who);
            let known = |key: CallKey| CallKey {
                op: ops[key.op as usize],
                member: if key.member < own {
                    before + key.member
                } else {
                    0
                },
                ..key
            };
            for ((step, key), value) in calls.cells.list_counts() {
                cells.push(step, known(key), value);
            }
            let of_calls = calls.durations.into_iter();
            durations.extend(of_calls.map(|((step, key), all)| ((step, known(key)), all)));
            let kinds = self.kinds.merge(&calls.kinds);
            let of_calls = calls.times.into_iter();
            times.extend(
                of_calls.map(|((step, key, kind), all)| {
                    ((step, known(key), kinds[kind as usize]), all)
                }),
            );
            self.has_steps |= calls.has_steps;
        }
        let (who, ranks) = sort_distinct(callers);
        let rank = |member: u32| ranks.get(member as usize).copied().unwrap_or(0);
        cells.change_keys(|key| key.member = rank(key.member));
        for ((step, mut key), all) in durations {
            key.member = rank(key.member);
            self.durations.entry((step, key)).or_default().merge(&all);
        }
        for ((step, mut key, kind), all) in times {
            key.member = rank(key.member);
            self.times.entry((step, key, kind)).or_default().merge(&all);
        }
        self.who = who;
        self.cells = cells.into_cells();
    }
}

/// The callers of logs, by the number of their member.
fn list_callers(options: &tally::Options, merged: &MergedMembers) -> Vec<Caller> {
    let ranks = merged.find_job_ranks(&merged.process_aliases());
    let renamed = merged.renamed_processes();
    let members = merged.origins.members.items().iter();
    let who = members.map(|member| {
        let mut who = caller_of(merged, &renamed, &ranks, member);
        if options.exact {
            who.recorded.src = LOG_SOURCE.into();
        }
        who
    });
    who.collect()
}

/// Merges the counts of logs and of rows.
pub fn finish_counts(
    options: &tally::Options,
    merged: &MergedMembers,
    ops: OpInterner,
    cells: CellGatherer,
    rows: RowCounts,
    has_steps: bool,
) -> CountedCalls {
    finish_counts_after(Vec::new(), options, merged, ops, cells, rows, has_steps)
}

/// Like [`finish_counts`], after calls that were output.
pub(super) fn finish_counts_after(
    mut given: Vec<(CallKey, CallVolume)>,
    options: &tally::Options,
    merged: &MergedMembers,
    ops: OpInterner,
    mut cells: CellGatherer,
    rows: RowCounts,
    has_steps: bool,
) -> CountedCalls {
    let mut callers = rows.who.into_items();
    let of_rows = callers.len();
    if options.members {
        callers.extend(list_callers(options, merged));
    }
    // Callers come in any order; rows are sorted by host, process and communicator.
    let (who, places) = sort_distinct(callers);
    let (of_rows, of_logs) = places.split_at(of_rows);
    let change = |key: &mut CallKey, places: &[u32]| {
        let known = places.get(key.member as usize).or(places.first());
        key.member = known.copied().unwrap_or(0);
    };
    cells.change_keys(|key| change(key, of_logs));
    given.iter_mut().for_each(|(key, _)| change(key, of_logs));
    for ((step, mut key), value) in rows.cells {
        change(&mut key, of_rows);
        cells.push(step.map(StepKey::from), key, value);
    }
    let known = |(step, mut key): (Option<u64>, CallKey)| {
        change(&mut key, of_rows);
        (step.map(StepKey::from), key)
    };
    let durations = rows.durations.into_iter();
    let durations = durations.map(|(key, all)| (known(key), all));
    let times = rows.times.into_iter();
    let times = times.map(|((step, key, kind), all)| {
        let (step, key) = known((step, key));
        ((step, key, kind), all)
    });
    CountedCalls {
        times: times.collect(),
        kinds: rows.kinds,
        given,
        ops,
        who,
        cells: cells.into_cells(),
        has_steps,
        durations: durations.collect(),
    }
}

/// Returns the distinct items in order, and the place of each item there.
fn sort_distinct<T: Ord + Default>(mut items: Vec<T>) -> (Vec<T>, Vec<u32>) {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_unstable_by(|&one, &other| items[one].cmp(&items[other]));
    let mut distinct: Vec<T> = Vec::new();
    let mut places = vec![0; items.len()];
    for at in order {
        if distinct.last() != Some(&items[at]) {
            distinct.push(std::mem::take(&mut items[at]));
        }
        places[at] = distinct.len() as u32 - 1;
    }
    (distinct, places)
}
