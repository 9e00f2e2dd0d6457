//! What NCCL itself reports: its WARN lines by their first cause, and its settings.

mod came_first;
mod comparable_stamps;
pub(crate) mod known;
mod normalise;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod triage;
pub(crate) mod warnings;
