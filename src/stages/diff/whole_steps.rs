//! Finds the whole steps of an input.

use super::counts::DiffStep;
use crate::log::timeline::{MarkerSide, StepTimeline, StepWindow};
use std::collections::BTreeSet;

/// Returns the steps of a log that count, and whether one of them includes the job's start.
///
/// The part before the first line of a segment includes the start, and the part after the last (if lines
/// begin steps) the end: neither is a whole step. They count only if there is no other step, or if a window
/// asks for them.
pub(super) fn counted_steps(
    timeline: &StepTimeline,
    window: Option<StepWindow>,
    marker: MarkerSide,
) -> (Vec<u32>, bool) {
    let steps = timeline.steps.remaining();
    // Steps may continue in the next input.
    let goes_on = |at: usize| {
        let pair = steps.get(at..at + 2);
        pair.is_some_and(|pair| pair[0].segment == pair[1].segment && pair[0].step < pair[1].step)
    };
    let is_edge = |at: usize| match marker {
        MarkerSide::End => !at.checked_sub(1).is_some_and(goes_on),
        MarkerSide::Start => !goes_on(at),
    };
    let told = |at: &usize| !timeline.is_only_announced(*at as u32);
    let of = |wanted: &dyn Fn(usize) -> bool| -> Vec<u32> {
        let all = (0..steps.len()).filter(told);
        all.filter(|&at| wanted(at)).map(|at| at as u32).collect()
    };
    if let Some(window) = window {
        return (of(&|at| window.contains(steps[at].step)), false);
    }
    let whole = of(&|at| !is_edge(at));
    if whole.is_empty() {
        let all = of(&|_| true);
        let any = !all.is_empty();
        return (all, any);
    }
    (whole, false)
}

/// Returns the steps of a call table that count.
pub(super) fn table_steps(
    numbers: &BTreeSet<u64>,
    window: Option<StepWindow>,
) -> (Vec<DiffStep>, bool) {
    let mut before = None;
    let mut steps: Vec<DiffStep> = Vec::new();
    for &step in numbers {
        let steps_of_line = before.map_or(0, |before| step - before);
        before = Some(step);
        steps.push(DiffStep {
            segment: 0,
            step,
            steps: steps_of_line,
        });
    }
    // The first line represents as many steps as the second.
    let second = steps.get(1).map_or(1, |s| s.steps);
    if let Some(first) = steps.first_mut() {
        first.steps = second.min(first.step.max(1));
    }
    if let Some(window) = window {
        steps.retain(|s| window.contains(s.step));
        return (steps, false);
    }
    let with_start = steps.len() == 1;
    if steps.len() > 1 {
        steps.remove(0);
    }
    (steps, with_start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::trainer::Trainer;
    use crate::log::timeline;

    fn timeline(steps: &[(u32, u64)]) -> StepTimeline {
        let step = |&(segment, step): &(u32, u64)| timeline::TrainStep {
            segment,
            step,
            steps: 1,
            mark: 0,
            time_s: None,
            tflops: None,
        };
        StepTimeline {
            trainer: Some(Trainer::Megatron),
            steps: steps.iter().map(step).collect(),
            ..StepTimeline::default()
        }
    }

    #[test]
    fn steps_with_the_jobs_start_or_end_count_only_where_there_is_no_other() {
        let of = |steps: &[(u32, u64)], marker| counted_steps(&timeline(steps), None, marker);
        let restarted = [(0, 5), (0, 6), (0, 7), (1, 6), (1, 7)];
        assert_eq!(of(&restarted, MarkerSide::End), (vec![1, 2, 4], false));
        assert_eq!(of(&restarted, MarkerSide::Start), (vec![0, 1, 3], false));
        assert_eq!(of(&[(0, 5)], MarkerSide::End), (vec![0], true));
        assert_eq!(of(&[], MarkerSide::End), (vec![], false));
        let window = Some(StepWindow { from: 5, to: 6 });
        let asked = counted_steps(&timeline(&restarted), window, MarkerSide::End);
        assert_eq!(asked, (vec![0, 1, 3], false));
    }

    #[test]
    fn a_tables_steps_stand_for_as_many_as_lie_between() {
        let of = |numbers: &[u64]| {
            let (steps, with_start) = table_steps(&numbers.iter().copied().collect(), None);
            let steps = steps.iter().map(|s| (s.step, s.steps));
            (steps.collect::<Vec<_>>(), with_start)
        };
        assert_eq!(of(&[3, 4, 5]), (vec![(4, 1), (5, 1)], false));
        assert_eq!(of(&[10, 20, 30]), (vec![(20, 10), (30, 10)], false));
        assert_eq!(of(&[7]), (vec![(7, 1)], true));
        assert_eq!(of(&[]), (vec![], false));
    }
}
