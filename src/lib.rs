//! nccl-pipe: programs for the logs NCCL leaves behind.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod error;
pub mod exit;
pub mod grammar;
pub mod report;
pub mod synth;
