//! The longest inputs of slow targets. The fuzzer keeps long seeds that reach something new, and a corpus of them takes seconds for
//! each run, so that a night is a few thousand runs: of longer inputs nothing is read.

/// Bytes of text that is read many times, as cut at each of its line ends.
pub const MAX_TEXT_BYTES: usize = 4 << 10;

/// Bytes that are each a line or a change of a log, which is then read in several ways.
pub const MAX_DRAWN_BYTES: usize = 1 << 10;
