//! The limits of the machine's messages. A syslog may have any size; what explains a failure are few lines.

/// Lines in which a text of the kernel is recognised: syslog has lines of other programs too. A pipe of a log with stamps
/// of syslog's form waits for as many before its first row, unless one of them is NCCL's.
pub(super) const MAX_PROBED_LINES: usize = 16;

/// Bytes of a line that is read: the kernel's have 1,024, the journal's JSON some thousand more.
pub(super) const MAX_LINE_BYTES: u64 = 64 << 10;

/// Different messages that are kept, by what they report, device and process; more are counted only.
pub(super) const MAX_EVENTS: usize = 4096;

/// Bytes of a line that are kept.
pub(super) const MAX_TEXT_BYTES: usize = 512;
