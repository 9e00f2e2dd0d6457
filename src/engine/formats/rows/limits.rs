//! The limits of rows: how much is read together, and the largest record.

use crate::output::table::COLUMNS;

/// Bytes that one worker reads together.
pub(super) const RECORD_CHUNK_BYTES: usize = 1 << 20;

/// Bytes of the longest record that is read: programs write a few hundred, and a quote that is never
/// closed must not fill the memory.
pub(super) const MAX_RECORD_BYTES: usize = 1 << 20;

/// Fields of a line that is cut at its commas, with room for two columns that the call table does not
/// have; lines with more are left to the csv crate.
pub(super) const MAX_PLAIN_FIELDS: usize = COLUMNS.len() + 2;

/// Rows that a stage takes together.
pub(super) const ROWS_PER_BATCH: u64 = 8192;
