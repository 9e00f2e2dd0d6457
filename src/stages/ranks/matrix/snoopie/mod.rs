//! Snoopie's accesses: who loads from and stores to whose memory, by instruction, line of the program, data
//! object and place of launch.
//!
//! | | |
//! |---|---|
//! | `runs` | the files of each process, read together |
//! | `unzip` | the files of a run in one archive |
//! | `fold` | accesses counted by what tells them apart |
//! | `ranges` | whose memory an address is |
//! | [`views`] | the tables |
//! | [`annotated`] | the program's source with what each line accesses |

pub mod annotated;
mod fold;
mod ranges;
mod runs;
#[cfg(test)]
mod tests;
mod unzip;
pub mod views;

pub use runs::{Runs, is_snoopie};

use super::cells::{Basis, Matrix, Sum};
use super::ends::{End, Name};
use crate::report::{Report, counted};
use fold::Device;

/// What the rows of a table are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
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
pub fn add(matrix: &mut Matrix, runs: &Runs, report: &Report) {
    let mut elsewhere = 0_u64;
    for (place, run) in &runs.by {
        let process = Name::of(runs.label(place).as_bytes());
        for (key, cell) in run.fold.cells() {
            let (from, to) = key.way();
            let (Device::Gpu(from), Device::Gpu(to)) = (from, to) else {
                elsewhere = elsewhere.saturating_add(cell.accesses);
                continue;
            };
            let mut end = |gpu| matrix.end(End::Gpu(process.clone(), gpu), &Name::of(b""));
            let between = (end(from), end(to));
            let known = cell.accesses - cell.unsized_;
            let bytes = runs.scaled(cell.bytes, key.kind);
            matrix.add(
                None,
                between,
                Basis::Accessed,
                Sum::of(runs.scaled(known, key.kind), Some(bytes)),
            );
            let unknown = runs.scaled(cell.unsized_, key.kind);
            matrix.add(None, between, Basis::Accessed, Sum::of(unknown, None));
        }
    }
    if elsewhere > 0 {
        report.note(&format!(
            "{} to memory of the host, or to memory whose owner is not known: the matrix of GPUs is without \
             them, and --by op has them",
            counted(elsewhere, "row")
        ));
    }
}
