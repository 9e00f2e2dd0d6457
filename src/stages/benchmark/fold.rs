//! What a chunk keeps of nccl-tests' output.

use super::limits::{MAX_BENCHMARK_LINE_BYTES, MAX_BENCHMARK_LINES, MAX_VALUE_LINES};
use crate::grammar::nccl_tests::{BenchmarkLine, parse_benchmark_line, remove_output_tags};
use crate::log::walk::{LogCall, LogVisitor, RepairedCall};
use serde::{Deserialize, Serialize};

/// A chunk's lines of nccl-tests, each with its number in the chunk.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct BenchmarkPartial {
    pub(super) lines: Vec<(u64, Box<[u8]>)>,
    /// Lines with values alone since the last row began.
    values: usize,
    /// The other lines.
    others: usize,
}

impl LogVisitor for BenchmarkPartial {
    const BENCHMARKS: bool = true;

    fn benchmark_line(&mut self, line: &[u8], number: u64) {
        let line = remove_output_tags(line);
        let line = &line[..line.len().min(MAX_BENCHMARK_LINE_BYTES)];
        match parse_benchmark_line(line) {
            None => return,
            // Whether a row waits for values is known only in the order of the chunks.
            Some(BenchmarkLine::Values) if self.values >= MAX_VALUE_LINES => return,
            Some(BenchmarkLine::Values) => self.values += 1,
            // Values do not count, since how many are kept depends on where a chunk begins.
            Some(_) if self.others >= MAX_BENCHMARK_LINES => {
                self.values = MAX_VALUE_LINES;
                return;
            }
            Some(_) => (self.values, self.others) = (0, self.others + 1),
        }
        self.lines.push((number, line.into()));
    }

    fn call(&mut self, _call: &LogCall<'_>) {}

    fn slot(&mut self) {}

    fn unify_processes(&mut self, _first: &[u32]) {}

    fn insert_torn_calls(&mut self, _calls: &[RepairedCall<'_>]) {}
}
