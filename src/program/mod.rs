//! What the programs share at their edge: arguments, exit codes, man pages, progress.

pub mod cli;
pub mod early;
pub mod exit;
mod file;
pub(crate) mod man;
pub mod on_stall;
pub mod screen;
