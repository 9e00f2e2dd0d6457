//! The tables: by function, by time, and the longest stretches without a call.

use super::agree::{agreed, snapshot, timeline};
use super::{Found, Options, Stats};
use crate::output::render::{Cell, Grid};
use std::collections::BTreeSet;

/// ns as µs.
fn us(ns: u128) -> f64 {
    ns as f64 / 1e3
}

fn times(stats: &Stats) -> [Cell<'static>; 5] {
    let of = &stats.times;
    let sum = (of.calls() > 0).then(|| us(of.sum()));
    let [p50, p95] = of
        .percentiles([0.50, 0.95])
        .map(|ns| ns.map(|ns| us(ns.into())));
    [
        sum.into(),
        sum.map(|sum| sum / of.calls() as f64).into(),
        p50.into(),
        p95.into(),
        of.most().map(|ns| us(ns.into())).into(),
    ]
}

/// A row for each function and direction. The sums are in the first row of their function.
pub fn functions(found: &Found) -> Grid {
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
    let sums = snapshot(found);
    let timeline = timeline(found);
    let summed = |name: &[u8]| {
        let mut all = sums?.of.iter();
        all.find(|(known, _)| **known == *name).map(|(_, sum)| sum)
    };
    let of_sums = |name: &[u8]| -> [Cell<'static>; 3] {
        let Some(sum) = summed(name) else {
            return [Cell::Empty, Cell::Empty, Cell::Empty];
        };
        let of_calls = timeline.get(name).copied().unwrap_or_default();
        let agreed = agreed(name, (sum.count, sum.burst_us), of_calls);
        let agreed = (found.timelines > 0).then(|| agreed.text());
        [sum.count.into(), sum.burst_us.into(), agreed.into()]
    };
    let mut told: BTreeSet<&[u8]> = BTreeSet::new();
    for ((name, kind), stats) in &found.by {
        let mut cells: Vec<Cell<'static>> = vec![
            name.to_vec().into(),
            kind.map(|kind| kind.name()).into(),
            stats.calls.into(),
            (stats.sized == stats.calls).then_some(stats.bytes).into(),
        ];
        cells.extend(times(stats));
        cells.push(stats.untimed.into());
        match told.insert(name) {
            true => cells.extend(of_sums(name)),
            false => cells.extend([Cell::Empty, Cell::Empty, Cell::Empty]),
        }
        rows.push(cells);
    }
    for (name, sum) in sums.iter().flat_map(|sums| &sums.of) {
        if (sum.count > 0 || sum.burst_us.is_some_and(|us| us > 0)) && told.insert(name) {
            let mut cells: Vec<Cell<'static>> = vec![name.to_vec().into()];
            cells.extend(std::iter::repeat_n(Cell::Empty, 9));
            cells.extend(of_sums(name));
            rows.push(cells);
        }
    }
    of_columns(&names, rows)
}

fn of_columns(names: &[&str], rows: Vec<Vec<Cell<'static>>>) -> Grid {
    let columns = names.iter().map(|name| (*name).to_owned()).collect();
    Grid { columns, rows }
}

/// A row for each stretch of time in which something was called: seconds from the first call on.
pub fn rate(found: &Found, options: &Options) -> Grid {
    let mut rows = Vec::new();
    let first = found.slices.keys().next().copied().unwrap_or(0);
    for (at, slice) in &found.slices {
        let from = (at - first).saturating_mul(options.every_ns) as f64 / 1e9;
        rows.push(vec![
            from.into(),
            slice.calls.into(),
            slice.bytes.into(),
            us(slice.host_ns).into(),
        ]);
    }
    of_columns(&["from_s", "calls", "bytes", "host_us"], rows)
}

/// The longest stretches in which nothing was called, longest first.
pub fn gaps(found: &Found) -> Grid {
    let mut rows = Vec::new();
    let first = found.span.map_or(0, |(first, _)| first);
    for gap in found.gaps.iter().rev() {
        rows.push(vec![
            (gap.from_ns.saturating_sub(first) as f64 / 1e9).into(),
            us(gap.ns.into()).into(),
            gap.before.to_vec().into(),
            gap.after.to_vec().into(),
        ]);
    }
    of_columns(&["from_s", "gap_us", "before", "after"], rows)
}
