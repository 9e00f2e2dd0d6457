//! Pictures of the stages' tables, for `--svg` and for nccl-report's page.
//!
//! | | |
//! |---|---|
//! | `steps` | the time of each step (nccl-timing) |
//! | `sizes` | calls by operation and size (nccl-hist) |
//! | `operations` | bytes, or time, by operation (nccl-ops) |
//! | `skew` | how late each rank comes (nccl-skew) |
//! | `overlap` | what each GPU did (nccl-overlap) |

mod operations;
mod overlap;
mod sizes;
mod skew;
mod steps;

pub(crate) use operations::operations;
pub(crate) use overlap::overlap;
pub(crate) use sizes::sizes;
pub(crate) use skew::skew;
pub(crate) use steps::{ends, times};

use crate::log::timeline::Step;
use crate::output::render::Grid;
use crate::output::svg::picture;
use crate::output::svg::plot::Plot;
use steps::Steps;

/// The classes of the colours.
pub(crate) const COLOURS: [&str; 6] = ["c1", "c2", "c3", "c4", "c5", "c6"];
/// A picture has no more rows.
pub(crate) const MOST: usize = 64;

/// Which table a picture is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// nccl-hist's.
    Sizes,
    /// nccl-ops'.
    Operations,
    /// nccl-skew's.
    Skew,
    /// nccl-overlap's.
    Overlap,
}

/// The picture of a table, as a file of its own; none where the table has nothing to draw.
pub fn of(table: Table, grid: &Grid) -> Option<String> {
    let plot = match table {
        Table::Sizes => sizes(grid),
        Table::Operations => operations(grid),
        Table::Skew => skew(grid),
        Table::Overlap => overlap(grid),
    };
    let notes: Vec<String> = left_out(grid.rows.len()).into_iter().collect();
    Some(picture(&notes, &[plot?]))
}

/// The picture of steps, as a file of its own: their times, and TFLOP/s per GPU where they are known.
pub fn of_steps(steps: &[Step]) -> Option<String> {
    let steps = Steps::of(steps.to_vec());
    let none = |_: usize| None;
    let plots: Vec<Plot> = [times(&steps, &none), steps::tflops(&steps)]
        .into_iter()
        .flatten()
        .collect();
    (!plots.is_empty()).then(|| picture(&[], &plots))
}

/// What a picture with fewer rows than its table has to tell.
fn left_out(rows: usize) -> Option<String> {
    let more = rows.checked_sub(MOST).filter(|&more| more > 0)?;
    let rows = crate::report::counted(more as u64, "row");
    Some(format!("{rows} of the table left out"))
}
