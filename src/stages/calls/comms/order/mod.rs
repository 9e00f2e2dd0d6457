//! The order of rows: that of the lines, or step by step.
//!
//! One rank prints the line that ends a step. Others may have begun the next step before that line, or make
//! their last calls of this one after it. In the order of the lines a row of a pipe waits for the step
//! of every call before it, which may be known a whole step later. Step by step the rows of each stretch of a log
//! (a step, or what is between two) are, each in the order of their lines:
//!
//! 1. those of calls that were made in a stretch before, but whose lines are in this one;
//! 2. those of calls that were made in this one, whose lines are in it or before it.
//!
//! No row moves by more than [`REACH`] calls, so that what waits is bounded, in a file as in a pipe: a call that is
//! further ahead of its step has its row where the calls are that came so much later, and one that is further behind
//! has it among those around its line. Who moves by no call has the order of the lines.
//!
//! [`Whole`] knows where all calls were made, [`Growing`] learns it.

mod early_lines;
mod live_order;
mod whole_order;

#[cfg(test)]
mod tests;

pub(super) use live_order::{
    CallGap, ChunkCall, ChunkQueue, KnownPlaces, LiveRowOrder, OrderedChunk,
};
pub(super) use whole_order::{ChunkRun, WholeLogOrder};

/// So many calls a row moves less than: about two steps of 1,024 ranks.
const MAX_ROW_MOVE_CALLS: u64 = 1 << 18;

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
    /// So many calls a row moves less than.
    pub(super) fn max_row_move(self) -> u64 {
        match self {
            CommsRowOrder::Line => 1,
            CommsRowOrder::Step => MAX_ROW_MOVE_CALLS,
        }
    }
}
