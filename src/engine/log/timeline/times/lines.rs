//! The lines of steps, and the times that one line gives.

use crate::grammar::trainer::{EvaluationLine, StepLine, TrainerMark, TrainerPace};
use crate::log::timeline::evaluation::{EvaluationPause, EvaluationSpan};
use crate::log::timeline::marks::{MarkIter, MarkSlice};
use crate::log::timeline::{LineNumberUnit, StepTimeline, TrainStep};
use std::iter::Enumerate;

/// A step's line and its surroundings.
pub(super) struct TimedStepLine {
    pub(super) line: StepLine,
    /// How many samples a step has.
    pub(super) batch: Option<u64>,
    pub(super) pause: EvaluationPause,
    /// How many steps since the line before in its segment; `None` for a segment's first line.
    pub(super) since: Option<u64>,
    /// How many steps since the numbering began.
    pub(super) from_first: u64,
    /// How many steps since the epoch began, for the first line of a later epoch than the line before.
    pub(super) in_epoch: Option<u64>,
    /// How many steps the line represents.
    pub(super) steps: u64,
    /// A moving average printed after the line.
    pub(super) smoothed: Option<f64>,
    /// When the last evaluation before it was over, and how many steps after that it is.
    pub(super) resumed: Option<(i64, u64)>,
}

/// Milliseconds that steps took.
#[derive(Clone, Copy)]
pub(super) struct StepsSpan {
    pub(super) ms: i64,
    pub(super) steps: u64,
}

impl StepsSpan {
    /// One rounding: 14.648 seconds for ten steps are 1.4648, and print as that.
    pub(super) fn seconds_per_step(self) -> Option<f64> {
        let is = self.ms >= 0 && self.steps > 0;
        is.then(|| self.ms as f64 / (1000.0 * self.steps as f64))
    }
}

/// The steps' lines, one after the other: there may be a month of them, so they are gone through again
/// for each question instead of being kept.
pub(super) struct TimedStepLines<'a> {
    /// The trainer's first step.
    first: u64,
    counted: LineNumberUnit,
    marks: Enumerate<MarkIter<'a>>,
    /// Steps and stretches that are still to come.
    steps: &'a [TrainStep],
    stretches: &'a [EvaluationSpan],
    batch: Option<u64>,
    /// When the last evaluation was over, and the step it was after.
    resumed: Option<(i64, u64)>,
    /// The segment and the number of the step before.
    before: Option<(u32, u64)>,
    epoch: Option<u64>,
    /// The last line: what comes after it may be a value of its.
    last: Option<TimedStepLine>,
}

impl<'a> TimedStepLines<'a> {
    /// All of them; a step has `batch` samples until a mark states another number.
    pub(super) fn over_steps(
        t: &'a StepTimeline,
        marks: MarkSlice<'a>,
        stretches: &'a [EvaluationSpan],
        batch: Option<u64>,
    ) -> TimedStepLines<'a> {
        TimedStepLines {
            first: t.trainer.map_or(1, |trainer| trainer.first_step()),
            counted: t.counted,
            marks: marks.iter().enumerate(),
            steps: t.steps.remaining(),
            stretches,
            batch,
            resumed: None,
            before: None,
            epoch: None,
            last: None,
        }
    }

    /// The line of a step.
    fn time_line(&mut self, line: &StepLine, step: &TrainStep) -> TimedStepLine {
        let before = self.before.replace((step.segment, step.step));
        let same = before.filter(|before| before.0 == step.segment);
        let from_first = step.step.saturating_sub(self.first).saturating_add(1);
        let last = std::mem::replace(&mut self.epoch, line.epoch);
        let later = line
            .epoch
            .zip(last)
            .is_some_and(|(epoch, last)| epoch > last);
        let resumed = self.resumed.take();
        TimedStepLine {
            line: *line,
            batch: self.batch,
            pause: EvaluationPause::before_step(step, &mut self.stretches),
            since: same.and_then(|before| step.step.checked_sub(before.1)),
            from_first,
            in_epoch: later.then_some(from_first),
            steps: step.steps,
            smoothed: None,
            resumed: resumed.and_then(|(ms, done)| Some((ms, step.step.checked_sub(done)?))),
        }
    }
}

impl Iterator for TimedStepLines<'_> {
    type Item = TimedStepLine;

    fn next(&mut self) -> Option<TimedStepLine> {
        while let Some((at, mark)) = self.marks.next() {
            match &mark.mark {
                TrainerMark::BatchSize(size) => self.batch = Some(*size),
                TrainerMark::Metric { smoothed, .. } if smoothed.is_some() => {
                    if let Some(line) = &mut self.last {
                        line.smoothed = *smoothed;
                    }
                }
                TrainerMark::Evaluation(EvaluationLine::Stops {
                    wall_ms,
                    samples,
                    step,
                }) => {
                    let done = match self.counted {
                        LineNumberUnit::Steps | LineNumberUnit::Epochs(_) => *step,
                        LineNumberUnit::ByStep(each) => {
                            samples.map(|samples| samples.div_ceil(each))
                        }
                        LineNumberUnit::Samples => None,
                    };
                    self.resumed = wall_ms.zip(done);
                }
                TrainerMark::Step(line) => {
                    let Some((step, rest)) = self.steps.split_first() else {
                        continue;
                    };
                    if step.mark != at {
                        continue;
                    }
                    self.steps = rest;
                    let line = self.time_line(line, step);
                    if let Some(before) = self.last.replace(line) {
                        return Some(before);
                    }
                }
                _ => {}
            }
        }
        self.last.take()
    }
}

impl TimedStepLine {
    /// Returns the mean of a line's time of several steps, over `over` steps if the line does not state how many.
    pub(super) fn time_from_sum(&self, over: Option<u64>) -> Option<f64> {
        let Some(TrainerPace::Sum { time_s, steps }) = self.line.pace else {
            return None;
        };
        let steps = steps.or(over).filter(|steps| *steps > 0)?;
        // One rounding of what was printed: 3.118911 seconds for 1,000 steps are 0.003118911.
        let micros = |s: f64| (s * 1e6).round();
        let sum = micros(time_s) - micros(self.pause.said);
        (sum >= 0.0).then(|| sum / (1e6 * steps as f64))
    }

    pub(super) fn time_from_throughput(&self) -> Option<f64> {
        match (self.line.pace, self.batch) {
            (Some(TrainerPace::Samples { per_s, batches }), Some(batch)) if per_s > 0.0 => {
                Some(batch as f64 * batches as f64 / per_s)
            }
            _ => None,
        }
    }

    pub(super) fn time_from_smoothing(&self) -> Option<f64> {
        match self.line.pace {
            Some(TrainerPace::Smoothed(time_s)) => Some(time_s),
            _ => self.smoothed,
        }
    }
}
