//! Windows of steps, and the steps an input has to check one against.

use super::Timeline;
use crate::formats::lines::Rows;
use crate::output::table::Row;
use crate::report::ranges;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A window of steps, `a..b`, both ends in it, in the trainer's own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The first step; 0 if open.
    pub from: u64,
    /// The last step; `u64::MAX` if open.
    pub to: u64,
}

impl Window {
    /// True for a step in the window.
    pub fn contains(&self, step: u64) -> bool {
        (self.from..=self.to).contains(&step)
    }
}

impl std::str::FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Window, String> {
        let wrong = || {
            format!(
                "invalid window of steps `{text}`; expected 45..49 (both ends included), 45.., \
                 ..49 or 45"
            )
        };
        let number = |t: &str| t.parse::<u64>().map_err(|_| wrong());
        let (from, to) = match text.split_once("..") {
            None => {
                let step = number(text)?;
                (step, step)
            }
            Some((a, b)) => {
                let b = b.strip_prefix('=').unwrap_or(b);
                if a.is_empty() && b.is_empty() {
                    return Err(wrong());
                }
                (
                    if a.is_empty() { 0 } else { number(a)? },
                    if b.is_empty() { u64::MAX } else { number(b)? },
                )
            }
        };
        if from > to {
            return Err(format!(
                "the window {text} is empty: {from} comes after {to}"
            ));
        }
        Ok(Window { from, to })
    }
}

/// The steps that inputs have, to check a window against.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Present {
    /// Each line's step, with how many steps it represents.
    steps: BTreeMap<u64, u64>,
}

/// The steps of a part of a call table.
impl Rows for Present {
    fn row(&mut self, row: &Row<'_>) {
        if let Some(step) = row.step {
            self.step(step, 1);
        }
    }
}

impl Present {
    /// Notes a timeline's steps.
    pub fn add(&mut self, timeline: &Timeline) {
        for step in &timeline.steps {
            self.step(step.step, step.steps);
        }
    }

    /// Notes a step whose line represents `steps` of them.
    pub fn step(&mut self, step: u64, steps: u64) {
        let known = self.steps.entry(step).or_insert(steps);
        *known = steps.max(*known);
    }

    /// Notes all that another has.
    pub fn merge(&mut self, other: &Present) {
        let steps = other.steps.iter();
        steps.for_each(|(&step, &steps)| self.step(step, steps));
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Checks that there are steps, and those of `window` if one is asked for.
    ///
    /// # Errors
    /// What is missing, with the steps that are there.
    pub fn demand(&self, window: Option<&Window>) -> Result<(), String> {
        if self.is_empty() {
            return Err(self.describe());
        }
        window.map_or(Ok(()), |window| self.check(window))
    }

    /// Checks that every step of `window` is there.
    ///
    /// # Errors
    /// What is missing, with the steps that are there.
    pub fn check(&self, window: &Window) -> Result<(), String> {
        let mut next = window.from;
        let mut first = true;
        let mut missing = None;
        for (&step, &steps) in self.steps.range(window.from..=window.to) {
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
                self.describe()
            )),
        }
    }

    /// The steps as ranges, `0..55` or `10, 20, 30 (each line stands for 10 steps)`.
    pub fn describe(&self) -> String {
        if self.steps.is_empty() {
            return "the input has no step lines; name the trainer with --trainer, or describe its \
                    lines with --step-regex"
                .to_owned();
        }
        let ranges = ranges(self.steps.keys().copied());
        let interval = self.steps.values().skip(1).max().copied().unwrap_or(1);
        let spans = if interval > 1 {
            format!(" (a line represents up to {interval} steps)")
        } else {
            String::new()
        };
        format!("steps present: {ranges}{spans}")
    }
}
