//! The limits of this room: each trades memory or false alarms against missed findings. The data on
//! which they were set is unknown.

/// How many stretches of lines of one kind are kept.
pub(crate) const MAX_JOB_EVENTS: usize = 1 << 16;

/// The most bytes in front of the rank that a line begins with.
pub(crate) const MAX_RANK_LABEL_BYTES: usize = 80;

/// How many lines that report failures are kept, and how many of ranks that spoke.
pub(crate) const MAX_FAILURE_LINES: usize = 1 << 14;

/// Lines from the exit code of a process in torchrun's list to the list's end, at most: the file with its error, and
/// its traceback.
pub(crate) const MAX_LIST_END_LINES: u64 = 4;

/// Ranks run this many steps ahead of each other, and print late: only more steps show that a job
/// went on.
pub(crate) const MAX_STEPS_RANKS_AHEAD: usize = 3;

/// A step this many times as long as the median is reported,
pub(crate) const SLOW_STEP_TIMES_MEDIAN: f64 = 3.0;

/// A slow step is longer than the others by this many seconds: the times of short steps vary.
pub(crate) const MIN_SLOW_STEP_EXCESS_S: f64 = 0.1;

/// Findings use this many of the last steps of an input.
pub(crate) const MAX_STEPS_KEPT: usize = 1 << 16;

/// While a pipe is read, this many more steps are kept: the last ones may still change.
pub(crate) const EXTRA_STEPS_KEPT_OF_PIPE: usize = 1024;

/// The last steps of a pipe that are not placed yet: their lines may be late.
pub(crate) const UNSETTLED_STEPS_OF_PIPE: usize = 64;

/// At most this many different distances between step lines are counted.
pub(crate) const MAX_OLD_LINE_DISTANCES: usize = 64;

/// At most this many different times of steps are kept without rounding.
pub(crate) const MAX_EXACT_STEP_TIMES: usize = 1 << 16;

/// How many places are kept; more are only counted.
pub(crate) const MAX_OVERWRITTEN_PLACES: usize = 4;

/// The longest end of a header: a process, a thread and a device.
pub(crate) const MAX_HEADER_END_BYTES: usize = 40;

/// At most this many of the lines are shown.
pub(crate) const MAX_SETUP_LINES_SHOWN: usize = 3;
