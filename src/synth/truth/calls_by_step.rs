//! The step of each call, for ranks that run ahead, where the lines do not show it.

use crate::job::schedule::ProgramStretch;
use crate::truth::rows::{BetweenStepsRow, StepTruthRow, TruthCallSum};
use std::collections::BTreeMap;

/// What the calls made now belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CallPlace {
    Step(u64),
    /// They follow a step, and belong to none.
    Between(u64, &'static str),
    Tail,
}

/// The calls by step.
#[derive(Debug, Default)]
pub(crate) struct CallsByStep {
    segment: u64,
    /// The names of this life's files, by rank; one where all ranks share a stream.
    files: Vec<String>,
    now: Option<(usize, CallPlace)>,
    sums: BTreeMap<(u64, CallPlace), TruthCallSum>,
    /// The step of each call with a whole line, in the order of a file's lines.
    pub(crate) steps: BTreeMap<String, Vec<Option<u64>>>,
}

impl CallsByStep {
    /// A life of the job begins.
    pub(crate) fn begin_life(&mut self, segment: u64, files: Vec<String>) {
        self.segment = segment;
        for file in &files {
            self.steps.entry(file.clone()).or_default();
        }
        self.files = files;
    }

    /// The next call is one of a rank's, made in a stretch.
    pub(crate) fn place_next_call(&mut self, rank: usize, stretch: ProgramStretch, step: u64) {
        let place = match stretch {
            ProgramStretch::Train => CallPlace::Step(step),
            ProgramStretch::Eval => CallPlace::Between(step, "eval"),
            ProgramStretch::Checkpoint => CallPlace::Between(step, "checkpoint"),
            ProgramStretch::Tail => CallPlace::Tail,
        };
        self.now = Some((rank.min(self.files.len().saturating_sub(1)), place));
    }

    /// Its line is whole.
    pub(crate) fn count_call(&mut self, bytes: u128) {
        let Some((file, place)) = self.now else {
            return;
        };
        self.sums
            .entry((self.segment, place))
            .or_default()
            .add_calls(1, bytes);
        let step = match place {
            CallPlace::Step(step) => Some(step),
            CallPlace::Between(..) | CallPlace::Tail => None,
        };
        let name = self.files.get(file);
        if let Some(steps) = name.and_then(|name| self.steps.get_mut(name)) {
            steps.push(step);
        }
    }

    /// Everything is written: the sums of the steps that have a line, of stretches between steps, and of the
    /// calls after the last line.
    pub(crate) fn finish(
        &mut self,
        steps: &mut [StepTruthRow],
    ) -> (Vec<BetweenStepsRow>, TruthCallSum) {
        for row in steps {
            for step in row.step + 1 - row.steps..=row.step {
                let sum = self.sums.remove(&(row.segment, CallPlace::Step(step)));
                let sum = sum.unwrap_or_default();
                row.sum.add_calls(sum.calls, sum.bytes);
            }
        }
        let (mut between, mut after) = (Vec::new(), TruthCallSum::default());
        for ((segment, place), sum) in std::mem::take(&mut self.sums) {
            let (after_step, what) = match place {
                CallPlace::Between(step, what) => (step, what),
                CallPlace::Step(step) if segment < self.segment => (step, "unfinished"),
                CallPlace::Step(_) | CallPlace::Tail => {
                    after.add_calls(sum.calls, sum.bytes);
                    continue;
                }
            };
            between.push(BetweenStepsRow {
                segment,
                after_step,
                what,
                sum,
            });
        }
        (between, after)
    }
}
