//! What is written: the call table, rows as CSV, JSON lines or a drawn table, text safe for a terminal.

pub mod chrome;
pub mod render;
pub mod table;
pub mod written;
