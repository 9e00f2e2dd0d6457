//! How long each step took, by its own line, or by it and the line before.

mod lines;
mod seconds;

use super::evaluation::EvaluationSpan;
use super::limits::{MAX_MEDIAN_RATIO, MIN_CLOCK_ERRORS};
use super::marks::MarkSlice;
use super::{LineNumberUnit, StepTimeline};
use crate::grammar::trainer::TrainerClock;
use lines::{StepsSpan, TimedStepLine, TimedStepLines};
use serde::{Deserialize, Serialize};

/// Where step times come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum StepTimeSource {
    /// From the lines, which print them.
    #[default]
    Printed,
    /// From the differences of the lines' time stamps.
    Stamps,
    /// From time stamps in whole seconds where steps are shorter: over as many steps as are needed.
    Seconds,
    /// From the samples a second and the batch size that the log states.
    Throughput,
    /// From a rate that is a moving average over the last steps.
    Smoothed,
    /// From the differences of the clock on the lines.
    Clock,
}

/// Gives steps without a printed time one, on the best basis there is for the whole log. In `stretches` nothing
/// is trained; a step has `batch` samples where they are first stated; `has_sums` if a line has a time of
/// several steps.
pub(super) fn fill_step_times(
    t: &mut StepTimeline,
    marks: MarkSlice<'_>,
    stretches: &[EvaluationSpan],
    batch: Option<u64>,
    has_sums: bool,
) {
    if has_sums {
        let sums = times_from_sums(|| TimedStepLines::over_steps(t, marks, stretches, batch));
        for (step, sum) in t.steps.remaining_mut().iter_mut().zip(sums) {
            step.time_s = step.time_s.or(sum);
        }
    }
    // Mostly each line has its own, and nothing else needs to be worked out.
    if t.steps.iter().all(|step| step.time_s.is_some()) {
        return;
    }
    let (stamps, of_stamps) = times_from_stamps(
        || TimedStepLines::over_steps(t, marks, stretches, batch),
        t.counted,
    );
    if t.steps.iter().any(|step| step.time_s.is_some()) {
        for (step, stamp) in t.steps.remaining_mut().iter_mut().zip(stamps) {
            if step.time_s.is_none() && stamp.is_some() {
                step.time_s = stamp;
                t.times = of_stamps;
            }
        }
        return;
    }
    let lines = || TimedStepLines::over_steps(t, marks, stretches, batch);
    let throughput: Vec<_> = lines().map(|line| line.time_from_throughput()).collect();
    let smoothed: Vec<_> = lines().map(|line| line.time_from_smoothing()).collect();
    let (clock, clear) = times_from_clocks(lines());
    let is = |times: &[Option<f64>]| times.iter().any(Option::is_some);
    let of = |times: &[Option<f64>]| median_time(times.iter().copied());
    // Where the rate is one process's, the stamps show it.
    let whole = match (of(&throughput), of(&stamps)) {
        (Some(a), Some(b)) => (a / b).max(b / a) < MAX_MEDIAN_RATIO,
        (a, _) => a.is_some(),
    };
    let (times, basis) = if whole {
        (throughput, StepTimeSource::Throughput)
    } else if is(&stamps) {
        (stamps, of_stamps)
    } else if is(&clock) && (clear || !is(&smoothed)) {
        (clock, StepTimeSource::Clock)
    } else if is(&smoothed) {
        (smoothed, StepTimeSource::Smoothed)
    } else {
        // The seconds are too few for a mean, and a note reports it.
        match of_stamps {
            StepTimeSource::Seconds => (stamps, of_stamps),
            _ => return,
        }
    };
    t.times = basis;
    for (step, time) in t.steps.remaining_mut().iter_mut().zip(times) {
        step.time_s = time;
    }
}

/// Times by the sums on the lines: since the line before, or since the epoch began. Of a log's first
/// line, and after a restart, neither is known: it is what makes the time like the others.
fn times_from_sums<L: Iterator<Item = TimedStepLine>>(lines: impl Fn() -> L) -> Vec<Option<f64>> {
    let first = |line: &TimedStepLine| (line.from_first == 1).then_some(1);
    let sure =
        |line: &TimedStepLine| line.time_from_sum(line.since.or(line.in_epoch).or(first(line)));
    let usual = median_time(lines().map(|line| sure(&line)));
    let guess = |line: &TimedStepLine| {
        let usual = usual?;
        [line.from_first, line.steps]
            .into_iter()
            .filter_map(|over| line.time_from_sum(Some(over)))
            .find(|time| (time / usual).max(usual / time) < MAX_MEDIAN_RATIO)
    };
    let time = |line: TimedStepLine| sure(&line).or_else(|| guess(&line));
    lines().map(time).collect()
}

/// The time between the stamps of a line and of the one before it in its segment.
#[derive(Clone, Copy, Default)]
struct LineInterval {
    /// All of it, where nothing but training is in it.
    plain: Option<StepsSpan>,
    /// With evaluations in it: what follows the last, then all but them, then all.
    around: [Option<StepsSpan>; 3],
}

/// Times between two lines of a segment, without the evaluations between them.
///
/// What a job does around an evaluation is on no line, and some evaluate beside the training: the
/// time of the steps after the evaluation, the time without it, or else all of it has to be like others.
fn times_from_stamps<L: Iterator<Item = TimedStepLine>>(
    lines: impl Fn() -> L,
    counted: LineNumberUnit,
) -> (Vec<Option<f64>>, StepTimeSource) {
    if counted == LineNumberUnit::Samples {
        return (vec![None; lines().count()], StepTimeSource::Stamps);
    }
    let is_short = |passed: LineInterval| {
        let span = passed.plain;
        span.is_some_and(|span| span.ms == 0 && span.steps > 0)
    };
    if seconds::are_whole_seconds(lines()) && line_intervals(lines()).any(is_short) {
        return (seconds::mean_step_times(lines()), StepTimeSource::Seconds);
    }
    let plain = |passed: &LineInterval| passed.plain.and_then(StepsSpan::seconds_per_step);
    let usual = median_time(line_intervals(lines()).map(|passed| plain(&passed)));
    let like =
        |time: &f64| usual.is_none_or(|usual| (time / usual).max(usual / time) < MAX_MEDIAN_RATIO);
    let around = |passed: &LineInterval| {
        let times = passed.around.iter().flatten();
        times.filter_map(|span| span.seconds_per_step()).find(like)
    };
    let time = |passed: LineInterval| plain(&passed).or_else(|| around(&passed));
    (
        line_intervals(lines()).map(time).collect(),
        StepTimeSource::Stamps,
    )
}

fn line_intervals(
    lines: impl Iterator<Item = TimedStepLine>,
) -> impl Iterator<Item = LineInterval> {
    let mut before: Option<i64> = None;
    let (mut paused, mut steps) = (Some(0_i64), 0_u64);
    lines.map(move |line| {
        let pause = match line.pause.ms {
            0 => (line.pause.said * 1000.0) as i64,
            ms => ms,
        };
        paused = paused
            .filter(|_| !line.pause.unknown)
            .and_then(|paused| paused.checked_add(pause));
        match line.since {
            Some(since) => steps = steps.saturating_add(since),
            None => before = None,
        }
        let Some(now) = line.line.wall_ms else {
            return LineInterval::default();
        };
        let since = |then: i64, steps| {
            let ms = now.checked_sub(then)?;
            Some(StepsSpan { ms, steps })
        };
        let all = before.and_then(|before| since(before, steps));
        let resumed = line.resumed.and_then(|(then, steps)| since(then, steps));
        let passed = match paused {
            Some(0) => LineInterval {
                plain: all,
                ..LineInterval::default()
            },
            Some(paused) => {
                let without = all.and_then(|all| {
                    let ms = all.ms.checked_sub(paused)?;
                    Some(StepsSpan { ms, ..all })
                });
                LineInterval {
                    plain: None,
                    around: [resumed, without, all],
                }
            }
            None => LineInterval {
                plain: None,
                around: [resumed, None, None],
            },
        };
        before = Some(now);
        (paused, steps) = (Some(0), 0);
        passed
    })
}

/// Times by the clock on the lines, each over as many steps as it needs to be clear of the
/// clock's error; and whether one line is enough, mostly.
fn times_from_clocks(lines: impl Iterator<Item = TimedStepLine>) -> (Vec<Option<f64>>, bool) {
    let mut times = Vec::new();
    // The lines since the last evaluation, or since a segment began.
    let mut points: Vec<(u64, TrainerClock)> = Vec::new();
    let (mut one, mut all) = (0_usize, 0_usize);
    for line in lines {
        if line.since.is_none() {
            points.clear();
            // All steps are this line's: the clock began with them.
            if line.from_first == line.steps {
                points.push((
                    0,
                    TrainerClock {
                        seconds: 0.0,
                        error: 0.0,
                    },
                ));
            }
        }
        let paused = line.pause.unknown || line.pause.ms != 0 || line.pause.said != 0.0;
        if paused {
            points.clear();
        }
        let Some(now) = line.line.clock else {
            times.push(None);
            continue;
        };
        let is_clear = |then: &TrainerClock| {
            let apart = now.seconds - then.seconds;
            apart > 0.0 && apart >= MIN_CLOCK_ERRORS * now.error.max(then.error)
        };
        if let Some((_, last)) = points.last() {
            all += 1;
            one += usize::from(is_clear(last));
        }
        // The older a line, the clearer; the latest that is clear enough is taken.
        let clear = points.partition_point(|(_, then)| is_clear(then));
        let then = clear.checked_sub(1).and_then(|at| points.get(at));
        times.push(then.and_then(|&(n, then)| {
            let steps = line.from_first.checked_sub(n).filter(|n| *n > 0)?;
            Some((now.seconds - then.seconds) / steps as f64)
        }));
        points.push((line.from_first, now));
    }
    (times, 2 * one > all)
}

fn median_time(times: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let mut all: Vec<f64> = times.flatten().filter(|t| *t > 0.0).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}
