//! nccl-steps: the lines of chosen steps, byte for byte, or one row for each step.

use crate::count::calls::{Options, Progress};
use crate::count::notes;
use crate::error::{Error, Result};
use crate::formats::Tells;
use crate::formats::door::Known;
use crate::log::placement::{Across, Methods, Recorder};
use crate::log::propose;
use crate::log::timeline::{Growing, Old, Timeline};
use crate::log::{Log, Part};
use crate::members::Merged;
use crate::output::early::Early;
use crate::output::render::Grid;
use crate::report::Report;
use crate::source::{Copied, Input, Origin};
use crate::stages::survey::{Sum, Survey, Surveying};
use crate::stages::{self, Stage};
use std::collections::BTreeMap;
use std::io::Write;
use std::mem;
use std::sync::Arc;

mod list;
mod passed;
mod wanted;

pub use list::{List, list};

use list::{grid, settled};
use wanted::{Passed, Wanted};

/// A log whose steps are known.
struct Surveyed {
    input: Input,
    survey: Survey,
    /// Its own step lines' steps.
    timeline: Arc<Timeline>,
}

/// What takes what is known before the input ends.
enum To<'e> {
    /// The lines of the steps.
    Lines(&'e mut dyn Write),
    /// Rows of the steps, if they are wanted so early.
    Rows(Option<Early<'e, Grid>>),
}

/// What was read so far.
struct Reading<'o, 'e> {
    options: &'o Options,
    to: To<'e>,
    /// The first gap that it got no row of, and what those before had since the last turn but one.
    given: usize,
    sums: BTreeMap<usize, Sum>,
    /// What was written turned out otherwise.
    is_otherwise: bool,
    /// The gap up to which all was let go.
    gone: Option<u32>,
    /// The steps so far.
    growing: Growing,
    /// Which lines.
    passed: Passed,
    copied: Option<Copied>,
    /// There is no other input.
    is_only: bool,
    outcome: Result<()>,
    /// The log in hand.
    now: Surveying,
    across: Across,
    methods: Methods,
    logs: Vec<Surveyed>,
}

impl Stage for Reading<'_, '_> {
    const NEEDS: Tells = Tells::STEP_LINES;
    const AGAIN: bool = true;
    type Visit = Recorder;

    fn begin(&mut self, _: String) {
        self.now = Surveying::new(self.options, matches!(self.to, To::Rows(_)));
    }

    // Rows need no line again.
    fn again(&self, input: &Input) -> bool {
        matches!(self.to, To::Lines(_)) || input.is_rewindable()
    }

    fn copied(&mut self, copy: Copied) {
        self.copied = Some(copy).filter(|_| self.is_only);
    }

    fn add(&mut self, part: Part<'_, Recorder>) {
        let (calls, part) = part.taken();
        self.now.add(calls, &part, self.options);
        let Some((log, _)) = part.so_far else {
            return;
        };
        let settled = match &mut self.to {
            To::Lines(_) => self.pass(log, part.merged),
            To::Rows(Some(early)) => {
                let now = (&mut self.now, &mut self.growing, &mut self.sums);
                let rows = settled(now, (log, part.merged), &mut self.given, self.options);
                let written = match rows.is_empty() {
                    true => Ok(()),
                    false => early.rows(grid(rows)),
                };
                written.map(|()| self.given)
            }
            To::Rows(None) => return,
        };
        self.outcome = settled.and_then(|gaps| self.turn(gaps, log, &part));
    }

    fn added(&mut self) -> Result<()> {
        mem::replace(&mut self.outcome, Ok(()))
    }

    fn end(&mut self, input: Known<Recorder>, log: Log, merged: &Merged, report: &mut Report) {
        let now = mem::take(&mut self.now);
        let growing = &mut self.growing;
        let survey = now.end((log, growing), merged, &mut self.across, self.options);
        self.is_otherwise |= growing.is_otherwise();
        let (name, timeline) = (input.name(), Arc::clone(&survey.timeline));
        self.methods.add(survey.placement.methods);
        notes::said(&name, &timeline, report);
        if matches!(self.to, To::Rows(_)) {
            notes::stamps(&name, &timeline, report);
        }
        self.logs.push(Surveyed {
            input: input.into_input(),
            survey,
            timeline,
        });
    }
}

/// All logs, with their steps; which lines were passed on, and the first gap that was not let go.
fn all(
    origins: &[Origin],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    to: To<'_>,
) -> Result<(Vec<Surveyed>, (Passed, usize))> {
    let lines = matches!(to, To::Lines(_));
    let mut stage = Reading {
        options,
        to,
        given: 0,
        sums: BTreeMap::new(),
        is_otherwise: false,
        gone: None,
        growing: Growing::default(),
        passed: Passed::default(),
        copied: None,
        is_only: origins.len() == 1,
        outcome: Ok(()),
        now: Surveying::default(),
        across: Across::of(origins.len()),
        methods: Methods::default(),
        logs: Vec::new(),
    };
    let new = || match lines {
        true => Recorder::with_lines(),
        false => Recorder::default(),
    };
    let merged = stages::read(&mut stage, origins, options, report, progress, new)?;
    let Reading {
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
        report.early();
    }
    progress.finish();
    if let Some(placed) = across.place(&merged, options.log.jobs) {
        methods.add(placed.methods);
        for log in &mut logs {
            log.survey.settle(&placed);
        }
    }
    report.placed(methods);
    let mut present = growing.forgotten().clone();
    logs.iter().for_each(|log| present.add(&log.timeline));
    // What was passed on of a pipe is not there any more to be looked through for step lines.
    let inputs = || {
        let is_there = |log: &&Surveyed| passed.until == 0 && log.input.is_rewindable();
        let logs = logs.iter().filter(is_there);
        logs.map(|log| Ok(&log.input))
    };
    present
        .demand(options.window.as_ref())
        .map_err(|missing| propose::instead(missing, &present, inputs()))?;
    let first = gone.map_or(0, |gap| gap as usize + 1);
    Ok((logs, (passed, first)))
}

/// Writes the lines of the steps in the window (of all steps, if there is none) to `out`. Under
/// `keep_init` the lines that identify communicators are passed too.
///
/// # Errors
/// A step of the window is missing; the input cannot be read, the output not written.
pub fn lines(
    origins: &[Origin],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    out: &mut dyn Write,
) -> Result<()> {
    let to = To::Lines(&mut *out);
    let (logs, (passed, first)) = all(origins, options, report, progress, to)?;
    for log in &logs {
        let Survey {
            log: own,
            timeline,
            moved,
            is_settled,
            ..
        } = &log.survey;
        // Another input's lines say nothing of the lines here.
        let gaps = (first..log.timeline.gaps.len()).filter(|_| !is_settled);
        let all = Wanted::of(own, (timeline, moved), gaps, options);
        if !passed.is(&all) {
            report.early();
        }
        all.between(passed.until, u64::MAX).copy(&log.input, out)?;
    }
    Ok(())
}

impl Reading<'_, '_> {
    /// Passes on the lines whose steps are settled: of how many gaps all are.
    fn pass(&mut self, log: &Log, merged: &Merged) -> Result<usize> {
        let Some(copied) = &self.copied else {
            return Ok(0);
        };
        let timeline = log.growing(&mut self.growing, &self.options.timeline);
        let from = self.passed.until;
        let first = log.marks.all().partition_point(|mark| mark.cut <= from);
        let needed = u32::try_from(first).unwrap_or(u32::MAX);
        // Where all steps are wanted, the lines of each are whatever is known of the calls on them later.
        let (all, of) = (self.options.window.is_none(), timeline);
        let open = |line: u32| !all || of.step_of(line as usize).is_none();
        let found = self.now.lines_settled(timeline, merged, needed, open);
        let Some((last, moved, open)) = found else {
            return Ok(first);
        };
        let input = copied.so_far()?;
        let end = wanted::range(&log.marks, last, self.options.timeline.marker).1;
        // A step may end within a line (a progress bar has no line's end): the whole line is passed on
        // with what comes next, since calls on it may be.
        let until = passed::line_start(&input, open.min(end))?;
        if until <= from {
            return Ok(first);
        }
        // The stretch before may end within the line.
        let gaps = first.saturating_sub(1)..=last;
        let all = Wanted::of(log, (timeline, &moved), gaps, self.options);
        let To::Lines(out) = &mut self.to else {
            return Ok(first);
        };
        let part = all.between(from, until);
        part.copy(&input, *out)?;
        out.flush().map_err(Error::Output)?;
        self.passed.add(&part, until);
        // A line that begins before may end after.
        copied.forget(until.saturating_sub(passed::LONGEST));
        Ok(log.marks.all().partition_point(|mark| mark.cut <= until))
    }

    /// All of the first `gaps` is written: at a turn lets go of what is before the last one.
    fn turn(&mut self, gaps: usize, log: &Log, part: &Part<'_, ()>) -> Result<()> {
        let last = gaps.checked_sub(1).and_then(|gap| u32::try_from(gap).ok());
        let Some(turn) = last.and_then(|last| self.growing.turn(last)) else {
            return Ok(());
        };
        self.now.turn(turn, part, self.options);
        match &mut self.to {
            To::Lines(_) => self.passed.turn(),
            To::Rows(Some(early)) => early.turn()?,
            To::Rows(None) => {}
        }
        let in_lines = matches!(self.to, To::Lines(_));
        let of = |before: Old| {
            if in_lines {
                before.in_lines
            } else {
                before.gap
            }
        };
        if let Some(before) = turn.before.map(of) {
            let sums = self.sums.split_off(&(before as usize + 1));
            let old = mem::replace(&mut self.sums, sums);
            self.is_otherwise |= !in_lines && !self.now.has(&old, before);
            self.now.forget(before);
            self.growing.forget(before);
            log.forget(before);
            self.gone = Some(before);
        }
        Ok(())
    }
}
