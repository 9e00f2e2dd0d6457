//! The house that every format of nccl-pipe shares: inputs are opened, recognised and read into calls,
//! calls are counted, and rows are written as tables.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub use nccl_pipe_grammar as grammar;

pub mod by_number;
pub mod calls;
pub mod count;
pub mod error;
pub mod filter;
pub mod formats;
pub mod log;
pub mod members;
pub mod output;
pub mod pool;
pub mod report;
#[cfg(test)]
#[path = "../../tests/it/shared.rs"]
mod shared;
pub mod source;
#[cfg(test)]
mod testing;
