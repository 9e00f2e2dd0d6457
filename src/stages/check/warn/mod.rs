//! NCCL's own reports: its WARN lines by their first cause.

mod comparable_stamps;
pub(crate) mod known_warns;
mod limits;
pub(crate) mod nccl_error;
mod normalise;
pub(crate) mod returned_errors;
#[cfg(test)]
mod tests;
pub(crate) mod triage;
mod warn_order;
mod warning_lines;
pub(crate) mod warnings;
