//! nccl-steps: the lines of chosen steps, byte for byte, or one row a step.

use super::skew::Astray;
use super::survey::{Sum, Survey, survey};
use crate::calls::{self, Options, Progress};
use crate::error::{Error, Result};
use crate::origin::Merged;
use crate::propose;
use crate::render::{Cell, Grid};
use crate::report::Report;
use crate::source::{Input, Origin};
use crate::timeline::{self, Gap, Marker, Present, Timeline};
use std::io::{Read, Write};

/// A log whose steps are known.
struct Surveyed {
    input: Input,
    survey: Survey,
    timeline: Timeline,
    /// Calls on the wrong side of step lines, where the log tells.
    astray: Option<Astray>,
}

/// What a call table lacks, of which a program reads steps.
pub(super) const NO_STEP_LINES: &str = "a call table has no step lines";

/// `rows` where the steps' own rows are written, not their lines.
fn all(
    origins: &[Origin],
    options: &Options,
    rows: bool,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Vec<Surveyed>> {
    let mut merged = Merged::default();
    let mut logs = Vec::new();
    calls::each(origins, options.source, report, |input, report| {
        calls::demand_log(&input, NO_STEP_LINES)?;
        let input = input.rewindable()?;
        let survey = survey(&input, &options.log, &mut merged, |b| progress.advance(b))?;
        let name = input.name();
        report.input(&name, &survey.log.account);
        if survey.log.account.lines == 0 {
            calls::no_calls(&name, 0, report);
        }
        let timeline = timeline::resolve(&survey.log.marks, &survey.log.begins, &options.timeline);
        calls::said(&name, &timeline, report);
        if rows {
            calls::stamps(&name, &timeline, report);
        }
        let astray = survey.astray(&merged, &timeline);
        if let Some(astray) = &astray
            && (rows || options.window.is_some())
        {
            astray.said(&name, survey.log.account.calls, report);
        }
        logs.push(Surveyed {
            input,
            survey,
            timeline,
            astray,
        });
        Ok(())
    })?;
    progress.finish();
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
    for log in all(origins, options, false, report, progress)? {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (gap, kind) in log.timeline.gaps.iter().enumerate() {
            if let Gap::Step(_) = kind
                && let Some(step) = log.timeline.step_of(gap)
                && options.window.is_none_or(|w| w.contains(step.step))
            {
                ranges.push(range(&log, gap, options.timeline.marker));
            }
        }
        ranges.extend(&log.survey.log.init_lines);
        copy(&log.input, &joined(ranges), out)?;
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

/// Bytes copied at a time.
const COPY: u64 = 1 << 20;

fn copy(input: &Input, ranges: &[(u64, u64)], out: &mut dyn Write) -> Result<()> {
    // The kernel finds no more where the log was truncated a moment ago.
    let written = |result: std::io::Result<()>| match result {
        Err(e) if e.raw_os_error() == Some(libc::EFAULT) => Err(input.changed()),
        result => result.map_err(Error::Output),
    };
    let mut reader: Option<Box<dyn Read + Send>> = None;
    let mut block = Vec::new();
    let mut at = 0;
    for &(from, to) in ranges {
        let mut next = from;
        while next < to {
            let end = to.min(next.saturating_add(COPY));
            if let Some(part) = input.part(next, end)? {
                if part.is_empty() {
                    break;
                }
                written(out.write_all(part))?;
                next += part.len() as u64;
                continue;
            }
            let failed = |source| Error::Input {
                path: input.name().into(),
                cause: source,
            };
            let reader = match &mut reader {
                Some(reader) => reader,
                none => none.insert(input.reader()?),
            };
            // What is before the range is read and left.
            let wanted = if at < next { next - at } else { end - at };
            let mut limited = reader.take(wanted.min(COPY));
            block.clear();
            let n = limited.read_to_end(&mut block).map_err(failed)?;
            if n == 0 {
                break;
            }
            if at >= next {
                written(out.write_all(&block))?;
                next += n as u64;
            }
            at += n as u64;
        }
    }
    Ok(())
}

/// The columns of `--list`; `steps` is how many steps a row stands for, `astray` how many calls
/// stand on the wrong side of its line, at least.
const COLUMNS: [&str; 10] = [
    "segment",
    "step",
    "first_line",
    "last_line",
    "calls",
    "total_bytes",
    "time_s",
    "tflops_per_gpu",
    "steps",
    "astray",
];

/// One row a step, and one for each stretch between steps and behind the last that has calls, so
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
    let logs = all(origins, options, true, report, progress)?;
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
    lines: (u64, u64),
    sum: Sum,
    /// The last of them.
    last: usize,
}

fn stretches(log: &Surveyed, options: &Options) -> Vec<Stretch> {
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
        let sum = log.survey.sums.sum(gap);
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
                before.lines.1 = last;
                before.last = gap;
                before.sum.merge(sum);
            }
            _ => out.push(Stretch {
                kind,
                lines: (first, last),
                sum,
                last: gap,
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

impl Stretch {
    fn row(&self, log: &Surveyed) -> Vec<Cell<'static>> {
        let step = match self.kind {
            Gap::Step(i) => log.timeline.steps.get(i as usize),
            _ => None,
        };
        let astray = log
            .astray
            .as_ref()
            .and_then(|a| a.at.get(&self.last))
            .copied();
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
            (self.lines.0 + 1).into(),
            self.lines.1.into(),
            self.sum.calls.into(),
            self.sum.bytes.into(),
            step.and_then(|s| s.time_s).into(),
            step.and_then(|s| s.tflops).into(),
            step.map(|s| s.steps).into(),
            astray.into(),
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
