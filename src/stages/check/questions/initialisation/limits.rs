//! Thresholds of the room on initialisation.

/// Ranks with lines that are shown.
pub(super) const MAX_RANKS_SHOWN: usize = 3;

/// Seconds between the last line of a rank that initialises and the last line of the log above which it is a
/// warning. Ranks wait in the bootstrap for the last one, which may load data first: of the jobs in `testdata`
/// 13 seconds, of public ones 2.5 minutes.
pub(super) const SILENT_INIT_WARNING_S: f64 = 120.0;

/// Seconds above which it is an error: PyTorch's own time-out (`default_pg_nccl_timeout`) is 10 minutes.
pub(super) const SILENT_INIT_ERROR_S: f64 = 600.0;

/// A rank that initialises is outrun if the log has this many times as many lines after its last one as the whole
/// initialisation of any other rank. A launcher that reads its ranks' pipes in turn delays lines by up to one.
pub(super) const OUTRUN_INIT_TIMES: u64 = 2;

/// Lines below which no rank is outrun: blocks of a buffered output have as many.
pub(super) const MIN_OUTRUN_LINES: u64 = 200;

/// Lines of evidence: more are no help.
pub(super) const MAX_SETUP_EVIDENCE: usize = 6;
