//! What groups rows further (`--by`), and counted calls in the order of their rows.
//!
//! There may be a row for every few calls, so no row is built: cells are compared by small
//! numbers that stand for their columns' values, and the rows of a few groups are made at a time.

use crate::calls::{Calls, Who};
use crate::records::Datatype;
use crate::render::Cell;
use crate::tally::{Key, Value};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;

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
        }
    }

    /// True where members must be told apart for it.
    pub fn needs_members(self) -> bool {
        !matches!(self, By::Step | By::Datatype)
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

/// Counted calls in the order of their rows.
pub struct Groups<'c> {
    calls: &'c Calls,
    /// The group's columns, with the values that their numbers stand for.
    columns: Vec<(Column, Vec<Vec<Field>>)>,
    /// Operations: numbers that come in the order of their names.
    ops: Vec<u32>,
    /// Indices of the cells.
    order: Vec<u32>,
}

/// Cells whose rows are made at a time, if a group does not have more.
const PART: usize = 4096;

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
                By::CommId => members(|w| vec![Field::pointer(w.comm_id)]),
                By::Rank => members(|w| vec![Field::number(w.rank.map(u64::from))]),
                By::Host => members(|w| vec![host(w)]),
                By::Datatype => {
                    let codes: BTreeSet<u64> = calls.cells.iter().map(|c| c.0.1.datatype).collect();
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
        let mut groups = Groups {
            calls,
            columns: by.iter().map(column).collect(),
            ops: ranked(&names.collect::<Vec<_>>()).0,
            order: Vec::new(),
        };
        let mut order: Vec<u32> = (0..calls.cells.len() as u32).collect();
        let compare = |a: &u32, b: &u32| {
            let key = |at: u32| {
                let key = groups.key(at);
                (groups.ops[key.op as usize], within(key))
            };
            groups.compare(*a, *b).then_with(|| key(*a).cmp(&key(*b)))
        };
        // Counted by step and member, they mostly have this order.
        if !order.is_sorted_by(|a, b| compare(a, b).is_le()) {
            order.sort_unstable_by(compare);
        }
        groups.order = order;
        groups
    }

    /// The cells in parts of whole groups.
    pub fn parts(&self) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut from = 0;
        while from < self.order.len() {
            let mut to = self.order.len().min(from + PART);
            while to < self.order.len() && self.same(&self.order[to - 1], &self.order[to]) {
                to += 1;
            }
            parts.push(from..to);
            from = to;
        }
        parts
    }

    /// The groups of a part, each as its cells.
    pub fn of(&self, part: Range<usize>) -> impl Iterator<Item = &[u32]> {
        self.order[part].chunk_by(|a, b| self.same(a, b))
    }

    fn same(&self, a: &u32, b: &u32) -> bool {
        self.compare(*a, *b).is_eq()
    }

    /// What tells a cell's calls from others, and how many they are.
    pub fn cell(&self, at: u32) -> (&'c Key, &'c Value) {
        let ((_, key), value) = &self.calls.cells[at as usize];
        (key, value)
    }

    fn key(&self, at: u32) -> &'c Key {
        self.cell(at).0
    }

    /// The name of a cell's operation.
    pub fn op(&self, at: u32) -> &'c [u8] {
        self.calls.ops.name(self.key(at).op)
    }

    /// Appends the group columns of a cell.
    pub fn row<'g>(&'g self, at: u32, row: &mut Vec<Cell<'g>>) {
        let ((step, key), _) = &self.calls.cells[at as usize];
        for (column, values) in &self.columns {
            let rank = match column {
                Column::Step => {
                    row.push((*step).into());
                    continue;
                }
                Column::Who(ranks) => ranks[key.member as usize],
                Column::Datatype(ranks) => ranks[&key.datatype],
            };
            row.extend(values[rank as usize].iter().map(Field::cell));
        }
    }

    fn compare(&self, a: u32, b: u32) -> Ordering {
        let ((step_a, a), _) = &self.calls.cells[a as usize];
        let ((step_b, b), _) = &self.calls.cells[b as usize];
        for (column, _) in &self.columns {
            let ordering = match column {
                // What has no step comes last.
                Column::Step => (step_a.is_none(), step_a).cmp(&(step_b.is_none(), step_b)),
                Column::Who(ranks) => ranks[a.member as usize].cmp(&ranks[b.member as usize]),
                Column::Datatype(ranks) => ranks[&a.datatype].cmp(&ranks[&b.datatype]),
            };
            if ordering.is_ne() {
                return ordering;
            }
        }
        Ordering::Equal
    }
}

fn host(who: &Who) -> Field {
    if who.host.is_empty() {
        Field::Unknown
    } else {
        Field::Text(who.host.to_vec())
    }
}
