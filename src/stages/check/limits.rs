//! The limits that all rooms of the check share.

/// Bytes of a line that are shown.
pub(crate) const MAX_EVIDENCE_LINE_BYTES: usize = 300;

/// Bytes read at a time.
pub(crate) const EVIDENCE_READ_BYTES: usize = 1 << 20;

/// Sizes that are held, at 24 bytes each: 100 MB. Later calls are not compared, and a note reports it.
pub(crate) const MAX_SIZES_HELD: usize = 1 << 22;

/// Operations of the proxy thread that are kept. The finding names the first and counts the others.
pub(crate) const MAX_OPEN_PROXY_OPS: usize = 1000;

/// How many bytes of a line are kept.
pub(crate) const MAX_LINE_TEXT_BYTES: usize = 300;

/// How many hosts, peers or kinds a sentence names.
pub(crate) const MAX_NAMES_LISTED: usize = 4;

/// Parts of a list in a sentence, which stays readable.
pub(crate) const MAX_PARTS_LISTED: usize = 6;

/// How many errors or warnings of one kind a report shows in full: more fill a screen.
pub(crate) const MAX_FULL_FINDINGS_OF_A_KIND: usize = 3;

/// Lines of a log without calls whose foreign lines may have stacks of processes: what a person writes about a job.
pub(crate) const MAX_LINES_WITH_STACKS: u64 = 10_000;

/// Bytes at the beginning of a line in which its time of day is looked for: labels of launchers may be in front of it.
pub(crate) const MAX_STAMP_PREFIX_BYTES: usize = 120;
