//! Stretches of a log in which nothing is trained: evaluations and checkpoints.

use super::TrainStep;
use super::marks::MarkSlice;
use crate::grammar::trainer::{EvaluationLine, TrainerMark};

/// A stretch between two step lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EvaluationSpan {
    /// The mark it begins after, if a line marks its beginning.
    pub(super) from: Option<usize>,
    /// The mark that ends it.
    pub(super) to: usize,
    /// How long it took.
    pub(super) took: EvaluationLength,
}

/// How long a stretch took, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum EvaluationLength {
    /// No line states it.
    Unknown,
    /// Milliseconds between the stamps of its two lines.
    Stamps(i64),
    /// Seconds that its line states.
    Said(f64),
}

/// The stretches between the lines of `steps`, in order. An evaluation that is still going on
/// at a step line runs beside the training (MLPerf's asynchronous ones do), and is none.
pub(super) fn find_evaluations(marks: MarkSlice<'_>, steps: &[TrainStep]) -> Vec<EvaluationSpan> {
    let mut stretches = Vec::new();
    let mut steps = steps.iter().map(|step| step.mark).peekable();
    let mut open: Option<(usize, Option<i64>)> = None;
    let mut beside = false;
    for (at, mark) in marks.iter().enumerate() {
        if steps.next_if_eq(&at).is_some() {
            beside |= open.take().is_some();
        }
        let from = open.map(|(from, _)| from);
        let mut end = |from, took| stretches.push(EvaluationSpan { from, to: at, took });
        match mark.mark {
            TrainerMark::Between if open.is_none() => end(None, EvaluationLength::Unknown),
            TrainerMark::Evaluation(EvaluationLine::Starts(ms)) if open.is_none() => {
                open = Some((at, ms));
            }
            TrainerMark::Evaluation(EvaluationLine::Took(s)) => {
                end(from, EvaluationLength::Said(s));
                open = open.map(|(_, ms)| (at, ms));
            }
            TrainerMark::Evaluation(EvaluationLine::Stops { wall_ms, .. }) => match open.take() {
                Some((_, start)) => {
                    let ms = start
                        .zip(wall_ms)
                        .and_then(|(start, stop)| stop.checked_sub(start));
                    end(
                        from,
                        ms.map_or(EvaluationLength::Unknown, EvaluationLength::Stamps),
                    );
                }
                None if beside => beside = false,
                None => end(None, EvaluationLength::Unknown),
            },
            _ => {}
        }
    }
    stretches
}

/// The stretches between a step line and the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct EvaluationPause {
    /// Whether a stretch of unknown length is among it.
    pub(super) unknown: bool,
    /// Milliseconds of the stretches between two stamps.
    pub(super) ms: i64,
    /// Seconds of those that a line states.
    pub(super) said: f64,
}

impl EvaluationPause {
    /// The pause before the line of `step`: `next` are the stretches that were not taken yet.
    pub(super) fn before_step(step: &TrainStep, next: &mut &[EvaluationSpan]) -> EvaluationPause {
        let mut pause = EvaluationPause::default();
        while let [stretch, rest @ ..] = next
            && stretch.to < step.mark
        {
            match stretch.took {
                EvaluationLength::Unknown => pause.unknown = true,
                EvaluationLength::Stamps(ms) => pause.ms = pause.ms.saturating_add(ms),
                EvaluationLength::Said(s) => pause.said += s,
            }
            *next = rest;
        }
        pause
    }
}
