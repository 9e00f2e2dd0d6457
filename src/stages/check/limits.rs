//! The limits that all rooms of the check share.

/// Bytes of a line that are shown.
pub(crate) const MAX_EVIDENCE_LINE_BYTES: usize = 300;

/// Bytes read at a time.
pub(crate) const EVIDENCE_READ_BYTES: usize = 1 << 20;

/// Sizes that are held: 24 bytes each.
pub(crate) const MAX_SIZES_HELD: usize = 1 << 22;

/// How many of these are kept.
pub(crate) const MAX_OPEN_PROXY_OPS: usize = 1000;

/// How many bytes of a line are kept.
pub(crate) const MAX_LINE_TEXT_BYTES: usize = 300;

/// How many hosts, peers or kinds a sentence names.
pub(crate) const MAX_NAMES_LISTED: usize = 4;
