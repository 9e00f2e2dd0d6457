//! nccl-timing: step time and TFLOP/s per GPU as the trainer prints them.

use crate::count::calls::{Options, Progress};
use crate::count::notes;
use crate::count::spread::Spread;
use crate::count::values::Values;
use crate::error::Result;
use crate::formats::Tells;
use crate::formats::door::Known;
use crate::log::propose;
use crate::log::timeline::{self, Growing, Present, Step, Window};
use crate::log::{Log, Part};
use crate::members::Merged;
use crate::output::early::{Early, Next};
use crate::output::render::{Cell, Grid, Sheet};
use crate::report::Report;
use crate::source::Origin;
use crate::stages::{self, Stage};
use std::mem;

/// The steps of the window, with their values, in the order of their lines. A field that the
/// trainer does not print stays unknown and hides nothing. Of one input that is still being written
/// `early` gets the next steps as soon as their values are known; all come again at the end.
///
/// # Errors
/// No step lines, or a step of the window is missing; an input cannot be read.
pub fn steps(
    origins: &[Origin],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    early: Option<Early<'_, Vec<Step>>>,
) -> Result<Vec<Step>> {
    let mut stage = Reading {
        options: timeline::Options {
            as_printed: true,
            ..options.timeline.clone()
        },
        present: Present::default(),
        steps: Vec::new(),
        window: options.window,
        early: early.filter(|_| origins.len() == 1),
        given: 0,
        turned: [0; 2],
        growing: Growing::default(),
        outcome: Ok(()),
    };
    stages::read(&mut stage, origins, options, report, progress, || ())?;
    progress.finish();
    let Reading {
        present, mut steps, ..
    } = stage;
    present
        .demand(options.window.as_ref())
        .map_err(|missing| propose::anew(missing, &present, origins, options.source))?;
    if let Some(window) = &options.window {
        steps.retain(|s| window.contains(s.step));
    }
    Ok(steps)
}

/// What was read so far.
struct Reading<'e> {
    // The values of a line are its own step's, also where the line lags behind the calls.
    options: timeline::Options,
    present: Present,
    steps: Vec<Step>,
    window: Option<Window>,
    early: Option<Early<'e, Vec<Step>>>,
    /// How many steps that got, with those outside the window; and at the last turn and the one before.
    given: usize,
    turned: [usize; 2],
    growing: Growing,
    outcome: Result<()>,
}

impl Stage for Reading<'_> {
    const NEEDS: Tells = Tells::STEP_LINES;
    type Visit = ();

    fn add(&mut self, part: Part<'_, ()>) {
        let (Some(early), Some((log, _))) = (&mut self.early, part.so_far) else {
            return;
        };
        let timeline = log.growing(&mut self.growing, &self.options);
        let told = timeline.told();
        let new = timeline.steps.part(self.given..told);
        self.given = told.max(self.given);
        let is_wanted = |step: &&Step| self.window.is_none_or(|w| w.contains(step.step));
        let new: Vec<Step> = new.iter().filter(is_wanted).cloned().collect();
        if !new.is_empty() {
            self.outcome = early.rows(new);
        }
        let last = told
            .checked_sub(1)
            .and_then(|last| timeline.steps.get(last));
        if let (Some(gap), Ok(()), true) =
            (last.map(|s| s.mark as u32), &self.outcome, early.turns())
            && let Some(turn) = self.growing.turn(gap)
        {
            self.outcome = early.turn();
            self.turned = [self.given, self.turned[0]];
            if let Some(before) = turn.before {
                self.growing.forget(before.gap);
                log.forget(before.gap);
            }
        }
    }

    fn added(&mut self) -> Result<()> {
        mem::replace(&mut self.outcome, Ok(()))
    }

    fn end(&mut self, input: Known<()>, log: Log, _: &Merged, report: &mut Report) {
        let timeline = log.ended(&mut self.growing, &self.options);
        if self.growing.is_otherwise() {
            report.early();
        }
        notes::stamps(&input.name(), &timeline, report);
        if timeline.interval() > 1 {
            report.note(&format!(
                "{}: a step line appears every {} steps; each line is one value",
                input.name(),
                timeline.interval()
            ));
        }
        self.present.merge(self.growing.forgotten());
        self.present.add(&timeline);
        // Those from before the last turn but one were given for good.
        let steps = timeline.steps.part(self.turned[1]..timeline.steps.len());
        self.steps.extend_from_slice(steps);
        self.growing = Growing::default();
    }
}

/// The columns of [`per_step`].
const COLUMNS: [&str; 4] = ["segment", "step", "time_s", "tflops_per_gpu"];

/// One row a step.
pub fn per_step(steps: &[Step]) -> Grid {
    sheet(steps).grid()
}

/// The same, made when they are written.
pub fn sheet(steps: &[Step]) -> Sheet<'_> {
    let row = |at: usize| {
        let s = &steps[at];
        vec![
            u64::from(s.segment).into(),
            s.step.into(),
            s.time_s.into(),
            s.tflops.into(),
        ]
    };
    let columns = COLUMNS.map(str::to_owned).to_vec();
    Sheet::of_rows(columns, steps.len(), row)
}

/// The values of steps, of which those that are given for good are not kept with all that is known of them.
#[derive(Debug, Default)]
pub struct Sums {
    times: Values,
    tflops: Values,
    /// Steps since the last turn, and since the one before.
    new: Vec<Step>,
    old: Vec<Step>,
}

impl Sums {
    /// Takes what comes next.
    pub fn next(&mut self, next: Next<Vec<Step>>) {
        match next {
            Next::Rows(steps) => self.new.extend(steps),
            Next::Turn => {
                let old = mem::replace(&mut self.old, mem::take(&mut self.new));
                self.add(&old);
            }
        }
    }

    fn add(&mut self, steps: &[Step]) {
        let times = steps.iter().filter_map(|s| s.time_s);
        times.for_each(|time| self.times.add(time));
        let tflops = steps.iter().filter_map(|s| s.tflops);
        tflops.for_each(|tflops| self.tflops.add(tflops));
    }

    /// One row for each of the two fields, with the `steps` that came again: over how many steps it is,
    /// and its distribution.
    pub fn summary(mut self, steps: &[Step]) -> Grid {
        self.add(steps);
        let columns = [
            "field", "steps", "mean", "sd", "min", "p50", "p95", "p99", "max",
        ];
        Grid {
            columns: columns.map(str::to_owned).to_vec(),
            rows: vec![
                row("step_time_s", self.times),
                row("tflops_per_gpu", self.tflops),
            ],
        }
    }
}

/// The same of all steps.
pub fn summary(steps: &[Step]) -> Grid {
    Sums::default().summary(steps)
}

fn row(field: &'static str, mut values: Values) -> Vec<Cell<'static>> {
    let spread = Spread::of_all(&mut values);
    let many = spread.map_or(0, |spread| spread.n as u64);
    let mut row: Vec<Cell<'static>> = vec![field.into(), many.into()];
    match spread {
        None => row.extend(std::iter::repeat_n(Cell::Empty, 7)),
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
pub fn chain(steps: &[Step], from: u64, to: u64) -> Option<String> {
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
        let step = Step {
            segment: 0,
            step: 1,
            steps: 1,
            mark: 0,
            time_s: Some(2.0),
            tflops: None,
        };
        let grid = summary(&[step]);
        assert_eq!(grid.rows[0][2], 2.0.into());
        assert_eq!(grid.rows[1][1], 0_u64.into());
        assert!(grid.rows[1][2..].iter().all(|c| *c == Cell::Empty));
    }
}
