//! Durations of calls without the wait for later ranks: the last rank does not wait, so its duration, the least of
//! the call, is taken. A call without its last rank has only waits, so all of its ranks are needed.

use super::window::{RankArrival, SkewCall};
use crate::count::durations::CallDurations;
use crate::output::render::{Grid, TableCell};
use std::collections::BTreeMap;

/// The calls of an operation.
#[derive(Debug, Default)]
struct OpLatency {
    /// The least duration of each call.
    least: CallDurations,
    /// The sum of all ranks' durations, ns.
    took: u128,
    /// That sum without waiting, ns.
    needed: u128,
}

/// The latencies by operation.
#[derive(Debug, Default)]
pub(super) struct LatencyByOp {
    ops: BTreeMap<Vec<u8>, OpLatency>,
}

impl LatencyByOp {
    /// Adds a call of an operation; one with the durations of fewer than two ranks is left out.
    pub(super) fn add_call(&mut self, op: &[u8], call: &SkewCall) {
        let all: Option<Vec<u64>> = call.came.iter().map(RankArrival::dur_ns).collect();
        let Some(all) = all.filter(|all| all.len() > 1) else {
            return;
        };
        let least = all.iter().copied().min().unwrap_or(0);
        let op = self.ops.entry(op.to_vec()).or_default();
        op.least.add_call(least);
        op.took += all.iter().copied().map(u128::from).sum::<u128>();
        op.needed += u128::from(least) * all.len() as u128;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Returns the table with a row for each operation.
    pub(super) fn to_grid(&self) -> Grid {
        let columns = [
            "op",
            "calls",
            "mean_us",
            "p50_us",
            "p95_us",
            "p99_us",
            "max_us",
            "wait_share",
        ];
        let us = |ns: Option<u64>| TableCell::from(ns.map(|ns| ns as f64 / 1000.0));
        let row = |(name, op): (&Vec<u8>, &OpLatency)| {
            let calls = op.least.count_calls();
            let [p50, p95, p99] = op.least.percentiles([0.50, 0.95, 0.99]).map(us);
            vec![
                name.clone().into(),
                calls.into(),
                (op.least.total_ns() as f64 / 1000.0 / calls as f64).into(),
                p50,
                p95,
                p99,
                us(op.least.max_ns()),
                TableCell::share_of(op.took.saturating_sub(op.needed) as f64, op.took as f64),
            ]
        };
        Grid {
            columns: columns.map(str::to_owned).to_vec(),
            rows: self.ops.iter().map(row).collect(),
        }
    }
}
