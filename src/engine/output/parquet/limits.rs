//! The limits of a Parquet file, which trade memory for its size.

/// Rows of a group. A reader leaves out a group by the least and greatest value of a column, and a dictionary is
/// written once in each: with fewer rows the file is larger. What waits takes about 70 bytes a row.
pub(super) const ROWS_PER_GROUP: usize = if cfg!(test) { 100 } else { 1 << 20 };

/// Bytes of different values in a group, after which it is written with fewer rows: where each call has values
/// of its own, as durations, or where texts are long.
pub(super) const GROUP_BYTES: usize = if cfg!(test) { 1 << 16 } else { 64 << 20 };

/// Bytes of a page without a dictionary: all of a group's column. Where pages end early, zstd does not see that a
/// rank's calls are those of the rank before (64 rank files: 4.4 bytes a call instead of 2.7).
pub(super) const PAGE_BYTES: usize = 64 << 20;

/// The level of zstd. Level 1 takes 4 to 9 % more bytes.
pub(super) const ZSTD_LEVEL: i32 = 3;

/// Different numbers of a column in a group, beyond which they are written as differences and not by a
/// dictionary; and one for this many values at least.
pub(super) const DICTIONARY_NUMBERS: usize = 1 << 14;
pub(super) const VALUES_PER_NUMBER: usize = 8;

/// Numbers that are packed together in few bits, as the format has it.
pub(super) const NUMBERS_PER_BLOCK: usize = 8;

/// The index of a row without a value.
pub(super) const NO_VALUE: u32 = u32::MAX;

/// The version of the columns, among the file's own facts: new columns come at the end and do not change it.
pub(super) const SCHEMA_VERSION: [&str; 2] = ["nccl.schema", "1"];

/// Longer texts are not kept as the least or greatest value of a group.
pub(super) const BOUND_BYTES: usize = 64;
