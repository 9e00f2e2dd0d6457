//! The distinct calls of a job, counted.

use crate::job::call::{CallDtype, CallOp};
use crate::job::kind::CommPurpose;
use crate::truth::rows::{BucketRow, CellRow, OpRow, TruthCallSum};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The key that distinguishes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct TruthKey {
    op: CallOp,
    dtype: CallDtype,
    count: u64,
    kind: CommPurpose,
}

/// The distinct calls of a job.
#[derive(Debug, Default)]
pub struct TruthCells {
    keys: Vec<TruthKey>,
    calls: Vec<u64>,
    index: FxHashMap<TruthKey, usize>,
    runs: FxHashMap<(CallOp, CallDtype, CommPurpose), usize>,
}

impl TruthCells {
    /// The cell of such a call.
    pub fn intern(&mut self, op: CallOp, dtype: CallDtype, count: u64, kind: CommPurpose) -> usize {
        let key = TruthKey {
            op,
            dtype,
            count,
            kind,
        };
        let new = self.keys.len();
        let at = *self.index.entry(key).or_insert(new);
        if at == new {
            self.push(key);
        }
        at
    }

    /// The first of a run of neighbouring cells, one for each count.
    pub fn intern_run(
        &mut self,
        op: CallOp,
        dtype: CallDtype,
        kind: CommPurpose,
        counts: impl Iterator<Item = u64>,
    ) -> usize {
        if let Some(&at) = self.runs.get(&(op, dtype, kind)) {
            return at;
        }
        let at = self.keys.len();
        self.runs.insert((op, dtype, kind), at);
        for count in counts {
            self.push(TruthKey {
                op,
                dtype,
                count,
                kind,
            });
        }
        at
    }

    fn push(&mut self, key: TruthKey) {
        self.keys.push(key);
        self.calls.push(0);
    }

    /// Elements of a cell's calls.
    pub fn count(&self, cell: usize) -> u64 {
        self.keys[cell].count
    }

    /// Operation of a cell's calls.
    pub fn op(&self, cell: usize) -> CallOp {
        self.keys[cell].op
    }

    /// Bytes of one of a cell's calls.
    pub fn bytes(&self, cell: usize) -> u128 {
        u128::from(self.keys[cell].count) * u128::from(self.keys[cell].dtype.size())
    }

    /// Counts a call.
    pub fn count_call(&mut self, cell: usize) {
        self.calls[cell] += 1;
    }

    /// Everything counted, by operation, by size and by call.
    pub fn build_tables(&self) -> TruthTables {
        let mut tables = TruthTables::default();
        let mut buckets = BTreeMap::<(&'static str, usize), TruthCallSum>::new();
        let mut merged = BTreeMap::<TruthKey, u64>::new();
        for (cell, key) in self.keys.iter().enumerate() {
            let (calls, bytes) = (self.calls[cell], self.bytes(cell));
            if calls == 0 {
                continue;
            }
            *merged.entry(*key).or_default() += calls;
            let (op, total) = (key.op.name(), bytes * u128::from(calls));
            let first = OpRow {
                min_bytes: bytes,
                ..OpRow::default()
            };
            let row = tables.ops.entry(op).or_insert(first);
            row.min_bytes = row.min_bytes.min(bytes);
            row.max_bytes = row.max_bytes.max(bytes);
            row.sum.add_calls(calls, total);
            buckets
                .entry((op, bucket_of_bytes(bytes)))
                .or_default()
                .add_calls(calls, total);
        }
        let row = |((op, b), sum)| BucketRow {
            op,
            bucket: SIZE_BUCKET_NAMES[b],
            sum,
        };
        tables.buckets = buckets.into_iter().map(row).collect();
        tables.cells = merged
            .into_iter()
            .map(|(key, calls)| CellRow {
                op: key.op.name(),
                count: key.count,
                datatype: key.dtype.name(),
                comm_kind: key.kind.name(),
                calls,
                bytes: u128::from(key.count) * u128::from(key.dtype.size()),
            })
            .collect();
        tables
    }
}

/// The counts.
#[derive(Debug, Default)]
pub struct TruthTables {
    /// By operation.
    pub ops: BTreeMap<&'static str, OpRow>,
    /// By operation and size.
    pub buckets: Vec<BucketRow>,
    /// By operation, count, datatype and kind of communicator.
    pub cells: Vec<CellRow>,
}

/// Bucket names, half-open on bytes.
const SIZE_BUCKET_NAMES: [&str; 4] = ["<64KB", "64KB-1MB", "1MB-16MB", ">=16MB"];

fn bucket_of_bytes(bytes: u128) -> usize {
    [1 << 16, 1 << 20, 1 << 24]
        .iter()
        .filter(|&&edge| bytes >= edge)
        .count()
}

#[cfg(test)]
mod tests {
    use super::{SIZE_BUCKET_NAMES, bucket_of_bytes};

    #[test]
    fn buckets_are_half_open() {
        let name = |bytes| SIZE_BUCKET_NAMES[bucket_of_bytes(bytes)];
        assert_eq!(
            [name(0), name(65_535), name(65_536)],
            ["<64KB", "<64KB", "64KB-1MB"]
        );
        assert_eq!([name(1_048_575), name(1_048_576)], ["64KB-1MB", "1MB-16MB"]);
        assert_eq!([name(16_777_215), name(16_777_216)], ["1MB-16MB", ">=16MB"]);
    }
}
