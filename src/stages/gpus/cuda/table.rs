//! The tables: by function, by time, and the longest gaps without a call.

use super::cross_check::{compare_sums, only_snapshot, sum_timeline};
use super::{CudaFunctionStats, CudaSummary, Options};
use crate::output::render::{Grid, TableCell};
use std::collections::BTreeSet;

/// Converts ns to µs.
fn ns_to_us(ns: u128) -> f64 {
    ns as f64 / 1e3
}

fn time_cells(stats: &CudaFunctionStats) -> [TableCell<'static>; 5] {
    let of = &stats.times;
    let sum = (of.count_calls() > 0).then(|| ns_to_us(of.total_ns()));
    let [p50, p95] = of
        .percentiles([0.50, 0.95])
        .map(|ns| ns.map(|ns| ns_to_us(ns.into())));
    [
        sum.into(),
        sum.map(|sum| sum / of.count_calls() as f64).into(),
        p50.into(),
        p95.into(),
        of.max_ns().map(|ns| ns_to_us(ns.into())).into(),
    ]
}

/// Builds a row for each function and direction; sums are in the first row of their function.
pub fn functions_grid(found: &CudaSummary) -> Grid {
    let names = [
        "function",
        "copy",
        "calls",
        "bytes",
        "host_us",
        "mean_us",
        "p50_us",
        "p95_us",
        "max_us",
        "no_time",
        "sums_calls",
        "sums_us",
        "agreement",
    ];
    let mut rows = Vec::new();
    let sums = only_snapshot(found);
    let timeline = sum_timeline(found);
    let summed = |name: &[u8]| {
        let mut all = sums?.of.iter();
        all.find(|(known, _)| **known == *name).map(|(_, sum)| sum)
    };
    let of_sums = |name: &[u8]| -> [TableCell<'static>; 3] {
        let Some(sum) = summed(name) else {
            return [TableCell::Empty, TableCell::Empty, TableCell::Empty];
        };
        let of_calls = timeline.get(name).copied().unwrap_or_default();
        let agreed = compare_sums(name, (sum.count, sum.burst_us), of_calls);
        let agreed = (found.timelines > 0).then(|| agreed.text());
        [sum.count.into(), sum.burst_us.into(), agreed.into()]
    };
    let mut told: BTreeSet<&[u8]> = BTreeSet::new();
    for ((name, kind), stats) in &found.by {
        let mut cells: Vec<TableCell<'static>> = vec![
            name.to_vec().into(),
            kind.map(|kind| kind.name()).into(),
            stats.calls.into(),
            (stats.sized == stats.calls).then_some(stats.bytes).into(),
        ];
        cells.extend(time_cells(stats));
        cells.push(stats.untimed.into());
        match told.insert(name) {
            true => cells.extend(of_sums(name)),
            false => cells.extend([TableCell::Empty, TableCell::Empty, TableCell::Empty]),
        }
        rows.push(cells);
    }
    for (name, sum) in sums.iter().flat_map(|sums| &sums.of) {
        if (sum.count > 0 || sum.burst_us.is_some_and(|us| us > 0)) && told.insert(name) {
            let mut cells: Vec<TableCell<'static>> = vec![name.to_vec().into()];
            cells.extend(std::iter::repeat_n(TableCell::Empty, 9));
            cells.extend(of_sums(name));
            rows.push(cells);
        }
    }
    grid_of_columns(&names, rows)
}

fn grid_of_columns(names: &[&str], rows: Vec<Vec<TableCell<'static>>>) -> Grid {
    let columns = names.iter().map(|name| (*name).to_owned()).collect();
    Grid { columns, rows }
}

/// Builds a row for each interval with calls, in seconds from the first call.
pub fn rate_grid(found: &CudaSummary, options: &Options) -> Grid {
    let mut rows = Vec::new();
    let first = found.slices.keys().next().copied().unwrap_or(0);
    for (at, slice) in &found.slices {
        let from = (at - first).saturating_mul(options.every_ns) as f64 / 1e9;
        rows.push(vec![
            from.into(),
            slice.calls.into(),
            slice.bytes.into(),
            ns_to_us(slice.host_ns).into(),
        ]);
    }
    grid_of_columns(&["from_s", "calls", "bytes", "host_us"], rows)
}

/// Builds the table of the longest gaps without a call, longest first.
pub fn gaps_grid(found: &CudaSummary) -> Grid {
    let mut rows = Vec::new();
    let first = found.span.map_or(0, |(first, _)| first);
    for gap in found.gaps.iter().rev() {
        rows.push(vec![
            (gap.from_ns.saturating_sub(first) as f64 / 1e9).into(),
            ns_to_us(gap.ns.into()).into(),
            gap.before.to_vec().into(),
            gap.after.to_vec().into(),
        ]);
    }
    grid_of_columns(&["from_s", "gap_us", "before", "after"], rows)
}
