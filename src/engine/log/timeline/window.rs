//! Windows of steps.

use serde::{Deserialize, Serialize};

/// A window of steps, `a..b`, both ends in it, in the trainer's own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepWindow {
    /// The first step; 0 if open.
    pub from: u64,
    /// The last step; `u64::MAX` if open.
    pub to: u64,
}

impl StepWindow {
    /// True for a step in the window.
    pub fn contains(&self, step: u64) -> bool {
        (self.from..=self.to).contains(&step)
    }
}

impl std::str::FromStr for StepWindow {
    type Err = String;

    fn from_str(text: &str) -> Result<StepWindow, String> {
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
        Ok(StepWindow { from, to })
    }
}
