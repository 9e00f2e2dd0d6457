//! The limits of stacks: a process of PyTorch has some hundred threads, each with some dozen frames.

/// Bytes of the longest input that is read.
pub(super) const MAX_STACKS_BYTES: usize = 256 << 20;

/// Frames of a thread that are kept: a recursion without an end has any number.
pub(super) const MAX_FRAMES: usize = 512;

/// Lines in which the first line of a tool is looked for: a loop may print the rank or the time before it, a person
/// labels.
pub(super) const MAX_LINES_BEFORE_HEADER: usize = 8;

/// Bytes of a line that names the rank of the stacks after it.
pub(super) const MAX_RANK_LINE_BYTES: usize = 64;

/// Digits of a rank.
pub(super) const MAX_RANK_DIGITS: usize = 7;

/// Processes that a label before a stack may count: a job has some thousand.
pub(super) const MAX_COUNTED_PROCESSES: u32 = 1 << 14;
