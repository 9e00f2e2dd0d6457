//! The limits of this room: each trades false alarms against missed findings, or time.
//! The data on which they were set is unknown.

/// How many pairs are in a finding's words and lines.
pub(crate) const MAX_PAIRS_SHOWN: usize = 4;

/// A peer with at least this many messages from a rank is a usual peer.
pub(crate) const MIN_CALLS_OF_USUAL_PEER: u64 = 3;

/// Calls read after a difference, to find out what became of the missing call.
pub(crate) const CALLS_READ_PAST_DIFFERENCE: u64 = 16;

/// How many of its kind are asked of a communicator.
pub(crate) const MAX_SIMILAR_COMMS_ASKED: usize = 3;

/// Communicators of more ranks have a majority, if any has.
pub(crate) const MAX_RANKS_WITHOUT_MAJORITY: usize = 4;

/// At most this many differing communicators are compared with others: the rest are consequences.
pub(crate) const MAX_COMMS_TO_ASK_FOR: usize = 16;

/// Without known steps, this many others must have come to the same call: fewer may by chance.
pub(crate) const MIN_OTHERS_AT_SAME_CALL: usize = 5;

/// This many calls of the one must be known to show its habits.
pub(crate) const MIN_CALLS_OF_LONE_RANK: usize = 16;

/// This many of its steps must be known to show its habits.
pub(crate) const MIN_STEPS_OF_LONE_RANK: usize = 3;

/// A rank this many calls behind is far behind.
pub(crate) const MIN_CALLS_FAR_BEHIND: u64 = 4;

/// This many others do not come to one and the same call by chance.
pub(crate) const MIN_OTHERS_TOGETHER: usize = 5;

/// No rank ends this many more steps without one that stopped: if more step lines follow, the lines
/// of that rank are late.
pub(crate) const MAX_STEPS_AFTER_LAST_CALL: usize = 6;

/// A rank must have made each of the calls that it lacks this many times before: a log that ends in the first steps
/// does not show how far behind its ranks may be.
pub(crate) const MIN_CALLS_TO_JUDGE_LAG: u64 = 4;

/// This many ranks do not come to one of two places by chance.
pub(crate) const MIN_RANKS_AT_ONE_PLACE: usize = 4;

/// Nor does a job of fewer ranks.
pub(crate) const MIN_RANKS_OF_UNEVEN_JOB: usize = 6;

/// If the order of lines is unknown, this many must be at one place, and fewer at the other.
pub(crate) const MIN_RANKS_WITHOUT_ORDER: usize = 5;

/// Ranks that are behind must have kept pace for this many times the calls that they lack.
pub(crate) const KEPT_PACE_FACTOR: u64 = 4;

/// Calls that repeat sooner are of one layer, not of a step.
pub(crate) const MIN_CALLS_OF_STEP: usize = 4;
