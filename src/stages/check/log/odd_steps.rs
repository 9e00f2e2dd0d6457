//! Steps that are not like the others: in their time, in their calls, or without any.

use crate::count::spread::Sorted;
use crate::log::timeline::{Gap, Step};
use crate::stages::check::finding::{About, Finding, Severity, Sure};
use crate::stages::check::ranks::names::Names;
use crate::stages::check::walk::Walked;
use crate::stages::check::wording::{counted, listed};
use crate::stages::communicators::Found;
use crate::stages::survey::Sum;
use crate::stages::survey::rhythm::{self, FEW, Odd, RARE};
use std::collections::BTreeMap;

/// A step this many times as long as the median is reported,
const SLOW: f64 = 3.0;

/// if it is longer by so many seconds: what is short varies.
const LONGER: f64 = 0.1;

/// The findings on the steps of `input`, the `number`th.
pub(crate) fn findings(number: u32, input: &Walked, found: &Found) -> Vec<Finding> {
    let steps = input.timeline.steps.left();
    let mut sums = vec![Sum::default(); steps.len()];
    for &(gap, sum) in &input.sums.by_gap {
        if let Some(Gap::Step(step)) = input.timeline.gaps.get(gap)
            && let Some(sums) = sums.get_mut(*step as usize)
        {
            sums.merge(sum);
        }
    }
    let of = Of {
        number,
        input,
        steps,
        sums,
    };
    let mut findings = of.slow();
    let silent = of.silent();
    if silent.is_none() {
        findings.extend(of.odd(found));
    }
    findings.extend(silent);
    findings
}

struct Of<'a> {
    number: u32,
    input: &'a Walked,
    steps: &'a [Step],
    /// The calls of each step.
    sums: Vec<Sum>,
}

impl Of<'_> {
    fn inner(&self) -> impl Iterator<Item = usize> {
        rhythm::inner(self.steps)
    }

    fn finding(&self, id: &'static str, step: usize, says: String) -> Finding {
        Finding {
            id,
            severity: Severity::Note,
            says,
            about: About {
                step: Some(self.steps[step].step),
                ..About::default()
            },
            sure: Sure::Medium,
            why: String::new(),
            advice: String::new(),
            evidence: self.input.line_of(self.number, step).into_iter().collect(),
        }
    }

    /// Calls of a single step: a line may represent several.
    fn calls(&self, step: usize) -> u64 {
        self.sums[step].calls / self.steps[step].steps.max(1)
    }

    /// True where all ranks were at the same call when the step began and when it ended: then the calls
    /// between its lines are its own.
    fn is_exact(&self, step: usize) -> bool {
        let Ok(step) = u32::try_from(step) else {
            return false;
        };
        let gaps = &self.input.timeline.gaps;
        let is_own = |gap: &Gap| *gap == Gap::Step(step);
        let (first, last) = (gaps.iter().position(is_own), gaps.iter().rposition(is_own));
        let apart = self.input.apart.as_ref();
        let is_even = |gap: usize| apart.is_some_and(|apart| apart.binary_search(&gap).is_err());
        let begins = first.is_some_and(|gap| gap == 0 || is_even(gap - 1));
        begins && last.is_some_and(is_even)
    }

    fn slow(&self) -> Vec<Finding> {
        let times: Vec<(usize, f64)> = self
            .inner()
            .filter_map(|at| Some((at, self.steps[at].time_s?)))
            .collect();
        let Some(middle) = Sorted::new(times.iter().map(|(_, time)| *time))
            .median()
            .filter(|_| times.len() >= FEW)
        else {
            return Vec::new();
        };
        let usual = Sorted::new(self.inner().map(|at| self.calls(at) as f64))
            .median()
            .unwrap_or(0.0);
        let is_slow = |&(_, time): &(usize, f64)| time > SLOW * middle && time - middle > LONGER;
        // Slow steps at the beginning are the job's warming up.
        let warm = times.iter().skip_while(|time| is_slow(time));
        let slow: Vec<(usize, f64)> = warm.filter(|time| is_slow(time)).copied().collect();
        if slow.len() > RARE.min(times.len() / 4) {
            return Vec::new();
        }
        let told = |(at, time): (usize, f64)| {
            let calls = self.calls(at);
            let made = counted(calls, "call");
            let beside = if usual == 0.0 || !self.is_exact(at) {
                String::new()
            } else if usual == calls as f64 {
                format!("; it made {made}, as did the others")
            } else {
                format!("; it made {made}, and the others made about {usual:.0}")
            };
            let step = self.steps[at].step;
            let says = format!("step {step} took {time} s, median {middle} s{beside}");
            Finding {
                sure: Sure::High,
                why: format!(
                    "the step lines print these times; the median is over {} steps, without the \
                     first of a run",
                    times.len()
                ),
                advice: "look at the job's other work at that time (a checkpoint, an evaluation, \
                     data), and at the host that was late"
                    .to_owned(),
                ..self.finding("slow_step", at, says)
            }
        };
        slow.into_iter().map(told).collect()
    }

    /// Steps that the rank in step with the step lines shows to be unlike the others.
    fn odd(&self, found: &Found) -> Vec<Finding> {
        let mut by_steps: BTreeMap<(usize, usize), Vec<&Odd>> = BTreeMap::new();
        for odd in &self.input.odd {
            by_steps.entry(odd.steps).or_default().push(odd);
        }
        let finding = |(&(first, last), odds): (&(usize, usize), &Vec<&Odd>)| {
            let odd = odds.first()?;
            let step = self.steps[last].step;
            let id = odd.comm_id.to_string();
            let names = Names { found };
            let mut numbers = 0..found.communicators.len();
            let number = numbers.find(|&at| names.id(at).as_ref() == Some(&id));
            let communicator = number.map_or_else(|| id.clone(), |at| names.communicator(at));
            let (which, of_step) = match first == last {
                true => (format!("step {step}"), Some(step)),
                false => (format!("step {} or {step}", self.steps[first].step), None),
            };
            let more = match odds.len() - 1 {
                0 => String::new(),
                n => format!(
                    "; it is odd on {} too",
                    counted(n as u64, "other communicator")
                ),
            };
            let finding = self.finding(
                "odd_step",
                last,
                format!(
                    "in {which} each rank of communicator {communicator} made {}, in the other \
                     steps it made {}{more}",
                    counted(odd.made, "collective"),
                    odd.usual,
                ),
            );
            Some(Finding {
                about: About {
                    comm_id: Some(id),
                    step: of_step,
                    ..About::default()
                },
                sure: Sure::High,
                why: format!(
                    "the ranks that keep pace with the step lines made the same number in each of \
                     {} steps except the odd ones",
                    odd.of
                ),
                advice: format!(
                    "compare nccl-agg --steps {step} with another step to see which calls; \
                     this is expected next to a checkpoint or an evaluation"
                ),
                ..finding
            })
        };
        by_steps.iter().filter_map(finding).collect()
    }

    /// Steps go on and calls stop.
    fn silent(&self) -> Option<Finding> {
        let old = &self.input.old;
        let (last, without, next) = match self.sums.iter().rposition(|sum| sum.calls > 0) {
            Some(last) => {
                let without = self.steps.len() - 1 - last;
                (self.steps[last].step, without, None)
            }
            None => {
                let called = old.called?;
                let all = old.since.step + self.steps.len();
                (called.step, called.without(all), called.next)
            }
        };
        if without < 3 || old.since.step + self.steps.len() < FEW {
            return None;
        }
        let says = format!(
            "steps continue after step {last} but their calls stop: {} have none",
            listed(&[counted(without as u64, "step")])
        );
        let finding = match next {
            Some((step, line)) => Finding {
                about: About {
                    step: Some(step),
                    ..About::default()
                },
                evidence: vec![self.input.at(self.number, line)],
                ..self.finding("calls_stop", 0, says)
            },
            // Of those that are looked at, the last ones have none.
            None => {
                let first = self.steps.len().saturating_sub(without);
                self.finding("calls_stop", first, says)
            }
        };
        Some(Finding {
            why: "calls in a CUDA graph are logged once, when the graph is captured, and not when \
                  it is replayed; a log whose NCCL lines were cut off looks the same"
                .to_owned(),
            advice:
                "run without CUDA graphs to see the calls of every step, or count the calls of \
                     one replay"
                    .to_owned(),
            ..finding
        })
    }
}
