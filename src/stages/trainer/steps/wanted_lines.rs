//! Which lines of a log are passed on.

use super::line_copy::{self, join_ranges};
use crate::count::calls::Options;
use crate::error::Result;
use crate::log::LogState;
use crate::log::timeline::{MarkList, MarkerSide, StepTimeline};
use crate::output::write_digest::WriteDigest;
use crate::source::Input;
use crate::stages::survey::MovedCall;
use std::io::Write;

/// The lines of a pipe that were passed on before its end. Keeps their places, not their text: the copy is
/// given up.
#[derive(Debug, Clone, Default)]
pub(super) struct PassedLines {
    /// All that is wanted of the input's bytes up to here.
    pub(super) until: u64,
    /// Lines passed on since the last checkpoint, and since the one before it.
    new: PassedLineRanges,
    old: PassedLineRanges,
}

/// Lines that were passed on.
#[derive(Debug, Clone, Default)]
struct PassedLineRanges {
    /// All before was passed on before.
    from: u64,
    /// Which ranges these were.
    ranges: Vec<(u64, u64)>,
    /// Which calls outside or inside of them.
    moved: WriteDigest,
}

impl PassedLines {
    /// Takes in what was passed on up to `until`.
    pub(super) fn add_passed(&mut self, wanted: &WantedLines, until: u64) {
        self.new.add_lines(wanted);
        self.until = until;
    }

    /// Makes a checkpoint: forgets what was passed on before the last one.
    pub(super) fn checkpoint(&mut self) {
        let new = PassedLineRanges {
            from: self.until,
            ..PassedLineRanges::default()
        };
        self.old = std::mem::replace(&mut self.new, new);
    }

    /// True where the same lines are `wanted` now that all is known.
    pub(super) fn matches_wanted(&self, wanted: &WantedLines) -> bool {
        let between = |from, to| wanted.between_bytes(from, to);
        self.old
            .matches_wanted(&between(self.old.from, self.new.from))
            && self.new.matches_wanted(&between(self.new.from, self.until))
    }
}

impl PassedLineRanges {
    fn add_lines(&mut self, wanted: &WantedLines) {
        self.ranges.extend(&wanted.ranges);
        self.ranges = join_ranges(std::mem::take(&mut self.ranges));
        for (at, is_passed) in &wanted.moved {
            self.moved.add_bytes(&at.to_le_bytes());
            self.moved.add_bytes(&[u8::from(*is_passed)]);
        }
    }

    fn matches_wanted(&self, wanted: &WantedLines) -> bool {
        let mut now = PassedLineRanges::default();
        now.add_lines(wanted);
        now.ranges == self.ranges && now.moved == self.moved
    }
}

/// The lines of a log that are wanted.
pub(super) struct WantedLines {
    /// Their bytes, sorted and apart.
    ranges: Vec<(u64, u64)>,
    /// Positions of calls, sorted: true if the line is passed on although outside of `ranges`, false if left
    /// out although inside.
    moved: Vec<(u64, bool)>,
}

impl WantedLines {
    /// The lines of `gaps` of a log.
    pub(super) fn of_gaps(
        log: &LogState,
        timeline: &StepTimeline,
        moved: &[MovedCall],
        gaps: impl Iterator<Item = usize>,
        options: &Options,
    ) -> WantedLines {
        let wanted = |gap: usize| {
            let step = timeline.step_of(gap);
            step.is_some_and(|step| options.window.is_none_or(|w| w.contains(step.step)))
        };
        let range = |gap| gap_bytes(&log.marks, gap, options.timeline.marker);
        let mut ranges: Vec<(u64, u64)> = gaps.filter(|&gap| wanted(gap)).map(range).collect();
        ranges.extend(&log.init_lines);
        // Where all steps are wanted, a call that is not known to be of one stays with the lines around it:
        // of a job that goes on it is the next one's.
        let all = options.window.is_none();
        let moved = moved.iter().filter_map(|&(at, line, gap)| {
            let (line, call) = (wanted(line as usize), wanted(gap as usize));
            let is_moved = line != call && (call || !all);
            is_moved.then_some((at, call))
        });
        let mut moved: Vec<(u64, bool)> = moved.collect();
        moved.sort_unstable();
        WantedLines {
            ranges: join_ranges(ranges),
            moved,
        }
    }

    /// Returns the part in the bytes from `from` to `to`.
    pub(super) fn between_bytes(&self, from: u64, to: u64) -> WantedLines {
        let cut = |&(a, b): &(u64, u64)| (a.max(from), b.min(to));
        let ranges = self.ranges.iter().map(cut).filter(|(a, b)| a < b);
        let is_in = |(at, _): &&(u64, bool)| (from..to).contains(at);
        WantedLines {
            ranges: ranges.collect(),
            moved: self.moved.iter().filter(is_in).copied().collect(),
        }
    }

    /// Copies the lines.
    ///
    /// # Errors
    /// The input cannot be read or changed, the output cannot be written.
    pub(super) fn copy_lines(&self, input: &Input, out: &mut dyn Write) -> Result<()> {
        line_copy::copy_ranges(input, &self.ranges, &self.moved, out)
    }
}

/// The bytes of a gap: where lines end steps, up to and with its line; where they begin steps,
/// from its line on.
pub(super) fn gap_bytes(marks: &MarkList, gap: usize, marker: MarkerSide) -> (u64, u64) {
    let edge = |mark: usize| {
        let mark = marks.as_slice().get(mark);
        mark.map_or(u64::MAX, |mark| match marker {
            MarkerSide::End => mark.cut,
            MarkerSide::Start => mark.start,
        })
    };
    let from = if gap == 0 { 0 } else { edge(gap - 1) };
    let to = if gap == marks.len() {
        u64::MAX
    } else {
        edge(gap)
    };
    (from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_passed_on_in_parts_is_what_is_wanted_in_one() {
        let wanted = |moved: &[(u64, bool)]| WantedLines {
            ranges: vec![(0, 15), (30, 60)],
            moved: moved.to_vec(),
        };
        let all = wanted(&[(3, false), (20, true), (40, false)]);
        let mut passed = PassedLines::default();
        for (from, to) in [(0, 10), (10, 35), (35, 50)] {
            passed.add_passed(&all.between_bytes(from, to), to);
        }
        assert!(passed.matches_wanted(&all));
        assert!(!passed.matches_wanted(&wanted(&[(3, false), (20, true)])));
        // What was passed on before the last turn but one is not looked at again.
        passed.checkpoint();
        passed.add_passed(&all.between_bytes(50, 55), 55);
        assert!(
            passed.matches_wanted(&all)
                && !passed.matches_wanted(&wanted(&[(20, true), (40, false)]))
        );
        passed.checkpoint();
        assert!(passed.matches_wanted(&wanted(&[])));
    }

    #[test]
    fn neighbouring_ranges_are_one_and_none_overlaps() {
        let ranges = vec![(10, 20), (0, 5), (20, 30), (12, 15), (40, u64::MAX)];
        assert_eq!(join_ranges(ranges), [(0, 5), (10, 30), (40, u64::MAX)]);
    }
}
