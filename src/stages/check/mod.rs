//! nccl-check: what is wrong with a job, by its log; with evidence, and with what the log cannot
//! tell.

pub mod finding;
