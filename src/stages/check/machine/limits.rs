//! The limits of this room, and what each of them trades.

/// Seconds by which a message may come after the first failure of the log and still be its cause: hosts' clocks differ.
pub(super) const MAX_LATER_S: i64 = 5;

/// Seconds before the first failure within which a message is surely of this job.
pub(super) const NEAR_S: i64 = 3600;

/// Seconds before the first failure beyond which a message is of another job.
pub(super) const OLD_S: i64 = 86_400;

/// Clocks of different zones differ by a multiple of this.
pub(super) const ZONE_STEP_S: i64 = 900;

/// How near to such a multiple a difference must be for it to be one of zones.
pub(super) const ZONE_SLACK_S: i64 = 120;

/// Lines that are shown of one finding.
pub(super) const MAX_SHOWN_LINES: usize = 3;
