//! Pictures of the stages' tables, for `--svg` and for nccl-report's page.
//!
//! | | |
//! |---|---|
//! | `steps` | the time of each step (nccl-timing) |
//! | `sizes` | calls by operation and size (nccl-hist) |
//! | `operations` | bytes, or time, by operation (nccl-ops) |
//! | `skew` | how late each rank comes (nccl-skew) |
//! | `overlap` | what each GPU did (nccl-overlap) |
//! | `limits` | how much a picture shows |

mod limits;
mod operations;
mod overlap;
mod sizes;
mod skew;
mod steps;

pub(crate) use limits::MAX_PICTURE_ROWS;
pub(crate) use operations::operations_plot;
pub(crate) use overlap::overlap_plot;
pub(crate) use sizes::sizes_plot;
pub(crate) use skew::skew_plot;
pub(crate) use steps::{step_axis, times_plot};

use crate::log::timeline::TrainStep;
use crate::output::render::Grid;
use crate::output::svg::draw_picture;
use crate::output::svg::plot::Plot;
use steps::StepSeries;

/// The classes of the colours.
pub(crate) const COLOUR_CLASSES: [&str; 7] = ["c1", "c2", "c3", "c4", "c5", "c6", "c7"];

/// Returns a class for each kind of communicators by its purpose: the same one on each picture. Further kinds of a
/// purpose, and those of unknown purpose, get classes that are left; the last ones get none of their own.
pub(crate) fn colour_purposes(labels: &[&str]) -> Vec<&'static str> {
    const PURPOSES: [&str; 7] = [
        "data",
        "tensor",
        "pipeline",
        "world",
        "expert",
        "context",
        "embedding",
    ];
    let own = |label: &str| PURPOSES.iter().position(|purpose| *purpose == label);
    let mut free: Vec<bool> = PURPOSES.map(|purpose| !labels.contains(&purpose)).into();
    let mut seen = Vec::new();
    let mut classes = Vec::new();
    for label in labels {
        let place = own(label).filter(|_| !seen.contains(label));
        let place = place.or_else(|| {
            let at = free.iter().position(|&is_free| is_free)?;
            free[at] = false;
            Some(at)
        });
        seen.push(label);
        classes.push(place.map_or("c0", |at| COLOUR_CLASSES[at]));
    }
    classes
}

/// Tables that can be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PictureTable {
    /// nccl-hist's.
    Sizes,
    /// nccl-ops'.
    Operations,
    /// nccl-skew's.
    Skew,
    /// nccl-overlap's.
    Overlap,
}

/// Draws a table as a file of its own; `None` if the table has nothing to draw.
pub fn draw_table(table: PictureTable, grid: &Grid) -> Option<String> {
    let plot = match table {
        PictureTable::Sizes => sizes_plot(grid),
        PictureTable::Operations => operations_plot(grid),
        PictureTable::Skew => skew_plot(grid),
        PictureTable::Overlap => overlap_plot(grid),
    };
    Some(draw_picture(&[], &[plot?]))
}

/// Draws the times of steps, and TFLOP/s per GPU if known, as a file of its own.
pub fn draw_steps(steps: &[TrainStep]) -> Option<String> {
    let steps = StepSeries::from_steps(steps.to_vec());
    let none = |_: usize| None;
    let plots: Vec<Plot> = [times_plot(&steps, &none), steps::tflops_plot(&steps)]
        .into_iter()
        .flatten()
        .collect();
    (!plots.is_empty()).then(|| draw_picture(&[], &plots))
}
