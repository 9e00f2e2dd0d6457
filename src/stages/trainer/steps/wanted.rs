//! Which lines of a log are passed on.

use super::passed::{self, joined};
use crate::count::calls::Options;
use crate::error::Result;
use crate::log::Log;
use crate::log::timeline::{MarkList, Marker, Timeline};
use crate::output::written::Written;
use crate::source::Input;
use crate::stages::survey::Moved;
use std::io::Write;

/// What was passed on of a pipe before it ended. Which lines these were is remembered, not their
/// text: the copy of it is given up.
#[derive(Debug, Clone, Default)]
pub(super) struct Passed {
    /// All that is wanted of the input's bytes up to here.
    pub(super) until: u64,
    /// What was passed on since the last turn, and since the one before it.
    new: Lines,
    old: Lines,
}

/// Lines that were passed on.
#[derive(Debug, Clone, Default)]
struct Lines {
    /// All before was passed on before.
    from: u64,
    /// Which ranges these were.
    ranges: Vec<(u64, u64)>,
    /// Which calls outside or inside of them.
    moved: Written,
}

impl Passed {
    /// Takes in what was passed on up to `until`.
    pub(super) fn add(&mut self, wanted: &Wanted, until: u64) {
        self.new.add(wanted);
        self.until = until;
    }

    /// A turn: what was passed on before the last one need not be known any more.
    pub(super) fn turn(&mut self) {
        let new = Lines {
            from: self.until,
            ..Lines::default()
        };
        self.old = std::mem::replace(&mut self.new, new);
    }

    /// True where the same lines are `wanted` now that all is known.
    pub(super) fn is(&self, wanted: &Wanted) -> bool {
        let between = |from, to| wanted.between(from, to);
        self.old.is(&between(self.old.from, self.new.from))
            && self.new.is(&between(self.new.from, self.until))
    }
}

impl Lines {
    fn add(&mut self, wanted: &Wanted) {
        self.ranges.extend(&wanted.ranges);
        self.ranges = joined(std::mem::take(&mut self.ranges));
        for (at, is_passed) in &wanted.moved {
            self.moved.add(&at.to_le_bytes());
            self.moved.add(&[u8::from(*is_passed)]);
        }
    }

    fn is(&self, wanted: &Wanted) -> bool {
        let mut now = Lines::default();
        now.add(wanted);
        now.ranges == self.ranges && now.moved == self.moved
    }
}

/// The lines of a log that are wanted.
pub(super) struct Wanted {
    /// Their bytes, sorted and apart.
    ranges: Vec<(u64, u64)>,
    /// Where calls are whose lines are passed on although they are outside of these, or left out
    /// although they are inside; sorted.
    moved: Vec<(u64, bool)>,
}

impl Wanted {
    /// The lines of `gaps` of a log.
    pub(super) fn of(
        log: &Log,
        (timeline, moved): (&Timeline, &[Moved]),
        gaps: impl Iterator<Item = usize>,
        options: &Options,
    ) -> Wanted {
        let wanted = |gap: usize| {
            let step = timeline.step_of(gap);
            step.is_some_and(|step| options.window.is_none_or(|w| w.contains(step.step)))
        };
        let range = |gap| range(&log.marks, gap, options.timeline.marker);
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
        Wanted {
            ranges: joined(ranges),
            moved,
        }
    }

    /// What of that is in the bytes from `from` to `to`.
    pub(super) fn between(&self, from: u64, to: u64) -> Wanted {
        let cut = |&(a, b): &(u64, u64)| (a.max(from), b.min(to));
        let ranges = self.ranges.iter().map(cut).filter(|(a, b)| a < b);
        let is_in = |(at, _): &&(u64, bool)| (from..to).contains(at);
        Wanted {
            ranges: ranges.collect(),
            moved: self.moved.iter().filter(is_in).copied().collect(),
        }
    }

    /// Copies the lines.
    ///
    /// # Errors
    /// The input cannot be read or changed, the output cannot be written.
    pub(super) fn copy(&self, input: &Input, out: &mut dyn Write) -> Result<()> {
        passed::copy(input, &self.ranges, &self.moved, out)
    }
}

/// The bytes of a gap: where lines end steps, up to and with its line; where they begin steps,
/// from its line on.
pub(super) fn range(marks: &MarkList, gap: usize, marker: Marker) -> (u64, u64) {
    let edge = |mark: usize| {
        let mark = marks.all().get(mark);
        mark.map_or(u64::MAX, |mark| match marker {
            Marker::End => mark.cut,
            Marker::Start => mark.start,
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
        let wanted = |moved: &[(u64, bool)]| Wanted {
            ranges: vec![(0, 15), (30, 60)],
            moved: moved.to_vec(),
        };
        let all = wanted(&[(3, false), (20, true), (40, false)]);
        let mut passed = Passed::default();
        for (from, to) in [(0, 10), (10, 35), (35, 50)] {
            passed.add(&all.between(from, to), to);
        }
        assert!(passed.is(&all));
        assert!(!passed.is(&wanted(&[(3, false), (20, true)])));
        // What was passed on before the last turn but one is not looked at again.
        passed.turn();
        passed.add(&all.between(50, 55), 55);
        assert!(passed.is(&all) && !passed.is(&wanted(&[(20, true), (40, false)])));
        passed.turn();
        assert!(passed.is(&wanted(&[])));
    }

    #[test]
    fn neighbouring_ranges_are_one_and_none_overlaps() {
        let ranges = vec![(10, 20), (0, 5), (20, 30), (12, 15), (40, u64::MAX)];
        assert_eq!(joined(ranges), [(0, 5), (10, 30), (40, u64::MAX)]);
    }
}
