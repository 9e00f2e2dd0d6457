//! The steps of a job in their order.

use super::limits::{MIN_STEPS_TO_COMPARE, OUTLIER_MEDIAN_RATIO};
use crate::count::spread::ValueSpread;
use crate::log::timeline::TrainStep;

/// The steps of nccl-timing, with the spread of their values.
#[derive(Debug, Default, Clone)]
pub struct StepSeries {
    /// The steps in the order of their lines.
    pub list: Vec<TrainStep>,
    /// The spread of their seconds.
    pub times: Option<ValueSpread>,
    /// The spread of TFLOP/s per GPU.
    pub tflops: Option<ValueSpread>,
}

/// A step that took much longer than the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepOutlier {
    /// Its place in [`StepSeries::list`].
    pub at: usize,
    /// The trainer's number.
    pub step: u64,
    /// Its seconds.
    pub time_s: f64,
}

impl StepSeries {
    /// Computes the spreads.
    pub fn from_steps(list: Vec<TrainStep>) -> StepSeries {
        let spread = |value: fn(&TrainStep) -> Option<f64>| {
            ValueSpread::from_values(list.iter().filter_map(value).collect())
        };
        StepSeries {
            times: spread(|step| step.time_s),
            tflops: spread(|step| step.tflops),
            list,
        }
    }

    /// Finds the steps that took 1.5 times the median or more, the longest first.
    pub fn find_outliers(&self) -> Vec<StepOutlier> {
        let Some(times) = self
            .times
            .as_ref()
            .filter(|times| times.n > MIN_STEPS_TO_COMPARE)
        else {
            return Vec::new();
        };
        let steps = self.list.iter().enumerate();
        let mut all: Vec<StepOutlier> = steps
            .filter_map(|(at, step)| {
                let time_s = step.time_s?;
                let step = step.step;
                (time_s >= OUTLIER_MEDIAN_RATIO * times.p50 && time_s > 0.0)
                    .then_some(StepOutlier { at, step, time_s })
            })
            .collect();
        all.sort_by(|a, b| b.time_s.total_cmp(&a.time_s).then(a.at.cmp(&b.at)));
        all
    }

    /// Returns the first and last step.
    pub fn step_range(&self) -> Option<(u64, u64)> {
        let steps = || self.list.iter().map(|step| step.step);
        Some((steps().min()?, steps().max()?))
    }

    /// Draws the seconds of the steps in at most `width` characters; each is the longest of its steps.
    pub fn sparkline(&self, width: usize) -> String {
        let times: Vec<f64> = self.list.iter().filter_map(|step| step.time_s).collect();
        render_sparkline(&times, width)
    }
}

/// Draws values as block characters from 0 to the largest; each shows the largest of its values.
pub(crate) fn render_sparkline(values: &[f64], width: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 || width == 0 {
        return String::new();
    }
    let each = values.len().div_ceil(width).max(1);
    let of = |those: &[f64]| {
        let value = those.iter().copied().fold(0.0, f64::max);
        let level = (value / most * 7.0).round().clamp(0.0, 7.0);
        BLOCKS[level as usize]
    };
    values.chunks(each).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(times: &[f64]) -> StepSeries {
        let step = |(step, time_s): (u64, &f64)| TrainStep {
            segment: 0,
            step,
            steps: 1,
            mark: 0,
            time_s: Some(*time_s),
            tflops: None,
        };
        StepSeries::from_steps((10..).zip(times).map(step).collect())
    }

    #[test]
    fn what_took_much_longer_is_an_outlier() {
        let of = |times: &[f64]| steps(times).find_outliers();
        let found = of(&[1.0, 1.0, 1.6, 1.0, 1.0, 3.0, 1.4]);
        let found: Vec<_> = found.iter().map(|o| (o.step, o.time_s)).collect();
        assert_eq!(found, [(15, 3.0), (12, 1.6)]);
        // Too few to tell, and nothing to compare with.
        assert!(of(&[1.0, 9.0]).is_empty() && of(&[0.0; 9]).is_empty());
    }

    #[test]
    fn a_line_shows_the_longest_of_each_part() {
        assert_eq!(steps(&[1.0, 1.0, 8.0, 4.0]).sparkline(2), "▂█");
        assert_eq!(steps(&[1.0, 8.0]).sparkline(60), "▂█");
        assert_eq!(steps(&[]).sparkline(9), "");
        assert_eq!(render_sparkline(&[0.0, f64::NAN], 9), "");
    }
}
