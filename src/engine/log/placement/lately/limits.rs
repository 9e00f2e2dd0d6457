//! The limits of this room, and what each of them trades.

/// Steps between the last one that is let go and the last one that is settled.
pub(super) const STEPS_KEPT_SETTLED: usize = 24;

/// Steps in a row that must be whole where calls are let go.
pub(super) const MIN_WHOLE_STEPS_IN_ROW: usize = 4;

/// Places at which it is tried to let calls go.
pub(super) const MAX_LET_GO_TRIES: usize = 16;

/// Cuts of a process that are remembered. Older cuts are dropped; lookups return `None`.
pub(super) const MAX_CUTS_REMEMBERED: usize = 1 << 13;

/// Steps after which a step with a line is no longer waited for.
pub(super) const MAX_STEPS_BEHIND: usize = 8;

/// Steps for which a rank is waited for that has no call yet on a communicator that it set up, or none after a
/// step: where others call, all must, and its lines may come through a long pipe of their own.
pub(super) const MAX_STEPS_SILENT: usize = 32;

/// Steps that must have lines before it is known what they look like: which trainer and which rank
/// prints them, and how many steps apart.
pub(super) const MIN_STEPS_TO_SETTLE: usize = 3;

/// Steps that must have lines if the rank that seems to print them is not the one that the trainer prints on: a
/// rank that runs ahead may fit a few lines by chance.
pub(super) const MIN_STEPS_UNUSUAL_RANK: usize = 8;

/// Steps with lines up to which each must be like the one before it, or all ranks must have made the same calls
/// when the line came: as long as few lines are known, calls of one step may be taken for another's on all ranks
/// alike.
pub(super) const MIN_STEPS_UNCHECKED: usize = MAX_STEPS_BEHIND;
