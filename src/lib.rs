//! nccl-pipe: programs for the logs NCCL leaves behind.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod account;
pub mod calls;
pub mod cli;
pub mod error;
pub mod exit;
pub mod fold;
pub mod formats;
pub mod grammar;
pub mod join;
pub mod origin;
pub mod progress;
pub mod records;
pub mod render;
pub mod report;
pub mod scan;
pub mod source;
pub mod stages;
pub mod synth;
pub mod table;
pub mod tally;
pub mod timeline;
