//! Lists that a page makes from the other stages' tables: operations, communicators of a kind, changes.

use super::{PageSection, ReportPage, SectionRows};
use crate::output::render::cells::{GridRow, iter_rows};
use crate::stages::matrix::cells::TrafficSum;
use crate::stages::matrix::endpoints::Endpoint;
use std::collections::BTreeMap;

/// An operation of nccl-ops with its sizes of nccl-hist.
pub(super) struct OperationDigest {
    pub(super) op: String,
    pub(super) calls: u128,
    /// `None` if the bytes of some calls are unknown.
    pub(super) bytes: Option<u128>,
    /// The share of its bytes among all operations.
    pub(super) share: Option<f64>,
    /// Calls by bucket, as nccl-hist names them.
    pub(super) sizes: BTreeMap<String, u128>,
}

/// Lists all operations, those with the most bytes first.
pub(super) fn operations_by_bytes(page: &ReportPage) -> Vec<OperationDigest> {
    let Some(grid) = page.grid(PageSection::Operations) else {
        return Vec::new();
    };
    let bytes = |row: GridRow<'_>| row.whole_number_of("total_bytes");
    let all: f64 = iter_rows(grid).filter_map(bytes).map(|n| n as f64).sum();
    let mut list: Vec<OperationDigest> = iter_rows(grid)
        .map(|row| {
            let op = row.text_of("op");
            let sizes = page
                .grid(PageSection::Sizes)
                .into_iter()
                .flat_map(iter_rows);
            let sizes = sizes.filter(|size| size.text_of("op") == op);
            let of_size =
                |size: GridRow<'_>| Some((size.text_of("bucket"), size.whole_number_of("calls")?));
            OperationDigest {
                calls: row.whole_number_of("calls").unwrap_or(0),
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
pub(super) const SIZE_BUCKETS: [&str; 4] = ["<64KB", "64KB-1MB", "1MB-16MB", ">=16MB"];

/// Communicators of one label and size.
#[derive(Debug, Default)]
pub(super) struct CommunicatorClass {
    pub(super) number: u64,
    pub(super) calls: u128,
    pub(super) bytes: u128,
}

/// Lists communicators by label and size, those with the most bytes first.
pub(super) fn communicators_by_label(
    page: &ReportPage,
) -> Vec<((String, String), CommunicatorClass)> {
    let mut all: BTreeMap<(String, String), CommunicatorClass> = BTreeMap::new();
    for row in page
        .grid(PageSection::Communicators)
        .into_iter()
        .flat_map(iter_rows)
    {
        // A communicator with unknown members has a row for each process.
        let label = match row.text_of("host").is_empty() {
            true => row.text_of("label"),
            false => format!("{}, by process", row.text_of("label")),
        };
        let one = all.entry((label, row.text_of("nranks"))).or_default();
        one.number += 1;
        one.calls = one
            .calls
            .saturating_add(row.whole_number_of("calls").unwrap_or(0));
        one.bytes = one
            .bytes
            .saturating_add(row.whole_number_of("total_bytes").unwrap_or(0));
    }
    let mut list: Vec<_> = all.into_iter().collect();
    list.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
    list
}

/// The traffic from one end to another, over all bases.
pub(super) struct TrafficDigest {
    pub(super) from: String,
    pub(super) to: String,
    /// Calls, copies or accesses.
    pub(super) calls: u64,
    /// `None` if the bytes of some are unknown.
    pub(super) bytes: Option<u128>,
}

/// Lists pairs of ends by traffic, those with the most bytes first.
pub(super) fn traffic_by_bytes(page: &ReportPage) -> Vec<TrafficDigest> {
    let Some(SectionRows::Pairs(matrix)) = page.table(PageSection::Matrix) else {
        return Vec::new();
    };
    let mut pairs: BTreeMap<(String, String), TrafficSum> = BTreeMap::new();
    for cell in matrix.entries() {
        let name = |end: &Endpoint| String::from_utf8_lossy(&end.to_text()).into_owned();
        let pair = (name(cell.from), name(cell.to));
        pairs.entry(pair).or_default().add_sum(cell.sum);
    }
    let digest = |((from, to), sum): ((String, String), TrafficSum)| TrafficDigest {
        from,
        to,
        calls: sum.calls,
        bytes: sum.all_bytes(),
    };
    let mut list: Vec<TrafficDigest> = pairs.into_iter().map(digest).collect();
    list.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    list
}

/// Describes each change in a line.
pub(super) fn list_changes(page: &ReportPage) -> Vec<String> {
    let grid = page.grid(PageSection::Changes).into_iter();
    let line = |row: GridRow<'_>| {
        let value = |column| match row.text_of(column) {
            text if text.is_empty() => "none".to_owned(),
            text => text,
        };
        let what = format!("{} {}", row.text_of("aspect"), row.text_of("subject"));
        let times = row
            .number_of("ratio")
            .map_or(String::new(), |ratio| format!(", {ratio:.3} times"));
        format!(
            "{}: {} before, {} now{times}",
            what.trim_end(),
            value("a"),
            value("b")
        )
    };
    grid.flat_map(iter_rows).map(line).collect()
}
