//! The limits of this room, and what each of them trades.

/// Bounds that are looked at.
pub(super) const MAX_BOUNDS_COMPARED: usize = 256;

/// Calls that are looked at on each side of a bound.
pub(super) const CALLS_AROUND_BOUND: usize = 3;

/// Processes with the same rank that are compared.
pub(super) const MAX_PROCESSES_COMPARED: usize = 64;

/// How much better another rank must fit than the one that the trainer prints on, in thousandths.
pub(super) const MIN_FIT_MARGIN: i64 = 200;

/// Step lines for which the margin is twice as large; it falls with their number. Among few lines one that is
/// not like the others weighs much.
pub(super) const FEW_STEP_LINES: i64 = 8;

/// Margins by which a rank must fit better than the one that printed before the job was started again: an
/// attempt may have few lines.
pub(super) const RESTART_MARGIN_FACTOR: i64 = 2;

/// Calls that are looked at on each side of a line where every rank prints.
pub(super) const CALLS_AROUND_LINE: usize = 3;

/// Ranks that are tried where every rank prints.
pub(super) const MAX_RANKS_TRIED: usize = 8;

/// The share of the steps, in percent, in which a rank's own line must be found.
pub(super) const MIN_CLEAR_STEPS_PERCENT: usize = 75;
