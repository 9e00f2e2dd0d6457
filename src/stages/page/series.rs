//! The steps of a job in their order.

use crate::count::spread::Spread;
use crate::log::timeline::Step;

/// The steps, as nccl-timing has them.
#[derive(Debug, Default, Clone)]
pub struct Steps {
    /// In the order of their lines.
    pub list: Vec<Step>,
    /// Of their seconds.
    pub times: Option<Spread>,
    /// Of TFLOP/s per GPU.
    pub tflops: Option<Spread>,
}

/// A step that took much longer than the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlier {
    /// Its place in [`Steps::list`].
    pub at: usize,
    /// The trainer's number.
    pub step: u64,
    /// Its seconds.
    pub time_s: f64,
}

/// A step is an outlier where it took so many times the median ...
const TIMES: f64 = 1.5;
/// ... and where there are so many others to compare it with.
const STEPS: usize = 5;

impl Steps {
    /// Of these steps.
    pub fn of(list: Vec<Step>) -> Steps {
        let spread =
            |value: fn(&Step) -> Option<f64>| Spread::of(list.iter().filter_map(value).collect());
        Steps {
            times: spread(|step| step.time_s),
            tflops: spread(|step| step.tflops),
            list,
        }
    }

    /// The steps that took 1.5 times the median or more, the longest first.
    pub fn outliers(&self) -> Vec<Outlier> {
        let Some(times) = self.times.as_ref().filter(|times| times.n > STEPS) else {
            return Vec::new();
        };
        let steps = self.list.iter().enumerate();
        let mut all: Vec<Outlier> = steps
            .filter_map(|(at, step)| {
                let time_s = step.time_s?;
                let step = step.step;
                (time_s >= TIMES * times.p50 && time_s > 0.0).then_some(Outlier {
                    at,
                    step,
                    time_s,
                })
            })
            .collect();
        all.sort_by(|a, b| b.time_s.total_cmp(&a.time_s).then(a.at.cmp(&b.at)));
        all
    }

    /// The first and last step.
    pub fn range(&self) -> Option<(u64, u64)> {
        let steps = || self.list.iter().map(|step| step.step);
        Some((steps().min()?, steps().max()?))
    }

    /// The seconds of the steps as at most `width` characters, each the longest of as many steps.
    pub fn sparkline(&self, width: usize) -> String {
        let times: Vec<f64> = self.list.iter().filter_map(|step| step.time_s).collect();
        sparkline(&times, width)
    }
}

/// Values from 0 to their largest as block characters: of several in one character the largest.
pub(crate) fn sparkline(values: &[f64], width: usize) -> String {
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

    fn steps(times: &[f64]) -> Steps {
        let step = |(step, time_s): (u64, &f64)| Step {
            segment: 0,
            step,
            steps: 1,
            mark: 0,
            time_s: Some(*time_s),
            tflops: None,
        };
        Steps::of((10..).zip(times).map(step).collect())
    }

    #[test]
    fn what_took_much_longer_is_an_outlier() {
        let of = |times: &[f64]| steps(times).outliers();
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
        assert_eq!(sparkline(&[0.0, f64::NAN], 9), "");
    }
}
