//! Step lines that every rank prints, each at its own time.
//!
//! Ranks run ahead of each other by several steps, and their lines seldom name them. So a smaller
//! number after a larger one is a late rank's line, as long as some rank printed the one before it
//! last. It is a restart where no rank did.

use crate::log::timeline::limits::{MAX_PRINTED_STEPS, MAX_STEPS_BEFORE_JOINING};
use std::collections::{BTreeMap, VecDeque};

/// A line's place in the job: epoch and step.
pub(in crate::log::timeline) type EpochStep = (u64, u64);

/// The novelty of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::log::timeline) enum LineNovelty {
    /// The first line of a step.
    First,
    /// A further rank's line of a step that was printed.
    Again,
    /// A number that no rank comes to from its last one.
    Back,
}

/// The ranks that print, by what each printed last.
#[derive(Debug, Default)]
pub(in crate::log::timeline) struct PrintingRanks {
    /// How many ranks printed this last.
    last: BTreeMap<EpochStep, u32>,
    /// Steps with a line, in order.
    seen: VecDeque<EpochStep>,
    /// How many steps there were.
    steps: usize,
}

impl PrintingRanks {
    /// Takes in the next line.
    pub(in crate::log::timeline) fn classify_line(&mut self, at: EpochStep) -> LineNovelty {
        let front = self.seen.back().copied();
        if front.is_none_or(|front| at > front) {
            if let Some(front) = front {
                self.rank_leaves(front);
            }
            self.seen.push_back(at);
            self.steps += 1;
            if self.seen.len() > MAX_PRINTED_STEPS
                && let Some(old) = self.seen.pop_front()
            {
                self.last.remove(&old);
            }
            *self.last.entry(at).or_default() += 1;
            return LineNovelty::First;
        }
        let place = self.seen.partition_point(|seen| *seen < at);
        // One line of that rank may be lost.
        let near = place.saturating_sub(2)..place;
        let before = self.seen.range(near).rev().copied();
        if let Some(before) = before.into_iter().find(|b| self.last.contains_key(b)) {
            self.rank_leaves(before);
        } else if self.steps > MAX_STEPS_BEFORE_JOINING {
            // A rank may print two lines for a step.
            return if self.last.contains_key(&at) {
                LineNovelty::Again
            } else {
                LineNovelty::Back
            };
        } else if self.seen.get(place) != Some(&at) {
            self.seen.insert(place, at);
        }
        *self.last.entry(at).or_default() += 1;
        LineNovelty::Again
    }

    fn rank_leaves(&mut self, at: EpochStep) {
        if let Some(ranks) = self.last.get_mut(&at) {
            *ranks -= 1;
            if *ranks == 0 {
                self.last.remove(&at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(steps: &[u64]) -> String {
        let mut voices = PrintingRanks::default();
        let of = |&step: &u64| match voices.classify_line((0, step)) {
            LineNovelty::First => 'f',
            LineNovelty::Again => 'a',
            LineNovelty::Back => 'B',
        };
        steps.iter().map(of).collect()
    }

    #[test]
    fn a_late_ranks_line_is_no_restart() {
        assert_eq!(heard(&[1, 1, 2, 3, 2, 4, 3, 5, 6, 4, 5, 6]), "faffafaffaaa");
        // Four ranks, of which one stops.
        let steps = [
            0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 2, 3, 3, 4, 3, 4, 4, 5, 4, 5, 6, 5, 6, 7, 7, 6,
        ];
        assert_eq!(heard(&steps), "faaafaaafaafaaafaaafaafaafaa");
        // The log begins in the middle of the job.
        assert_eq!(heard(&[12, 10, 13, 11, 14, 12]), "fafafa");
        // Every tenth step; a line of the second rank is lost.
        assert_eq!(heard(&[10, 10, 20, 30, 40, 30, 50, 40]), "fafffafa");
        // A rank prints two lines a step.
        assert_eq!(heard(&[1, 1, 2, 2, 3, 3, 4, 4]), "fafafafa");
    }

    #[test]
    fn a_number_that_no_rank_comes_to_is_a_restart() {
        assert_eq!(
            heard(&[1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 3]),
            "fafafafafafafaB"
        );
    }

    #[test]
    fn of_an_endless_job_the_last_steps_are_remembered() {
        let mut voices = PrintingRanks::default();
        voices.classify_line((0, 0));
        voices.classify_line((0, 0));
        for step in 1..1000 {
            assert_eq!(voices.classify_line((0, step)), LineNovelty::First);
        }
        assert!(voices.seen.len() <= MAX_PRINTED_STEPS && voices.last.len() <= MAX_PRINTED_STEPS);
        assert_eq!(voices.classify_line((0, 1)), LineNovelty::Back);
    }
}
