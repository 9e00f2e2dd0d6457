//! nccl-agg: the distinct calls (operation, count, datatype) and how often each was made.

use super::group_columns;
use crate::calls::{self, By, Calls, Field};
use crate::records::{Basis, Datatype, kind};
use crate::render::{Cell, Grid};
use crate::tally::{self, Sizing};
use std::collections::BTreeMap;

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What groups rows further; default nothing. The datatype is always a column.
    pub by: Vec<By>,
    /// What bytes mean; default the API's.
    pub basis: Basis,
    /// A window of steps is asked for.
    pub window: bool,
}

impl Options {
    /// What the tally must tell apart.
    pub fn tally(&self) -> tally::Options {
        tally::Options {
            sizing: Sizing::Count,
            basis: self.basis,
            members: self.by.iter().any(|b| b.needs_members()),
            datatypes: true,
            steps: self.window || self.by.contains(&By::Step),
            exact: false,
        }
    }
}

/// What tells rows apart: the group, the operation, the count, the datatype, bytes of one call.
type Key = (Vec<Field>, Vec<u8>, u64, u64, Option<u128>);

fn rows(calls: &Calls, options: &Options) -> BTreeMap<Key, u64> {
    let mut rows = BTreeMap::new();
    for ((step, key), value) in &calls.cells {
        let group = calls.group(&options.by, *step, key);
        let op = calls.ops.name(key.op);
        let size = Datatype::from_code(key.datatype).and_then(Datatype::size);
        let api = size.map(|size| u128::from(key.size) * u128::from(size));
        let nranks = (key.nranks > 0).then_some(key.nranks);
        let bytes = api.and_then(|api| options.basis.of(kind(op), api, nranks));
        let row = rows
            .entry((group, op.to_vec(), key.size, key.datatype, bytes))
            .or_insert(0_u64);
        *row = row.saturating_add(value.calls);
    }
    rows
}

/// The rows of the table.
pub fn grid(calls: &Calls, options: &Options) -> Grid {
    let mut columns = group_columns(&options.by);
    let own = ["op", "count", "datatype", "bytes", "calls", "total_bytes"];
    columns.extend(own.map(str::to_owned));
    let row = |((group, op, count, datatype, bytes), n): (Key, u64)| {
        let mut row: Vec<Cell> = group.into_iter().map(Cell::from).collect();
        row.extend([
            Cell::Text(op),
            count.into(),
            calls::datatype(datatype).into(),
            bytes.into(),
            n.into(),
            bytes.map(|b| b.saturating_mul(u128::from(n))).into(),
        ]);
        row
    };
    Grid {
        columns,
        rows: rows(calls, options).into_iter().map(row).collect(),
    }
}

/// The rows as the AWK chain's fifth script prints them, in its order: as texts.
pub fn chain(calls: &Calls, options: &Options) -> Vec<u8> {
    let line = |calls: &str, op: &str, count: &str, datatype: &str, bytes: &str| {
        format!("{calls:<10} {op:<15} {count:<12} {datatype:<10} {bytes:<12}\n")
    };
    let mut lines: Vec<(String, String)> = rows(calls, options)
        .into_iter()
        .map(|((_, op, count, datatype, bytes), n)| {
            let op = String::from_utf8_lossy(&op).into_owned();
            let datatype = Datatype::from_code(datatype).map_or(String::new(), |d| d.to_string());
            let bytes = bytes.map_or(String::new(), |b| b.to_string());
            let key = format!("{op} {count} {datatype} {bytes}");
            (
                key,
                line(&n.to_string(), &op, &count.to_string(), &datatype, &bytes),
            )
        })
        .collect();
    lines.sort();
    let mut out = line("calls", "op", "count", "dtype", "bytes_per_call").into_bytes();
    out.extend(lines.into_iter().flat_map(|(_, line)| line.into_bytes()));
    out
}
