//! The limits of messages.

/// Names, or ranges of numbers, that a sentence gives before it only counts them.
pub(super) const MAX_NAMES_IN_SENTENCE: usize = 12;

/// How much of a wrong name must agree with the name that it may have meant: a swapped letter in six, a
/// wrong ending of a longer one.
pub(super) const MIN_NAME_LIKENESS: f64 = 0.7;

/// Entries of a folder that are compared with a wrong name.
pub(super) const MAX_NEARBY_ENTRIES: usize = 100_000;
