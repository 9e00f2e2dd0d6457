//! `--list`: a row for each step, and for each stretch of calls that have none.

use super::{StepsOutput, read_logs};
use crate::count::calls::{Options, Progress};
use crate::count::member_filter::{MemberFilter, SHAPE_COLUMNS};
use crate::error::Result;
use crate::filter::{CallFilter, FilterPart};
use crate::log::LogState;
use crate::log::timeline::{GapKind, LiveTimeline, MarkerSide, StepTimeline};
use crate::members::MergedMembers;
use crate::output::live_rows::LiveRows;
use crate::output::render::{Grid, Sheet, TableCell};
use crate::report::Report;
use crate::source::InputName;
use crate::stages::survey::{GapCallSum, SurveyBuilder};
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

/// The columns of `--list`; `steps` is how many steps a row represents.
const STEP_LIST_COLUMNS: [&str; 9] = [
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
/// Calls that do not pass `filter` are left out of the sums.
///
/// # Errors
/// As [`lines`](super::write_step_lines); the filter needs a column that a log's calls lack here.
pub fn list_steps(
    origins: &[InputName],
    options: &Options,
    filter: &CallFilter,
    report: &mut Report,
    progress: &dyn Progress,
    early: Option<LiveRows<'_, Grid>>,
) -> Result<StepList> {
    let members = MemberFilter::new(filter, &SHAPE_COLUMNS)?;
    let to = StepsOutput::Rows(members, early.filter(|_| origins.len() == 1));
    let (mut logs, (_, first)) = read_logs(origins, options, report, progress, to)?;
    let mut passed = FilterPart::default();
    let parts = logs.iter_mut().map(|log| log.survey.take_filtered());
    parts.for_each(|part| passed.merge(part));
    if !filter.is_empty() {
        passed.report(filter, report);
    }
    let is_several = logs.len() > 1;
    let mut unknown = GapCallSum::default();
    let mut listed = Vec::new();
    for log in logs {
        // The calls of an input without step lines are in the rows of the input with such lines.
        if log.survey.is_settled {
            unknown.merge(log.survey.sum_of_gap(0));
            continue;
        }
        let timeline = log.survey.timeline.clone();
        let sum = |gap| log.survey.sum_of_gap(gap);
        let stretches = find_rows(&log.survey.log, &timeline, first, sum, options);
        listed.push(StepListOfLog {
            name: Some(log.input.name()),
            timeline,
            stretches,
        });
    }
    if unknown.calls > 0 && options.window.is_none() {
        listed.push(StepListOfLog {
            name: None,
            timeline: Arc::default(),
            stretches: vec![StepListRow {
                kind: GapKind::Unknown,
                lines: None,
                sum: unknown,
                last: 0,
            }],
        });
    }
    Ok(StepList {
        logs: listed,
        is_several,
    })
}

/// The steps of all logs.
pub struct StepList {
    logs: Vec<StepListOfLog>,
    /// Rows have the name of the file with the step's lines.
    is_several: bool,
}

/// The steps of one log, or the calls of files without step lines that have no step.
struct StepListOfLog {
    name: Option<String>,
    timeline: Arc<StepTimeline>,
    stretches: Vec<StepListRow>,
}

impl StepList {
    /// Their rows, made when they are written.
    pub fn build_sheet(&self) -> Sheet<'_> {
        let several = self.is_several;
        let mut columns: Vec<String> = STEP_LIST_COLUMNS.map(str::to_owned).to_vec();
        if several {
            columns.push("file".to_owned());
        }
        let (mut rows, mut firsts) = (0, Vec::with_capacity(self.logs.len()));
        for log in &self.logs {
            firsts.push(rows);
            rows += log.stretches.len();
        }
        Sheet::from_rows(columns, rows, move |at| {
            let log = firsts.partition_point(|first| *first <= at) - 1;
            let (at, log) = (at - firsts[log], &self.logs[log]);
            let mut row = log.stretches[at].cells(&log.timeline);
            if several {
                row.push(log.name.clone().into());
            }
            row
        })
    }
}

/// Neighbouring gaps of the same kind.
struct StepListRow {
    kind: GapKind,
    /// The first and the last line, if these are its own.
    lines: Option<(u64, u64)>,
    sum: GapCallSum,
    /// The last gap.
    last: usize,
}

/// The rows of a log so far that are settled, of gap `given` and later, which is then the first gap
/// without.
pub(super) fn settled_rows(
    log: &LogState,
    merged: &MergedMembers,
    now: &mut SurveyBuilder,
    growing: &mut LiveTimeline,
    written: &mut BTreeMap<usize, GapCallSum>,
    given: &mut usize,
    options: &Options,
) -> Vec<Vec<TableCell<'static>>> {
    let timeline = log.update_growing_timeline(growing, &options.timeline);
    let told = timeline.count_known_steps().checked_sub(1);
    let told = told.and_then(|last| timeline.steps.get(last));
    let Some((told, (last, sums))) = told.zip(now.settled_sums(timeline, merged, *given)) else {
        return Vec::new();
    };
    let last = last.min(told.mark);
    let sum = |gap| sums.get(&gap).copied().unwrap_or_default();
    // It ends a stretch.
    let from = mem::replace(given, (last + 1).max(*given));
    written.extend(sums.range(from..*given));
    find_rows(log, timeline, from, sum, options)
        .iter()
        .take_while(|stretch| stretch.last <= last)
        .map(|stretch| stretch.cells(timeline))
        .collect()
}

/// Rows of one log.
pub(super) fn build_grid(rows: Vec<Vec<TableCell<'static>>>) -> Grid {
    let columns = STEP_LIST_COLUMNS.map(str::to_owned).to_vec();
    Grid { columns, rows }
}

/// The stretches of a log from gap `from` on, with the calls of each gap.
fn find_rows(
    log: &LogState,
    timeline: &StepTimeline,
    from: usize,
    sum: impl Fn(usize) -> GapCallSum,
    options: &Options,
) -> Vec<StepListRow> {
    let marks = log.marks.as_slice();
    // One after the other: those of a long log are packed.
    let mut next = marks.slice(from.saturating_sub(1)..marks.len()).iter();
    let mut line = || next.next().map(|mark| (mark.line, mark.next_line));
    let mut before = if from > 0 { line() } else { None };
    let lines = log.account.lines;
    let mut out: Vec<StepListRow> = Vec::new();
    for (gap, &kind) in (from..).zip(timeline.gaps.slice(from..timeline.gaps.len())) {
        let starts = options.timeline.marker == MarkerSide::Start;
        let first = match gap {
            0 => 0,
            _ => before.map_or(lines, |(own, next)| if starts { own } else { next }),
        };
        before = line();
        let last = before.map_or(lines, |(own, _)| own + u64::from(!starts));
        let sum = sum(gap);
        // An evaluation may be in the middle of the steps of one line.
        let split = matches!(kind, GapKind::Step(_))
            && out.len() >= 2
            && out[out.len() - 1].kind == GapKind::Between
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
            _ => out.push(StepListRow {
                kind,
                lines: Some((first, last)),
                sum,
                last: gap,
            }),
        }
    }
    out.retain(|s| match (s.kind, &options.window) {
        (GapKind::Step(i), _) if s.sum.calls == 0 && timeline.is_only_announced(i) => false,
        (GapKind::Step(i), Some(w)) => {
            let step = timeline.steps.get(i as usize);
            step.is_some_and(|step| w.contains(step.step))
        }
        (GapKind::Step(_), None) => true,
        (_, Some(_)) => false,
        (_, None) => s.sum.calls > 0,
    });
    out
}

impl StepListRow {
    fn cells(&self, timeline: &StepTimeline) -> Vec<TableCell<'static>> {
        let step = match self.kind {
            GapKind::Step(i) => timeline.steps.get(i as usize),
            _ => None,
        };
        let name = match self.kind {
            GapKind::Step(_) => step.map(|s| s.step).into(),
            GapKind::Between => "between".into(),
            GapKind::Before => "before".into(),
            GapKind::After => "after".into(),
            GapKind::Unknown => TableCell::Empty,
        };
        vec![
            step.map(|s| u64::from(s.segment)).into(),
            name,
            self.lines.map(|lines| lines.0 + 1).into(),
            self.lines.map(|lines| lines.1).into(),
            self.sum.calls.into(),
            self.sum.bytes.into(),
            step.and_then(|s| s.time_s).into(),
            step.and_then(|s| s.tflops).into(),
            step.map(|s| s.steps).into(),
        ]
    }
}
