//! The order of rows: that of the lines, or step by step.
//!
//! One rank prints the line that ends a step. Others may have begun the next step before that line, or make
//! their last calls of this one after it. In the order of the lines a row of a pipe waits for the step of every
//! call before it, which may be known a whole step later. Step by step the rows of each stretch of a log (a
//! step, or the part between two) are, each in the order of their lines:
//!
//! 1. those of calls that were made in a stretch before, but printed in this one;
//! 2. those of calls that were made in this one, and printed in it or before it.
//!
//! A row moves by fewer than [`MAX_ROW_MOVE_CALLS`] calls, so that few calls wait, in a file as in a pipe: a
//! call printed further ahead of its step has its row among the calls that came that much later, and one
//! printed further after it has its row by its line. If no row may move, the rows have the order of the lines.
//!
//! [`WholeLogOrder`] knows where all calls were made, [`LiveRowOrder`] learns it.

mod early_lines;
mod live_order;
mod whole_order;

#[cfg(test)]
mod tests;

use super::limits::MAX_ROW_MOVE_CALLS;
pub(super) use live_order::{
    CallGap, ChunkCall, ChunkQueue, KnownPlaces, LiveRowOrder, OrderedChunk,
};
pub(super) use whole_order::{ChunkRun, WholeLogOrder};

/// Which row comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommsRowOrder {
    /// That of the first line.
    #[default]
    Line,
    /// That of the first step.
    Step,
}

impl CommsRowOrder {
    /// A row moves by fewer calls.
    pub(super) fn max_row_move(self) -> u64 {
        match self {
            CommsRowOrder::Line => 1,
            CommsRowOrder::Step => MAX_ROW_MOVE_CALLS,
        }
    }
}
