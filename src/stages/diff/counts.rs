//! One run's calls: how many a step, by what tells them apart.

use super::measure::Measure;
use crate::count::tally::{Bag, Value};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What tells a run's calls apart; numbers are the run's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Call {
    /// Who made them.
    pub(super) member: u32,
    /// The operation's number.
    pub(super) op: u32,
    /// The datatype's code.
    pub(super) datatype: u64,
    /// The size's bucket.
    pub(super) bucket: u64,
}

/// A step whose calls count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// How often the number fell before.
    pub(super) segment: u32,
    /// Its number.
    pub(super) step: u64,
    /// How many steps its line represents.
    pub(super) steps: u64,
}

/// Calls and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Numbers {
    /// Calls.
    pub(super) calls: Measure,
    /// Their bytes, of those whose bytes are known.
    pub(super) bytes: Measure,
}

impl Numbers {
    fn add(&mut self, other: &Numbers) {
        self.calls.add(&other.calls);
        self.bytes.add(&other.bytes);
    }
}

/// What a step has of something.
#[derive(Debug, Clone, Copy)]
struct Series {
    sum: u128,
    least: f64,
    most: f64,
    seen: usize,
}

impl Default for Series {
    fn default() -> Series {
        Series {
            sum: 0,
            least: f64::INFINITY,
            most: 0.0,
            seen: 0,
        }
    }
}

impl Series {
    fn add(&mut self, n: u128, steps: u64) {
        let of_a_step = n as f64 / steps as f64;
        self.sum = self.sum.saturating_add(n);
        self.least = self.least.min(of_a_step);
        self.most = self.most.max(of_a_step);
        self.seen += 1;
    }

    /// The sum, with how far it may be off where `lines` step lines of up to `widest` steps were
    /// looked at.
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
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Of the steps that count.
    stepped: FxHashMap<Call, Numbers>,
    /// Of the whole.
    whole: FxHashMap<Call, Numbers>,
    /// The steps that count, with how many each line represents.
    steps: BTreeMap<(u32, u64), u64>,
}

impl Counts {
    /// Adds calls, wherever they are.
    pub(super) fn whole(&mut self, call: Call, value: &Value) {
        let numbers = self.whole.entry(call).or_default();
        let exact = |sum| Measure {
            sum,
            over: 1,
            spread: 0.0,
        };
        numbers.add(&Numbers {
            calls: exact(value.calls.into()),
            bytes: exact(value.bytes),
        });
    }

    /// Adds the calls of an input's `steps`, by the index of the step.
    pub(super) fn stepped(&mut self, steps: &[Step], calls: Bag<usize, Call>) {
        let mut series: FxHashMap<Call, (Series, Series)> = FxHashMap::default();
        for ((at, call), value) in calls.into_sorted() {
            let steps = steps[at].steps.max(1);
            let (calls, bytes) = series.entry(call).or_default();
            calls.add(value.calls.into(), steps);
            bytes.add(value.bytes, steps);
        }
        let widest = steps.iter().map(|s| s.steps).max().unwrap_or(1);
        for (call, (calls, bytes)) in series {
            self.stepped.entry(call).or_default().add(&Numbers {
                calls: calls.measure(steps.len(), widest),
                bytes: bytes.measure(steps.len(), widest),
            });
        }
        for step in steps {
            let known = self.steps.entry((step.segment, step.step)).or_default();
            *known = step.steps.max(*known);
        }
    }

    /// Adds the calls of other inputs that were counted elsewhere; `known` numbers a call's member
    /// and operation as they are here.
    #[cfg_attr(not(test), expect(dead_code, reason = "nothing sends it yet"))]
    pub(super) fn merge(&mut self, other: Counts, known: impl Fn(Call) -> Call) {
        for (mine, others) in [
            (&mut self.stepped, other.stepped),
            (&mut self.whole, other.whole),
        ] {
            for (call, numbers) in others {
                mine.entry(known(call)).or_default().add(&numbers);
            }
        }
        for (at, steps) in other.steps {
            let here = self.steps.entry(at).or_default();
            *here = steps.max(*here);
        }
    }

    /// How many steps count.
    pub(super) fn steps(&self) -> u64 {
        self.steps
            .values()
            .fold(0, |sum, &n| sum.saturating_add(n.max(1)))
    }

    /// True where calls are in steps.
    pub(super) fn has_steps(&self) -> bool {
        !self.steps.is_empty() && !self.stepped.is_empty()
    }

    /// How often the step's number falls.
    pub(super) fn falls(&self) -> u32 {
        self.steps.keys().map(|step| step.0).max().unwrap_or(0)
    }

    /// The first and the last step that count.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        let steps = || self.steps.keys().map(|(_, step)| *step);
        Some((steps().min()?, steps().max()?))
    }

    /// True where there are no calls at all.
    pub(super) fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    /// The calls by what `name` makes of what tells them apart: of a step, or of the whole.
    pub(super) fn by<K: Ord>(
        &self,
        per_step: bool,
        name: impl Fn(&Call) -> K,
    ) -> BTreeMap<K, Numbers> {
        let (calls, over) = match per_step {
            true => (&self.stepped, self.steps()),
            false => (&self.whole, 1),
        };
        let mut named: BTreeMap<K, Numbers> = BTreeMap::new();
        for (call, numbers) in calls {
            named.entry(name(call)).or_default().add(numbers);
        }
        for numbers in named.values_mut() {
            numbers.calls.over = over;
            numbers.bytes.over = over;
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::pieces::sent;
    use proptest::prelude::*;

    /// An input: how many steps each of its step lines represents, and its calls: the step (none is
    /// outside of steps), the member and operation, how many.
    type Input = (Vec<u64>, Vec<(usize, u32, u64)>);

    /// Counts inputs whose members are numbered from `first` on.
    fn count(counts: &mut Counts, (steps, calls): &Input, first: u32) {
        let steps: Vec<Step> = (0..)
            .zip(steps)
            .map(|(step, &steps)| Step {
                segment: 0,
                step,
                steps,
            })
            .collect();
        let mut stepped = Bag::default();
        for &(at, who, n) in calls {
            let mut value = Value::default();
            value.add(n, Some(8));
            let call = Call {
                member: who + first,
                op: who % 3 + first,
                datatype: 7,
                bucket: 1,
            };
            counts.whole(call, &value);
            if at < steps.len() {
                stepped.push(at, call, value);
            }
        }
        counts.stepped(&steps, stepped);
    }

    proptest! {
        /// Each machine reads some of the files, and its state is sent after each.
        #[test]
        fn inputs_counted_on_several_machines_are_one_run(
            inputs in proptest::collection::vec(
                (
                    proptest::collection::vec(prop_oneof![Just(1_u64), Just(2), Just(8)], 0..5),
                    proptest::collection::vec((0..6_usize, 0..5_u32, 1..9_u64), 0..30),
                ),
                1..8,
            ),
            machines in proptest::collection::vec(0..3_u32, 8),
        ) {
            let mut whole = Counts::default();
            inputs.iter().for_each(|input| count(&mut whole, input, 0));
            let mut all = Counts::default();
            for machine in 0..3 {
                // Every machine numbers what it meets for itself.
                let first = 10 * machine;
                let mut own = Counts::default();
                for (input, _) in inputs.iter().zip(&machines).filter(|(_, on)| **on == machine) {
                    count(&mut own, input, first);
                    own = sent(&own);
                }
                let known = |call: Call| Call {
                    member: call.member - first,
                    op: call.op - first,
                    ..call
                };
                all.merge(own, known);
            }
            prop_assert_eq!(all, whole);
        }
    }
}
