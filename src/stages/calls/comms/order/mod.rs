//! The order of rows: step by step.
//!
//! One rank prints the line that ends a step. Others may have begun the next step before that line, or make
//! their last calls of this one after it. In the order of the lines a row would have to wait for the step
//! of every call before it, which may be known a whole step later. So the rows of each stretch of a log (a
//! step, or what is between two) are, each in the order of their lines:
//!
//! 1. those of calls that were made in a stretch before, but whose lines are in this one;
//! 2. those of calls that were made in this one, whose lines are in it or before it.
//!
//! No row moves by more than [`REACH`] calls: a call that is so far ahead of its step has its row where
//! the calls are that came [`REACH`] later, and one that comes after so many calls of its stretch has it among those.
//! So what waits is bounded, in a file as in a pipe ([`Whole`], [`Growing`]).

mod ahead;
mod growing;
mod whole;

#[cfg(test)]
mod tests;

pub(super) use growing::{Call, Calls, Chunk, Gap, Growing, Known};
pub(super) use whole::{Run, Whole};

/// So many calls a row moves at most: about two steps of 1,024 ranks.
pub(super) const REACH: u64 = 1 << 18;
