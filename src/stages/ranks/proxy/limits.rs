//! Limits and thresholds of nccl-proxy.

/// Incomplete operations that are listed; others are only counted.
pub(super) const MAX_INCOMPLETE_OPS_KEPT: usize = 10_000;

/// Links that are kept apart.
pub(super) const MAX_PROXY_LINKS: usize = 1 << 20;

/// Multiple of the median of the others from which a peer or channel is reported as slow.
pub(super) const MIN_SLOW_TO_MEDIAN_RATIO: f64 = 1.5;

/// us per step from which times are reported.
pub(super) const MIN_US_PER_PROXY_STEP: f64 = 10.0;
