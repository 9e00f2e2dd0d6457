//! The limits of tables of nccl-tests.

/// Lines of nccl-tests that are kept of an input, at about 200 bytes each. A table has some 30 rows;
/// only with `-N 0`, which repeats it for ever, are there more.
pub(super) const MAX_BENCHMARK_LINES: usize = 1 << 15;

/// Bytes kept of a line: the widest header has 370.
pub(super) const MAX_BENCHMARK_LINE_BYTES: usize = 512;

/// Lines with values alone that are kept after the beginning of a row: a row has two groups of values,
/// and each may be on a line of its own.
pub(super) const MAX_VALUE_LINES: usize = 4;

/// Rows of one shape that are a table without its header. Two may be anything.
pub(super) const MIN_LOOSE_ROWS: usize = 3;
