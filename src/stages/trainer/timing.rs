//! nccl-timing: step time and TFLOP/s per GPU as the trainer prints them.

use crate::count::calls::{Options, Progress};
use crate::count::notes;
use crate::count::spread::ValueSpread;
use crate::count::values::ValueCounts;
use crate::error::Result;
use crate::formats::Provides;
use crate::formats::open::OpenInput;
use crate::log::propose;
use crate::log::timeline::{self, LiveTimeline, PresentSteps, StepWindow, TrainStep};
use crate::log::{LogState, MergedChunk};
use crate::members::MergedMembers;
use crate::output::live_rows::{LiveBatch, LiveRows};
use crate::output::render::{Grid, Sheet, TableCell};
use crate::report::Report;
use crate::source::InputName;
use crate::stages::{self, InputStage};
use std::mem;

/// The steps of the window, with their values, in the order of their lines. A field that the
/// trainer does not print stays unknown and hides nothing. Of one input that is still being written
/// `early` gets the next steps as soon as their values are known; all come again at the end.
///
/// # Errors
/// No step lines, or a step of the window is missing; an input cannot be read.
pub fn read_steps(
    origins: &[InputName],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    early: Option<LiveRows<'_, Vec<TrainStep>>>,
) -> Result<Vec<TrainStep>> {
    let mut stage = TimingReader {
        options: timeline::Options {
            as_printed: true,
            ..options.timeline.clone()
        },
        present: PresentSteps::default(),
        steps: Vec::new(),
        window: options.window,
        early: early.filter(|_| origins.len() == 1),
        given: 0,
        turned: [0; 2],
        growing: LiveTimeline::default(),
        outcome: Ok(()),
    };
    stages::read_stage(&mut stage, origins, options, report, progress, || ())?;
    progress.finish();
    let TimingReader {
        present, mut steps, ..
    } = stage;
    present
        .check_demand(options.window.as_ref())
        .map_err(|missing| {
            propose::reopened_missing_steps_error(missing, &present, origins, options.source)
        })?;
    if let Some(window) = &options.window {
        steps.retain(|s| window.contains(s.step));
    }
    Ok(steps)
}

/// The state of reading.
struct TimingReader<'e> {
    // The values of a line are its own step's, also where the line lags behind the calls.
    options: timeline::Options,
    present: PresentSteps,
    steps: Vec<TrainStep>,
    window: Option<StepWindow>,
    early: Option<LiveRows<'e, Vec<TrainStep>>>,
    /// Steps given to `early`, with those outside the window; and as of the last two checkpoints.
    given: usize,
    turned: [usize; 2],
    growing: LiveTimeline,
    outcome: Result<()>,
}

impl InputStage for TimingReader<'_> {
    const NEEDS: Provides = Provides::STEP_LINES;
    type Visit = ();

    fn add_chunk(&mut self, part: MergedChunk<'_, ()>) {
        let (Some(early), Some((log, _))) = (&mut self.early, part.so_far) else {
            return;
        };
        let timeline = log.update_growing_timeline(&mut self.growing, &self.options);
        let told = timeline.count_known_steps();
        let new = timeline.steps.slice(self.given..told);
        self.given = told.max(self.given);
        let is_wanted = |step: &&TrainStep| self.window.is_none_or(|w| w.contains(step.step));
        let new: Vec<TrainStep> = new.iter().filter(is_wanted).cloned().collect();
        if !new.is_empty() {
            self.outcome = early.send_rows(new);
        }
        let last = told
            .checked_sub(1)
            .and_then(|last| timeline.steps.get(last));
        if let (Some(gap), Ok(()), true) = (
            last.map(|s| s.mark as u32),
            &self.outcome,
            early.has_checkpoints(),
        ) && let Some(turn) = self.growing.checkpoint(gap)
        {
            self.outcome = early.send_checkpoint();
            self.turned = [self.given, self.turned[0]];
            if let Some(before) = turn.before {
                self.growing.forget_until(before.gap);
                log.forget_gaps_until(before.gap);
            }
        }
    }

    fn check_output(&mut self) -> Result<()> {
        mem::replace(&mut self.outcome, Ok(()))
    }

    fn end_input(
        &mut self,
        input: OpenInput<()>,
        log: LogState,
        _: &MergedMembers,
        report: &mut Report,
    ) {
        let timeline = log.build_final_timeline(&mut self.growing, &self.options);
        notes::report_decision(&input.name(), &timeline, report);
        if self.growing.is_contradicted() {
            report.warn_rows_changed();
        }
        notes::report_time_notes(&input.name(), &timeline, report);
        if timeline.line_interval() > 1 {
            report.note(&format!(
                "{}: a step line appears every {} steps; each line is one value",
                input.name(),
                timeline.line_interval()
            ));
        }
        self.present.merge(self.growing.forgotten_steps());
        self.present.add_timeline(&timeline);
        // Steps from before the last checkpoint but one are final.
        let steps = timeline.steps.slice(self.turned[1]..timeline.steps.len());
        self.steps.extend_from_slice(steps);
        self.growing = LiveTimeline::default();
    }
}

/// The columns of [`grid_per_step`].
const TIMING_COLUMNS: [&str; 4] = ["segment", "step", "time_s", "tflops_per_gpu"];

/// One row a step.
pub fn grid_per_step(steps: &[TrainStep]) -> Grid {
    sheet_per_step(steps).to_grid()
}

/// Like [`grid_per_step`], made when written.
pub fn sheet_per_step(steps: &[TrainStep]) -> Sheet<'_> {
    let row = |at: usize| {
        let s = &steps[at];
        vec![
            u64::from(s.segment).into(),
            s.step.into(),
            s.time_s.into(),
            s.tflops.into(),
        ]
    };
    let columns = TIMING_COLUMNS.map(str::to_owned).to_vec();
    Sheet::from_rows(columns, steps.len(), row)
}

/// Sums over steps. Steps that were finally written are not kept in full.
#[derive(Debug, Default)]
pub struct TimingSums {
    times: ValueCounts,
    tflops: ValueCounts,
    /// Steps since the last checkpoint, and since the one before.
    new: Vec<TrainStep>,
    old: Vec<TrainStep>,
}

impl TimingSums {
    /// Takes what comes next.
    pub fn take_batch(&mut self, next: LiveBatch<Vec<TrainStep>>) {
        match next {
            LiveBatch::Rows(steps) => self.new.extend(steps),
            LiveBatch::Turn => {
                let old = mem::replace(&mut self.old, mem::take(&mut self.new));
                self.add_steps(&old);
            }
        }
    }

    fn add_steps(&mut self, steps: &[TrainStep]) {
        let times = steps.iter().filter_map(|s| s.time_s);
        times.for_each(|time| self.times.add_value(time));
        let tflops = steps.iter().filter_map(|s| s.tflops);
        tflops.for_each(|tflops| self.tflops.add_value(tflops));
    }

    /// One row for each of the two fields, with the `steps` that came again: over how many steps it is,
    /// and its distribution.
    pub fn summary_grid(mut self, steps: &[TrainStep]) -> Grid {
        self.add_steps(steps);
        let columns = [
            "field", "steps", "mean", "sd", "min", "p50", "p95", "p99", "max",
        ];
        Grid {
            columns: columns.map(str::to_owned).to_vec(),
            rows: vec![
                summary_row("step_time_s", self.times),
                summary_row("tflops_per_gpu", self.tflops),
            ],
        }
    }
}

/// Summarises all steps.
pub fn summarise_steps(steps: &[TrainStep]) -> Grid {
    TimingSums::default().summary_grid(steps)
}

fn summary_row(field: &'static str, mut values: ValueCounts) -> Vec<TableCell<'static>> {
    let spread = ValueSpread::from_counts(&mut values);
    let many = spread.map_or(0, |spread| spread.n as u64);
    let mut row: Vec<TableCell<'static>> = vec![field.into(), many.into()];
    match spread {
        None => row.extend(std::iter::repeat_n(TableCell::Empty, 7)),
        Some(s) => row.extend([
            s.mean.into(),
            s.sd.into(),
            s.min.into(),
            s.p50.into(),
            s.p95.into(),
            s.p99.into(),
            s.max.into(),
        ]),
    }
    row
}

/// The summary as the AWK chain prints it: over the lines that have both fields. `None` where
/// there are none.
pub fn awk_chain_summary(steps: &[TrainStep], from: u64, to: u64) -> Option<String> {
    let both: Vec<(f64, f64)> = steps
        .iter()
        .filter_map(|s| Some((s.time_s?, s.tflops?)))
        .collect();
    let n = both.len();
    if n == 0 {
        return None;
    }
    let time = both.iter().map(|b| b.0).sum::<f64>() / n as f64;
    let tflops = both.iter().map(|b| b.1).sum::<f64>() / n as f64;
    Some(format!(
        "Steps: {n} (iterations {from}-{to})\nAverage train_step_timing (s): {time:.6}\nAverage \
         TFLOPS_per_GPU:        {tflops:.6}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_not_printed_does_not_hide_the_other() {
        let step = TrainStep {
            segment: 0,
            step: 1,
            steps: 1,
            mark: 0,
            time_s: Some(2.0),
            tflops: None,
        };
        let grid = summarise_steps(&[step]);
        assert_eq!(grid.rows[0][2], 2.0.into());
        assert_eq!(grid.rows[1][1], 0_u64.into());
        assert!(grid.rows[1][2..].iter().all(|c| *c == TableCell::Empty));
    }
}
