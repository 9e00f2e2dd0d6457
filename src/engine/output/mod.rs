//! Output: the call table, rows as CSV, JSON lines, Parquet or a drawn table, text safe for a terminal.

pub mod chrome;
mod csv_records;
pub mod drawing;
mod limits;
pub mod live_rows;
pub mod metrics;
pub mod parquet;
pub mod render;
pub mod reshape;
pub mod svg;
pub mod table;
pub mod write_digest;
