//! What a page lists, out of the other stages' tables: operations, communicators of a kind, changes.

use super::{Of, Page};
use crate::output::render::cells::{Row, rows};
use std::collections::BTreeMap;

/// The operations with the most bytes: those of nccl-ops, and their sizes of nccl-hist.
pub(super) struct Operation {
    pub(super) op: String,
    pub(super) calls: u128,
    /// Unknown where those of some calls are.
    pub(super) bytes: Option<u128>,
    /// Of all operations.
    pub(super) share: Option<f64>,
    /// Calls by bucket, as nccl-hist names them.
    pub(super) sizes: BTreeMap<String, u128>,
}

/// All operations, those with the most bytes first.
pub(super) fn by_bytes(page: &Page) -> Vec<Operation> {
    let Some(grid) = page.grid(Of::Operations) else {
        return Vec::new();
    };
    let bytes = |row: Row<'_>| row.whole("total_bytes");
    let all: f64 = rows(grid).filter_map(bytes).map(|n| n as f64).sum();
    let mut list: Vec<Operation> = rows(grid)
        .map(|row| {
            let op = row.text("op");
            let sizes = page.grid(Of::Sizes).into_iter().flat_map(rows);
            let sizes = sizes.filter(|size| size.text("op") == op);
            let of_size = |size: Row<'_>| Some((size.text("bucket"), size.whole("calls")?));
            Operation {
                calls: row.whole("calls").unwrap_or(0),
                bytes: bytes(row),
                share: bytes(row).filter(|_| all > 0.0).map(|n| n as f64 / all),
                sizes: sizes.filter_map(of_size).collect(),
                op,
            }
        })
        .collect();
    list.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.op.cmp(&b.op)));
    list
}

/// The buckets of nccl-hist.
pub(super) const BUCKETS: [&str; 4] = ["<64KB", "64KB-1MB", "1MB-16MB", ">=16MB"];

/// Communicators of one label and size.
#[derive(Debug, Default)]
pub(super) struct Alike {
    pub(super) number: u64,
    pub(super) calls: u128,
    pub(super) bytes: u128,
}

/// Communicators by label and size, those with the most bytes first.
pub(super) fn by_label(page: &Page) -> Vec<((String, String), Alike)> {
    let mut all: BTreeMap<(String, String), Alike> = BTreeMap::new();
    for row in page.grid(Of::Communicators).into_iter().flat_map(rows) {
        // Of one whose members are not known each process has a row.
        let label = match row.text("host").is_empty() {
            true => row.text("label"),
            false => format!("{}, by process", row.text("label")),
        };
        let one = all.entry((label, row.text("nranks"))).or_default();
        one.number += 1;
        one.calls = one.calls.saturating_add(row.whole("calls").unwrap_or(0));
        one.bytes = one
            .bytes
            .saturating_add(row.whole("total_bytes").unwrap_or(0));
    }
    let mut list: Vec<_> = all.into_iter().collect();
    list.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
    list
}

/// What changed, in a line each.
pub(super) fn changes(page: &Page) -> Vec<String> {
    let grid = page.grid(Of::Changes).into_iter();
    let line = |row: Row<'_>| {
        let value = |column| match row.text(column) {
            text if text.is_empty() => "none".to_owned(),
            text => text,
        };
        let what = format!("{} {}", row.text("aspect"), row.text("subject"));
        let times = row
            .number("ratio")
            .map_or(String::new(), |ratio| format!(", {ratio:.3} times"));
        format!(
            "{}: {} before, {} now{times}",
            what.trim_end(),
            value("a"),
            value("b")
        )
    };
    grid.flat_map(rows).map(line).collect()
}
