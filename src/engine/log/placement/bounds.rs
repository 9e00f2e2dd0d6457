//! A log's stretches: a step each, or the part between two.

use super::limits::UNKNOWN_STRETCH;
use super::streams::ProcessStream;
use crate::grammar::trainer::Trainer;
use crate::log::timeline::{GapKind, StepTimeline};
use serde::{Deserialize, Serialize};

/// Where a log's stretches end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct StepBounds {
    /// The last gap of each stretch of one step, or between steps, in order.
    pub(super) ends: Vec<u32>,
    /// By stretch: whether it is a step's.
    is_step: Vec<bool>,
    /// The stretches with which an attempt ends: only processes with later lines work after them.
    attempt_ends: Vec<u32>,
    /// Where every rank prints: the stretches that end with a step's line, and the gaps that its
    /// lines end, the first line's first.
    several: Vec<(u32, Vec<u32>)>,
    pub(super) trainer: Option<Trainer>,
    pub(super) stage: Option<u32>,
}

impl StepBounds {
    /// The stretches of a timeline.
    pub(super) fn from_timeline(timeline: &StepTimeline) -> StepBounds {
        StepBounds::after_gap(timeline, None)
    }

    /// The stretches after the one that ends with gap `base`.
    pub(super) fn after_gap(timeline: &StepTimeline, base: Option<u32>) -> StepBounds {
        let gaps = &timeline.gaps;
        let from = base.map_or(0, |base| base as usize + 1);
        let mut bounds = StepBounds {
            trainer: timeline.trainer,
            stage: timeline.stage,
            ..StepBounds::default()
        };
        let from = from.max(gaps.forgotten_count());
        for (at, gap) in (from..).zip(gaps.slice(from..gaps.len())) {
            if gaps.get(at + 1) != Some(gap) {
                if *gap == GapKind::After {
                    bounds.attempt_ends.push(bounds.ends.len() as u32);
                }
                bounds.ends.push(at as u32);
                bounds.is_step.push(matches!(gap, GapKind::Step(_)));
            }
        }
        // One rank may print two lines a step, as DeepSpeed's does.
        if timeline.again.len() > timeline.steps.remaining().len() / 2 {
            bounds.several = bounds.line_gaps_from(timeline, from);
        }
        bounds
    }

    /// Renumbers the stretches for a log that has `gaps` more gaps before them.
    pub(super) fn shift_gaps(mut self, gaps: u32) -> StepBounds {
        let several = self.several.iter_mut().flat_map(|(_, ends)| ends);
        self.ends
            .iter_mut()
            .chain(several)
            .for_each(|end| *end += gaps);
        self
    }

    /// The gaps that the lines of each step end, of steps with lines from mark `from` on.
    fn line_gaps_from(&self, timeline: &StepTimeline, from: usize) -> Vec<(u32, Vec<u32>)> {
        let first = timeline.again.partition_point(|a| (a.1 as usize) < from);
        let mut again = timeline.again[first..].to_vec();
        again.sort_unstable();
        let lines = self.ends.iter().enumerate().filter_map(|(stretch, &gap)| {
            let Some(GapKind::Step(step)) = timeline.gaps.get(gap as usize) else {
                return None;
            };
            let own =
                again.partition_point(|a| a.0 < *step)..again.partition_point(|a| a.0 <= *step);
            // If an evaluation divides a step, only the last stretch ends with its line.
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
    pub(super) fn every_rank_lines(&self) -> impl Iterator<Item = (u32, &[u32])> {
        self.several
            .iter()
            .map(|(stretch, gaps)| (*stretch, &gaps[..]))
    }

    /// Cuts a rank's calls by its own lines: `line` gives the calls before its line of a stretch. A stretch without
    /// a line is cut by position, but not before the stretch before it.
    pub(super) fn cuts_by_own_line(
        &self,
        stream: &ProcessStream,
        line: impl Fn(u32) -> Option<u32>,
    ) -> StretchCuts {
        let mut cuts = StretchCuts::new();
        let mut before = 0;
        for (stretch, &gap) in (0_u32..).zip(&self.ends) {
            let is_last = stretch == self.last_gap();
            let until = line(stretch).unwrap_or_else(|| stream.calls_until(gap));
            before = if is_last {
                stream.len()
            } else {
                until.max(before)
            };
            push_cut(&mut cuts, stretch, before);
        }
        cuts
    }

    /// Moves calls that were placed after the end of the attempt in which their process made its last one to that
    /// end: a rank may run ahead of the lines, and not into another attempt.
    pub(super) fn end_with_attempt(&self, cuts: &mut StretchCuts, stream: &ProcessStream) {
        let Some(&(gap, _)) = stream.ends.last() else {
            return;
        };
        let stretch = self.ends.partition_point(|&last| last < gap) as u32;
        let at = self.attempt_ends.partition_point(|&end| end < stretch);
        let Some(&end) = self.attempt_ends.get(at) else {
            return;
        };
        let kept = cuts.partition_point(|cut| cut.0 <= end);
        if let Some(&(_, all)) = cuts.last().filter(|_| kept < cuts.len()) {
            cuts.truncate(kept);
            push_cut(cuts, end, all);
        }
    }

    /// The last gaps of steps.
    pub(super) fn step_ends(&self) -> impl Iterator<Item = u32> {
        let all = self.ends.iter().zip(&self.is_step);
        all.filter(|(_, is_step)| **is_step).map(|(gap, _)| *gap)
    }

    /// The last gap of the stretch `n` stretches before the last one.
    pub(super) fn before_last(&self, n: usize) -> Option<u32> {
        let at = self.ends.len().checked_sub(n + 2)?;
        self.ends.get(at).copied()
    }

    /// Cuts by gap as cuts by stretch.
    pub(super) fn cuts_by_stretch(&self, cuts: &[(u32, u32)]) -> StretchCuts {
        let stretch = |gap: u32| self.ends.partition_point(|&last| last < gap) as u32;
        cuts.iter().map(|&(gap, end)| (stretch(gap), end)).collect()
    }

    pub(super) fn last_gap(&self) -> u32 {
        (self.ends.len() as u32).saturating_sub(1)
    }
}

/// The cuts of a process: (stretch, calls up to its end), both rising; the last one has all calls.
pub(super) type StretchCuts = Vec<(u32, u32)>;

/// Adds a cut; a stretch's last one counts.
pub(super) fn push_cut(cuts: &mut StretchCuts, stretch: u32, end: u32) {
    match cuts.last_mut() {
        Some(last) if last.0 >= stretch && last.0 != UNKNOWN_STRETCH => last.1 = last.1.max(end),
        Some(last) if last.1 >= end => {}
        _ if end == 0 => {}
        _ => cuts.push((stretch, end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_placed_after_the_attempt_of_its_process() {
        let bounds = StepBounds {
            ends: vec![0, 1, 2, 3, 4],
            attempt_ends: vec![2, 4],
            ..StepBounds::default()
        };
        let placed = |last_gap: u32| {
            let mut stream = ProcessStream::default();
            stream.ends = vec![(0, 5), (last_gap, 20)];
            let mut cuts = vec![(0, 5), (1, 9), (3, 15), (4, 20)];
            bounds.end_with_attempt(&mut cuts, &stream);
            cuts
        };
        // It ran ahead of the lines when it was ended.
        for last_gap in [1, 2] {
            assert_eq!(placed(last_gap), [(0, 5), (1, 9), (2, 20)]);
        }
        assert_eq!(placed(3), [(0, 5), (1, 9), (3, 15), (4, 20)]);
    }
}
