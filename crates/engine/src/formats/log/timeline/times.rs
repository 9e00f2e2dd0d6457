//! How long each step took: what its line says, or what follows from it and from the line before.

use super::evaluation::Pause;
use super::{Counted, Step, Timeline, seconds};
use crate::formats::log::walk::MarkAt;
use crate::grammar::trainer::{Clock, Evaluation, Mark, Pace, StepLine};
use serde::{Deserialize, Serialize};

/// How many times its error a difference of two clocks must be.
const CLEAR: f64 = 5.0;

/// How far two medians may be apart to be of the same thing.
const SAME: f64 = 1.5;

/// Where step times come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Times {
    /// From the lines, which print them.
    #[default]
    Printed,
    /// From the differences of the lines' time stamps.
    Stamps,
    /// The same where these are whole seconds and steps are shorter: over as many steps as are needed.
    Seconds,
    /// From the samples a second and the batch size that the log states.
    Throughput,
    /// From a rate that is a moving average over the last steps.
    Smoothed,
    /// From the differences of the clock on the lines.
    Clock,
}

/// A step's line, with what is around it.
pub(super) struct Line<'a> {
    pub(super) line: &'a StepLine,
    /// How many samples a step has.
    batch: Option<u64>,
    pub(super) pause: Pause,
    /// How many steps since the line before in its segment; `None` for a segment's first line.
    pub(super) since: Option<u64>,
    /// How many steps since the numbering began.
    pub(super) from_first: u64,
    /// The same for the first line of a later epoch than the line before.
    in_epoch: Option<u64>,
    /// How many steps the line represents.
    steps: u64,
    /// A moving average printed after the line.
    smoothed: Option<f64>,
    /// When the last evaluation before it was over, and how many steps after that it is.
    resumed: Option<(i64, u64)>,
}

/// Gives the steps whose lines print no time one, on the best basis there is for the whole log.
pub(super) fn fill(t: &mut Timeline, marks: &[MarkAt], pauses: &[Pause]) {
    let lines = lines(t, marks, pauses);
    for (step, sum) in t.steps.iter_mut().zip(sums(&lines)) {
        step.time_s = step.time_s.or(sum);
    }
    let (stamps, of_stamps) = stamps(&lines, t);
    if t.steps.iter().any(|step| step.time_s.is_some()) {
        for (step, stamp) in t.steps.iter_mut().zip(stamps) {
            if step.time_s.is_none() && stamp.is_some() {
                step.time_s = stamp;
                t.times = of_stamps;
            }
        }
        return;
    }
    let throughput: Vec<_> = lines.iter().map(Line::of_throughput).collect();
    let smoothed: Vec<_> = lines.iter().map(Line::of_smoothing).collect();
    let (clock, clear) = clocks(&lines);
    let is = |times: &[Option<f64>]| times.iter().any(Option::is_some);
    // Where the rate is one process's, the stamps show it.
    let whole = match (median(&throughput), median(&stamps)) {
        (Some(a), Some(b)) => (a / b).max(b / a) < SAME,
        (a, _) => a.is_some(),
    };
    let (times, basis) = if whole {
        (throughput, Times::Throughput)
    } else if is(&stamps) {
        (stamps, of_stamps)
    } else if is(&clock) && (clear || !is(&smoothed)) {
        (clock, Times::Clock)
    } else if is(&smoothed) {
        (smoothed, Times::Smoothed)
    } else {
        return;
    };
    t.times = basis;
    for (step, time) in t.steps.iter_mut().zip(times) {
        step.time_s = time;
    }
}

fn lines<'a>(t: &Timeline, marks: &'a [MarkAt], pauses: &[Pause]) -> Vec<Line<'a>> {
    let first = t.trainer.map_or(1, |trainer| trainer.first_step());
    let mut batch = marks.iter().find_map(|mark| match mark.mark {
        Mark::BatchSize(size) => Some(size),
        _ => None,
    });
    let mut lines: Vec<Line<'_>> = Vec::with_capacity(t.steps.len());
    let mut resumed: Option<(i64, u64)> = None;
    let mut before: Option<&Step> = None;
    let mut epoch: Option<u64> = None;
    let mut steps = t.steps.iter().zip(pauses).peekable();
    for (at, mark) in marks.iter().enumerate() {
        match &mark.mark {
            Mark::BatchSize(size) => batch = Some(*size),
            Mark::Metric { smoothed, .. } if smoothed.is_some() => {
                if let Some(line) = lines.last_mut() {
                    line.smoothed = *smoothed;
                }
            }
            Mark::Evaluation(Evaluation::Stops {
                wall_ms,
                samples,
                step,
            }) => {
                let done = match t.counted {
                    Counted::Steps | Counted::Epochs(_) => *step,
                    Counted::ByStep(each) => samples.map(|samples| samples.div_ceil(each)),
                    Counted::Samples => None,
                };
                resumed = wall_ms.zip(done);
            }
            Mark::Step(line) => {
                let Some((step, pause)) = steps.next_if(|(step, _)| step.mark == at) else {
                    continue;
                };
                let same = before.filter(|before| before.segment == step.segment);
                let from_first = step.step.saturating_sub(first).saturating_add(1);
                let last = std::mem::replace(&mut epoch, line.epoch);
                let later = line
                    .epoch
                    .zip(last)
                    .is_some_and(|(epoch, last)| epoch > last);
                lines.push(Line {
                    line,
                    batch,
                    pause: *pause,
                    since: same.and_then(|before| step.step.checked_sub(before.step)),
                    from_first,
                    in_epoch: later.then_some(from_first),
                    steps: step.steps,
                    smoothed: None,
                    resumed: resumed
                        .take()
                        .and_then(|(ms, done)| Some((ms, step.step.checked_sub(done)?))),
                });
                before = Some(step);
            }
            _ => {}
        }
    }
    lines
}

impl Line<'_> {
    /// The mean of what the line says that several steps took, over so many where it does not say.
    fn of_a_sum(&self, over: Option<u64>) -> Option<f64> {
        let Some(Pace::Sum { time_s, steps }) = self.line.pace else {
            return None;
        };
        let steps = steps.or(over).filter(|steps| *steps > 0)?;
        // One rounding of what was printed: 3.118911 seconds for 1,000 steps are 0.003118911.
        let micros = |s: f64| (s * 1e6).round();
        let sum = micros(time_s) - micros(self.pause.said);
        (sum >= 0.0).then(|| sum / (1e6 * steps as f64))
    }

    fn of_throughput(&self) -> Option<f64> {
        match (self.line.pace, self.batch) {
            (Some(Pace::Samples { per_s, batches }), Some(batch)) if per_s > 0.0 => {
                Some(batch as f64 * batches as f64 / per_s)
            }
            _ => None,
        }
    }

    fn of_smoothing(&self) -> Option<f64> {
        match self.line.pace {
            Some(Pace::Smoothed(time_s)) => Some(time_s),
            _ => self.smoothed,
        }
    }
}

/// Times by the sums on the lines: since the line before, or since the epoch began. Of a log's first
/// line, and after a restart, neither is known: it is what makes the time like the others.
fn sums(lines: &[Line<'_>]) -> Vec<Option<f64>> {
    let first = |line: &Line<'_>| (line.from_first == 1).then_some(1);
    let sure = |line: &Line<'_>| line.of_a_sum(line.since.or(line.in_epoch).or(first(line)));
    let usual = median(&lines.iter().map(sure).collect::<Vec<_>>());
    let guess = |line: &Line<'_>| {
        let usual = usual?;
        [line.from_first, line.steps]
            .into_iter()
            .filter_map(|over| line.of_a_sum(Some(over)))
            .find(|time| (time / usual).max(usual / time) < SAME)
    };
    let time = |line: &Line<'_>| sure(line).or_else(|| guess(line));
    lines.iter().map(time).collect()
}

/// Milliseconds that steps took.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) ms: i64,
    pub(super) steps: u64,
}

impl Span {
    /// One rounding: 14.648 seconds for ten steps are 1.4648, and print as that.
    pub(super) fn of_a_step(self) -> Option<f64> {
        let is = self.ms >= 0 && self.steps > 0;
        is.then(|| self.ms as f64 / (1000.0 * self.steps as f64))
    }
}

/// What passed between the stamps of a line and of the one before it in its segment.
#[derive(Clone, Copy, Default)]
struct Passed {
    /// All of it, where nothing but training is in it.
    plain: Option<Span>,
    /// With evaluations in it: what follows the last, then all but them, then all.
    around: [Option<Span>; 3],
}

/// Times between two lines of a segment, without the evaluations between them.
///
/// What a job does around an evaluation is on no line, and some evaluate beside the training: the
/// steps after the evaluation, what is left without it, or else all has to be like other times.
fn stamps(lines: &[Line<'_>], t: &Timeline) -> (Vec<Option<f64>>, Times) {
    if t.counted == Counted::Samples {
        return (vec![None; lines.len()], Times::Stamps);
    }
    let passed = passed(lines);
    let is_short = |passed: &Passed| {
        let span = passed.plain;
        span.is_some_and(|span| span.ms == 0 && span.steps > 0)
    };
    if seconds::are_whole(lines) && passed.iter().any(is_short) {
        return (seconds::means(lines), Times::Seconds);
    }
    let plain = |passed: &Passed| passed.plain.and_then(Span::of_a_step);
    let usual = median(&passed.iter().map(plain).collect::<Vec<_>>());
    let like = |time: &f64| usual.is_none_or(|usual| (time / usual).max(usual / time) < SAME);
    let around = |passed: &Passed| {
        let times = passed.around.iter().flatten();
        times.filter_map(|span| span.of_a_step()).find(like)
    };
    let time = |passed: &Passed| plain(passed).or_else(|| around(passed));
    (passed.iter().map(time).collect(), Times::Stamps)
}

fn passed(lines: &[Line<'_>]) -> Vec<Passed> {
    let mut before: Option<i64> = None;
    let (mut paused, mut steps) = (Some(0_i64), 0_u64);
    let mut passed = Vec::with_capacity(lines.len());
    for line in lines {
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
            passed.push(Passed::default());
            continue;
        };
        let since = |then: i64, steps| {
            let ms = now.checked_sub(then)?;
            Some(Span { ms, steps })
        };
        let all = before.and_then(|before| since(before, steps));
        let resumed = line.resumed.and_then(|(then, steps)| since(then, steps));
        passed.push(match paused {
            Some(0) => Passed {
                plain: all,
                ..Passed::default()
            },
            Some(paused) => {
                let without = all.and_then(|all| {
                    let ms = all.ms.checked_sub(paused)?;
                    Some(Span { ms, ..all })
                });
                Passed {
                    plain: None,
                    around: [resumed, without, all],
                }
            }
            None => Passed {
                plain: None,
                around: [resumed, None, None],
            },
        });
        before = Some(now);
        (paused, steps) = (Some(0), 0);
    }
    passed
}

/// Times by the clock on the lines, each over as many steps as it needs to be clear of the
/// clock's error; and whether one line is enough, mostly.
fn clocks(lines: &[Line<'_>]) -> (Vec<Option<f64>>, bool) {
    let mut times = Vec::with_capacity(lines.len());
    // The lines since the last evaluation whose length is unknown, or since a segment began.
    let mut points: Vec<(u64, Clock)> = Vec::new();
    let (mut one, mut all) = (0_usize, 0_usize);
    for line in lines {
        if line.since.is_none() {
            points.clear();
            // All steps are this line's: the clock began with them.
            if line.from_first == line.steps {
                points.push((
                    0,
                    Clock {
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
        let is_clear = |then: &Clock| {
            let apart = now.seconds - then.seconds;
            apart > 0.0 && apart >= CLEAR * now.error.max(then.error)
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

fn median(times: &[Option<f64>]) -> Option<f64> {
    let mut all: Vec<f64> = times
        .iter()
        .flatten()
        .copied()
        .filter(|t| *t > 0.0)
        .collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}
