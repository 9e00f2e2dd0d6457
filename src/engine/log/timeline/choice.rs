//! The choice between the shapes of step lines that one log has.
//!
//! A shape that names its trainer is that trainer's, and of several the first in [`Trainer`]'s order
//! counts, since one trainer prints another's lines too. A bare progress bar may be anybody's: that
//! of an evaluation begins again at each evaluation, and while it rests the log goes on. So bars
//! are judged by the whole log, and those that come in bursts are no steps.

use super::limits::{
    BURST_LINES_RATIO, MAX_DRAWS_COMPARED, MAX_STEPS_PER_STEP_OF_SEVERAL, MIN_BAR_RESTARTS,
    MIN_STEPS_EVERY_RANK, MINOR_SHAPE_RATIO,
};
use super::marks::MarkSlice;
use super::segments::{LineNovelty, PrintingRanks, SegmentCounter};
use crate::grammar::trainer::{StepLine, Trainer, TrainerMark, TrainerPace};
use crate::log::attempts::AttemptStart;
use std::collections::BTreeMap;

/// A shape of lines: its trainer's, and of bars those of one total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LineShape {
    pub(super) trainer: Trainer,
    bar: Option<u64>,
}

impl LineShape {
    fn shape_of(line: &StepLine) -> LineShape {
        let is_bar = line.trainer.is_told_apart_by_total();
        LineShape {
            trainer: line.trainer,
            bar: line.total.filter(|_| is_bar),
        }
    }

    /// True for a line of this shape.
    pub(super) fn accepts_line(self, line: &StepLine) -> bool {
        self == LineShape::shape_of(line)
    }
}

/// What was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShapeChoice {
    /// The lines of a shape; whether every rank prints them.
    Of(LineShape, bool),
    /// None: the only shapes are bars that come in bursts; how often the most frequent of them begins again.
    Bursts(u64),
    /// None: there are none.
    Nothing,
}

/// The lines of a shape in the log.
#[derive(Debug, Default)]
struct ShapeRuns {
    counter: SegmentCounter,
    /// The segment and the first and the last line of the run in hand: a run ends where the
    /// number falls.
    segment: u32,
    run: Option<(u64, u64)>,
    /// Lines of the run in hand that are the shape's own.
    own: u64,
    /// Steps with a line.
    steps: u64,
    ranks: EveryRankEvidence,
    bars: SeveralBarsEvidence,
    /// Times the number fell while no new processes had begun.
    falls: u64,
    /// The log's other lines within runs,
    inside: u64,
    /// between them,
    outside: u64,
    /// and the lines that the runs span.
    spans: u64,
}

impl ShapeRuns {
    fn add_line(&mut self, line: &StepLine, at: u64, anew: bool) {
        // Where every rank of a trainer prints, the counter hears the ranks.
        if !line.trainer.printed_by_every_rank() {
            self.ranks.add_line(line, anew);
            self.bars.add_line(line);
        }
        let next = self.counter.count_line(line.step, line, anew);
        self.steps += u64::from(next.is_some());
        let segment = next.map_or(self.segment, |(segment, _)| segment);
        match &mut self.run {
            Some((_, last)) if segment == self.segment => {
                self.own += u64::from(*last != at);
                *last = at;
            }
            run => {
                let before = run.replace((at, at));
                if let Some((_, last)) = before.filter(|_| !anew) {
                    self.falls += 1;
                    self.outside += at.saturating_sub(last + 1);
                }
                self.end_run(before);
                self.own = 1;
            }
        }
        self.segment = segment;
    }

    /// Counts the lines of a run that is over.
    fn end_run(&mut self, run: Option<(u64, u64)>) {
        if let Some((first, last)) = run {
            let spans = last.saturating_sub(first) + 1;
            self.spans += spans;
            self.inside += spans.saturating_sub(self.own);
        }
    }

    fn comes_in_bursts(&self) -> bool {
        self.falls >= MIN_BAR_RESTARTS && self.outside > BURST_LINES_RATIO * self.inside
    }
}

/// Whether the lines of a shape are several ranks', by the lines alone: their numbers fall again and
/// again, and each time to one that some rank comes to.
#[derive(Debug, Default)]
struct EveryRankEvidence {
    voices: PrintingRanks,
    last: Option<u64>,
    steps: u64,
    again: u64,
    falls: u64,
    back: bool,
}

impl EveryRankEvidence {
    fn add_line(&mut self, line: &StepLine, anew: bool) {
        if anew {
            self.voices = PrintingRanks::default();
        }
        match self
            .voices
            .classify_line((line.epoch.unwrap_or(0), line.step))
        {
            LineNovelty::First => self.steps += 1,
            LineNovelty::Again => self.again += 1,
            LineNovelty::Back => self.back = true,
        }
        self.falls += u64::from(!anew && self.last > Some(line.step));
        self.last = Some(line.step);
    }

    fn are_several_ranks(&self) -> bool {
        !self.back
            && self.steps >= MIN_STEPS_EVERY_RANK
            && self.again >= self.steps / 2
            && self.falls >= self.steps / 4
    }
}

/// Whether several processes draw a bar of one shape, as where each host's first rank does. A process draws a step
/// again when it sets the bar's postfix: the rate stays, and the old postfix does not come back.
#[derive(Debug, Default)]
struct SeveralBarsEvidence {
    /// The step in hand, and what was drawn of it.
    step: u64,
    drawn: Vec<(Option<TrainerPace>, Option<u32>)>,
    /// It was drawn by several.
    is_several: bool,
    steps: u64,
    /// Steps that were drawn by several.
    several: u64,
}

impl SeveralBarsEvidence {
    fn add_line(&mut self, line: &StepLine) {
        if line.step != self.step || self.drawn.is_empty() {
            self.drawn.clear();
            self.step = line.step;
            self.is_several = false;
            self.steps += 1;
        }
        let draw = (line.pace, line.postfix);
        let is_another = self.drawn.iter().any(|drawn| drawn.0 != draw.0)
            || self.drawn.last() != Some(&draw) && self.drawn.contains(&draw);
        if is_another && draw.1.is_some() && !self.is_several {
            self.is_several = true;
            self.several += 1;
        }
        if self.drawn.len() < MAX_DRAWS_COMPARED {
            self.drawn.push(draw);
        }
    }

    fn are_several_bars(&self) -> bool {
        self.several >= MIN_STEPS_EVERY_RANK
            && self.several >= self.steps / MAX_STEPS_PER_STEP_OF_SEVERAL
    }
}

/// Chooses among the shapes of `marks`. What was `asked` for is taken as it is.
pub(super) fn choose_shape(
    marks: MarkSlice<'_>,
    begins: &[AttemptStart],
    asked: bool,
) -> ShapeChoice {
    let mut shapes: BTreeMap<LineShape, ShapeRuns> = BTreeMap::new();
    let mut attempts: BTreeMap<LineShape, usize> = BTreeMap::new();
    for mark in marks.iter() {
        let TrainerMark::Step(line) = &mark.mark else {
            continue;
        };
        let shape = LineShape::shape_of(line);
        let attempt = begins.partition_point(|begin| begin.at <= mark.start);
        let before = attempts.insert(shape, attempt);
        let anew = before.is_some_and(|before| before != attempt);
        shapes
            .entry(shape)
            .or_default()
            .add_line(line, mark.line, anew);
    }
    for series in shapes.values_mut() {
        let run = series.run.take();
        series.end_run(run);
    }
    let of = |shape: &LineShape| {
        let is_several = shapes
            .get(shape)
            .is_some_and(|s| s.ranks.are_several_ranks() || s.bars.are_several_bars());
        let by_ranks = is_several || shape.trainer.printed_by_every_rank();
        ShapeChoice::Of(*shape, by_ranks)
    };
    let (named, bars): (Vec<_>, Vec<_>) = shapes.iter().partition(|(shape, _)| shape.bar.is_none());
    let is_minor = |series: &ShapeRuns| {
        let much = |a: u64, b: u64| a > b.saturating_mul(MINOR_SHAPE_RATIO);
        named
            .iter()
            .any(|(_, o)| much(o.steps, series.steps) && much(o.spans, series.spans))
    };
    // In the order of the trainers.
    if let Some((shape, _)) = named.iter().find(|(_, series)| !is_minor(series)) {
        return of(shape);
    }
    // The training's own has most of the log in its runs; of equals the one with more steps.
    let judged =
        |(shape, series): &&(&LineShape, &ShapeRuns)| (series.inside, series.steps, shape.bar);
    let fit = bars.iter().filter(|(_, s)| asked || !s.comes_in_bursts());
    let again = bars.iter().map(|(_, series)| series.falls).max();
    match (fit.max_by_key(judged), again) {
        (Some((shape, _)), _) => of(shape),
        (None, Some(falls)) => ShapeChoice::Bursts(falls),
        (None, None) => ShapeChoice::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::walk::MarkPosition;

    /// A step line: its line's number, its trainer, total and step.
    type Line = (u64, Trainer, Option<u64>, u64);

    fn chosen(lines: &[Line], asked: bool) -> ShapeChoice {
        let mark = |&(at, trainer, total, step): &Line| MarkPosition {
            start: at * 100,
            cut: at * 100 + 50,
            line: at,
            next_line: at + 1,
            mark: TrainerMark::Step(StepLine {
                total,
                ..StepLine::without_time(trainer, step)
            }),
        };
        let marks: Vec<MarkPosition> = lines.iter().map(mark).collect();
        choose_shape((&marks).into(), &[], asked)
    }

    fn bars(at: u64, total: u64, apart: u64) -> Vec<Line> {
        let bar = |step| (at + apart * step, Trainer::Hf, Some(total), step);
        (1..=total).map(bar).collect()
    }

    fn named(trainer: Trainer, from: u64, apart: u64, n: u64) -> Vec<Line> {
        (1..=n)
            .map(|step| (from + apart * step, trainer, None, step))
            .collect()
    }

    fn all(parts: &[Vec<Line>]) -> Vec<Line> {
        let mut all = parts.concat();
        all.sort();
        all
    }

    fn of(trainer: Trainer, bar: Option<u64>) -> ShapeChoice {
        let by_ranks = trainer.printed_by_every_rank();
        ShapeChoice::Of(LineShape { trainer, bar }, by_ranks)
    }

    #[test]
    fn bars_that_come_in_bursts_are_nobodys() {
        // Each evaluation's bar on a line of its own, twenty other lines between.
        let bursts = all(&(0..9).map(|k| bars(30 * k, 40, 0)).collect::<Vec<_>>());
        assert_eq!(chosen(&bursts, false), ShapeChoice::Bursts(8));
        assert_eq!(chosen(&bursts, true), of(Trainer::Hf, Some(40)));
        // The same beside a trainer's lines, however few.
        let with = all(&[bursts.clone(), named(Trainer::LitGpt, 0, 60, 4)]);
        assert_eq!(chosen(&with, false), of(Trainer::LitGpt, None));
        // A bar for each epoch, with the calls of its steps in it.
        let epochs = all(&(0..9).map(|k| bars(500 * k, 40, 10)).collect::<Vec<_>>());
        assert_eq!(chosen(&epochs, false), of(Trainer::Hf, Some(40)));
    }

    #[test]
    fn of_bars_the_trainings_own_spans_the_log() {
        // Ten evaluations of 90 batches within 100 steps: more bars, less of the log.
        let evals: Vec<_> = (0..10).map(|k| bars(1000 * k + 800, 90, 1)).collect();
        let log = all(&[bars(0, 100, 100), evals.concat()]);
        assert_eq!(chosen(&log, false), of(Trainer::Hf, Some(100)));
        // Tokenising before the training: a thousand bars on one line.
        let log = all(&[bars(3, 1000, 0), bars(10, 20, 50)]);
        assert_eq!(chosen(&log, false), of(Trainer::Hf, Some(20)));
    }

    #[test]
    fn numbers_that_fall_to_where_another_rank_is_are_several_ranks() {
        // Two ranks, one of them two steps behind.
        let both = all(&[
            named(Trainer::LitGpt, 0, 10, 12),
            named(Trainer::LitGpt, 25, 10, 12),
        ]);
        let shape = LineShape {
            trainer: Trainer::LitGpt,
            bar: None,
        };
        assert_eq!(chosen(&both, false), ShapeChoice::Of(shape, true));
        // One that starts again and again.
        let again = all(&(0..4)
            .map(|k| named(Trainer::LitGpt, 200 * k, 10, 12))
            .collect::<Vec<_>>());
        assert_eq!(chosen(&again, false), ShapeChoice::Of(shape, false));
        assert_eq!(
            chosen(&named(Trainer::LitGpt, 0, 10, 12), false),
            ShapeChoice::Of(shape, false)
        );
    }

    #[test]
    fn a_bar_whose_rate_differs_or_whose_old_postfix_comes_back_is_several() {
        let by_ranks = |draws: &[(f64, u32)]| {
            let mut bars = SeveralBarsEvidence::default();
            for step in 1..=20 {
                for &(rate, postfix) in draws {
                    bars.add_line(&StepLine {
                        pace: Some(TrainerPace::Smoothed(rate)),
                        postfix: Some(postfix),
                        ..StepLine::without_time(Trainer::Hf, step)
                    });
                }
            }
            bars.are_several_bars()
        };
        // One process: before and after it sets the postfix, and alike.
        assert!(!by_ranks(&[(0.2, 1), (0.2, 2), (0.2, 3)]));
        assert!(!by_ranks(&[(0.2, 1), (0.2, 1)]));
        // Two: of another rate, and of one rate with other postfixes.
        assert!(by_ranks(&[(0.2, 1), (0.2, 2), (0.3, 1), (0.3, 2)]));
        assert!(by_ranks(&[(0.2, 1), (0.2, 2), (0.2, 1), (0.2, 3)]));
    }

    #[test]
    fn the_first_trainer_counts_unless_its_lines_are_a_few_in_a_corner() {
        let log = all(&[
            named(Trainer::DeepSpeed, 0, 100, 10),
            named(Trainer::Megatron, 1, 100, 10),
        ]);
        assert_eq!(chosen(&log, false), of(Trainer::Megatron, None));
        let log = all(&[
            named(Trainer::DeepSpeed, 0, 100, 10),
            named(Trainer::Megatron, 500, 2, 2),
        ]);
        assert_eq!(chosen(&log, false), of(Trainer::DeepSpeed, None));
        assert_eq!(chosen(&[], false), ShapeChoice::Nothing);
    }
}
