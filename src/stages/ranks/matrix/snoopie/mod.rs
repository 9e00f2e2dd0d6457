//! Snoopie's accesses between GPUs, by instruction, line of the program, data object and place of launch.
//!
//! | | |
//! |---|---|
//! | `runs` | the files of each process, read together |
//! | `unzip` | the files of a run in one archive |
//! | `fold` | accesses counted by their keys |
//! | `ranges` | the owner of an address |
//! | [`views`] | the tables |
//! | [`annotated`] | the program's source with the accesses of each line |

pub mod annotated;
mod fold;
mod ranges;
mod runs;
#[cfg(test)]
mod tests;
mod unzip;
pub mod views;

pub use runs::{SnoopieReadOptions, SnoopieRuns, is_packed_run, split_snoopie_files};

use super::cells::{TrafficBasis, TrafficMatrix, TrafficSum};
use super::endpoints::{Endpoint, HostLabel};
use crate::report::{Report, count_phrase};
use fold::MemoryOwner;

/// The subject of a table's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessGrouping {
    /// Instructions and functions that copy.
    Op,
    /// Data objects.
    Object,
    /// Lines of the program.
    Line,
    /// Call stacks of launches.
    Context,
}

/// Adds the accesses between GPUs; those to a host's memory are counted, and reported.
pub fn add_accesses(matrix: &mut TrafficMatrix, runs: &SnoopieRuns, report: &Report) {
    let mut elsewhere = 0_u64;
    for (place, run) in &runs.by {
        let process = HostLabel::from_host(runs.label_run(place).as_bytes());
        for (key, cell) in run.fold.iter_cells() {
            let (from, to) = key.data_direction();
            let (MemoryOwner::Gpu(from), MemoryOwner::Gpu(to)) = (from, to) else {
                elsewhere = elsewhere.saturating_add(cell.accesses);
                continue;
            };
            let mut end = |gpu| {
                matrix.intern_endpoint(
                    Endpoint::Gpu(process.clone(), gpu),
                    &HostLabel::from_host(b""),
                )
            };
            let (from, to) = (end(from), end(to));
            let known = cell.accesses - cell.unsized_;
            let bytes = runs.scale_sampled(cell.bytes, key.kind);
            matrix.add_to_cell(
                None,
                from,
                to,
                TrafficBasis::Accessed,
                TrafficSum::from_calls(runs.scale_sampled(known, key.kind), Some(bytes)),
            );
            let unknown = runs.scale_sampled(cell.unsized_, key.kind);
            matrix.add_to_cell(
                None,
                from,
                to,
                TrafficBasis::Accessed,
                TrafficSum::from_calls(unknown, None),
            );
        }
    }
    if elsewhere > 0 {
        report.note(&format!(
            "{} to memory of the host, or to memory whose owner is not known: the matrix of GPUs is without \
             them, and --by op has them",
            count_phrase(elsewhere, "row")
        ));
    }
}
