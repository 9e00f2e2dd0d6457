//! A log's stretches: a step each, or what is between two.

use super::streams::Stream;
use crate::grammar::trainer::Trainer;
use crate::log::timeline::{Gap, Timeline};
use serde::{Deserialize, Serialize};

/// Where a log's stretches end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Bounds {
    /// The last gap of each stretch of one step, or between steps, in order.
    pub(super) ends: Vec<u32>,
    /// Those of them whose end is a step's line.
    is_step: Vec<bool>,
    /// Where every rank prints: the stretches that end with a step's line, and the gaps that its
    /// lines end, the first line's first.
    several: Vec<(u32, Vec<u32>)>,
    pub(super) trainer: Option<Trainer>,
    pub(super) stage: Option<u32>,
}

impl Bounds {
    /// The stretches of a timeline.
    pub(super) fn of(timeline: &Timeline) -> Bounds {
        Bounds::after(timeline, None)
    }

    /// Those after the one that ends with gap `base`.
    pub(super) fn after(timeline: &Timeline, base: Option<u32>) -> Bounds {
        let gaps = &timeline.gaps;
        let from = base.map_or(0, |base| base as usize + 1);
        let mut bounds = Bounds {
            trainer: timeline.trainer,
            stage: timeline.stage,
            ..Bounds::default()
        };
        let from = from.max(gaps.gone());
        for (at, gap) in (from..).zip(gaps.part(from..gaps.len())) {
            if gaps.get(at + 1) != Some(gap) {
                bounds.ends.push(at as u32);
                bounds.is_step.push(matches!(gap, Gap::Step(_)));
            }
        }
        // One rank may print two lines a step, as DeepSpeed's does.
        if timeline.again.len() > timeline.steps.left().len() / 2 {
            bounds.several = bounds.further(timeline, from);
        }
        bounds
    }

    /// The same stretches, of a log of which so many more gaps came before.
    pub(super) fn later(mut self, gaps: u32) -> Bounds {
        let several = self.several.iter_mut().flat_map(|(_, ends)| ends);
        self.ends
            .iter_mut()
            .chain(several)
            .for_each(|end| *end += gaps);
        self
    }

    /// The gaps that the lines of each step end, of steps with lines from mark `from` on.
    fn further(&self, timeline: &Timeline, from: usize) -> Vec<(u32, Vec<u32>)> {
        let first = timeline.again.partition_point(|a| (a.1 as usize) < from);
        let mut again = timeline.again[first..].to_vec();
        again.sort_unstable();
        let lines = self.ends.iter().enumerate().filter_map(|(stretch, &gap)| {
            let Some(Gap::Step(step)) = timeline.gaps.get(gap as usize) else {
                return None;
            };
            let own =
                again.partition_point(|a| a.0 < *step)..again.partition_point(|a| a.0 <= *step);
            // Of a step that an evaluation divides, the last stretch ends with its line.
            let is_line = timeline.steps.get(*step as usize)?.mark == gap as usize;
            let further = again[own].iter().map(|a| a.1);
            is_line.then(|| {
                (
                    stretch as u32,
                    std::iter::once(gap).chain(further).collect(),
                )
            })
        });
        lines.collect()
    }

    /// Where every rank prints: the stretches of steps, and the gaps that their lines end.
    pub(super) fn several(&self) -> impl Iterator<Item = (u32, &[u32])> {
        self.several
            .iter()
            .map(|(stretch, gaps)| (*stretch, &gaps[..]))
    }

    /// The cuts of a rank whose own line comes after so many of its calls, by stretch; of stretches
    /// without a line by position, but not before.
    pub(super) fn own(&self, stream: &Stream, line: impl Fn(u32) -> Option<u32>) -> Cuts {
        let mut cuts = Cuts::new();
        let mut before = 0;
        for (stretch, &gap) in (0_u32..).zip(&self.ends) {
            let is_last = stretch == self.last();
            let until = line(stretch).unwrap_or_else(|| stream.until(gap));
            before = if is_last {
                stream.len()
            } else {
                until.max(before)
            };
            push(&mut cuts, stretch, before);
        }
        cuts
    }

    /// The last gaps of steps.
    pub(super) fn lines(&self) -> impl Iterator<Item = u32> {
        let all = self.ends.iter().zip(&self.is_step);
        all.filter(|(_, is_step)| **is_step).map(|(gap, _)| *gap)
    }

    /// The last gap of the stretch `n` stretches before the last one.
    pub(super) fn before_last(&self, n: usize) -> Option<u32> {
        let at = self.ends.len().checked_sub(n + 2)?;
        self.ends.get(at).copied()
    }

    /// Cuts by gap as cuts by stretch.
    pub(super) fn stretches(&self, cuts: &[(u32, u32)]) -> Cuts {
        let stretch = |gap: u32| self.ends.partition_point(|&last| last < gap) as u32;
        cuts.iter().map(|&(gap, end)| (stretch(gap), end)).collect()
    }

    pub(super) fn last(&self) -> u32 {
        (self.ends.len() as u32).saturating_sub(1)
    }
}

/// The cuts of a process: (stretch, calls up to its end), both rising; the last one has all calls.
pub(super) type Cuts = Vec<(u32, u32)>;

/// The stretch of calls of which nobody knows in which one they were made.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// Adds a cut; a stretch's last one counts.
pub(super) fn push(cuts: &mut Cuts, stretch: u32, end: u32) {
    match cuts.last_mut() {
        Some(last) if last.0 >= stretch && last.0 != UNKNOWN => last.1 = last.1.max(end),
        Some(last) if last.1 >= end => {}
        _ if end == 0 => {}
        _ => cuts.push((stretch, end)),
    }
}
