//! The time of each step.

use crate::output::render::units::seconds;
use crate::output::svg::plot::{Mark, Plot, columns};
pub(super) use crate::stages::page::series::Steps;
use std::collections::BTreeSet;

/// The time of each step; `link` names where a long one leads.
pub(crate) fn times(steps: &Steps, link: &dyn Fn(usize) -> Option<String>) -> Option<Plot> {
    let long: BTreeSet<usize> = steps.outliers().iter().map(|o| o.at).collect();
    let marks = steps.list.iter().enumerate().filter_map(|(at, step)| {
        let time_s = step.time_s?;
        Some(Mark {
            value: time_s,
            title: format!("step {}: {}", step.step, seconds(time_s)),
            class: if long.contains(&at) { "bad" } else { "c1" },
            link: long.contains(&at).then(|| link(at)).flatten(),
            ..Mark::default()
        })
    });
    let marks: Vec<Mark> = marks.collect();
    let (first, last) = steps.range()?;
    let name = format!("Time of steps {first} to {last}; long ones in another colour");
    columns(&name, &marks, seconds, ends(first, last))
}

/// TFLOP/s per GPU of each step.
pub(super) fn tflops(steps: &Steps) -> Option<Plot> {
    let marks = steps.list.iter().filter_map(|step| {
        let tflops = step.tflops?;
        Some(Mark {
            value: tflops,
            title: format!("step {}: {tflops} TFLOP/s per GPU", step.step),
            class: "c2",
            ..Mark::default()
        })
    });
    let marks: Vec<Mark> = marks.collect();
    let (first, last) = steps.range()?;
    let words = |tflops: f64| format!("{tflops:.1}");
    columns("TFLOP/s per GPU", &marks, words, ends(first, last))
}

/// What is under the first and the last step.
pub(crate) fn ends(first: u64, last: u64) -> (String, String) {
    (format!("step {first}"), format!("step {last}"))
}
