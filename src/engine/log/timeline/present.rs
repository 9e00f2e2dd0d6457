//! The steps that inputs have.

use super::{StepTimeline, StepWindow};
use crate::formats::lines::RowVisitor;
use crate::output::table::Row;
use crate::report::ranges_phrase;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The steps that inputs have, to check a window against. A job may run for a month: lines that come at
/// even distances take no more memory than two of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentSteps {
    /// Lines at even distances, each run after the one before.
    runs: Vec<EvenStepRun>,
    /// All others: each line's step, with how many steps it represents.
    others: BTreeMap<u64, u64>,
}

/// Lines at even distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct EvenStepRun {
    first: u64,
    last: u64,
    /// How far apart they are; 0 for one line.
    apart: u64,
    /// How many steps each represents.
    steps: u64,
}

impl EvenStepRun {
    /// Adds the next line, if it is one of the run.
    fn try_extend(&mut self, step: u64, steps: u64) -> bool {
        let apart = step.saturating_sub(self.last);
        let is_next = apart > 0 && steps == self.steps && [0, apart].contains(&self.apart);
        if is_next {
            (self.last, self.apart) = (step, apart);
        }
        is_next
    }

    fn has_step(&self, step: u64) -> bool {
        let since = step.checked_sub(self.first);
        since.is_some_and(|since| since == 0 || self.apart > 0 && since.is_multiple_of(self.apart))
            && step <= self.last
    }

    /// Its lines from a step on.
    fn lines_from(self, from: u64) -> impl Iterator<Item = (u64, u64)> {
        let apart = self.apart.max(1);
        let before = from.saturating_sub(self.first).div_ceil(apart);
        let first = before
            .checked_mul(apart)
            .and_then(|n| n.checked_add(self.first));
        let next = move |step: &u64| step.checked_add(apart);
        let all = std::iter::successors(first, next).take_while(move |&step| step <= self.last);
        all.map(move |step| (step, self.steps))
    }
}

/// The steps of a part of a call table.
impl RowVisitor for PresentSteps {
    fn visit_row(&mut self, row: &Row<'_>) {
        if let Some(step) = row.step {
            self.add_step(step, 1);
        }
    }
}

impl PresentSteps {
    /// Notes a timeline's steps.
    pub fn add_timeline(&mut self, timeline: &StepTimeline) {
        for step in &timeline.steps {
            self.add_step(step.step, step.steps);
        }
    }

    /// Notes a step with a line that represents `steps` steps.
    pub fn add_step(&mut self, step: u64, steps: u64) {
        let last = self.runs.last_mut();
        if last.is_some_and(|run| run.try_extend(step, steps)) {
            return;
        }
        let at = self.runs.partition_point(|run| run.last < step);
        match self.runs.get(at) {
            None => self.runs.push(EvenStepRun {
                first: step,
                last: step,
                apart: 0,
                steps,
            }),
            Some(run) if run.has_step(step) && run.steps >= steps => {}
            Some(_) => {
                let known = self.others.entry(step).or_insert(steps);
                *known = steps.max(*known);
            }
        }
    }

    /// Notes all that another has.
    pub fn merge(&mut self, other: &PresentSteps) {
        other
            .iter_lines()
            .for_each(|(step, steps)| self.add_step(step, steps));
    }

    /// Each line's step, with how many steps it represents, in order.
    fn iter_lines(&self) -> impl Iterator<Item = (u64, u64)> {
        self.lines_between(0, u64::MAX)
    }

    /// Those from one step up to another.
    fn lines_between(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
        let first = self.runs.partition_point(|run| run.last < from);
        let runs = self.runs[first..].iter();
        let mut even = runs.flat_map(move |run| run.lines_from(from)).peekable();
        let mut others = self.others.range(from..).peekable();
        std::iter::from_fn(move || {
            let next = match (even.peek(), others.peek()) {
                (Some(even), Some(other)) => even.0.min(*other.0),
                (Some(even), None) => even.0,
                (None, other) => *other?.0,
            };
            let even = even.next_if(|even| even.0 == next);
            let other = others.next_if(|other| *other.0 == next);
            let steps = even.map(|even| even.1).max(other.map(|other| *other.1));
            steps.map(|steps| (next, steps))
        })
        .take_while(move |&(step, _)| step <= to)
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.others.is_empty()
    }

    /// Checks that there are steps, and those of `window` if one is asked for.
    ///
    /// # Errors
    /// The first missing step, with the steps that are there.
    pub fn check_demand(&self, window: Option<&StepWindow>) -> Result<(), String> {
        if self.is_empty() {
            return Err(self.describe_steps());
        }
        window.map_or(Ok(()), |window| self.check_window(window))
    }

    /// Checks that every step of `window` is there.
    ///
    /// # Errors
    /// The first missing step, with the steps that are there.
    pub fn check_window(&self, window: &StepWindow) -> Result<(), String> {
        let mut next = window.from;
        let mut first = true;
        let mut missing = None;
        for (step, steps) in self.lines_between(window.from, window.to) {
            let begins = step.saturating_sub(steps - 1);
            // An open end asks for what there is.
            if begins > next && !(first && window.from == 0) {
                missing = Some(next);
                break;
            }
            first = false;
            next = step.saturating_add(1);
        }
        let open = window.to == u64::MAX && !first;
        if missing.is_none() && !open && next <= window.to {
            missing = Some(next);
        }
        match missing {
            None => Ok(()),
            Some(step) => Err(format!(
                "step {step} is not in the input; {}",
                self.describe_steps()
            )),
        }
    }

    /// The steps as ranges, `0..55` or `10, 20, 30 (a line represents up to 10 steps)`.
    pub fn describe_steps(&self) -> String {
        if self.is_empty() {
            return "the input has no step lines; name the trainer with --trainer, or describe its \
                    lines with --step-regex"
                .to_owned();
        }
        let ranges = ranges_phrase(self.iter_lines().map(|(step, _)| step));
        let interval = self
            .iter_lines()
            .skip(1)
            .map(|(_, steps)| steps)
            .max()
            .unwrap_or(1);
        let spans = if interval > 1 {
            format!(" (a line represents up to {interval} steps)")
        } else {
            String::new()
        };
        format!("steps present: {ranges}{spans}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever comes after what, the steps are those of a plain map.
        #[test]
        fn even_lines_are_as_if_each_were_kept(
            runs in proptest::collection::vec((0..60_u64, 1..9_usize, 1..4_u64, 1..3_u64), 0..12),
            window in (0..80_u64, 0..80_u64),
            end: bool,
        ) {
            let (mut present, mut twin) = (PresentSteps::default(), BTreeMap::new());
            let mut merged = PresentSteps::default();
            for (first, n, apart, steps) in runs {
                let first = if end { u64::MAX - first } else { first };
                let mut own = PresentSteps::default();
                for at in 0..n as u64 {
                    let step = first.saturating_add(at * apart);
                    present.add_step(step, steps);
                    own.add_step(step, steps);
                    let known = twin.entry(step).or_insert(steps);
                    *known = steps.max(*known);
                }
                merged.merge(&own);
            }
            let all: Vec<(u64, u64)> = twin.clone().into_iter().collect();
            prop_assert_eq!(present.iter_lines().collect::<Vec<_>>(), all.clone());
            prop_assert_eq!(merged.iter_lines().collect::<Vec<_>>(), all);
            let (from, to) = (window.0.min(window.1), window.1.max(window.0));
            let part: Vec<(u64, u64)> = twin.range(from..=to).map(|(a, b)| (*a, *b)).collect();
            prop_assert_eq!(present.lines_between(from, to).collect::<Vec<_>>(), part);
        }
    }

    #[test]
    fn a_month_of_steps_takes_no_memory() {
        let mut present = PresentSteps::default();
        (0..3_000_000).for_each(|step| present.add_step(step, 1));
        assert_eq!((present.runs.len(), present.others.len()), (1, 0));
        assert_eq!(present.describe_steps(), "steps present: 0..2999999");
    }
}
