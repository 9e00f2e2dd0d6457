//! What is written: the call table, rows as CSV, JSON lines or a drawn table, text safe for a terminal.

pub mod chrome;
pub mod drawing;
pub mod early;
pub mod metrics;
mod records;
pub mod render;
pub mod reshape;
pub mod svg;
pub mod table;
pub mod written;
