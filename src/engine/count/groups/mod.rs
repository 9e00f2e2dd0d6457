//! What groups rows further (`--by`), and counted calls in the order of their rows.
//!
//! There may be a row for every few calls, so no row is built. Only what tells calls apart is put
//! in the order of the rows; the calls of a few steps follow it when their rows are made.

mod rows;
pub(crate) mod unknown;

use crate::count::calls::Calls;
use crate::count::cells::Step;
use crate::count::tally::{Key, Value};
use crate::count::who::Who;
use crate::grammar::values::Datatype;
use crate::members::comm_id::CommId;
use crate::output::render::Cell;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;

pub use rows::MadeOf;
pub use unknown::note as note_unknown;

/// What groups rows further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The step.
    Step,
    /// The communicator as a process names it: host, pid and address.
    Comm,
    /// The communicator's id.
    CommId,
    /// The rank in the communicator.
    Rank,
    /// The host.
    Host,
    /// The datatype.
    Datatype,
    /// NCCL's algorithm.
    Algo,
    /// NCCL's protocol.
    Proto,
}

impl By {
    /// The columns it puts in front.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            By::Step => &["step"],
            By::Comm => &["host", "pid", "comm"],
            By::CommId => &["comm_id"],
            By::Rank => &["rank"],
            By::Host => &["host"],
            By::Datatype => &["datatype"],
            By::Algo => &["algo"],
            By::Proto => &["proto"],
        }
    }

    /// True where members must be told apart for it.
    pub fn needs_members(self) -> bool {
        !matches!(self, By::Step | By::Datatype)
    }

    /// True where how calls were served must be told apart for it.
    pub fn needs_served(self) -> bool {
        matches!(self, By::Algo | By::Proto)
    }
}

/// A value of a group's column. Numbers come in their order, then texts, then the unknown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// A number.
    Number(u64),
    /// A text.
    Text(Vec<u8>),
    /// Not known.
    Unknown,
}

impl Field {
    fn number(n: Option<u64>) -> Field {
        n.map_or(Field::Unknown, Field::Number)
    }

    fn pointer(p: Option<u64>) -> Field {
        p.map_or(Field::Unknown, |p| {
            Field::Text(format!("0x{p:x}").into_bytes())
        })
    }

    fn id(id: Option<CommId>) -> Field {
        id.map_or(Field::Unknown, |id| {
            Field::Text(id.to_string().into_bytes())
        })
    }

    fn text(text: &[u8]) -> Field {
        match text {
            b"" => Field::Unknown,
            text => Field::Text(text.to_vec()),
        }
    }

    /// A datatype by its code.
    pub fn datatype(code: u64) -> Field {
        Datatype::from_code(code).map_or(Field::Unknown, |datatype| {
            Field::Text(datatype.to_string().into_bytes())
        })
    }

    /// The field as a row's cell.
    pub fn cell(&self) -> Cell<'_> {
        match self {
            Field::Number(n) => Cell::Int((*n).into()),
            Field::Text(text) => Cell::Text(Cow::Borrowed(text)),
            Field::Unknown => Cell::Empty,
        }
    }
}

/// A column of the group: numbers that come in the order of its values.
enum Column {
    Step,
    /// By member.
    Who(Vec<u32>),
    /// By code.
    Datatype(FxHashMap<u64, u32>),
}

/// Calls of one key, in one step where steps are grouped by.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    step: Step,
    key: u32,
    /// How many, and how large.
    pub value: Value,
}

impl Entry {
    /// The step, where steps are grouped by.
    pub fn step(&self) -> Step {
        self.step
    }
}

/// Counted calls in the order of their rows.
pub struct Groups<'c> {
    calls: &'c Calls,
    /// The group's columns, with the values that their numbers represent.
    columns: Vec<(Column, Vec<Vec<Field>>)>,
    /// The place of each key in the order of a step's rows.
    places: Vec<u32>,
    /// The group of each key in a step.
    groups: Vec<u32>,
    /// All calls in order, where the step is not what they are grouped by first.
    all: Option<Vec<Entry>>,
}

/// Calls of a few groups, in the order of their rows.
pub struct Part<'g> {
    groups: &'g Groups<'g>,
    entries: Cow<'g, [Entry]>,
}

/// Cells whose rows are made at a time, if a group does not have more: their text stays in a
/// core's own cache.
const PART: usize = 1024;

/// The number of each item's value among the distinct values in their order, and those.
fn ranked(items: &[Vec<Field>]) -> (Vec<u32>, Vec<Vec<Field>>) {
    let distinct: BTreeSet<&Vec<Field>> = items.iter().collect();
    let values: Vec<Vec<Field>> = distinct.into_iter().cloned().collect();
    let rank = |item| values.binary_search(item).unwrap_or_else(|at| at) as u32;
    (items.iter().map(rank).collect(), values)
}

impl<'c> Groups<'c> {
    /// `calls` by the columns `by`, within a group by operation, then as `within` says.
    pub fn new(calls: &'c Calls, by: &[By], within: fn(&Key) -> (u64, u64, u64)) -> Groups<'c> {
        let nobody = [Who::default()];
        let who = if calls.who.is_empty() {
            &nobody[..]
        } else {
            &calls.who[..]
        };
        let column = |by: &By| {
            let members = |fields: fn(&Who) -> Vec<Field>| {
                let items: Vec<_> = who.iter().map(fields).collect();
                let (ranks, values) = ranked(&items);
                (Column::Who(ranks), values)
            };
            match by {
                By::Step => (Column::Step, Vec::new()),
                By::Comm => {
                    members(|w| vec![host(w), Field::number(w.pid), Field::pointer(w.comm)])
                }
                By::CommId => members(|w| vec![Field::id(w.comm_id)]),
                By::Rank => members(|w| vec![Field::number(w.rank.map(u64::from))]),
                By::Host => members(|w| vec![host(w)]),
                By::Algo => members(|w| vec![Field::text(&w.recorded.algo)]),
                By::Proto => members(|w| vec![Field::text(&w.recorded.proto)]),
                By::Datatype => {
                    let codes: BTreeSet<u64> =
                        calls.cells.keys().iter().map(|key| key.datatype).collect();
                    let fields: Vec<_> = codes.iter().map(|&c| vec![Field::datatype(c)]).collect();
                    let (ranks, values) = ranked(&fields);
                    (
                        Column::Datatype(codes.into_iter().zip(ranks).collect()),
                        values,
                    )
                }
            }
        };
        let names = (0..calls.ops.len()).map(|op| vec![Field::Text(calls.ops.name(op).to_vec())]);
        let ops = ranked(&names.collect::<Vec<_>>()).0;
        let columns: Vec<_> = by.iter().map(column).collect();
        let keys = calls.cells.keys();
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        let within = |at: u32| {
            let key = &keys[at as usize];
            (ops[key.op as usize], within(key), at)
        };
        let group = |a: u32, b: u32| compare(&columns, &keys[a as usize], &keys[b as usize]);
        order.sort_unstable_by(|&a, &b| group(a, b).then_with(|| within(a).cmp(&within(b))));
        let places = numbered(&order, |_, _| false);
        let groups = numbered(&order, |a, b| group(a, b).is_eq());
        let step = columns.iter().position(|c| matches!(c.0, Column::Step));
        let all = match step {
            Some(0) => None,
            Some(at) => {
                let first = &columns[..at];
                let same = |a: u32, b: u32| compare(first, &keys[a as usize], &keys[b as usize]);
                let first = numbered(&order, |a, b| same(a, b).is_eq());
                let mut all = Vec::new();
                for (at, (step, _)) in calls.cells.steps().enumerate() {
                    let entry = |key, value| all.push(Entry { step, key, value });
                    calls.cells.sorted(at, &places, entry);
                }
                // Steps come in their order: what is equal here keeps it.
                all.sort_by_key(|e| first[e.key as usize]);
                Some(all)
            }
            None => Some(of_all_steps(calls, &order)),
        };
        Groups {
            calls,
            columns,
            places,
            groups,
            all,
        }
    }

    /// The calls in parts of whole groups, each a range of its own kind.
    pub fn parts(&self) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut from = 0;
        let Some(all) = &self.all else {
            let mut cells = 0;
            for (at, (_, size)) in self.calls.cells.steps().enumerate() {
                cells += size;
                if cells >= PART {
                    parts.push(from..at + 1);
                    (from, cells) = (at + 1, 0);
                }
            }
            if cells > 0 {
                parts.push(from..self.calls.cells.steps().count());
            }
            return parts;
        };
        while from < all.len() {
            let mut to = all.len().min(from + PART);
            while to < all.len() && self.same(&all[to - 1], &all[to]) {
                to += 1;
            }
            parts.push(from..to);
            from = to;
        }
        parts
    }

    /// The calls of a part.
    pub fn part(&self, part: Range<usize>) -> Part<'_> {
        let entries = match &self.all {
            Some(all) => Cow::Borrowed(&all[part]),
            None => {
                let cells = &self.calls.cells;
                let mut entries = Vec::new();
                for (at, (step, size)) in part.clone().zip(cells.steps_from(part.start)) {
                    entries.reserve(size);
                    let entry = |key, value| entries.push(Entry { step, key, value });
                    cells.sorted(at, &self.places, entry);
                }
                Cow::Owned(entries)
            }
        };
        Part {
            groups: self,
            entries,
        }
    }

    fn same(&self, a: &Entry, b: &Entry) -> bool {
        a.step == b.step && self.groups[a.key as usize] == self.groups[b.key as usize]
    }
}

impl Part<'_> {
    /// The groups.
    pub fn groups(&self) -> impl Iterator<Item = &[Entry]> {
        self.entries.chunk_by(|a, b| self.groups.same(a, b))
    }

    /// What tells an entry's calls from others.
    pub fn key(&self, entry: &Entry) -> &Key {
        &self.groups.calls.cells.keys()[entry.key as usize]
    }

    /// The name of an entry's operation.
    pub fn op(&self, entry: &Entry) -> &[u8] {
        self.groups.calls.ops.name(self.key(entry).op)
    }

    /// Appends the group columns of an entry.
    pub fn row<'p>(&'p self, entry: &Entry, row: &mut Vec<Cell<'p>>) {
        let key = self.key(entry);
        for (column, values) in &self.groups.columns {
            let rank = match column {
                Column::Step => {
                    row.push(entry.step.map(|step| step.step).into());
                    continue;
                }
                Column::Who(ranks) => ranks[key.member as usize],
                Column::Datatype(ranks) => ranks[&key.datatype],
            };
            row.extend(values[rank as usize].iter().map(Field::cell));
        }
    }
}

/// All calls of each key, whatever their step, in the keys' order.
fn of_all_steps(calls: &Calls, order: &[u32]) -> Vec<Entry> {
    let mut values: Vec<Option<Value>> = vec![None; order.len()];
    for at in 0..calls.cells.steps().count() {
        calls
            .cells
            .each(at, |key, more| match &mut values[key as usize] {
                Some(value) => value.merge(&more),
                none => *none = Some(more),
            });
    }
    let entry = |&key: &u32| {
        let value = values[key as usize]?;
        let step = None;
        Some(Entry { step, key, value })
    };
    order.iter().filter_map(entry).collect()
}

/// For each of the items that are in `order` a number that rises with its place; items that are
/// the `same` as the one before have its number.
fn numbered(order: &[u32], same: impl Fn(u32, u32) -> bool) -> Vec<u32> {
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
fn compare(columns: &[(Column, Vec<Vec<Field>>)], a: &Key, b: &Key) -> Ordering {
    for (column, _) in columns {
        let ordering = match column {
            Column::Step => Ordering::Equal,
            Column::Who(ranks) => ranks[a.member as usize].cmp(&ranks[b.member as usize]),
            Column::Datatype(ranks) => ranks[&a.datatype].cmp(&ranks[&b.datatype]),
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}

fn host(who: &Who) -> Field {
    Field::text(&who.host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::cells::Gathering;
    use crate::count::tally::{NO_ROOT, NONE};
    use crate::log::timeline::StepKey;
    use crate::members::Ops;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const BY: [By; 8] = [
        By::Step,
        By::Comm,
        By::CommId,
        By::Rank,
        By::Host,
        By::Datatype,
        By::Algo,
        By::Proto,
    ];

    fn fields(by: By, step: Option<u64>, key: &Key, who: &Who) -> Vec<Field> {
        match by {
            By::Step => vec![Field::number(step)],
            By::Comm => vec![host(who), Field::number(who.pid), Field::pointer(who.comm)],
            By::CommId => vec![Field::id(who.comm_id)],
            By::Rank => vec![Field::number(who.rank.map(u64::from))],
            By::Host => vec![host(who)],
            By::Datatype => vec![Field::datatype(key.datatype)],
            By::Algo => vec![Field::text(&who.recorded.algo)],
            By::Proto => vec![Field::text(&who.recorded.proto)],
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
            let mut calls = Calls::default();
            let names = [&b"Send"[..], b"AllReduce", b"Recv"];
            let mut ops = Ops::default();
            names.iter().for_each(|name| { ops.intern(name); });
            calls.ops = ops;
            calls.who = who.iter().map(|&(host, number, rank)| Who {
                host: vec![b'h'; host.into()].into(),
                pid: (number > 0).then_some(9 + number),
                dev: None,
                comm: Some(0x9000 * number + 0x9000),
                comm_id: (rank > 0).then_some(CommId::printed(number)),
                rank: (number < 2).then_some(9 + rank),
                ..Who::default()
            }).collect();
            let mut gathering = Gathering::default();
            let mut naive: BTreeMap<_, u64> = BTreeMap::new();
            for (step, member, op, size, n) in cells {
                let key = Key {
                    member,
                    op,
                    datatype: 9 - size,
                    size,
                    nranks: 0,
                    redop: NONE,
                    root: NO_ROOT,
                };
                let mut value = Value::default();
                value.add(n, Some(1));
                gathering.push(step.map(StepKey::from), key, value);
                let who = &calls.who[member as usize];
                let of: Vec<_> = by.iter().flat_map(|&by| fields(by, step, &key, who)).collect();
                *naive.entry((of, names[op as usize].to_vec(), size)).or_default() += n;
            }
            calls.cells = gathering.into_cells();
            let groups = Groups::new(&calls, &by, |key| (key.size, 0, 0));
            let mut got: Vec<(Vec<Cell<'static>>, Vec<u8>, u64, u64)> = Vec::new();
            for part in groups.parts() {
                let part = groups.part(part);
                for group in part.groups() {
                    let begins = got.len();
                    for entry in group {
                        let mut row = Vec::new();
                        part.row(entry, &mut row);
                        let row = row.into_iter().map(|cell| match cell {
                            Cell::Text(text) => Cell::Text(Cow::Owned(text.into_owned())),
                            Cell::Int(n) => Cell::Int(n),
                            _ => Cell::Empty,
                        }).collect();
                        let of = (row, part.op(entry).to_vec(), part.key(entry).size);
                        match got.last_mut().filter(|l| (&l.0, &l.1, &l.2) == (&of.0, &of.1, &of.2)) {
                            Some(last) => last.3 += entry.value.calls,
                            None => got.push((of.0, of.1, of.2, entry.value.calls)),
                        }
                    }
                    prop_assert!(got[begins..].iter().all(|row| row.0 == got[begins].0));
                }
            }
            let expected: Vec<_> = naive.iter().map(|((of, op, size), &n)| {
                (of.iter().map(Field::cell).collect::<Vec<_>>(), op.clone(), *size, n)
            }).collect();
            prop_assert_eq!(got, expected);
        }
    }
}
