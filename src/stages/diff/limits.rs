//! The limits of comparisons.

/// Least bus bandwidth, in GB/s, that is compared: nccl-tests prints two decimals, so that a smaller one
/// has an error of 1 % and more. Below, the time is compared.
pub(super) const MIN_COMPARED_BUSBW: f64 = 1.0;

/// Share by which a row of nccl-tests must change. Two runs of the same job differ by a few percent at
/// large sizes, and by up to a tenth at small ones, which are latency.
pub(super) const DEFAULT_BENCHMARK_TOLERANCE: f64 = 0.10;
