//! The limits of Inspector's files.

/// Lines of a head that are probed: the first ones of a cut file may have no header.
pub(super) const MAX_PROBED_LINES: usize = 4;

/// Levels of nested values that the fast way reads.
pub(super) const MAX_VALUE_DEPTH: u8 = 8;

/// Bytes of a collective's name; the longest has 13.
pub(super) const MAX_COLLECTIVE_NAME: usize = 24;

/// µs between the end of a channel of a call and the begin of another. All channels of a kernel begin together, and the host
/// sees that within some 50 µs; the channels of different calls in one record were 2.9 to 91 ms apart
/// (mix-inspector-2.28.9-2x2). A smaller gap withholds times where the thread that sees them was held up.
pub(super) const MAX_CHANNEL_GAP_US: u64 = 1_000;

/// How many times as long as the host saw a kernel it may have run. The host may see the begin late: in 720 records of a healthy
/// job (fsdp-inspector, NCCL 2.30) 230 kernels ran for longer than they were seen, one of them for more than twice as
/// long. Of 10 such records of rank 1 in mix-inspector-2.28.9-2x2, eight have the time of another call, by their CUDA events.
pub(super) const MAX_TIMES_SEEN: u64 = 2;
