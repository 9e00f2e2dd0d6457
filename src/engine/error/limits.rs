//! The limits of messages.

/// Names, or ranges of numbers, that a sentence gives before it only counts them.
pub(super) const MAX_NAMES_IN_SENTENCE: usize = 12;
