//! The edge that programs share: arguments, exit codes, man pages, progress.

pub mod cli;
mod closed_stdout;
pub mod exit;
pub mod live_rows;
pub(crate) mod man;
pub mod on_stall;
pub mod output_file;
pub mod ras_printer;
pub mod screen;
pub mod watch_screen;
