//! NCCL's own reports: its WARN lines by their first cause.

mod comparable_stamps;
pub(crate) mod known_warns;
mod limits;
mod normalise;
#[cfg(test)]
mod tests;
pub(crate) mod triage;
mod warn_order;
pub(crate) mod warnings;
