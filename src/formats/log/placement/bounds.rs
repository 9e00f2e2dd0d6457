//! A log's stretches: a step each, or what is between two.

use crate::formats::log::timeline::{Gap, Timeline};
use crate::grammar::trainer::Trainer;

/// Where a log's stretches end.
#[derive(Debug, Clone, Default)]
pub(super) struct Bounds {
    /// The last gap of each stretch of one step, or between steps, in order.
    pub(super) ends: Vec<u32>,
    /// Those of them whose end is a step's line.
    is_step: Vec<bool>,
    pub(super) trainer: Option<Trainer>,
}

impl Bounds {
    /// The stretches of a timeline.
    pub(super) fn of(timeline: &Timeline) -> Bounds {
        let gaps = &timeline.gaps;
        let mut bounds = Bounds {
            trainer: timeline.trainer,
            ..Bounds::default()
        };
        for (at, gap) in gaps.iter().enumerate() {
            if gaps.get(at + 1) != Some(gap) {
                bounds.ends.push(at as u32);
                bounds.is_step.push(matches!(gap, Gap::Step(_)));
            }
        }
        bounds
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
