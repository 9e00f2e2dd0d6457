//! Thresholds of the room on initialisation.

/// Ranks of a phase that a sentence lists as ranges.
pub(super) const MAX_PROCESSES_NAMED: usize = 3;

/// Lines of evidence: more are no help.
pub(super) const MAX_SETUP_EVIDENCE: usize = 6;
