//! The limits of filters.

/// Values of a column that are remembered for a message: it shows a dozen. A log may have millions of time
/// stamps.
pub(super) const MAX_VALUES_REMEMBERED: usize = 256;
