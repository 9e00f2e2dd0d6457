//! Where the step lines are among an input's calls.

use crate::stages::check::ranks::limits::MAX_STEPS_AFTER_LAST_CALL;
use crate::stages::check::walk::WalkedInput;

/// For each input, the number of its calls after each of its step lines, in order.
#[derive(Debug, Default)]
pub(crate) struct StepLinePositions(Vec<Vec<u64>>);

impl StepLinePositions {
    /// Counts the calls of these inputs.
    pub(crate) fn from_inputs(inputs: &[WalkedInput]) -> StepLinePositions {
        StepLinePositions(inputs.iter().map(count_calls_behind_lines).collect())
    }

    #[cfg(test)]
    pub(super) fn new(lines: Vec<Vec<u64>>) -> StepLinePositions {
        StepLinePositions(lines)
    }

    /// True if more steps end after a process's last call, which `calls` calls follow, than can
    /// without it.
    pub(super) fn are_late(&self, input: u32, behind: u64) -> bool {
        let lines = self.0.get(input as usize).into_iter().flatten();
        lines.filter(|line| **line <= behind).count() > MAX_STEPS_AFTER_LAST_CALL
    }
}

fn count_calls_behind_lines(input: &WalkedInput) -> Vec<u64> {
    let all: u64 = input.sums.by_gap.iter().map(|(_, sum)| sum.calls).sum();
    let mut gaps = input.sums.by_gap.iter().peekable();
    let mut before = 0;
    let behind = input.timeline.steps.iter().map(|step| {
        while let Some((_, sum)) = gaps.next_if(|(gap, _)| *gap <= step.mark) {
            before += sum.calls;
        }
        all - before
    });
    behind.collect()
}
