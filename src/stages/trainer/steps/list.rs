//! `--list`: a row for each step, and for each stretch of calls that have none.

use super::{Surveyed, To, all};
use crate::count::calls::{Options, Progress};
use crate::error::Result;
use crate::log::Log;
use crate::log::timeline::{Gap, Growing, Marker, Timeline, Window};
use crate::members::Merged;
use crate::output::early::Early;
use crate::output::render::{Cell, Grid, Sheet};
use crate::report::Report;
use crate::source::Origin;
use crate::stages::survey::{Sum, Surveying};
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

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
/// As [`lines`](super::lines).
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
pub(super) fn settled(
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
pub(super) fn grid(rows: Vec<Vec<Cell<'static>>>) -> Grid {
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
