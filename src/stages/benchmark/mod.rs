//! The tables of nccl-tests that are in a log, beside NCCL's lines or alone.
//!
//! | | |
//! |---|---|
//! | [`fold`] | what a chunk keeps: the lines of nccl-tests, since a table may begin in another chunk |
//! | [`tables`] | tables and rows, made of these lines in their order |

pub(crate) mod fold;
mod limits;
pub(crate) mod tables;

pub(crate) use fold::BenchmarkPartial;
pub(crate) use tables::{BenchmarkRow, BenchmarkTable, BenchmarkTables};

/// The two ways in which a row's operation is measured, in the order of the columns.
pub(crate) const PLACEMENTS: [&str; 2] = ["out of place", "in place"];

/// Formats a size in the largest unit that divides it: `8 B`, `64 KiB`, `8 GiB`.
pub(crate) fn format_whole_size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units
        .iter()
        .find(|(bits, _)| bytes > 0 && bytes.trailing_zeros() >= *bits);
    match unit {
        Some((bits, name)) => format!("{} {name}", bytes >> bits),
        None => format!("{bytes} B"),
    }
}
