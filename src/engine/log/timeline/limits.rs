//! The limits of this room, and what each of them trades.

/// The ratio of lines, and of the parts of the log that they span, at which a named shape is a chance resemblance
/// beside another.
pub(super) const MINOR_SHAPE_RATIO: u64 = 4;

/// Restarts from which a bar is judged by the lines between its runs.
pub(super) const MIN_BAR_RESTARTS: u64 = 2;

/// The ratio of the lines between a bar's runs to those within them above which it comes in bursts.
pub(super) const BURST_LINES_RATIO: u64 = 2;

/// Steps that show that every rank prints.
pub(super) const MIN_STEPS_EVERY_RANK: u64 = 8;

/// Steps of a bar for each that several processes certainly drew: their rates may be printed alike.
pub(super) const MAX_STEPS_PER_STEP_OF_SEVERAL: u64 = 8;

/// Draws of a step that are compared: two of each host.
pub(super) const MAX_DRAWS_COMPARED: usize = 64;

/// How far the time that a step takes by its line may be off the time between lines.
pub(super) const MAX_STEP_TIME_RATIO: f64 = 1.5;

/// Steps with which the decision on the lines of a pipe is made. A rank that runs ahead may fit fewer by chance.
pub(super) const MIN_STEPS_DECIDED: usize = 3;

/// Steps before the new ones that are resolved again.
pub(super) const MIN_STEPS_RESOLVED: usize = 512;

/// The first of these may differ: a rank that prints late is not known, nor what came before.
pub(super) const UNSURE_FIRST_STEPS: usize = 96;

/// The last known steps that may still change: their values may be on the next lines.
pub(super) const UNSURE_LAST_STEPS: usize = 80;

/// Steps from checkpoint to checkpoint, as a multiple of those that are resolved again.
pub(super) const CHECKPOINT_STEPS_FACTOR: usize = 4;

/// Steps before a checkpoint that stay: a gap's step may have its line before it, and ranks may be some steps
/// after others.
pub(super) const STEPS_KEPT_AT_CHECKPOINT: usize = 64;

/// Marks that are packed together.
pub(super) const MARKS_PER_BLOCK: usize = 128;

/// The last marks that stay unpacked: they are looked at again and again.
pub(super) const UNPACKED_MARKS: usize = 2048;

/// Different distances between lines that are counted of steps that were let go.
pub(super) const MAX_LINE_DISTANCES: usize = 64;

/// Milliseconds over which a mean is taken where stamps are whole seconds.
pub(super) const MIN_MEAN_MS: i64 = 5_000;

/// How many times its error a difference of two clocks must be.
pub(super) const MIN_CLOCK_ERRORS: f64 = 5.0;

/// How far two medians may be apart to be of the same thing.
pub(super) const MAX_MEDIAN_RATIO: f64 = 1.5;

/// Steps that are remembered where every rank prints: a further rank's line is of one of them. A rank that lags
/// more is not waited for.
pub(super) const MAX_PRINTED_STEPS: usize = 64;

/// Steps that the first rank may have ended before another rank's first line.
pub(super) const MAX_STEPS_BEFORE_JOINING: usize = 6;
