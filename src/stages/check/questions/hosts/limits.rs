//! Thresholds of the rooms on hosts. Those of initialisation were set on the jobs in `testdata` and on public logs;
//! see `initialisation`.

/// Seconds above which a communicator is slow to make.
pub(crate) const SLOW_INIT_S: f64 = 10.0;

/// Seconds above which ranks that start late are a warning instead of a note.
pub(crate) const LATE_RANKS_WARNING_S: f64 = 60.0;

/// Seconds above which one rank's part is slow.
pub(crate) const SLOW_RANK_PHASE_S: f64 = 15.0;

/// Multiple of the ranks' median above which one rank's part is slow.
pub(crate) const SLOW_RANK_TIMES_MEDIAN: f64 = 5.0;

/// Lines of a finding.
pub(crate) const MAX_EVIDENCE_LINES: usize = 6;
