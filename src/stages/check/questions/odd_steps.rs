//! Steps that are not like the others: in their time, in their calls, or without any.

use super::job_facts::JobFacts;
use crate::count::spread::SortedValues;
use crate::log::timeline::{GapKind, TrainStep};
use crate::stages::check::finding::{About, Confidence, Finding, Kind};
use crate::stages::check::log::limits::{MIN_SLOW_STEP_EXCESS_S, SLOW_STEP_TIMES_MEDIAN};
use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::walk::WalkedInput;
use crate::stages::check::wording::{list_names, number_and_noun};
use crate::stages::communicators::CommunicatorsSummary;
use crate::stages::survey::GapCallSum;
use crate::stages::survey::rhythm::{self, MAX_ODD_STEPS, MIN_STEPS_COMPARED, OddStep};
use std::collections::BTreeMap;

/// Returns the findings on the steps of each input.
pub(super) fn find_odd_steps(job: &JobFacts<'_>) -> Vec<Finding> {
    job.ask_each_input(|number, input, _| find_steps_of_input(number, input, job.found))
}

fn find_steps_of_input(
    number: u32,
    input: &WalkedInput,
    found: &CommunicatorsSummary,
) -> Vec<Finding> {
    let steps = input.timeline.steps.remaining();
    let mut sums = vec![GapCallSum::default(); steps.len()];
    for &(gap, sum) in &input.sums.by_gap {
        if let Some(GapKind::Step(step)) = input.timeline.gaps.get(gap)
            && let Some(sums) = sums.get_mut(*step as usize)
        {
            sums.merge(sum);
        }
    }
    let of = InputStepSums {
        number,
        input,
        steps,
        sums,
    };
    let mut findings = of.find_slow_steps();
    let silent = of.find_steps_without_calls();
    if silent.is_none() {
        findings.extend(of.find_uneven_steps(found));
    }
    findings.extend(silent);
    findings
}

struct InputStepSums<'a> {
    number: u32,
    input: &'a WalkedInput,
    steps: &'a [TrainStep],
    /// The calls of each step.
    sums: Vec<GapCallSum>,
}

impl InputStepSums<'_> {
    fn inner_steps(&self) -> impl Iterator<Item = usize> {
        rhythm::inner_steps(self.steps)
    }

    fn step_finding(&self, kind: Kind, step: usize, says: String) -> Finding {
        Finding {
            about: About {
                step: Some(self.steps[step].step),
                ..About::default()
            },
            evidence: self
                .input
                .step_line_evidence(self.number, step)
                .into_iter()
                .collect(),
            ..Finding::of_kind(kind, Confidence::Medium, says)
        }
    }

    /// Calls of a single step: a line may represent several.
    fn calls_of_step(&self, step: usize) -> u64 {
        self.sums[step].calls / self.steps[step].steps.max(1)
    }

    /// True where all ranks were at the same call when the step began and when it ended: then the calls
    /// between its lines are its own.
    fn has_exact_calls(&self, step: usize) -> bool {
        let Ok(step) = u32::try_from(step) else {
            return false;
        };
        let gaps = &self.input.timeline.gaps;
        let is_own = |gap: &GapKind| *gap == GapKind::Step(step);
        let (first, last) = (gaps.iter().position(is_own), gaps.iter().rposition(is_own));
        let apart = self.input.apart.as_ref();
        let is_even = |gap: usize| apart.is_some_and(|apart| apart.binary_search(&gap).is_err());
        let begins = first.is_some_and(|gap| gap == 0 || is_even(gap - 1));
        begins && last.is_some_and(is_even)
    }

    fn find_slow_steps(&self) -> Vec<Finding> {
        let times: Vec<(usize, f64)> = self
            .inner_steps()
            .filter_map(|at| Some((at, self.steps[at].time_s?)))
            .collect();
        let Some(middle) = SortedValues::new(times.iter().map(|(_, time)| *time))
            .median()
            .filter(|_| times.len() >= MIN_STEPS_COMPARED)
        else {
            return Vec::new();
        };
        let usual = SortedValues::new(self.inner_steps().map(|at| self.calls_of_step(at) as f64))
            .median()
            .unwrap_or(0.0);
        let is_slow = |&(_, time): &(usize, f64)| {
            time > SLOW_STEP_TIMES_MEDIAN * middle && time - middle > MIN_SLOW_STEP_EXCESS_S
        };
        // Slow steps at the beginning are the job's warming up.
        let warm = times.iter().skip_while(|time| is_slow(time));
        let slow: Vec<(usize, f64)> = warm.filter(|time| is_slow(time)).copied().collect();
        if slow.len() > MAX_ODD_STEPS.min(times.len() / 4) {
            return Vec::new();
        }
        let told = |(at, time): (usize, f64)| {
            let calls = self.calls_of_step(at);
            let made = number_and_noun(calls, "call");
            let beside = if usual == 0.0 || !self.has_exact_calls(at) {
                String::new()
            } else if usual == calls as f64 {
                format!("; it made {made}, as did the others")
            } else {
                format!("; it made {made}, and the others made about {usual:.0}")
            };
            let step = self.steps[at].step;
            let says = format!("step {step} took {time} s, median {middle} s{beside}");
            Finding {
                sure: Confidence::High,
                why: format!(
                    "the step lines print these times; the median is over {} steps, without the \
                     first of a run",
                    times.len()
                ),
                ..self.step_finding(Kind::SlowStep, at, says)
            }
        };
        slow.into_iter().map(told).collect()
    }

    /// Steps that the rank in step with the step lines shows to be unlike the others.
    fn find_uneven_steps(&self, found: &CommunicatorsSummary) -> Vec<Finding> {
        let mut by_steps: BTreeMap<(usize, usize), Vec<&OddStep>> = BTreeMap::new();
        for odd in &self.input.odd {
            by_steps.entry(odd.steps).or_default().push(odd);
        }
        let finding = |(&(first, last), odds): (&(usize, usize), &Vec<&OddStep>)| {
            let odd = odds.first()?;
            let step = self.steps[last].step;
            let id = odd.comm_id.to_string();
            let names = RankNames { found };
            let mut numbers = 0..found.communicators.len();
            let number = numbers.find(|&at| names.communicator_id(at).as_ref() == Some(&id));
            let communicator =
                number.map_or_else(|| id.clone(), |at| names.describe_communicator(at));
            let (which, of_step) = match first == last {
                true => (format!("step {step}"), Some(step)),
                false => (format!("step {} or {step}", self.steps[first].step), None),
            };
            let more = match odds.len() - 1 {
                0 => String::new(),
                n => format!(
                    "; it is odd on {} too",
                    number_and_noun(n as u64, "other communicator")
                ),
            };
            let finding = self.step_finding(
                Kind::OddStep,
                last,
                format!(
                    "in {which} each rank of communicator {communicator} made {}, in the other \
                     steps it made {}{more}",
                    number_and_noun(odd.made, "collective"),
                    odd.usual,
                ),
            );
            Some(Finding {
                about: About {
                    comm_id: Some(id),
                    step: of_step,
                    ..About::default()
                },
                sure: Confidence::High,
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
    fn find_steps_without_calls(&self) -> Option<Finding> {
        let old = &self.input.old;
        let (last, without, next) = match self.sums.iter().rposition(|sum| sum.calls > 0) {
            Some(last) => {
                let without = self.steps.len() - 1 - last;
                (self.steps[last].step, without, None)
            }
            None => {
                let called = old.called?;
                let all = old.since.step + self.steps.len();
                (called.step, called.steps_after(all), called.next)
            }
        };
        if without < 3 || old.since.step + self.steps.len() < MIN_STEPS_COMPARED {
            return None;
        }
        let says = format!(
            "steps continue after step {last} but their calls stop: {} have none",
            list_names(&[number_and_noun(without as u64, "step")])
        );
        let finding = match next {
            Some((step, line)) => Finding {
                about: About {
                    step: Some(step),
                    ..About::default()
                },
                evidence: vec![self.input.line_evidence(self.number, line)],
                ..self.step_finding(Kind::CallsStop, 0, says)
            },
            // The last of the steps that are still known have none.
            None => {
                let first = self.steps.len().saturating_sub(without);
                self.step_finding(Kind::CallsStop, first, says)
            }
        };
        Some(Finding { ..finding })
    }
}
