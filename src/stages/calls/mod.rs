//! Which calls there are: as rows, and counted by operation, by size and as distinct calls.

pub mod agg;
pub mod comms;
pub mod hist;
pub mod ops;
pub mod timed;
