//! nccl-steps: the lines of chosen steps, byte for byte, or one row for each step.

use crate::count::calls::{Options, Progress};
use crate::count::notes;
use crate::error::{Error, Result};
use crate::formats::Tells;
use crate::formats::door::Known;
use crate::formats::log::placement::{Across, Methods, Recorder};
use crate::formats::log::propose;
use crate::formats::log::timeline::{Gap, Growing, Marker, Old, Timeline, Window};
use crate::formats::log::{Log, Part};
use crate::members::Merged;
use crate::output::early::Early;
use crate::output::render::{Cell, Grid, Sheet};
use crate::report::Report;
use crate::source::{Copied, Input, Origin};
use crate::stages::survey::{Sum, Survey, Surveying};
use crate::stages::{self, Stage};
use std::collections::BTreeMap;
use std::io::Write;
use std::mem;
use std::sync::Arc;

mod passed;
mod wanted;

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
        let Some((last, moved, open)) = self.now.lines_settled(timeline, merged, needed) else {
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

/// The columns of `--list`; `steps` is how many steps a row represents.
const COLUMNS: [&str; 9] = [
    "segment",
    "step",
    "first_line",
    "last_line",
    "calls",
    "total_bytes",
    "time_s",
    "tflops_per_gpu",
    "steps",
];

/// One row a step, and one for each stretch between steps and after the last that has calls, so
/// that the rows' calls are the log's. Of one input that is still being written `early` gets the next
/// rows as soon as they are settled; all come again at the end.
///
/// # Errors
/// As [`lines`].
pub fn list(
    origins: &[Origin],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    early: Option<Early<'_, Grid>>,
) -> Result<List> {
    let to = To::Rows(early.filter(|_| origins.len() == 1));
    let (logs, (_, first)) = all(origins, options, report, progress, to)?;
    let listed = logs.into_iter().map(|log| {
        let timeline = &log.survey.timeline;
        let stretches = match log.survey.is_settled {
            true => without_lines(&log, options),
            false => {
                let sum = |gap| log.survey.sum(gap);
                stretches(&log.survey.log, timeline, first, sum, options)
            }
        };
        Listed {
            name: log.input.name(),
            timeline: log.survey.timeline,
            stretches,
        }
    });
    Ok(List(listed.collect()))
}

/// The steps of all logs.
pub struct List(Vec<Listed>);

/// Those of one log.
struct Listed {
    name: String,
    timeline: Arc<Timeline>,
    stretches: Vec<Stretch>,
}

impl List {
    /// Their rows, made when they are written.
    pub fn sheet(&self) -> Sheet<'_> {
        let several = self.0.len() > 1;
        let mut columns: Vec<String> = COLUMNS.map(str::to_owned).to_vec();
        if several {
            columns.push("file".to_owned());
        }
        let (mut rows, mut firsts) = (0, Vec::with_capacity(self.0.len()));
        for log in &self.0 {
            firsts.push(rows);
            rows += log.stretches.len();
        }
        Sheet::of_rows(columns, rows, move |at| {
            let log = firsts.partition_point(|first| *first <= at) - 1;
            let (at, log) = (at - firsts[log], &self.0[log]);
            let mut row = log.stretches[at].row(&log.timeline);
            if several {
                row.push(log.name.clone().into());
            }
            row
        })
    }
}

/// Neighbouring gaps of the same kind.
struct Stretch {
    kind: Gap,
    /// The first and the last line, if these are its own.
    lines: Option<(u64, u64)>,
    sum: Sum,
    /// The last gap.
    last: usize,
}

/// The rows of a log so far that are settled, of gap `given` and later, which is then the first gap
/// without.
fn settled(
    (now, growing, written): (&mut Surveying, &mut Growing, &mut BTreeMap<usize, Sum>),
    (log, merged): (&Log, &Merged),
    given: &mut usize,
    options: &Options,
) -> Vec<Vec<Cell<'static>>> {
    let timeline = log.growing(growing, &options.timeline);
    let told = timeline.told().checked_sub(1);
    let told = told.and_then(|last| timeline.steps.get(last));
    let Some((told, (last, sums))) = told.zip(now.settled(timeline, merged, *given)) else {
        return Vec::new();
    };
    let last = last.min(told.mark);
    let sum = |gap| sums.get(&gap).copied().unwrap_or_default();
    // It ends a stretch.
    let from = mem::replace(given, (last + 1).max(*given));
    written.extend(sums.range(from..*given));
    stretches(log, timeline, from, sum, options)
        .iter()
        .take_while(|stretch| stretch.last <= last)
        .map(|stretch| stretch.row(timeline))
        .collect()
}

/// Rows of one log.
fn grid(rows: Vec<Vec<Cell<'static>>>) -> Grid {
    let columns = COLUMNS.map(str::to_owned).to_vec();
    Grid { columns, rows }
}

/// The stretches of a log from gap `from` on, with the calls of each gap.
fn stretches(
    log: &Log,
    timeline: &Timeline,
    from: usize,
    sum: impl Fn(usize) -> Sum,
    options: &Options,
) -> Vec<Stretch> {
    let marks = log.marks.all();
    // One after the other: those of a long log are packed.
    let mut next = marks.part(from.saturating_sub(1)..marks.len()).iter();
    let mut line = || next.next().map(|mark| (mark.line, mark.next_line));
    let mut before = if from > 0 { line() } else { None };
    let lines = log.account.lines;
    let mut out: Vec<Stretch> = Vec::new();
    for (gap, &kind) in (from..).zip(timeline.gaps.part(from..timeline.gaps.len())) {
        let starts = options.timeline.marker == Marker::Start;
        let first = match gap {
            0 => 0,
            _ => before.map_or(lines, |(own, next)| if starts { own } else { next }),
        };
        before = line();
        let last = before.map_or(lines, |(own, _)| own + u64::from(!starts));
        let sum = sum(gap);
        // An evaluation may be in the middle of the steps of one line.
        let split = matches!(kind, Gap::Step(_))
            && out.len() >= 2
            && out[out.len() - 1].kind == Gap::Between
            && out[out.len() - 2].kind == kind;
        if split {
            let between = out.len() - 1;
            out.swap(between - 1, between);
        }
        match out.last_mut() {
            Some(before) if before.kind == kind => {
                before.lines = before.lines.map(|(first, _)| (first, last));
                before.sum.merge(sum);
                before.last = gap;
            }
            _ => out.push(Stretch {
                kind,
                lines: Some((first, last)),
                sum,
                last: gap,
            }),
        }
    }
    out.retain(|s| match (s.kind, &options.window) {
        (Gap::Step(i), _) if s.sum.calls == 0 && timeline.is_only_announced(i) => false,
        (Gap::Step(i), Some(w)) => {
            let step = timeline.steps.get(i as usize);
            step.is_some_and(|step| w.contains(step.step))
        }
        (Gap::Step(_), None) => true,
        (_, Some(_)) => false,
        (_, None) => s.sum.calls > 0,
    });
    out
}

/// The stretches of an input whose steps are known by other inputs' lines.
fn without_lines(log: &Surveyed, options: &Options) -> Vec<Stretch> {
    let timeline = &log.survey.timeline;
    let mut out: Vec<Stretch> = Vec::new();
    for (gap, &kind) in timeline.gaps.iter().enumerate() {
        let sum = log.survey.sum(gap);
        let step = timeline.step_of(gap);
        let wanted = |w: &Window| step.is_some_and(|s| w.contains(s.step));
        if sum.calls == 0 || !options.window.as_ref().is_none_or(wanted) {
            continue;
        }
        match out.last_mut() {
            Some(before) if before.kind == kind => before.sum.merge(sum),
            _ => out.push(Stretch {
                kind,
                lines: None,
                sum,
                last: gap,
            }),
        }
    }
    // What has no step comes last.
    let unknown = out.iter().take_while(|s| s.kind == Gap::Unknown).count();
    out.rotate_left(unknown);
    out
}

impl Stretch {
    fn row(&self, timeline: &Timeline) -> Vec<Cell<'static>> {
        let step = match self.kind {
            Gap::Step(i) => timeline.steps.get(i as usize),
            _ => None,
        };
        // What a line says is its own file's.
        let own = step.filter(|_| self.lines.is_some());
        let name = match self.kind {
            Gap::Step(_) => step.map(|s| s.step).into(),
            Gap::Between => "between".into(),
            Gap::Before => "before".into(),
            Gap::After => "after".into(),
            Gap::Unknown => Cell::Empty,
        };
        vec![
            step.map(|s| u64::from(s.segment)).into(),
            name,
            self.lines.map(|lines| lines.0 + 1).into(),
            self.lines.map(|lines| lines.1).into(),
            self.sum.calls.into(),
            self.sum.bytes.into(),
            own.and_then(|s| s.time_s).into(),
            own.and_then(|s| s.tflops).into(),
            step.map(|s| s.steps).into(),
        ]
    }
}
