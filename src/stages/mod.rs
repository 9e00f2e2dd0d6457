//! One file a stage. Each has `Options` (plain, no clap), reads inputs and gives rows or bytes;
//! none knows of argv, standard output or exit codes.
//!
//! nccl-ops, nccl-hist and nccl-agg share one fold, [`crate::count::calls::count`], and differ in what
//! they make of it.

pub mod agg;
pub mod check;
pub mod comms;
pub mod communicators;
pub mod diff;
pub mod hist;
pub mod net;
pub mod ops;
#[cfg(test)]
mod pieces;
pub mod steps;
pub mod survey;
pub mod timing;
pub mod tuning;

use crate::count::groups::By;

/// The names of the group columns of `by`, in order.
fn group_columns(by: &[By]) -> Vec<String> {
    by.iter()
        .flat_map(|b| b.columns())
        .map(|c| (*c).to_owned())
        .collect()
}
