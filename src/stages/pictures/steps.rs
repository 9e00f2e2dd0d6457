//! The time of each step.

use crate::output::render::units::{seconds_text, short_number};
use crate::output::svg::columns::draw_columns;
use crate::output::svg::plot::{ColumnAxis, Plot, PlotMark};
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
        let is_long = long.contains(&at);
        // The first step of an attempt sets up communicators and compiles kernels.
        let before = at.checked_sub(1).and_then(|before| steps.list.get(before));
        let is_first = before.is_none_or(|before| before.segment != step.segment);
        let (class, text) = match (is_long, is_first) {
            (true, true) => ("c4", "warm-up"),
            (true, false) => ("bad", ""),
            (false, _) => ("c1", ""),
        };
        let words = format!("step {}: {} {text}", step.step, seconds_text(time_s));
        Some(PlotMark {
            value: time_s,
            title: words.trim_end().to_owned(),
            class,
            link: is_long.then(|| link(at)).flatten(),
            text: text.to_owned(),
            is_apart: is_long && is_first,
            ..PlotMark::default()
        })
    });
    let marks: Vec<PlotMark> = marks.collect();
    let (first, last) = steps.step_range()?;
    let mut name = format!("Time of steps {first} to {last}");
    for (class, words) in [
        ("c4", "; warm-up in purple"),
        ("bad", "; long steps in red"),
    ] {
        if marks.iter().any(|mark| mark.class == class) {
            name += words;
        }
    }
    let timed = steps.list.iter().filter(|step| step.time_s.is_some());
    let axis = step_axis(timed.map(|step| step.step));
    draw_columns(&name, &marks, seconds_text, &axis)
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
    let known = steps.list.iter().filter(|step| step.tflops.is_some());
    let axis = step_axis(known.map(|step| step.step));
    draw_columns("TFLOP/s per GPU", &marks, short_number, &axis)
}

/// Returns the axis of steps.
pub(crate) fn step_axis(steps: impl Iterator<Item = u64>) -> ColumnAxis {
    ColumnAxis {
        name: "step".to_owned(),
        labels: steps.map(|step| step.to_string()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::timeline::TrainStep;

    #[test]
    fn a_warm_up_is_marked_and_leaves_the_scale_to_the_others() {
        let step = |(step, time_s): (u64, f64)| TrainStep {
            segment: 0,
            step,
            steps: 1,
            mark: 0,
            time_s: Some(time_s),
            tflops: None,
        };
        let times = [9.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0];
        let steps = StepSeries::from_steps((0..).zip(times).map(step).collect());
        let plot = times_plot(&steps, &|_| None).unwrap();
        assert_eq!(
            plot.name(),
            "Time of steps 0 to 6; warm-up in purple; long steps in red"
        );
        let svg = plot.inline_svg();
        for text in [">2.000 s</text>", ">warm-up 9.000 s</text>"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        assert_eq!(svg.matches("class=\"bad\"").count(), 1, "{svg}");
    }
}
