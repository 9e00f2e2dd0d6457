//! Stretches of a log in which nothing is trained: evaluations and checkpoints.

use super::Step;
use super::marks::Marks;
use crate::grammar::trainer::{Evaluation, Mark};

/// A stretch between two step lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stretch {
    /// The mark it begins after; where no line says, it is all since the mark before.
    pub(super) from: Option<usize>,
    /// The mark that ends it.
    pub(super) to: usize,
    /// How long it took.
    pub(super) took: Took,
}

/// How long a stretch took, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Took {
    /// No line says.
    Unknown,
    /// Milliseconds between the stamps of its two lines.
    Stamps(i64),
    /// Seconds that its line says.
    Said(f64),
}

/// The stretches between the lines of `steps`, in order. An evaluation that is still going on
/// at a step line runs beside the training (MLPerf's asynchronous ones do), and is none.
pub(super) fn stretches(marks: Marks<'_>, steps: &[Step]) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    let mut steps = steps.iter().map(|step| step.mark).peekable();
    let mut open: Option<(usize, Option<i64>)> = None;
    let mut beside = false;
    for (at, mark) in marks.iter().enumerate() {
        if steps.next_if_eq(&at).is_some() {
            beside |= open.take().is_some();
        }
        let from = open.map(|(from, _)| from);
        let mut end = |from, took| stretches.push(Stretch { from, to: at, took });
        match mark.mark {
            Mark::Between if open.is_none() => end(None, Took::Unknown),
            Mark::Evaluation(Evaluation::Starts(ms)) if open.is_none() => open = Some((at, ms)),
            Mark::Evaluation(Evaluation::Took(s)) => {
                end(from, Took::Said(s));
                open = open.map(|(_, ms)| (at, ms));
            }
            Mark::Evaluation(Evaluation::Stops { wall_ms, .. }) => match open.take() {
                Some((_, start)) => {
                    let ms = start
                        .zip(wall_ms)
                        .and_then(|(start, stop)| stop.checked_sub(start));
                    end(from, ms.map_or(Took::Unknown, Took::Stamps));
                }
                None if beside => beside = false,
                None => end(None, Took::Unknown),
            },
            _ => {}
        }
    }
    stretches
}

/// What lies between a step line and the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Pause {
    /// Whether a stretch of unknown length is among it.
    pub(super) unknown: bool,
    /// Milliseconds of the stretches between two stamps.
    pub(super) ms: i64,
    /// Seconds of those whose line says how long they took.
    pub(super) said: f64,
}

impl Pause {
    /// The pause before the line of `step`: `next` are the stretches that were not taken yet.
    pub(super) fn before(step: &Step, next: &mut &[Stretch]) -> Pause {
        let mut pause = Pause::default();
        while let [stretch, rest @ ..] = next
            && stretch.to < step.mark
        {
            match stretch.took {
                Took::Unknown => pause.unknown = true,
                Took::Stamps(ms) => pause.ms = pause.ms.saturating_add(ms),
                Took::Said(s) => pause.said += s,
            }
            *next = rest;
        }
        pause
    }
}
