//! Calls of a run: by step, operation, datatype, bucket and member.

use super::measure::Measure;
use crate::count::tally::{CallVolume, SortBuffer};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Key of a run's calls; numbers are the run's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct DiffCall {
    /// The number of the member.
    pub(super) member: u32,
    /// The operation's number.
    pub(super) op: u32,
    /// The datatype's code.
    pub(super) datatype: u64,
    /// The size's bucket.
    pub(super) bucket: u64,
}

/// A step that counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct DiffStep {
    /// How often the step number fell before it.
    pub(super) segment: u32,
    /// Its number.
    pub(super) step: u64,
    /// Number of steps that its line represents.
    pub(super) steps: u64,
}

/// Calls and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct CallsAndBytes {
    /// Calls.
    pub(super) calls: Measure,
    /// Bytes of the calls with known bytes.
    pub(super) bytes: Measure,
}

impl CallsAndBytes {
    fn add_numbers(&mut self, other: &CallsAndBytes) {
        self.calls.add_measure(&other.calls);
        self.bytes.add_measure(&other.bytes);
    }
}

/// Sums and extremes of a value over steps.
#[derive(Debug, Clone, Copy)]
struct PerStepSum {
    sum: u128,
    least: f64,
    most: f64,
    seen: usize,
}

impl Default for PerStepSum {
    fn default() -> PerStepSum {
        PerStepSum {
            sum: 0,
            least: f64::INFINITY,
            most: 0.0,
            seen: 0,
        }
    }
}

impl PerStepSum {
    fn add_steps(&mut self, n: u128, steps: u64) {
        let of_a_step = n as f64 / steps as f64;
        self.sum = self.sum.saturating_add(n);
        self.least = self.least.min(of_a_step);
        self.most = self.most.max(of_a_step);
        self.seen += 1;
    }

    /// Returns the sum, and its possible error: `lines` step lines of up to `widest` steps were counted.
    fn measure(&self, lines: usize, widest: u64) -> Measure {
        let least = if self.seen < lines { 0.0 } else { self.least };
        Measure {
            sum: self.sum,
            over: 1,
            spread: (self.most - least) * widest as f64,
        }
    }
}

/// Calls of a run.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RunCounts {
    /// Calls of the steps that count.
    stepped: FxHashMap<DiffCall, CallsAndBytes>,
    /// Calls of the whole run.
    whole: FxHashMap<DiffCall, CallsAndBytes>,
    /// The steps that count, with the number of steps of each line.
    steps: BTreeMap<(u32, u64), u64>,
}

impl RunCounts {
    /// Adds calls of any step.
    pub(super) fn add_calls(&mut self, call: DiffCall, value: &CallVolume) {
        let numbers = self.whole.entry(call).or_default();
        let exact = |sum| Measure {
            sum,
            over: 1,
            spread: 0.0,
        };
        numbers.add_numbers(&CallsAndBytes {
            calls: exact(value.calls.into()),
            bytes: exact(value.bytes),
        });
    }

    /// Adds the calls of an input's `steps`, by the index of the step.
    pub(super) fn add_step_calls(
        &mut self,
        steps: &[DiffStep],
        calls: SortBuffer<usize, DiffCall>,
    ) {
        let mut series: FxHashMap<DiffCall, (PerStepSum, PerStepSum)> = FxHashMap::default();
        for ((at, call), value) in calls.into_sorted() {
            let steps = steps[at].steps.max(1);
            let (calls, bytes) = series.entry(call).or_default();
            calls.add_steps(value.calls.into(), steps);
            bytes.add_steps(value.bytes, steps);
        }
        let widest = steps.iter().map(|s| s.steps).max().unwrap_or(1);
        for (call, (calls, bytes)) in series {
            self.stepped
                .entry(call)
                .or_default()
                .add_numbers(&CallsAndBytes {
                    calls: calls.measure(steps.len(), widest),
                    bytes: bytes.measure(steps.len(), widest),
                });
        }
        for step in steps {
            let known = self.steps.entry((step.segment, step.step)).or_default();
            *known = step.steps.max(*known);
        }
    }

    /// Counts the steps.
    pub(super) fn step_count(&self) -> u64 {
        self.steps
            .values()
            .fold(0, |sum, &n| sum.saturating_add(n.max(1)))
    }

    /// True if calls are in steps.
    pub(super) fn has_steps(&self) -> bool {
        !self.steps.is_empty() && !self.stepped.is_empty()
    }

    /// Counts how often the step number falls.
    pub(super) fn count_falls(&self) -> u32 {
        self.steps.keys().map(|step| step.0).max().unwrap_or(0)
    }

    /// Returns the first and the last step that count.
    pub(super) fn step_range(&self) -> Option<(u64, u64)> {
        let steps = || self.steps.keys().map(|(_, step)| *step);
        Some((steps().min()?, steps().max()?))
    }

    /// True if there are no calls.
    pub(super) fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    /// Sums up calls by a key that `name` makes: of a step, or of the whole.
    pub(super) fn group_by<K: Ord>(
        &self,
        per_step: bool,
        name: impl Fn(&DiffCall) -> K,
    ) -> BTreeMap<K, CallsAndBytes> {
        let (calls, over) = match per_step {
            true => (&self.stepped, self.step_count()),
            false => (&self.whole, 1),
        };
        let mut named: BTreeMap<K, CallsAndBytes> = BTreeMap::new();
        for (call, numbers) in calls {
            named.entry(name(call)).or_default().add_numbers(numbers);
        }
        for numbers in named.values_mut() {
            numbers.calls.over = over;
            numbers.bytes.over = over;
        }
        named
    }
}
