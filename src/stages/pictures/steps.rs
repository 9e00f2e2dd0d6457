//! The time of each step.

use crate::output::render::units::seconds_text;
use crate::output::svg::plot::{Plot, PlotMark, draw_columns};
pub(super) use crate::stages::page::series::StepSeries;
use std::collections::BTreeSet;

/// Draws the time of each step; `link` gives the target of a long step.
pub(crate) fn times_plot(
    steps: &StepSeries,
    link: &dyn Fn(usize) -> Option<String>,
) -> Option<Plot> {
    let long: BTreeSet<usize> = steps.find_outliers().iter().map(|o| o.at).collect();
    let marks = steps.list.iter().enumerate().filter_map(|(at, step)| {
        let time_s = step.time_s?;
        Some(PlotMark {
            value: time_s,
            title: format!("step {}: {}", step.step, seconds_text(time_s)),
            class: if long.contains(&at) { "bad" } else { "c1" },
            link: long.contains(&at).then(|| link(at)).flatten(),
            ..PlotMark::default()
        })
    });
    let marks: Vec<PlotMark> = marks.collect();
    let (first, last) = steps.step_range()?;
    let name = format!("Time of steps {first} to {last}; long ones in another colour");
    draw_columns(&name, &marks, seconds_text, end_labels(first, last))
}

/// Draws TFLOP/s per GPU of each step.
pub(super) fn tflops_plot(steps: &StepSeries) -> Option<Plot> {
    let marks = steps.list.iter().filter_map(|step| {
        let tflops = step.tflops?;
        Some(PlotMark {
            value: tflops,
            title: format!("step {}: {tflops} TFLOP/s per GPU", step.step),
            class: "c2",
            ..PlotMark::default()
        })
    });
    let marks: Vec<PlotMark> = marks.collect();
    let (first, last) = steps.step_range()?;
    let words = |tflops: f64| format!("{tflops:.1}");
    draw_columns("TFLOP/s per GPU", &marks, words, end_labels(first, last))
}

/// Returns the labels below the first and the last step.
pub(crate) fn end_labels(first: u64, last: u64) -> (String, String) {
    (format!("step {first}"), format!("step {last}"))
}
