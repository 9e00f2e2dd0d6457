//! nccl-ops: per operation the number of calls and their sizes.

use super::group_columns;
use crate::calls::{By, Calls, Field};
use crate::records::Basis;
use crate::render::{Cell, Grid, awk};
use crate::tally::{self, Sizing, UNKNOWN, Value};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What groups rows further; default nothing.
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
            sizing: Sizing::Digits,
            basis: self.basis,
            members: self.by.iter().any(|b| b.needs_members()),
            datatypes: self.by.contains(&By::Datatype),
            steps: self.window || self.by.contains(&By::Step),
            exact: false,
        }
    }
}

/// One operation of a group.
#[derive(Debug)]
struct Op {
    value: Value,
    /// Calls whose bytes are known.
    known: u64,
    sizes: Histogram<u64>,
}

type Rows = BTreeMap<(Vec<Field>, Vec<u8>), Op>;

fn rows(calls: &Calls, options: &Options) -> Rows {
    let mut rows = Rows::new();
    for ((step, key), value) in &calls.cells {
        let group = calls.group(&options.by, *step, key);
        let op = rows
            .entry((group, calls.ops.name(key.op).to_vec()))
            .or_insert_with(Op::new);
        if key.size == UNKNOWN {
            op.value.calls = op.value.calls.saturating_add(value.calls);
            continue;
        }
        if op.known == 0 {
            op.value.min = value.min;
        }
        op.known = op.known.saturating_add(value.calls);
        op.value.min = op.value.min.min(value.min);
        op.value.max = op.value.max.max(value.max);
        op.value.calls = op.value.calls.saturating_add(value.calls);
        op.value.bytes = op.value.bytes.saturating_add(value.bytes);
        // A histogram that grows refuses no size.
        let _ = op.sizes.record_n(key.size, value.calls);
    }
    rows
}

impl Op {
    fn new() -> Op {
        // Three digits, growing as needed. Creating it fails only for digits outside 0..=5.
        #[allow(clippy::unwrap_used)]
        let mut sizes = Histogram::new(3).unwrap();
        sizes.auto(true);
        Op {
            value: Value::default(),
            known: 0,
            sizes,
        }
    }

    /// The size below or at which a share of the calls are, to three significant digits.
    fn percentile(&self, share: f64) -> u128 {
        let at = self
            .sizes
            .lowest_equivalent(self.sizes.value_at_quantile(share));
        u128::from(at).clamp(self.value.min, self.value.max)
    }

    fn mean(&self) -> Option<f64> {
        (self.known > 0).then(|| self.value.bytes as f64 / self.known as f64)
    }
}

/// The rows of the table.
pub fn grid(calls: &Calls, options: &Options) -> Grid {
    let mut columns = group_columns(&options.by);
    let own = [
        "op",
        "calls",
        "min_bytes",
        "mean_bytes",
        "p50_bytes",
        "p95_bytes",
        "p99_bytes",
        "max_bytes",
        "total_bytes",
    ];
    columns.extend(own.map(str::to_owned));
    let row = |((group, name), op): ((Vec<Field>, Vec<u8>), Op)| {
        let known = |value: u128| {
            if op.known > 0 {
                Cell::Int(value)
            } else {
                Cell::Empty
            }
        };
        let mut row: Vec<Cell> = group.into_iter().map(Cell::from).collect();
        row.extend([
            Cell::Text(name),
            op.value.calls.into(),
            known(op.value.min),
            op.mean().into(),
            known(op.percentile(0.50)),
            known(op.percentile(0.95)),
            known(op.percentile(0.99)),
            known(op.value.max),
            known(op.value.bytes),
        ]);
        row
    };
    Grid {
        columns,
        rows: rows(calls, options).into_iter().map(row).collect(),
    }
}

/// The rows as the AWK chain's third script prints them.
pub fn chain(calls: &Calls, options: &Options) -> Vec<u8> {
    let mut out = Vec::new();
    for ((_, name), op) in rows(calls, options) {
        out.extend_from_slice(&name);
        let Value {
            calls,
            min,
            max,
            bytes,
        } = op.value;
        let mean = awk(op.mean().unwrap_or(0.0));
        let text = format!(" calls={calls} min={min} avg={mean} max={max} total={bytes}\n");
        out.extend_from_slice(text.as_bytes());
    }
    out
}
