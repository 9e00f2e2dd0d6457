//! Thresholds of this room.

/// Different counts of a communicator that are compared with each other, and communicators of a circle: ranks of a
/// job that stopped have few.
pub(super) const MAX_COUNT_GROUPS: usize = 64;

/// Ranks that are both behind and ahead and are compared in pairs: a circle has few.
pub(super) const MAX_CIRCLE_RANKS: usize = 256;

/// Other communicators of the same kind that must agree before a difference in a pair is certain. One of them
/// may itself be unusual.
pub(super) const MIN_SURE_VOTES: usize = 2;

/// Groups of stacks that a sentence names.
pub(super) const MAX_STACK_GROUPS_LISTED: usize = 4;

/// Ranks that must wait before a rank that waits in another call is named.
pub(super) const MIN_WAITING_RANKS: usize = 2;
