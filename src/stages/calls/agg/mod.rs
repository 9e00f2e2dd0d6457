//! nccl-agg: the distinct calls (operation, count, datatype) and how often each was made.

pub mod nccl_tests;

use crate::count::calls::CountedCalls;
use crate::count::groups::{GroupBy, GroupEntry, GroupRowInputs, GroupedCalls, GroupsPart};
use crate::count::tally;
use crate::count::tally::SizeKey;
use crate::grammar::values::{ByteBasis, Datatype, op_kind};
use crate::output::render::{Sheet, TableCell};

/// The options of nccl-agg.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What groups rows further; default nothing. The datatype is always a column.
    pub by: Vec<GroupBy>,
    /// What bytes mean; default the API's.
    pub basis: ByteBasis,
    /// True if a window of steps is given.
    pub window: bool,
}

impl Options {
    /// Returns the tally's options.
    pub fn tally(&self) -> tally::Options {
        let mut tally = tally::Options::by_size(SizeKey::Count, self.basis);
        tally.datatypes = true;
        GroupBy::add_needs(&self.by, self.window, &mut tally);
        tally
    }
}

/// Equal calls of a group.
struct EqualCalls<'c> {
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
fn group_calls<'c>(calls: &'c CountedCalls, options: &Options) -> GroupedCalls<'c> {
    GroupedCalls::new(calls, &options.by, |key| {
        (key.size, key.datatype, key.nranks.into())
    })
}

/// The rows of a group.
fn push_group_rows<'g>(
    part: &'g GroupsPart<'_>,
    group: &'g [GroupEntry],
    basis: ByteBasis,
) -> impl Iterator<Item = EqualCalls<'g>> {
    let row = move |entry: &GroupEntry| {
        let key = part.key_of(entry);
        let op = part.op_name(entry);
        let (count, api) = key.elements_and_bytes();
        let nranks = (key.nranks > 0).then_some(key.nranks);
        EqualCalls {
            op,
            count,
            datatype: key.datatype,
            bytes: api.and_then(|api| basis.bytes_on_basis(op_kind(op), api, nranks)),
            calls: entry.value.calls,
        }
    };
    let same = move |a: &GroupEntry, b: &GroupEntry| {
        let key = |e: &EqualCalls<'g>| (e.count, e.datatype, e.bytes);
        let (a, b) = (row(a), row(b));
        a.op == b.op && key(&a) == key(&b)
    };
    group.chunk_by(same).map(move |entries| {
        let more = entries[1..].iter().map(|entry| entry.value.calls);
        let first = row(&entries[0]);
        let calls = more.fold(first.calls, u64::saturating_add);
        EqualCalls { calls, ..first }
    })
}

/// The rows of the table.
pub fn agg_sheet<'c>(calls: &'c CountedCalls, options: &Options) -> Sheet<'c> {
    let own = ["op", "count", "datatype", "bytes", "calls", "total_bytes"];
    let basis = options.basis;
    let groups = group_calls(calls, options);
    groups.build_sheet(
        &options.by,
        &own,
        GroupRowInputs::Calls,
        move |part, group, out| {
            for equal in push_group_rows(part, group, basis) {
                let total = |b: u128| b.saturating_mul(u128::from(equal.calls));
                let datatype = Datatype::from_code(equal.datatype);
                out(&[
                    equal.op.into(),
                    equal.count.into(),
                    datatype.map(datatype_cell).into(),
                    equal.bytes.into(),
                    equal.calls.into(),
                    equal.bytes.map(total).into(),
                ]);
            }
        },
    )
}

/// A datatype's name as a cell.
fn datatype_cell(datatype: Datatype) -> TableCell<'static> {
    match datatype.name() {
        Some(name) => name.into(),
        None => datatype.to_string().into(),
    }
}

/// The rows as the AWK chain's fifth script prints them, in its order: as texts.
pub fn agg_chain(calls: &CountedCalls, options: &Options) -> Vec<u8> {
    let line = |calls: &str, op: &str, count: &str, datatype: &str, bytes: &str| {
        format!("{calls:<10} {op:<15} {count:<12} {datatype:<10} {bytes:<12}\n")
    };
    let groups = group_calls(calls, options);
    let mut lines: Vec<(String, String)> = Vec::new();
    for part in groups.split_parts() {
        let part = groups.take_part(part);
        let rows = part
            .iter_groups()
            .flat_map(|group| push_group_rows(&part, group, options.basis));
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
