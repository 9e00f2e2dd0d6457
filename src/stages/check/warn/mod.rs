//! NCCL's own reports: its WARN lines by their first cause, and its settings.

mod comparable_stamps;
pub(crate) mod known_warns;
mod limits;
mod normalise;
mod setting_effects;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod triage;
mod warn_order;
pub(crate) mod warnings;
