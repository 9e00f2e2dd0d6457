//! What every recogniser shares: a piece of a line, the prefix of a record, numbers as they are printed.

pub(super) mod number;
pub(super) mod piece;
pub(super) mod prefix;
