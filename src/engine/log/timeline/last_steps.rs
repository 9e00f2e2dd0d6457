//! The last steps of a log as a timeline of their own, for questions about the steps of a long job.

use super::{GapKind, StepTimeline, TrainStep, count_line_intervals};

/// Where the last steps of a log begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LastStepsStart {
    /// The number of the first of them.
    pub step: usize,
    /// The first gap after the line of the step before.
    pub gap: usize,
}

impl StepTimeline {
    /// Where the last `most` steps begin; `None` where there are no more than these.
    pub fn start_of_last(&self, most: usize) -> Option<LastStepsStart> {
        let step = self.steps.len().checked_sub(most)?;
        let before = self.steps.get(step.checked_sub(1)?)?;
        Some(LastStepsStart {
            step,
            gap: before.mark + 1,
        })
    }

    /// The steps from there on, as if the log began there: steps, gaps and marks are counted from there. How many
    /// steps a line represents is still known of all.
    #[must_use]
    pub fn last_steps(&self, since: LastStepsStart) -> StepTimeline {
        let LastStepsStart { step: first, gap } = since;
        let all = self.steps.remaining();
        let gone = first
            .saturating_sub(self.steps.forgotten_count())
            .min(all.len());
        let mut often = self.often.clone();
        // The first one that is left is looked at with the one before it.
        count_line_intervals(&mut often, &all[..all.len().min(gone + 1)]);
        let steps = all[gone..].iter().map(|step| TrainStep {
            mark: step.mark.saturating_sub(gap),
            ..step.clone()
        });
        // Where lines begin steps, the calls of the step before go on until the first line.
        let named = |named: &GapKind| match *named {
            GapKind::Step(step) => {
                let step = (step as usize).checked_sub(first);
                step.map_or(GapKind::Before, |step| GapKind::Step(step as u32))
            }
            named => named,
        };
        let gaps = self.gaps.slice(gap..self.gaps.len());
        let again = self.again.iter().filter_map(|&(step, mark)| {
            let step = (step as usize).checked_sub(first)?;
            let mark = (mark as usize).checked_sub(gap)?;
            Some((step as u32, mark as u32))
        });
        StepTimeline {
            steps: steps.collect(),
            gaps: gaps.iter().map(named).collect(),
            again: again.collect(),
            often,
            trainer: self.trainer,
            stage: self.stage,
            duplicates: self.duplicates,
            lags: self.lags,
            times: self.times,
            counted: self.counted,
            bursts: self.bursts,
            by_position: self.by_position,
            redecided: self.redecided.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::trainer::{StepLine, Trainer, TrainerMark};
    use crate::log::timeline::tests::marks;
    use crate::log::timeline::{MarkerSide, Options, resolve_timeline};

    fn timeline(marker: MarkerSide) -> StepTimeline {
        let line = |step| TrainerMark::Step(StepLine::without_time(Trainer::Nemo2, step));
        let mut all: Vec<TrainerMark> = (1..20).map(|n| line(n * 10)).collect();
        all.insert(12, TrainerMark::Between);
        let options = Options {
            marker,
            ..Options::default()
        };
        resolve_timeline(&marks(all), &[], &options)
    }

    #[test]
    fn the_last_steps_are_counted_from_the_first_of_them() {
        let all = timeline(MarkerSide::End);
        assert_eq!((all.start_of_last(19), all.start_of_last(40)), (None, None));
        let since = all.start_of_last(9).unwrap();
        assert_eq!(since, LastStepsStart { step: 10, gap: 10 });
        let last = all.last_steps(since);
        assert_eq!(last.steps.len(), 9);
        for (step, whole) in last.steps.iter().zip(all.steps.slice(10..19)) {
            assert_eq!((step.step, step.mark + 10), (whole.step, whole.mark));
        }
        let gaps: Vec<GapKind> = last.gaps.iter().copied().collect();
        assert_eq!(gaps[0], GapKind::Step(0));
        assert_eq!(gaps[2..4], [GapKind::Between, GapKind::Step(2)]);
        assert_eq!(gaps.len() + 10, all.gaps.len());
        assert_eq!((last.line_interval(), last.often), (10, [(10, 10)].into()));
    }

    #[test]
    fn where_lines_begin_steps_the_step_before_goes_on() {
        let all = timeline(MarkerSide::Start);
        let last = all.last_steps(all.start_of_last(9).unwrap());
        assert_eq!(
            last.gaps.remaining()[..2],
            [GapKind::Before, GapKind::Step(0)]
        );
    }

    #[test]
    fn steps_that_were_forgotten_before_make_no_difference() {
        let all = timeline(MarkerSide::End);
        let mut recent = all.clone();
        count_line_intervals(&mut recent.often, &all.steps.remaining()[..6]);
        drop(recent.steps.forget_before(5));
        drop(recent.gaps.forget_before(4));
        let since = all.start_of_last(9).unwrap();
        assert_eq!(recent.start_of_last(9), Some(since));
        assert_eq!(recent.last_steps(since), all.last_steps(since));
    }
}
