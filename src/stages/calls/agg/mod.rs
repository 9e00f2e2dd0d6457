//! nccl-agg: the distinct calls (operation, count, datatype) and how often each was made.

pub mod nccl_tests;

use crate::count::calls::Calls;
use crate::count::groups::{By, Entry, Groups, MadeOf, Part};
use crate::count::tally;
use crate::count::tally::Sizing;
use crate::grammar::values::{Basis, Datatype, kind};
use crate::output::render::{Cell, Sheet};

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
            durations: false,
            served: self.by.iter().any(|b| b.needs_served()),
        }
    }
}

/// Equal calls of a group.
struct Equal<'c> {
    op: &'c [u8],
    count: Option<u64>,
    /// The code.
    datatype: u64,
    /// Bytes of one call.
    bytes: Option<u128>,
    calls: u64,
}

/// Calls by group, and in it by operation, count, datatype and bytes, which rise with the
/// communicator's size.
fn groups<'c>(calls: &'c Calls, options: &Options) -> Groups<'c> {
    Groups::new(calls, &options.by, |key| {
        (key.size, key.datatype, key.nranks.into())
    })
}

/// The rows of a group.
fn rows<'g>(
    part: &'g Part<'_>,
    group: &'g [Entry],
    basis: Basis,
) -> impl Iterator<Item = Equal<'g>> {
    let row = move |entry: &Entry| {
        let key = part.key(entry);
        let op = part.op(entry);
        let (count, api) = key.size();
        let nranks = (key.nranks > 0).then_some(key.nranks);
        Equal {
            op,
            count,
            datatype: key.datatype,
            bytes: api.and_then(|api| basis.of(kind(op), api, nranks)),
            calls: entry.value.calls,
        }
    };
    let same = move |a: &Entry, b: &Entry| {
        let key = |e: &Equal<'g>| (e.count, e.datatype, e.bytes);
        let (a, b) = (row(a), row(b));
        a.op == b.op && key(&a) == key(&b)
    };
    group.chunk_by(same).map(move |entries| {
        let more = entries[1..].iter().map(|entry| entry.value.calls);
        let first = row(&entries[0]);
        let calls = more.fold(first.calls, u64::saturating_add);
        Equal { calls, ..first }
    })
}

/// The rows of the table.
pub fn sheet<'c>(calls: &'c Calls, options: &Options) -> Sheet<'c> {
    let own = ["op", "count", "datatype", "bytes", "calls", "total_bytes"];
    let basis = options.basis;
    let groups = groups(calls, options);
    groups.sheet(&options.by, &own, MadeOf::Calls, move |part, group, out| {
        for equal in rows(part, group, basis) {
            let total = |b: u128| b.saturating_mul(u128::from(equal.calls));
            let datatype = Datatype::from_code(equal.datatype);
            out(&[
                equal.op.into(),
                equal.count.into(),
                datatype.map(cell).into(),
                equal.bytes.into(),
                equal.calls.into(),
                equal.bytes.map(total).into(),
            ]);
        }
    })
}

/// A datatype's name as a cell.
fn cell(datatype: Datatype) -> Cell<'static> {
    match datatype.name() {
        Some(name) => name.into(),
        None => datatype.to_string().into(),
    }
}

/// The rows as the AWK chain's fifth script prints them, in its order: as texts.
pub fn chain(calls: &Calls, options: &Options) -> Vec<u8> {
    let line = |calls: &str, op: &str, count: &str, datatype: &str, bytes: &str| {
        format!("{calls:<10} {op:<15} {count:<12} {datatype:<10} {bytes:<12}\n")
    };
    let groups = groups(calls, options);
    let mut lines: Vec<(String, String)> = Vec::new();
    for part in groups.parts() {
        let part = groups.part(part);
        let rows = part
            .groups()
            .flat_map(|group| rows(&part, group, options.basis));
        lines.extend(rows.map(|row| {
            let op = String::from_utf8_lossy(row.op);
            let count = row.count.map_or(String::new(), |count| count.to_string());
            let n = row.calls.to_string();
            let datatype = Datatype::from_code(row.datatype);
            let datatype = datatype.map_or(String::new(), |d| d.to_string());
            let bytes = row.bytes.map_or(String::new(), |b| b.to_string());
            let key = format!("{op} {count} {datatype} {bytes}");
            (key, line(&n, &op, &count, &datatype, &bytes))
        }));
    }
    lines.sort();
    let mut out = line("calls", "op", "count", "dtype", "bytes_per_call").into_bytes();
    out.extend(lines.into_iter().flat_map(|(_, line)| line.into_bytes()));
    out
}
