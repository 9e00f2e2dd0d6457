//! Limits and thresholds of nccl-skew. Those of lateness were set on simulated jobs with one late rank and on the
//! captured jobs with time stamps; the others trade memory for speed.

/// Values below which sorting by insertion is faster than selecting the median.
pub(super) const MAX_VALUES_SORTED_BY_HAND: usize = 16;

/// Hosts that a note names.
pub(super) const MAX_HOSTS_NAMED: usize = 8;

/// Share of the steps or calls from which a rank is always late.
pub(super) const MIN_SHARE_ALWAYS_LATE: f64 = 0.8;

/// Share of the calls below which a rank is late at times, if steps are unknown, and from which it is often late. Of
/// two ranks that come in any order, each is late at half of the calls.
pub(super) const MAX_SHARE_LATE_AT_TIMES: f64 = 1.0 / 3.0;

/// Multiple of the usual spread of a rank's steps by which a late step exceeds the others.
pub(super) const MIN_LATE_TO_SPREAD_RATIO: i64 = 4;

/// Late steps among which the next one of a rhythm is looked for: more others between them hide it.
pub(super) const MAX_STEPS_TO_NEXT_IN_RHYTHM: usize = 8;

/// Calls from which the processes of a host may have different clocks.
pub(super) const MIN_CALLS_THAT_DISPROVE: usize = 3;

/// Calls on each side of a place by which a jump of a clock there is judged, and without which a side is left out.
pub(super) const CALLS_BESIDE_JUMP: usize = 8;

/// Times a call's usual overlap from which a rank that ends it before another one begins contradicts the clocks. On the captured
/// jobs this is up to 2.5 times, and 3.7 times with a drifting clock, as hosts run ahead of their GPUs.
pub(super) const MIN_CONTRADICTION_TO_OVERLAP_RATIO: i64 = 8;

/// The least such time in ns: smaller differences of clocks are mended by their rate (ntpd: below 128 ms).
pub(super) const MIN_CONTRADICTION_NS: i64 = 100_000_000;

/// Calls in a stretch with aligned clocks: more give a better median and follow a drifting clock later.
pub(super) const CALLS_PER_CLOCK_STRETCH: usize = 4096;

/// Stretches that a thread aligns one after another. Few keep each rank's lateness a short list, which is
/// cheaper to merge than a histogram.
pub(super) const STRETCHES_PER_THREAD_RUN: usize = 4;

/// Whole calls that stay in a list before they are dropped from it.
pub(super) const MIN_WHOLE_CALLS_TO_DROP: usize = 256;

/// Calls of ranks in a task of matching.
pub(super) const CALLS_PER_MATCH_TASK: u64 = 1 << 17;

/// Calls of ranks that are unpacked at a time: they fit a core's cache.
pub(super) const CALLS_PER_UNPACKED_BLOCK: usize = 1 << 12;

/// Buffers of calls that are kept for reuse.
pub(super) const MAX_SPARE_CALL_BUFFERS: usize = 1 << 13;

/// Operations below this are packed into one number with their call.
pub(super) const OPS_OF_ONE_NUMBER: u32 = 31;

/// Unit of most packed times in ns: the usual finest time stamps have microseconds.
pub(super) const PACKED_NS_PER_US: i64 = 1000;

/// Marks a rank without a call, or without its time.
pub(super) const NO_OP_NUMBER: u32 = u32::MAX;

/// Kernels of one call on two GPUs, from which the difference of these GPUs' clocks is taken: the first one also has the set-up
/// of its communicator.
pub(super) const MIN_KERNEL_PAIRS: usize = 3;

/// Calls of ranks without a time that are kept to find which calls lack them.
pub(super) const MAX_UNTIMED_CALLS_KEPT: usize = 1 << 18;
