//! Thresholds of this room.

/// Sizes that are held, at 24 bytes each: 100 MB. Later calls are not compared, and a note reports it.
pub(super) const MAX_SIZES_HELD: usize = 1 << 22;

/// Operations of the proxy thread that are kept. The finding names the first and counts the others.
pub(super) const MAX_OPEN_PROXY_OPS: usize = 1000;

/// Parts of a list in a sentence, which stays readable. A communicator of the whole job has few operations.
pub(super) const MAX_PARTS_LISTED: usize = 6;
