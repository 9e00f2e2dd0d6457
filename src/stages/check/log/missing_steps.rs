//! Where a log may lack lines of its job without a trace: steps that were cut out of it.
//!
//! What `nccl-steps` or an editor leaves of a log begins and ends at step lines. The ranks are not
//! at the same call there, so that after such a cut each goes on with another one, and at the end
//! some have made more calls than others, all without anything wrong. A cut shows by the step
//! lines: the step's number falls or jumps where lines are left out, and after the last line
//! there is no call. Restarts and epochs look the same; but where the ranks were at the same call at
//! all step lines up to there, no cut can have put them apart.

use crate::formats::log::timeline::{MarkList, Timeline};
use crate::grammar::trainer::Mark;
use crate::stages::survey::Sums;

/// Where one input may have been cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cuts {
    /// The line of the step line, from 0, after which lines may be left out and ranks apart.
    within: Option<u64>,
    /// The last line with anything of a step is a step line.
    pub(crate) at_end: bool,
}

impl Cuts {
    /// The cuts of a log with these calls and step lines; `apart` are the gaps at whose end ranks were at
    /// different calls.
    pub(crate) fn of(
        sums: &Sums,
        apart: Option<&[usize]>,
        marks: &MarkList,
        timeline: &Timeline,
    ) -> Cuts {
        let steps = timeline.steps.left();
        let interval = timeline.interval();
        let is_seam = |at: &usize| {
            let (before, step) = (&steps[*at - 1], &steps[*at]);
            before.segment != step.segment || step.steps != interval
        };
        let seams = || (1..steps.len()).filter(is_seam);
        let uneven = apart.and_then(|apart| apart.first());
        // Ranks that are first apart after the step at the seam were not put apart by it.
        let seam = uneven.and_then(|gap| seams().find(|&at| *gap <= steps[at].mark));
        let before = seam.and_then(|at| marks.all().get(steps[at - 1].mark));
        // Where a launcher ended the job nobody cut it.
        let mut steps = (0..marks.len())
            .rev()
            .filter_map(|at| Some((at, marks.all().get(at)?)));
        let end = steps.find(|(_, mark)| mark.mark != Mark::Ended);
        let end = end.map_or(0, |(at, _)| at + 1);
        Cuts {
            within: before.map(|mark| mark.line),
            at_end: sums.last_gap().is_some_and(|gap| gap < end),
        }
    }

    /// True for a line in front of which lines may be missing.
    pub(crate) fn is_behind(&self, line: u64) -> bool {
        self.within.is_some_and(|cut| line > cut)
    }
}
