//! nccl-ops: per operation the number of calls and their sizes.

use super::group_columns;
use crate::calls::Calls;
use crate::groups::{By, Groups};
use crate::records::Basis;
use crate::render::{Sheet, awk};
use crate::tally::{self, Key, Sizing, UNKNOWN, Value};
use hdrhistogram::Histogram;

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

impl Op {
    /// An operation without calls.
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

    /// The calls of some cells of one operation.
    fn take<'c>(&mut self, cells: impl Iterator<Item = (&'c Key, &'c Value)>) {
        self.sizes.reset();
        (self.value, self.known) = (Value::default(), 0);
        for (key, value) in cells {
            if key.size == UNKNOWN {
                self.value.calls = self.value.calls.saturating_add(value.calls);
                continue;
            }
            if self.known == 0 {
                self.value.min = value.min;
            }
            self.known = self.known.saturating_add(value.calls);
            self.value.min = self.value.min.min(value.min);
            self.value.max = self.value.max.max(value.max);
            self.value.calls = self.value.calls.saturating_add(value.calls);
            self.value.bytes = self.value.bytes.saturating_add(value.bytes);
            // A histogram that grows refuses no size.
            let _ = self.sizes.record_n(key.size, value.calls);
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
pub fn sheet<'c>(calls: &'c Calls, options: &Options) -> Sheet<'c> {
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
    let groups = Groups::new(calls, &options.by, |_| (0, 0, 0));
    Sheet {
        columns,
        parts: groups.parts(),
        rows: Box::new(move |part, sink| {
            let (mut op, mut row) = (Op::new(), Vec::new());
            for cells in groups.of(part).flat_map(|group| by_op(&groups, group)) {
                op.take(cells.iter().map(|&at| groups.cell(at)));
                let known = |value: u128| (op.known > 0).then_some(value).into();
                row.clear();
                groups.row(cells[0], &mut row);
                row.extend([
                    groups.op(cells[0]).into(),
                    op.value.calls.into(),
                    known(op.value.min),
                    op.mean().into(),
                    known(op.percentile(0.50)),
                    known(op.percentile(0.95)),
                    known(op.percentile(0.99)),
                    known(op.value.max),
                    known(op.value.bytes),
                ]);
                sink(&row);
            }
        }),
    }
}

/// The cells of a group, operation by operation.
fn by_op<'g>(groups: &'g Groups<'_>, group: &'g [u32]) -> impl Iterator<Item = &'g [u32]> {
    let op = move |at: u32| groups.cell(at).0.op;
    group.chunk_by(move |a, b| op(*a) == op(*b))
}

/// The rows as the AWK chain's third script prints them.
pub fn chain(calls: &Calls, options: &Options) -> Vec<u8> {
    let mut out = Vec::new();
    let groups = Groups::new(calls, &options.by, |_| (0, 0, 0));
    let parts = groups.parts();
    let all = parts.into_iter().flat_map(|part| groups.of(part));
    let mut op = Op::new();
    for cells in all.flat_map(|group| by_op(&groups, group)) {
        op.take(cells.iter().map(|&at| groups.cell(at)));
        out.extend_from_slice(groups.op(cells[0]));
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
