//! nccl-hist: per operation and size bucket the calls, their bytes, and the calls of a GPU.

use super::group_columns;
use crate::calls::{By, Calls, Field};
use crate::records::Basis;
use crate::render::{Cell, Grid, bar};
use crate::tally::{self, Sizing, UNKNOWN, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// What groups rows further; default nothing.
    pub by: Vec<By>,
    /// What bytes mean; default the API's.
    pub basis: Basis,
    /// The buckets' edges in bytes, rising; default 64 KB, 1 MB, 16 MB (of 1024).
    pub edges: Vec<u128>,
    /// A window of steps is asked for.
    pub window: bool,
}

impl Default for Options {
    fn default() -> Options {
        let edges = vec![64 << 10, 1 << 20, 16 << 20];
        Options {
            by: Vec::new(),
            basis: Basis::default(),
            edges,
            window: false,
        }
    }
}

/// The edges of `--log2`: every power of two.
pub fn powers_of_two() -> Vec<u128> {
    (0..64).map(|power| 1 << power).collect()
}

impl Options {
    /// What the tally must tell apart: members always, since GPUs are counted.
    pub fn tally(&self) -> tally::Options {
        tally::Options {
            sizing: Sizing::Bucket(self.edges.clone()),
            basis: self.basis,
            members: true,
            datatypes: self.by.contains(&By::Datatype),
            steps: self.window || self.by.contains(&By::Step),
            exact: false,
        }
    }
}

/// One bucket of an operation of a group.
#[derive(Debug, Default)]
struct Bucket<'c> {
    value: Value,
    /// The GPUs that made these calls: host, process, device.
    gpus: BTreeSet<(&'c [u8], Option<u64>, Option<u32>)>,
    /// Some call's host is not known.
    nobody: bool,
}

type Rows<'c> = BTreeMap<(Vec<Field>, Vec<u8>, u64), Bucket<'c>>;

fn rows<'c>(calls: &'c Calls, options: &Options) -> Rows<'c> {
    let mut rows = Rows::new();
    for ((step, key), value) in &calls.cells {
        let group = calls.group(&options.by, *step, key);
        let op = calls.ops.name(key.op).to_vec();
        let bucket = rows.entry((group, op, key.size)).or_default();
        bucket.value.merge(value);
        match calls.who.get(key.member as usize) {
            Some(who) if !who.host.is_empty() => {
                bucket.gpus.insert((&who.host, who.pid, who.dev));
            }
            _ => bucket.nobody = true,
        }
    }
    rows
}

/// The rows of the table; with `bars` a column of bars that shows each row's share of the calls.
pub fn grid(calls: &Calls, options: &Options, bars: bool) -> Grid {
    let mut columns = group_columns(&options.by);
    let own = [
        "op",
        "bucket",
        "from_bytes",
        "to_bytes",
        "calls",
        "share_calls",
        "total_bytes",
        "share_bytes",
        "gpus",
        "calls_per_gpu",
    ];
    columns.extend(own.map(str::to_owned));
    if bars {
        columns.push("share of calls".to_owned());
    }
    let rows = rows(calls, options);
    // A share is of all calls of the group, so that a group's shares add up to 1.
    let mut totals: BTreeMap<&[Field], (u64, u128)> = BTreeMap::new();
    for ((group, ..), bucket) in &rows {
        let total = totals.entry(group).or_default();
        total.0 = total.0.saturating_add(bucket.value.calls);
        total.1 = total.1.saturating_add(bucket.value.bytes);
    }
    let row = |((group, op, size), bucket): (&(Vec<Field>, Vec<u8>, u64), &Bucket<'_>)| {
        let (calls, bytes) = totals[group.as_slice()];
        let value = &bucket.value;
        let known = *size != UNKNOWN;
        let share = value.calls as f64 / calls as f64;
        let gpus = (!bucket.nobody).then_some(bucket.gpus.len() as u64);
        let (from, to) = bounds(&options.edges, *size);
        let mut row: Vec<Cell> = group.iter().cloned().map(Cell::from).collect();
        row.extend([
            Cell::Text(op.clone()),
            label(&options.edges, *size).as_str().into(),
            from.into(),
            to.into(),
            value.calls.into(),
            share.into(),
            known.then_some(value.bytes).into(),
            (known && bytes > 0)
                .then(|| value.bytes as f64 / bytes as f64)
                .into(),
            gpus.into(),
            gpus.filter(|&n| n > 0)
                .map(|n| value.calls as f64 / n as f64)
                .into(),
        ]);
        if bars {
            row.push(bar(share, 24).as_str().into());
        }
        row
    };
    let rows = rows.iter().map(row).collect();
    Grid { columns, rows }
}

/// The rows as the AWK chain's fourth script prints them, in its order.
pub fn chain(calls: &Calls, options: &Options) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = rows(calls, options)
        .into_iter()
        .map(|((_, op, size), bucket)| {
            let label = label(&options.edges, size).replace(">=", ">");
            [
                &op[..],
                format!(":{label} {}\n", bucket.value.calls).as_bytes(),
            ]
            .concat()
        })
        .collect();
    lines.sort();
    lines.concat()
}

/// The first byte in a bucket and the first beyond it.
fn bounds(edges: &[u128], bucket: u64) -> (Option<u128>, Option<u128>) {
    let Some(at) = usize::try_from(bucket).ok().filter(|&at| at <= edges.len()) else {
        return (None, None);
    };
    let from = if at == 0 { 0 } else { edges[at - 1] };
    (Some(from), edges.get(at).copied())
}

/// A bucket's name, `64KB-1MB`.
fn label(edges: &[u128], bucket: u64) -> String {
    match bounds(edges, bucket) {
        (None, _) => "unknown".to_owned(),
        (Some(0), Some(to)) => format!("<{}", size(to)),
        (Some(from), Some(to)) => format!("{}-{}", size(from), size(to)),
        (Some(from), None) => format!(">={}", size(from)),
    }
}

/// A size in the largest unit that divides it.
fn size(bytes: u128) -> String {
    let units = [
        (60, "EB"),
        (50, "PB"),
        (40, "TB"),
        (30, "GB"),
        (20, "MB"),
        (10, "KB"),
    ];
    for (power, unit) in units {
        if bytes > 0 && bytes.trailing_zeros() >= power {
            return format!("{}{unit}", bytes >> power);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_the_chains_names() {
        let edges = Options::default().edges;
        let names: Vec<_> = (0..4).map(|b| label(&edges, b)).collect();
        assert_eq!(names, ["<64KB", "64KB-1MB", "1MB-16MB", ">=16MB"]);
        assert_eq!(label(&edges, UNKNOWN), "unknown");
        let log2 = powers_of_two();
        assert_eq!(
            [0, 1, 11, 64].map(|b| label(&log2, b)),
            ["<1B", "1B-2B", "1KB-2KB", ">=8EB"]
        );
        assert_eq!(bounds(&edges, 3), (Some(16 << 20), None));
    }
}
