//! nccl-steps: the lines of chosen steps, byte for byte, or one row for each step.

use super::survey::{Sum, Survey, Surveying};
use crate::count::calls::{Options, Progress};
use crate::count::notes;
use crate::error::Result;
use crate::formats::Tells;
use crate::formats::door::Known;
use crate::formats::log::placement::{Across, Methods, Recorder};
use crate::formats::log::propose;
use crate::formats::log::timeline::{Gap, Marker, Present, Timeline, Window};
use crate::formats::log::{Log, Part};
use crate::members::Merged;
use crate::output::render::{Cell, Grid};
use crate::report::Report;
use crate::source::{Input, Origin};
use crate::stages::{self, Stage};
use std::io::Write;
use std::sync::Arc;

mod passed;

/// A log whose steps are known.
struct Surveyed {
    input: Input,
    survey: Survey,
    /// Its own step lines' steps.
    timeline: Arc<Timeline>,
}

/// What was read so far.
struct Reading<'o> {
    options: &'o Options,
    /// The steps' lines are written, not rows of the steps.
    lines: bool,
    /// The log in hand.
    now: Surveying,
    across: Across,
    methods: Methods,
    logs: Vec<Surveyed>,
}

impl Stage for Reading<'_> {
    const NEEDS: Tells = Tells::STEP_LINES;
    const AGAIN: bool = true;
    type Visit = Recorder;

    fn begin(&mut self, _: String) {
        self.now = Surveying::new(self.options);
    }

    fn add(&mut self, part: Part<'_, Recorder>) {
        let (calls, part) = part.taken();
        self.now.add(calls, &part, self.options);
    }

    fn end(&mut self, input: Known<Recorder>, log: Log, merged: &Merged, report: &mut Report) {
        let now = std::mem::take(&mut self.now);
        let survey = now.end(log, merged, &mut self.across, self.options);
        let (name, timeline) = (input.name(), Arc::clone(&survey.timeline));
        self.methods.add(survey.placement.methods);
        notes::said(&name, &timeline, report);
        if !self.lines {
            notes::stamps(&name, &timeline, report);
        }
        self.logs.push(Surveyed {
            input: input.into_input(),
            survey,
            timeline,
        });
    }
}

/// All logs, with their steps; `lines` where the steps' lines are written, not rows of the steps.
fn all(
    origins: &[Origin],
    options: &Options,
    lines: bool,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Vec<Surveyed>> {
    let mut stage = Reading {
        options,
        lines,
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
        ..
    } = stage;
    progress.finish();
    if let Some(placed) = across.place(&merged, options.log.jobs) {
        methods.add(placed.methods);
        for log in &mut logs {
            log.survey.settle(&placed);
        }
    }
    report.placed(methods);
    let mut present = Present::default();
    logs.iter().for_each(|log| present.add(&log.timeline));
    let inputs = || logs.iter().map(|log| Ok(&log.input));
    present
        .demand(options.window.as_ref())
        .map_err(|missing| propose::instead(missing, &present, inputs()))?;
    Ok(logs)
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
    let logs = all(origins, options, true, report, progress)?;
    for log in &logs {
        let wanted = |gap: usize| {
            let step = log.survey.timeline.step_of(gap);
            step.is_some_and(|step| options.window.is_none_or(|w| w.contains(step.step)))
        };
        // Another input's lines say nothing of the lines here.
        let own = 0..log.timeline.gaps.len();
        let gaps = own.filter(|&gap| !log.survey.is_settled && wanted(gap));
        let mut ranges: Vec<(u64, u64)> = gaps
            .map(|gap| range(log, gap, options.timeline.marker))
            .collect();
        ranges.extend(&log.survey.log.init_lines);
        let moved = |&(at, line, gap): &(u64, u32, u32)| {
            let (line, call) = (wanted(line as usize), wanted(gap as usize));
            (line != call).then_some((at, call))
        };
        let mut moved: Vec<(u64, bool)> = log.survey.moved.iter().filter_map(moved).collect();
        moved.sort_unstable();
        passed::copy(&log.input, &joined(ranges), &moved, out)?;
    }
    Ok(())
}

/// The bytes of a gap: where lines end steps, up to and with its line; where they begin steps,
/// from its line on.
fn range(log: &Surveyed, gap: usize, marker: Marker) -> (u64, u64) {
    let marks = &log.survey.log.marks;
    let edge = |mark: usize| match marker {
        Marker::End => marks[mark].cut,
        Marker::Start => marks[mark].start,
    };
    let from = if gap == 0 { 0 } else { edge(gap - 1) };
    let to = if gap == marks.len() {
        u64::MAX
    } else {
        edge(gap)
    };
    (from, to)
}

/// Sorted ranges that do not overlap, neighbours made one.
fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (from, to) in ranges {
        match out.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
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
/// that the rows' calls are the log's.
///
/// # Errors
/// As [`lines`].
pub fn list(
    origins: &[Origin],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Grid> {
    let logs = all(origins, options, false, report, progress)?;
    let several = logs.len() > 1;
    let mut columns: Vec<String> = COLUMNS.map(str::to_owned).to_vec();
    if several {
        columns.push("file".to_owned());
    }
    let mut rows = Vec::new();
    for log in &logs {
        let name = log.input.name();
        for stretch in stretches(log, options) {
            let mut row = stretch.row(log);
            if several {
                row.push(name.clone().into());
            }
            rows.push(row);
        }
    }
    Ok(Grid { columns, rows })
}

/// Neighbouring gaps of the same kind.
struct Stretch {
    kind: Gap,
    /// The first and the last line, if these are its own.
    lines: Option<(u64, u64)>,
    sum: Sum,
}

fn stretches(log: &Surveyed, options: &Options) -> Vec<Stretch> {
    if log.survey.is_settled {
        return without_lines(log, options);
    }
    let marks = &log.survey.log.marks;
    let lines = log.survey.log.account.lines;
    let mut out: Vec<Stretch> = Vec::new();
    for (gap, &kind) in log.timeline.gaps.iter().enumerate() {
        let starts = options.timeline.marker == Marker::Start;
        let first = match gap {
            0 => 0,
            _ if starts => marks[gap - 1].line,
            _ => marks[gap - 1].next_line,
        };
        let last = match marks.get(gap) {
            None => lines,
            Some(mark) if starts => mark.line,
            Some(mark) => mark.line + 1,
        };
        let sum = log.survey.sum(gap);
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
            }
            _ => out.push(Stretch {
                kind,
                lines: Some((first, last)),
                sum,
            }),
        }
    }
    out.retain(|s| match (s.kind, &options.window) {
        (Gap::Step(i), _) if s.sum.calls == 0 && log.timeline.is_only_announced(i) => false,
        (Gap::Step(i), Some(w)) => w.contains(log.timeline.steps[i as usize].step),
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
            }),
        }
    }
    // What has no step comes last.
    let unknown = out.iter().take_while(|s| s.kind == Gap::Unknown).count();
    out.rotate_left(unknown);
    out
}

impl Stretch {
    fn row(&self, log: &Surveyed) -> Vec<Cell<'static>> {
        let step = match self.kind {
            Gap::Step(i) => log.survey.timeline.steps.get(i as usize),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_ranges_are_one_and_none_overlaps() {
        let ranges = vec![(10, 20), (0, 5), (20, 30), (12, 15), (40, u64::MAX)];
        assert_eq!(joined(ranges), [(0, 5), (10, 30), (40, u64::MAX)]);
    }
}
