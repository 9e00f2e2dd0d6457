//! The limits of this room, and what each of them trades.

use std::time::Duration;

/// How long a tool of the machine may take: `nvidia-smi` never ends where the driver hangs.
pub(super) const MAX_TOOL_TIME: Duration = Duration::from_secs(20);

/// How often a tool is asked whether it has ended.
pub(super) const TOOL_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes that are kept of a tool's output, or of a file of the machine: the kernel's whole ring has fewer.
pub(super) const MAX_MACHINE_BYTES: u64 = 16 << 20;

/// The level of zstd: logs become some fifteen times smaller at the speed of a disk; a higher one gains little.
pub(super) const CASE_ZSTD_LEVEL: i32 = 3;

/// The longest line that is redacted as a whole; a longer one is taken in pieces.
pub(super) const MAX_REDACTED_LINE_BYTES: u64 = 16 << 20;

/// Bytes at the beginning of an input that must have no NUL, for its names to be replaced.
pub(super) const TEXT_HEAD_BYTES: u64 = 64 << 10;

/// Groups of a /24 network, and hosts in one: an octet each.
pub(super) const OCTET_VALUES: usize = 256;
