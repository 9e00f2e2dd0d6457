//! What is decided of a log's step lines before calls are placed: of a file by all of its lines, of a pipe by
//! those that have come.

use super::{LineNumberUnit, StepTimeSource, StepTimeline};
use crate::grammar::trainer::Trainer;
use std::fmt;

/// The decision on which the steps of a log rest. `--trainer`, `--step-regex`, `--printer` and `--marker` override it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepDecision {
    /// The trainer whose lines these are.
    pub trainer: Trainer,
    /// The pipeline stage that prints them, if they name it.
    pub stage: Option<u32>,
    /// True if every rank prints each step.
    pub every_rank: bool,
    /// Steps from one line to the next.
    pub interval: u64,
    /// What the numbers on the lines count.
    pub counted: LineNumberUnit,
    /// Where step times come from.
    pub times: StepTimeSource,
    /// True if the lines come one step after the calls.
    pub lags: bool,
}

impl StepTimeline {
    /// Returns the decision on the log's step lines; `None` if it has none.
    pub fn decision(&self) -> Option<StepDecision> {
        Some(StepDecision {
            trainer: self.trainer?,
            stage: self.stage,
            // A rank may print two lines a step, as DeepSpeed's does.
            every_rank: self.again.len() > self.steps.remaining().len() / 2,
            interval: self.line_interval(),
            counted: self.counted,
            times: self.times,
            lags: self.lags,
        })
    }
}

impl StepDecision {
    /// Returns the parts in which `later` differs, in the order of the fields.
    pub(super) fn changed_parts(&self, later: &StepDecision) -> impl Iterator<Item = &'static str> {
        let parts = [
            (self.trainer != later.trainer, "the trainer"),
            (
                self.stage != later.stage || self.every_rank != later.every_rank,
                "the rank that prints",
            ),
            (
                self.interval != later.interval,
                "the steps from line to line",
            ),
            (self.counted != later.counted, "what the lines count"),
            (self.times != later.times, "where step times come from"),
            (
                self.lags != later.lags,
                "whether lines lag behind the calls",
            ),
        ];
        let changed = parts.into_iter().filter(|(is_changed, _)| *is_changed);
        changed.map(|(_, part)| part)
    }
}

impl fmt::Display for StepDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step lines of {}", self.trainer.name())?;
        match self.stage {
            _ if self.every_rank => write!(f, ", printed by every rank")?,
            Some(stage) => write!(f, ", printed by pipeline stage {stage}")?,
            None if self.trainer.printed_by_last_rank() => {
                write!(f, ", which prints on the last rank")?;
            }
            None => write!(f, ", which prints on rank 0")?,
        }
        match self.interval {
            1 => write!(f, ", one a step")?,
            interval => write!(f, ", one in {interval} steps")?,
        }
        if self.lags {
            write!(f, ", one step after the calls")?;
        }
        let counted = match self.counted {
            LineNumberUnit::Steps => "steps",
            LineNumberUnit::Epochs(_) => "epochs",
            LineNumberUnit::ByStep(_) | LineNumberUnit::Samples => "samples or tokens",
        };
        let times = match self.times {
            StepTimeSource::Printed => "printed, if there are any",
            StepTimeSource::Stamps | StepTimeSource::Seconds => "from time stamps",
            StepTimeSource::Throughput | StepTimeSource::Smoothed => "from rates",
            StepTimeSource::Clock => "from elapsed times",
        };
        write!(f, "; their numbers count {counted}, times are {times}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECISION: StepDecision = StepDecision {
        trainer: Trainer::Megatron,
        stage: None,
        every_rank: false,
        interval: 1,
        counted: LineNumberUnit::Steps,
        times: StepTimeSource::Printed,
        lags: false,
    };

    #[test]
    fn a_decision_is_a_sentence() {
        assert_eq!(
            DECISION.to_string(),
            "step lines of megatron, which prints on the last rank, one a step; their numbers count steps, times are \
             printed, if there are any"
        );
    }

    #[test]
    fn what_changed_is_named() {
        let later = StepDecision {
            interval: 10,
            trainer: Trainer::Nemo2,
            ..DECISION
        };
        let changed: Vec<&str> = DECISION.changed_parts(&later).collect();
        assert_eq!(changed, ["the trainer", "the steps from line to line"]);
        assert_eq!(DECISION.changed_parts(&DECISION).count(), 0);
    }
}
