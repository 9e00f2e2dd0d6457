//! Thresholds of this room.

use super::CALLS_PER_HASH_BLOCK;

/// Calls of each input that are kept at its end. More cost memory, fewer hide the last waits of a job
/// of few ranks.
pub(super) const MIN_LAST_CALLS_PER_INPUT: usize = 1 << 13;

/// Calls of each process that are kept at the end of an input. No rank is further ahead of the others:
/// CUDA's queue of launches holds 1,024, and a collective takes one or two.
pub(super) const LAST_CALLS_PER_PROCESS: usize = 512;

/// Bytes of a pipe that are held unpacked. Most dropped lines are dropped while they are unpacked, which costs
/// least; with half of it most lines are packed first.
pub(super) const PIPE_WINDOW_BYTES: u64 = 16 << 20;

/// Further bytes that a pipe reads before its lines are scanned again: a scan compares all streams.
pub(super) const BYTES_BETWEEN_LOOKS: u64 = 4 << 20;

/// Kept calls that are not needed, before the kept lines are packed again. Packing costs time, keeping costs
/// memory.
pub(super) const MIN_CALLS_TO_REPACK: u64 = 1 << 16;

/// Joined calls that are kept without a look: they are few in any log but a torn one.
pub(super) const MAX_FEW_TORN_CALLS: usize = 1 << 10;

/// Packed bytes of a pipe: 1 GiB. Beyond it communicators with missing members drop their calls.
pub(super) const MAX_PACKED_PIPE_BYTES: u64 = 1 << 30;

/// Blocks that streams keep that are compared with nothing, or no longer wait for members. No rank is further
/// ahead of the others than CUDA's queue of 1,024 launches.
pub(super) const MARGIN_BLOCKS: usize = 1 + 1024 / CALLS_PER_HASH_BLOCK as usize;

/// Looks without a new call after which a communicator does not hold others up.
pub(super) const MAX_IDLE_LOOKS: u32 = 64;

/// Ranks of a communicator that may lack a majority: others of its kind then show which call is usual.
pub(super) const MAX_RANKS_TO_ASK_KIND: usize = 4;

/// Pinned parts of a stream.
pub(super) const MAX_PINS_PER_STREAM: usize = 64;
