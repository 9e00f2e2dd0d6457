//! Where a log may lack lines of its job without a trace: steps that were cut out of it.
//!
//! What `nccl-steps` or an editor leaves of a log begins and ends at step lines. The ranks are not
//! at the same call there, so that after such a cut each goes on with another one, and at the end
//! some have made more calls than others, all without anything wrong. A cut shows by the step
//! lines: the step's number falls or jumps where lines are left out, and after the last line
//! there is no call. Restarts and epochs look the same; but where the ranks were at the same call at
//! all step lines up to there, no cut can have put them apart.

use super::old_steps::{OldSteps, is_seam};
use crate::grammar::trainer::TrainerMark;
use crate::log::timeline::{MarkList, StepTimeline};
use crate::stages::survey::GapSums;

/// Where one input may have been cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InputCuts {
    /// The line of the step line, from 0, after which lines may be left out and ranks apart.
    within: Option<u64>,
    /// The last line with anything of a step is a step line.
    pub(crate) at_end: bool,
}

impl InputCuts {
    /// Returns the cuts of a log with these calls and step lines; `apart` are the gaps after which
    /// ranks were at different calls. Gaps and marks of the timeline are counted from the end of
    /// the `old` steps.
    pub(crate) fn find_cuts(
        sums: &GapSums,
        apart: Option<&[usize]>,
        marks: &MarkList,
        timeline: &StepTimeline,
        old: &OldSteps,
    ) -> InputCuts {
        let steps = timeline.steps.remaining();
        let interval = timeline.line_interval();
        let base = old.since.gap;
        let line = |mark: usize| marks.as_slice().get(base + mark).map(|mark| mark.line);
        let last = old.last.map(|last| (last.segment, Some(last.line)));
        let before = |at: usize| match at.checked_sub(1).map(|before| &steps[before]) {
            Some(step) => Some((step.segment, line(step.mark))),
            None => last,
        };
        let seam = |at: usize| {
            let (segment, line) = before(at)?;
            let kind = (segment == steps[at].segment).then_some(steps[at].steps);
            is_seam(kind, interval).then_some(line)
        };
        let uneven = apart.and_then(|apart| apart.first()).map(|gap| base + gap);
        // Ranks that are first apart after the step at the seam were not put apart by it.
        let within = old.uneven.or(uneven).and_then(|gap| {
            let mut later = (0..steps.len()).filter(|&at| gap <= base + steps[at].mark);
            old.first_seam(interval)
                .or_else(|| later.find_map(seam).flatten())
        });
        // A job that its launcher ended was not cut.
        let mut steps = (0..marks.len())
            .rev()
            .filter_map(|at| Some((at, marks.as_slice().get(at)?)));
        let end =
            steps.find(|(_, mark)| !matches!(mark.mark, TrainerMark::Ended | TrainerMark::Joined));
        let end = end.map_or(0, |(at, _)| at + 1);
        InputCuts {
            within,
            at_end: sums.last_gap().is_some_and(|gap| gap < end),
        }
    }

    /// True for a line before which lines of its job may be missing; the job's first process began at `begin`.
    pub(crate) fn is_after_cut(&self, begin: u64, line: u64) -> bool {
        self.within.is_some_and(|cut| line > cut && begin <= cut)
    }
}
