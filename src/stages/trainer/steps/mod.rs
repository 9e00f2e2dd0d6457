//! nccl-steps: the lines of chosen steps, byte for byte, or one row for each step.

use crate::count::calls::{Options, Progress};
use crate::count::member_filter::MemberFilter;
use crate::count::notes;
use crate::error::{Error, Result};
use crate::formats::Provides;
use crate::formats::open::OpenInput;
use crate::log::placement::{CallRecorder, FilesWithoutSteps, PlacementMethods};
use crate::log::propose;
use crate::log::timeline::{CheckpointGaps, LiveTimeline, StepTimeline};
use crate::log::{LogState, MergedChunk};
use crate::members::MergedMembers;
use crate::output::live_rows::LiveRows;
use crate::output::render::Grid;
use crate::report::Report;
use crate::source::{Input, InputName, PipeCopy};
use crate::stages::survey::{GapCallSum, LogSurvey, SurveyBuilder};
use crate::stages::trainer::limits::MAX_CALL_LINE_BYTES;
use crate::stages::{self, InputStage};
use std::collections::BTreeMap;
use std::io::Write;
use std::mem;
use std::sync::Arc;

mod line_copy;
mod list;
mod wanted_lines;

pub use list::{StepList, list_steps};

use list::{build_grid, settled_rows};
use wanted_lines::{PassedLines, WantedLines};

/// A log with known steps.
struct SurveyedLog {
    input: Input,
    survey: LogSurvey,
    /// Its own step lines' steps.
    timeline: Arc<StepTimeline>,
}

/// The output before the input ends.
enum StepsOutput<'e> {
    /// The lines of the steps.
    Lines(&'e mut dyn Write),
    /// Rows of the steps, of the calls that pass; before the end if there is a taker.
    Rows(MemberFilter, Option<LiveRows<'e, Grid>>),
}

/// The state of reading.
struct StepsReader<'o, 'e> {
    options: &'o Options,
    to: StepsOutput<'e>,
    /// The first gap without a row, and the sums of those before since the last checkpoint but one.
    given: usize,
    sums: BTreeMap<usize, GapCallSum>,
    /// Written output was wrong.
    is_otherwise: bool,
    /// The last forgotten gap.
    gone: Option<u32>,
    /// The steps so far.
    growing: LiveTimeline,
    /// Which lines.
    passed: PassedLines,
    copied: Option<PipeCopy>,
    /// There is no other input.
    is_only: bool,
    outcome: Result<()>,
    /// The log in hand.
    now: SurveyBuilder,
    across: FilesWithoutSteps,
    methods: PlacementMethods,
    logs: Vec<SurveyedLog>,
}

impl InputStage for StepsReader<'_, '_> {
    const NEEDS: Provides = Provides::STEP_LINES;
    const SECOND_PASS: bool = true;
    type Visit = CallRecorder;

    fn begin_input(&mut self, _: String) {
        let sums_of = match &self.to {
            StepsOutput::Rows(filter, _) => Some(filter),
            StepsOutput::Lines(_) => None,
        };
        self.now = SurveyBuilder::new(self.options, sums_of);
    }

    // Rows need no line again.
    fn needs_second_pass(&self, input: &Input) -> bool {
        matches!(self.to, StepsOutput::Lines(_)) || input.is_rewindable()
    }

    fn take_pipe_copy(&mut self, copy: PipeCopy) {
        self.copied = Some(copy).filter(|_| self.is_only);
    }

    fn add_chunk(&mut self, part: MergedChunk<'_, CallRecorder>) {
        let (calls, part) = part.take_visit();
        self.now.add_chunk(calls, &part, self.options);
        let Some((log, _)) = part.so_far else {
            return;
        };
        let settled = match &mut self.to {
            StepsOutput::Lines(_) => self.pass_settled_lines(log, part.merged),
            StepsOutput::Rows(_, Some(early)) => {
                let rows = settled_rows(
                    log,
                    part.merged,
                    &mut self.now,
                    &mut self.growing,
                    &mut self.sums,
                    &mut self.given,
                    self.options,
                );
                let written = match rows.is_empty() {
                    true => Ok(()),
                    false => early.send_rows(build_grid(rows)),
                };
                written.map(|()| self.given)
            }
            StepsOutput::Rows(_, None) => return,
        };
        self.outcome = settled.and_then(|gaps| self.checkpoint(gaps, log, &part));
    }

    fn check_output(&mut self) -> Result<()> {
        mem::replace(&mut self.outcome, Ok(()))
    }

    fn end_input(
        &mut self,
        input: OpenInput<CallRecorder>,
        log: LogState,
        merged: &MergedMembers,
        report: &mut Report,
    ) {
        let now = mem::take(&mut self.now);
        let growing = &mut self.growing;
        let survey = now.end_log(log, growing, merged, &mut self.across, self.options);
        self.is_otherwise |= growing.is_contradicted();
        let (name, timeline) = (input.name(), Arc::clone(&survey.timeline));
        self.methods.add_counts(survey.placement.methods);
        notes::report_step_notes(&name, &timeline, report);
        if matches!(self.to, StepsOutput::Rows(..)) {
            notes::report_time_notes(&name, &timeline, report);
        }
        self.logs.push(SurveyedLog {
            input: input.into_input(),
            survey,
            timeline,
        });
    }
}

/// Reads all logs with their steps; returns also the lines passed on and the first gap kept.
fn read_logs(
    origins: &[InputName],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    to: StepsOutput<'_>,
) -> Result<(Vec<SurveyedLog>, (PassedLines, usize))> {
    let lines = matches!(to, StepsOutput::Lines(_));
    let mut stage = StepsReader {
        options,
        to,
        given: 0,
        sums: BTreeMap::new(),
        is_otherwise: false,
        gone: None,
        growing: LiveTimeline::default(),
        passed: PassedLines::default(),
        copied: None,
        is_only: origins.len() == 1,
        outcome: Ok(()),
        now: SurveyBuilder::default(),
        across: FilesWithoutSteps::for_inputs(origins.len()),
        methods: PlacementMethods::default(),
        logs: Vec::new(),
    };
    let new = || match lines {
        true => CallRecorder::with_lines(),
        false => CallRecorder::default(),
    };
    let merged = stages::read_stage(&mut stage, origins, options, report, progress, new)?;
    let StepsReader {
        mut across,
        mut methods,
        mut logs,
        passed,
        growing,
        gone,
        is_otherwise,
        ..
    } = stage;
    if is_otherwise {
        report.warn_rows_changed();
    }
    progress.finish();
    if let Some(placed) = across.place_held(&merged, options.log.jobs) {
        methods.add_counts(placed.methods);
        for log in &mut logs {
            log.survey.settle_steps(&placed, &merged);
        }
        // A step of the job is one row.
        if !lines {
            let mut moved = BTreeMap::new();
            logs.iter_mut()
                .for_each(|log| log.survey.move_sums_to(&placed, &mut moved));
            logs.iter_mut()
                .for_each(|log| log.survey.add_moved_sums(&mut moved));
        }
    }
    report.add_placements(methods);
    let mut present = growing.forgotten_steps().clone();
    logs.iter()
        .for_each(|log| present.add_timeline(&log.timeline));
    // The part of a pipe that was passed on can no longer be searched for step lines.
    let inputs = || {
        let is_there = |log: &&SurveyedLog| passed.until == 0 && log.input.is_rewindable();
        let logs = logs.iter().filter(is_there);
        logs.map(|log| Ok(&log.input))
    };
    present
        .check_demand(options.window.as_ref())
        .map_err(|missing| propose::missing_steps_error(missing, &present, inputs()))?;
    let first = gone.map_or(0, |gap| gap as usize + 1);
    Ok((logs, (passed, first)))
}

/// Writes the lines of the steps in the window (of all steps, if there is none) to `out`. Under
/// `keep_init` the lines that identify communicators are passed too.
///
/// # Errors
/// A step of the window is missing; the input cannot be read, the output not written.
pub fn write_step_lines(
    origins: &[InputName],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    out: &mut dyn Write,
) -> Result<()> {
    let to = StepsOutput::Lines(&mut *out);
    let (logs, (passed, first)) = read_logs(origins, options, report, progress, to)?;
    for log in &logs {
        let LogSurvey {
            log: own,
            timeline,
            moved,
            is_settled,
            ..
        } = &log.survey;
        // Another input's lines do not divide this one.
        let gaps = (first..log.timeline.gaps.len()).filter(|_| !is_settled);
        let all = WantedLines::of_gaps(own, timeline, moved, gaps, options);
        if !passed.matches_wanted(&all) {
            report.warn_rows_changed();
        }
        all.between_bytes(passed.until, u64::MAX)
            .copy_lines(&log.input, out)?;
    }
    Ok(())
}

impl StepsReader<'_, '_> {
    /// Passes on the lines of settled steps; returns the number of complete gaps.
    fn pass_settled_lines(&mut self, log: &LogState, merged: &MergedMembers) -> Result<usize> {
        let Some(copied) = &self.copied else {
            return Ok(0);
        };
        let timeline = log.update_growing_timeline(&mut self.growing, &self.options.timeline);
        let from = self.passed.until;
        let first = log
            .marks
            .as_slice()
            .partition_point(|mark| mark.cut <= from);
        let needed = u32::try_from(first).unwrap_or(u32::MAX);
        // If all steps are wanted, the calls on a step's lines do not matter.
        let (all, of) = (self.options.window.is_none(), timeline);
        let open = |line: u32| !all || of.step_of(line as usize).is_none();
        let found = self.now.settled_lines(timeline, merged, needed, open);
        let Some((last, moved, open)) = found else {
            return Ok(first);
        };
        let input = copied.open_copied_part()?;
        let end = wanted_lines::gap_bytes(&log.marks, last, self.options.timeline.marker).1;
        // A step may end within a line (a progress bar has no line's end): the whole line is passed on
        // with what comes next, since calls on it may be.
        let until = line_copy::line_start(&input, open.min(end))?;
        if until <= from {
            return Ok(first);
        }
        // The stretch before may end within the line.
        let gaps = first.saturating_sub(1)..=last;
        let all = WantedLines::of_gaps(log, timeline, &moved, gaps, self.options);
        let StepsOutput::Lines(out) = &mut self.to else {
            return Ok(first);
        };
        let part = all.between_bytes(from, until);
        part.copy_lines(&input, *out)?;
        out.flush().map_err(Error::Output)?;
        self.passed.add_passed(&part, until);
        // A line that begins before may end after.
        copied.release_until(until.saturating_sub(MAX_CALL_LINE_BYTES));
        Ok(log
            .marks
            .as_slice()
            .partition_point(|mark| mark.cut <= until))
    }

    /// Forgets all before the last checkpoint once the first `gaps` are written.
    fn checkpoint(
        &mut self,
        gaps: usize,
        log: &LogState,
        part: &MergedChunk<'_, ()>,
    ) -> Result<()> {
        let last = gaps.checked_sub(1).and_then(|gap| u32::try_from(gap).ok());
        let Some(turn) = last.and_then(|last| self.growing.checkpoint(last)) else {
            return Ok(());
        };
        self.now.place_checkpoint(turn, part, self.options);
        match &mut self.to {
            StepsOutput::Lines(_) => self.passed.checkpoint(),
            StepsOutput::Rows(_, Some(early)) => early.send_checkpoint()?,
            StepsOutput::Rows(_, None) => {}
        }
        let in_lines = matches!(self.to, StepsOutput::Lines(_));
        let of = |before: CheckpointGaps| {
            if in_lines {
                before.in_lines
            } else {
                before.gap
            }
        };
        if let Some(before) = turn.before.map(of) {
            let sums = self.sums.split_off(&(before as usize + 1));
            let old = mem::replace(&mut self.sums, sums);
            self.is_otherwise |= !in_lines && !self.now.has_settled_sums(&old, before);
            self.now.forget_until(before);
            self.growing.forget_until(before);
            log.forget_gaps_until(before);
            self.gone = Some(before);
        }
        Ok(())
    }
}
