//! The groups of rows (`--by`), and counted calls in the order of their rows.
//!
//! There may be a row for every few calls, so no row is built. Only the keys are put in the order of the rows;
//! the counts of a few steps follow when their rows are made.

mod rows;
pub(crate) mod unknown;

use crate::count::caller::Caller;
use crate::count::calls::CountedCalls;
use crate::count::cells::CountedStep;
use crate::count::limits::CELLS_PER_PART;
use crate::count::tally::{self, CallKey, CallVolume};
use crate::grammar::values::Datatype;
use crate::output::render::TableCell;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;

pub use rows::GroupRowInputs;
pub use unknown::note_unknown_columns as note_unknown;

/// A column that groups rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// The step.
    Step,
    /// The communicator as a process names it: host, pid and address.
    Comm,
    /// The communicator's id.
    CommId,
    /// The rank in the communicator.
    Rank,
    /// The rank in the job.
    GlobalRank,
    /// The host.
    Host,
    /// The datatype.
    Datatype,
    /// NCCL's algorithm.
    Algo,
    /// NCCL's protocol.
    Proto,
}

impl GroupBy {
    /// The columns it puts in front.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            GroupBy::Step => &["step"],
            GroupBy::Comm => &["host", "pid", "comm"],
            GroupBy::CommId => &["comm_id"],
            GroupBy::Rank => &["rank", "global_rank"],
            GroupBy::GlobalRank => &["global_rank"],
            GroupBy::Host => &["host"],
            GroupBy::Datatype => &["datatype"],
            GroupBy::Algo => &["algo"],
            GroupBy::Proto => &["proto"],
        }
    }

    /// Makes `tally` distinguish what groups of `by` and a window of steps need.
    pub fn add_needs(by: &[GroupBy], window: bool, tally: &mut tally::Options) {
        tally.steps |= window;
        for by in by {
            match by {
                GroupBy::Step => tally.steps = true,
                GroupBy::Datatype => tally.datatypes = true,
                _ => tally.members = true,
            }
            tally.served |= matches!(by, GroupBy::Algo | GroupBy::Proto);
        }
    }
}

/// A value of a group's column. Numbers come in their order, then texts, then the unknown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupValue {
    /// A number.
    Number(u64),
    /// A text.
    Text(Vec<u8>),
    /// Not known.
    Unknown,
}

impl GroupValue {
    fn from_number(n: Option<u64>) -> GroupValue {
        n.map_or(GroupValue::Unknown, GroupValue::Number)
    }

    fn from_string(text: Option<String>) -> GroupValue {
        text.map_or(GroupValue::Unknown, |text| {
            GroupValue::Text(text.into_bytes())
        })
    }

    fn from_text(text: &[u8]) -> GroupValue {
        match text {
            b"" => GroupValue::Unknown,
            text => GroupValue::Text(text.to_vec()),
        }
    }

    /// A datatype by its code.
    pub fn from_datatype(code: u64) -> GroupValue {
        GroupValue::from_string(Datatype::from_code(code).map(|datatype| datatype.to_string()))
    }

    /// The field as a row's cell.
    pub fn as_cell(&self) -> TableCell<'_> {
        match self {
            GroupValue::Number(n) => TableCell::Int((*n).into()),
            GroupValue::Text(text) => TableCell::Text(Cow::Borrowed(text)),
            GroupValue::Unknown => TableCell::Empty,
        }
    }
}

/// A column of the group: numbers that come in the order of its values.
enum GroupColumn {
    Step,
    /// By member.
    Who(Vec<u32>),
    /// By code.
    Datatype(FxHashMap<u64, u32>),
}

/// The calls of one key, in one step if grouped by step.
#[derive(Debug, Clone, Copy)]
pub struct GroupEntry {
    step: CountedStep,
    key: u32,
    /// How many, and how large.
    pub value: CallVolume,
}

impl GroupEntry {
    /// The step, if grouped by step.
    pub fn step(&self) -> CountedStep {
        self.step
    }
}

/// Counted calls in the order of their rows.
pub struct GroupedCalls<'c> {
    calls: &'c CountedCalls,
    /// The group's columns, with the values that their numbers represent.
    columns: Vec<(GroupColumn, Vec<Vec<GroupValue>>)>,
    /// The place of each key in the order of a step's rows.
    places: Vec<u32>,
    /// The group of each key in a step.
    groups: Vec<u32>,
    /// All calls in order, unless the step is the first column.
    all: Option<Vec<GroupEntry>>,
}

/// Calls of a few groups, in the order of their rows.
pub struct GroupsPart<'g> {
    groups: &'g GroupedCalls<'g>,
    entries: Cow<'g, [GroupEntry]>,
}

/// Returns each item's rank among the distinct values, and these in order.
fn rank_values(items: &[Vec<GroupValue>]) -> (Vec<u32>, Vec<Vec<GroupValue>>) {
    let distinct: BTreeSet<&Vec<GroupValue>> = items.iter().collect();
    let values: Vec<Vec<GroupValue>> = distinct.into_iter().cloned().collect();
    let rank = |item| values.binary_search(item).unwrap_or_else(|at| at) as u32;
    (items.iter().map(rank).collect(), values)
}

/// Builds the column of `by`, with the values that its numbers represent.
fn build_column(calls: &CountedCalls, by: GroupBy) -> (GroupColumn, Vec<Vec<GroupValue>>) {
    let nobody = [Caller::default()];
    let who = if calls.who.is_empty() {
        &nobody[..]
    } else {
        &calls.who[..]
    };
    let members = |fields: fn(&Caller) -> Vec<GroupValue>| {
        let items: Vec<_> = who.iter().map(fields).collect();
        let (ranks, values) = rank_values(&items);
        (GroupColumn::Who(ranks), values)
    };
    match by {
        GroupBy::Step => (GroupColumn::Step, Vec::new()),
        GroupBy::Comm => members(|w| {
            vec![
                host_value(w),
                GroupValue::from_number(w.pid),
                GroupValue::from_string(w.comm.map(|p| format!("0x{p:x}"))),
            ]
        }),
        GroupBy::CommId => {
            members(|w| vec![GroupValue::from_string(w.comm_id.map(|id| id.to_string()))])
        }
        GroupBy::Rank => members(|w| {
            let ranks = [w.rank, w.global_rank];
            let values = ranks.map(|rank| GroupValue::from_number(rank.map(u64::from)));
            values.to_vec()
        }),
        GroupBy::GlobalRank => {
            members(|w| vec![GroupValue::from_number(w.global_rank.map(u64::from))])
        }
        GroupBy::Host => members(|w| vec![host_value(w)]),
        GroupBy::Algo => members(|w| vec![GroupValue::from_text(&w.recorded.algo)]),
        GroupBy::Proto => members(|w| vec![GroupValue::from_text(&w.recorded.proto)]),
        GroupBy::Datatype => {
            let codes: BTreeSet<u64> = calls.cells.keys().iter().map(|key| key.datatype).collect();
            let fields: Vec<_> = codes
                .iter()
                .map(|&c| vec![GroupValue::from_datatype(c)])
                .collect();
            let (ranks, values) = rank_values(&fields);
            (
                GroupColumn::Datatype(codes.into_iter().zip(ranks).collect()),
                values,
            )
        }
    }
}

impl<'c> GroupedCalls<'c> {
    /// Orders `calls` by the columns `by`, then by operation, then by `within`.
    pub fn new(
        calls: &'c CountedCalls,
        by: &[GroupBy],
        within: fn(&CallKey) -> (u64, u64, u64),
    ) -> GroupedCalls<'c> {
        let names = (0..calls.ops.len())
            .map(|op| vec![GroupValue::Text(calls.ops.name_of_op(op).to_vec())]);
        let ops = rank_values(&names.collect::<Vec<_>>()).0;
        let columns: Vec<_> = by.iter().map(|&by| build_column(calls, by)).collect();
        let keys = calls.cells.keys();
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        let within = |at: u32| {
            let key = &keys[at as usize];
            (ops[key.op as usize], within(key), at)
        };
        let group = |a: u32, b: u32| compare_keys(&columns, &keys[a as usize], &keys[b as usize]);
        order.sort_unstable_by(|&a, &b| group(a, b).then_with(|| within(a).cmp(&within(b))));
        let places = number_in_order(&order, |_, _| false);
        let groups = number_in_order(&order, |a, b| group(a, b).is_eq());
        let step = columns
            .iter()
            .position(|c| matches!(c.0, GroupColumn::Step));
        let all = match step {
            Some(0) => None,
            Some(at) => {
                let first = &columns[..at];
                let same =
                    |a: u32, b: u32| compare_keys(first, &keys[a as usize], &keys[b as usize]);
                let first = number_in_order(&order, |a, b| same(a, b).is_eq());
                let mut all = Vec::new();
                for (at, (step, _)) in calls.cells.iter_steps().enumerate() {
                    let entry = |key, value| all.push(GroupEntry { step, key, value });
                    calls.cells.sorted_counts(at, &places, entry);
                }
                // Steps come in order, and the sort is stable.
                all.sort_by_key(|e| first[e.key as usize]);
                Some(all)
            }
            None => Some(entries_over_steps(calls, &order)),
        };
        GroupedCalls {
            calls,
            columns,
            places,
            groups,
            all,
        }
    }

    /// Divides the calls into whole groups: ranges of steps, or of `all`.
    pub fn split_parts(&self) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut from = 0;
        let Some(all) = &self.all else {
            let mut cells = 0;
            for (at, (_, size)) in self.calls.cells.iter_steps().enumerate() {
                cells += size;
                if cells >= CELLS_PER_PART {
                    parts.push(from..at + 1);
                    (from, cells) = (at + 1, 0);
                }
            }
            if cells > 0 {
                parts.push(from..self.calls.cells.iter_steps().count());
            }
            return parts;
        };
        while from < all.len() {
            let mut to = all.len().min(from + CELLS_PER_PART);
            while to < all.len() && self.is_same_group(&all[to - 1], &all[to]) {
                to += 1;
            }
            parts.push(from..to);
            from = to;
        }
        parts
    }

    /// The calls of a part.
    pub fn take_part(&self, part: Range<usize>) -> GroupsPart<'_> {
        let entries = match &self.all {
            Some(all) => Cow::Borrowed(&all[part]),
            None => {
                let cells = &self.calls.cells;
                let mut entries = Vec::new();
                for (at, (step, size)) in part.clone().zip(cells.iter_steps_from(part.start)) {
                    entries.reserve(size);
                    let entry = |key, value| entries.push(GroupEntry { step, key, value });
                    cells.sorted_counts(at, &self.places, entry);
                }
                Cow::Owned(entries)
            }
        };
        GroupsPart {
            groups: self,
            entries,
        }
    }

    fn is_same_group(&self, a: &GroupEntry, b: &GroupEntry) -> bool {
        a.step == b.step && self.groups[a.key as usize] == self.groups[b.key as usize]
    }
}

impl GroupsPart<'_> {
    /// The groups.
    pub fn iter_groups(&self) -> impl Iterator<Item = &[GroupEntry]> {
        self.entries
            .chunk_by(|a, b| self.groups.is_same_group(a, b))
    }

    /// Returns the key of an entry's calls.
    pub fn key_of(&self, entry: &GroupEntry) -> &CallKey {
        &self.groups.calls.cells.keys()[entry.key as usize]
    }

    /// The name of an entry's operation.
    pub fn op_name(&self, entry: &GroupEntry) -> &[u8] {
        self.groups.calls.ops.name_of_op(self.key_of(entry).op)
    }

    /// Appends the group columns of an entry.
    pub fn push_group_cells<'p>(&'p self, entry: &GroupEntry, row: &mut Vec<TableCell<'p>>) {
        let key = self.key_of(entry);
        for (column, values) in &self.groups.columns {
            let rank = match column {
                GroupColumn::Step => {
                    row.push(entry.step.map(|step| step.step).into());
                    continue;
                }
                GroupColumn::Who(ranks) => ranks[key.member as usize],
                GroupColumn::Datatype(ranks) => ranks[&key.datatype],
            };
            row.extend(values[rank as usize].iter().map(GroupValue::as_cell));
        }
    }
}

/// Sums the calls of each key over all steps, in `order`.
fn entries_over_steps(calls: &CountedCalls, order: &[u32]) -> Vec<GroupEntry> {
    let mut values: Vec<Option<CallVolume>> = vec![None; order.len()];
    for at in 0..calls.cells.iter_steps().count() {
        calls
            .cells
            .each_count(at, |key, more| match &mut values[key as usize] {
                Some(value) => value.merge(&more),
                none => *none = Some(more),
            });
    }
    let entry = |&key: &u32| {
        let value = values[key as usize]?;
        let step = None;
        Some(GroupEntry { step, key, value })
    };
    order.iter().filter_map(entry).collect()
}

/// Numbers the items by their place in `order`; an item that is the `same` as the one before shares its number.
fn number_in_order(order: &[u32], same: impl Fn(u32, u32) -> bool) -> Vec<u32> {
    let mut numbers = vec![0; order.len()];
    let mut number = 0;
    for (at, &item) in order.iter().enumerate() {
        if at > 0 && !same(order[at - 1], item) {
            number += 1;
        }
        numbers[item as usize] = number;
    }
    numbers
}

/// The order of two keys by `columns` but the step.
fn compare_keys(
    columns: &[(GroupColumn, Vec<Vec<GroupValue>>)],
    a: &CallKey,
    b: &CallKey,
) -> Ordering {
    for (column, _) in columns {
        let ordering = match column {
            GroupColumn::Step => Ordering::Equal,
            GroupColumn::Who(ranks) => ranks[a.member as usize].cmp(&ranks[b.member as usize]),
            GroupColumn::Datatype(ranks) => ranks[&a.datatype].cmp(&ranks[&b.datatype]),
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}

fn host_value(who: &Caller) -> GroupValue {
    GroupValue::from_text(&who.host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::cells::CellGatherer;
    use crate::count::tally::{NO_REDUCTION, NO_ROOT};
    use crate::log::timeline::StepKey;
    use crate::members::OpInterner;
    use crate::members::comm_id::CommId;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const BY: [GroupBy; 9] = [
        GroupBy::Step,
        GroupBy::Comm,
        GroupBy::CommId,
        GroupBy::Rank,
        GroupBy::GlobalRank,
        GroupBy::Host,
        GroupBy::Datatype,
        GroupBy::Algo,
        GroupBy::Proto,
    ];

    fn fields(by: GroupBy, step: Option<u64>, key: &CallKey, who: &Caller) -> Vec<GroupValue> {
        match by {
            GroupBy::Step => vec![GroupValue::from_number(step)],
            GroupBy::Comm => vec![
                host_value(who),
                GroupValue::from_number(who.pid),
                GroupValue::from_string(who.comm.map(|p| format!("0x{p:x}"))),
            ],
            GroupBy::CommId => vec![GroupValue::from_string(
                who.comm_id.map(|id| id.to_string()),
            )],
            GroupBy::Rank => vec![
                GroupValue::from_number(who.rank.map(u64::from)),
                GroupValue::from_number(who.global_rank.map(u64::from)),
            ],
            GroupBy::GlobalRank => vec![GroupValue::from_number(who.global_rank.map(u64::from))],
            GroupBy::Host => vec![host_value(who)],
            GroupBy::Datatype => vec![GroupValue::from_datatype(key.datatype)],
            GroupBy::Algo => vec![GroupValue::from_text(&who.recorded.algo)],
            GroupBy::Proto => vec![GroupValue::from_text(&who.recorded.proto)],
        }
    }

    proptest! {
        /// Steps, keys and who speaks, of few values each, grouped in any way.
        #[test]
        fn groups_come_as_if_their_texts_were_sorted(
            cells in proptest::collection::vec(
                (proptest::option::of(0..4_u64), 0..5_u32, 0..3_u32, 0..3_u64, 1..9_u64), 0..60,
            ),
            who in proptest::collection::vec((0..3_u8, 0..3_u64, 0..2_u32), 5),
            by in proptest::sample::subsequence(BY.to_vec(), 0..5).prop_shuffle(),
        ) {
            let mut calls = CountedCalls::default();
            let names = [&b"Send"[..], b"AllReduce", b"Recv"];
            let mut ops = OpInterner::default();
            names.iter().for_each(|name| { ops.intern(name); });
            calls.ops = ops;
            calls.who = who.iter().map(|&(host, number, rank)| Caller {
                host: vec![b'h'; host.into()].into(),
                pid: (number > 0).then_some(9 + number),
                dev: None,
                comm: Some(0x9000 * number + 0x9000),
                comm_id: (rank > 0).then_some(CommId::from_printed(number)),
                rank: (number < 2).then_some(9 + rank),
                global_rank: (number > 0).then_some(10 - rank),
                ..Caller::default()
            }).collect();
            let mut gathering = CellGatherer::default();
            let mut naive: BTreeMap<_, u64> = BTreeMap::new();
            for (step, member, op, size, n) in cells {
                let key = CallKey {
                    member,
                    op,
                    datatype: 9 - size,
                    size,
                    nranks: 0,
                    redop: NO_REDUCTION,
                    root: NO_ROOT,
                };
                let mut value = CallVolume::default();
                value.add_calls(n, Some(1));
                gathering.push(step.map(StepKey::from), key, value);
                let who = &calls.who[member as usize];
                let of: Vec<_> = by.iter().flat_map(|&by| fields(by, step, &key, who)).collect();
                *naive.entry((of, names[op as usize].to_vec(), size)).or_default() += n;
            }
            calls.cells = gathering.into_cells();
            let groups = GroupedCalls::new(&calls, &by, |key| (key.size, 0, 0));
            let mut got: Vec<(Vec<TableCell<'static>>, Vec<u8>, u64, u64)> = Vec::new();
            for part in groups.split_parts() {
                let part = groups.take_part(part);
                for group in part.iter_groups() {
                    let begins = got.len();
                    for entry in group {
                        let mut row = Vec::new();
                        part.push_group_cells(entry, &mut row);
                        let row = row.into_iter().map(|cell| match cell {
                            TableCell::Text(text) => TableCell::Text(Cow::Owned(text.into_owned())),
                            TableCell::Int(n) => TableCell::Int(n),
                            _ => TableCell::Empty,
                        }).collect();
                        let of = (row, part.op_name(entry).to_vec(), part.key_of(entry).size);
                        match got.last_mut().filter(|l| (&l.0, &l.1, &l.2) == (&of.0, &of.1, &of.2)) {
                            Some(last) => last.3 += entry.value.calls,
                            None => got.push((of.0, of.1, of.2, entry.value.calls)),
                        }
                    }
                    prop_assert!(got[begins..].iter().all(|row| row.0 == got[begins].0));
                }
            }
            let expected: Vec<_> = naive.iter().map(|((of, op, size), &n)| {
                (of.iter().map(GroupValue::as_cell).collect::<Vec<_>>(), op.clone(), *size, n)
            }).collect();
            prop_assert_eq!(got, expected);
        }
    }
}
