//! The limits of reports: how much is shown before the rest is only counted.

/// Names that a message lists.
pub(super) const MAX_LISTED_NAMES: usize = 5;

/// Places of damage that are kept.
pub const MAX_DAMAGE_PLACES: usize = 5;

/// Bytes of a damaged line that are kept for `-v`.
pub(super) const MAX_DAMAGE_TEXT_BYTES: usize = 120;

/// Columns at the right that a bar leaves free. What a terminal prints for a key, such as `^C`, stays on the bar's line
/// there, and is cleared with it.
pub(super) const FREE_COLUMNS_OF_BAR: u16 = 4;
