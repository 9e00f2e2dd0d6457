//! What the numbers of MLPerf's records count: steps, or samples or tokens by the step.
//!
//! `samples_count` counts samples, and the log states its `global_batch_size`. `step` alone may
//! be either: NVIDIA's Llama 3.1 405B (v5.0) logs `"step": 1152.0` after the first step of 1152
//! samples, its GPT-3 (v4.0) `"step": 4194304`, tokens. What the log itself shows decides.

use super::limits::MAX_STEP_TIME_RATIO;
use super::marks::MarkSlice;
use crate::grammar::trainer::{StepLine, StepNumberUnit, Trainer, TrainerMark, TrainerPace};
use serde::{Deserialize, Serialize};

/// Decides what the numbers in records without a unit count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StepNumberReader {
    /// How many samples a step has, by the first line that states it.
    pub(super) batch: Option<u64>,
    /// What `step` alone grows by in a step.
    by_step: Option<u64>,
}

/// A line that does not state what its number counts.
struct UnlabelledNumber {
    step: u64,
    wall_ms: Option<i64>,
    time_s: Option<f64>,
}

/// What the numbers on step lines count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum LineNumberUnit {
    /// Steps.
    #[default]
    Steps,
    /// Epochs of this many steps.
    Epochs(u64),
    /// Samples or tokens, and how many a step has: the steps are the numbers divided by it.
    ByStep(u64),
    /// Samples, and the log does not state how many a step has: the numbers are samples.
    Samples,
}

impl StepNumberReader {
    /// Looks through all lines of `trainer`.
    pub(super) fn read_lines(marks: MarkSlice<'_>, trainer: Trainer) -> StepNumberReader {
        let (mut first, mut batch) = (None, None);
        let mut lines: Vec<UnlabelledNumber> = Vec::new();
        for mark in marks.iter() {
            match &mark.mark {
                TrainerMark::BatchSize(size) => {
                    first = first.or(Some(*size));
                    batch = Some(*size);
                }
                TrainerMark::Step(line)
                    if line.trainer == trainer && line.counts == StepNumberUnit::Unsaid =>
                {
                    lines.push(UnlabelledNumber {
                        step: line.step,
                        wall_ms: line.wall_ms,
                        time_s: line.time_s,
                    });
                }
                _ => {}
            }
        }
        let all_in = |each: &u64| *each > 1 && lines.iter().all(|line| line.step % each == 0);
        let by_batch = batch.filter(all_in).filter(|_| !lines.is_empty());
        let by_step = match median_growth(&lines) {
            Some(grows) => {
                let near = |each: &u64| ratio_of(*each as f64, grows) < MAX_STEP_TIME_RATIO;
                let gcd = lines
                    .iter()
                    .fold(0, |gcd, line| common_divisor(gcd, line.step));
                [Some(1), by_batch, Some(gcd).filter(all_in)]
                    .into_iter()
                    .flatten()
                    .find(near)
            }
            None => by_batch,
        };
        StepNumberReader {
            batch: first,
            by_step,
        }
    }

    /// The step of a line in a run of `batch` samples a step, and what its number counts. The last
    /// batch of an epoch may be smaller than the others, and is a step too.
    pub(super) fn step_of_line(
        &self,
        line: &StepLine,
        batch: Option<u64>,
    ) -> (u64, LineNumberUnit) {
        let counted = match (line.counts, self.by_step, batch) {
            (StepNumberUnit::Steps, ..) if epoch_steps(line) > 1 => {
                LineNumberUnit::Epochs(epoch_steps(line))
            }
            (StepNumberUnit::Steps, ..) | (StepNumberUnit::Unsaid, None | Some(1), _) => {
                LineNumberUnit::Steps
            }
            (StepNumberUnit::Unsaid, Some(each), _) => LineNumberUnit::ByStep(each),
            (StepNumberUnit::Samples, _, Some(batch)) if batch > 0 => LineNumberUnit::ByStep(batch),
            (StepNumberUnit::Samples, ..) => LineNumberUnit::Samples,
        };
        let step = match counted {
            LineNumberUnit::ByStep(each) => line.step.div_ceil(each),
            _ => line.step,
        };
        (step, counted)
    }
}

/// Returns how many steps one of the line's numbers has; 1 if the line does not state it.
fn epoch_steps(line: &StepLine) -> u64 {
    match line.pace {
        Some(TrainerPace::Samples { batches, .. }) => batches,
        _ => 1,
    }
}

/// What the number grows by in a step, by the median of all pairs of lines: a step's time is on
/// the line, and the time between two of them is known by their stamps.
fn median_growth(lines: &[UnlabelledNumber]) -> Option<f64> {
    let between = |pair: &[UnlabelledNumber]| {
        let ms = pair[1].wall_ms?.checked_sub(pair[0].wall_ms?)?;
        let count = pair[1].step.checked_sub(pair[0].step)?;
        let steps = ms as f64 / 1000.0 / pair[1].time_s?;
        (count > 0 && steps > 0.0).then(|| count as f64 / steps)
    };
    let mut all: Vec<f64> = lines.windows(2).filter_map(between).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

fn ratio_of(a: f64, b: f64) -> f64 {
    (a / b).max(b / a)
}

/// The largest number that divides both.
fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::walk::MarkPosition;

    fn lines(list: &[(u64, i64)], time_s: Option<f64>) -> Vec<MarkPosition> {
        let line = |&(step, ms): &(u64, i64)| {
            TrainerMark::Step(StepLine {
                counts: StepNumberUnit::Unsaid,
                time_s,
                wall_ms: Some(ms),
                ..StepLine::without_time(Trainer::MlPerf, step)
            })
        };
        crate::log::timeline::tests::marks(list.iter().map(line).collect())
    }

    fn by_step(batch: Option<u64>, mut marks: Vec<MarkPosition>) -> Option<u64> {
        if let Some(batch) = batch {
            marks.extend(crate::log::timeline::tests::marks(vec![
                TrainerMark::BatchSize(batch),
            ]));
        }
        StepNumberReader::read_lines((&marks).into(), Trainer::MlPerf).by_step
    }

    #[test]
    fn step_alone_counts_what_the_log_shows() {
        // A step of 1152 samples takes as long as it is from line to line.
        let samples = [(1152, 0), (2304, 54_000), (3456, 110_000)];
        assert_eq!(by_step(Some(1152), lines(&samples, Some(55.0))), Some(1152));
        assert_eq!(by_step(Some(1152), lines(&samples, None)), Some(1152));
        assert_eq!(by_step(None, lines(&samples, Some(55.0))), Some(1152));
        // Tokens: a batch of 2048 sequences of 2048.
        let tokens = [(4_194_304, 0), (8_388_608, 10_500), (12_582_912, 21_100)];
        assert_eq!(
            by_step(Some(2048), lines(&tokens, Some(10.4))),
            Some(4_194_304)
        );
        // Steps, though each is a multiple of the batch.
        let steps = [(32, 0), (64, 17_500), (96, 35_000)];
        assert_eq!(by_step(Some(16), lines(&steps, Some(0.54))), Some(1));
        assert_eq!(by_step(Some(32), lines(&steps, Some(0.54))), Some(1));
        // Steps that are no multiples.
        let steps = [(31, 0), (63, 17_500), (95, 35_000)];
        assert_eq!(by_step(Some(32), lines(&steps, None)), None);
        assert_eq!(by_step(None, lines(&steps, None)), None);
    }
}
