//! Limits and thresholds of nccl-watch. Those of stalls and labels were chosen on the captured and GPU jobs
//! (testdata/captured); the others bound memory or fit a terminal.

use std::time::Duration;

/// Different kinds of WARN lines that are reported. More cost memory in a job that prints endless texts.
pub(super) const MAX_WARN_KINDS: usize = 256;

/// Bytes of a line without an end. The rest of a longer one is dropped and reported, as elsewhere.
pub(super) const MAX_WAITING_LINE_BYTES: usize = 16 << 20;

/// Step lines that are kept to find the numbers of the next steps.
pub(super) const MARKS_KEPT: usize = 512;

/// Step times that are kept for their median.
pub(super) const STEP_TIMES_KEPT: usize = 64;

/// A job has stalled after this many usual steps without a call or a step line. Fewer accuse evaluations.
pub(super) const STALL_STEP_MULTIPLE: u32 = 10;

/// The shortest stall, unless the user sets another.
pub(super) const MIN_STALL_TIME: Duration = Duration::from_secs(60);

/// The longest silence of a job's set-up: it reads weights and compiles its model without a line.
pub(super) const SETUP_STALL_TIME: Duration = Duration::from_secs(300);

/// Points of the history of step times: no terminal has more columns.
pub(super) const MAX_HISTORY_POINTS: usize = 512;

/// Ranks of communicators that are counted, of 64 bytes each: 1,024 ranks in 256 communicators. Those used
/// longest ago are forgotten first.
pub(super) const MAX_COUNTED_SEATS: usize = 1 << 18;

/// Processes that are named at a stall.
pub(super) const MAX_NAMED_PROCESSES: usize = 16;

/// Bytes of lines that identify communicators: about 100,000 lines.
pub(super) const MAX_INIT_LINES_BYTES: usize = 32 << 20;

/// Bytes of all logs from which labels are found: a job's first steps.
pub(super) const MAX_LABEL_READ_BYTES: u64 = 256 << 20;

/// Bytes of each log from which labels are found, at least.
pub(super) const MIN_BYTES_PER_LOG: u64 = 64 << 10;

/// Steps before labels are looked for.
pub(super) const MIN_STEPS_TO_LABEL: u64 = 2;

/// Calls before labels are looked for, where no step line comes.
pub(super) const MIN_CALLS_TO_LABEL: u64 = 10_000;

/// WARN lines on the page: few terminals have more rows.
pub(super) const MAX_WARNS_ON_PAGE: usize = 64;

/// Bytes of a WARN line on the page: no terminal has more columns.
pub(super) const MAX_WARN_BYTES: usize = 1024;

/// Ranks that are named behind their communicator.
pub(super) const MAX_NAMED_RANKS: usize = 4;

/// Columns of the longest label, `embedding?`.
pub(super) const MAX_LABEL_COLUMNS: u16 = 10;

/// Columns below which ids of communicators are cut, and not the ranks that are behind.
pub(super) const MIN_FULL_ID_COLUMNS: u16 = 60;

/// The columns for the ranks that are behind there.
pub(super) const NARROW_BEHIND_COLUMNS: usize = 12;

/// Columns from which two parts are beside each other.
pub(super) const MIN_TWO_PART_COLUMNS: u16 = 120;

/// After how long a file for a pipe's text is tried again. A shorter time tries a full disk more often, a
/// longer one leaves more text unkept after it has space.
pub(super) const SPOOL_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Without new bytes or files for this time, files that are copied into a folder are there: two polls.
pub(super) const COPY_PAUSE: Duration = Duration::from_millis(100);

/// How long steps wait for the calls of all ranks at most: a step of a large job may be shorter than the time in which
/// its files grow.
pub(super) const MAX_STEP_WAIT: Duration = Duration::from_secs(1);

/// How long steps wait for the calls of all ranks while new files come: a copy of 64 takes a second.
pub(super) const MAX_COPY_WAIT: Duration = Duration::from_secs(3);

/// Counted steps that the last lines alone did not show.
pub(super) const MAX_UNCLAIMED_STEPS: usize = 4096;
