//! Notes: which parts were compared, and which a run lacks.

use super::facts::RunFacts;
use super::groups::RunCommunicators;
use super::run::DiffRun;
use crate::report::Report;
use std::cmp::Ordering;

/// A run, as far as notes are about it.
struct RunSide<'r> {
    name: &'static str,
    run: &'r DiffRun,
    said: &'r RunFacts,
    groups: &'r RunCommunicators,
}

/// Reports which parts were compared, and which one of the runs lacks. Returns true if they have a part in common.
pub(super) fn report_notes(
    runs: (&DiffRun, &DiffRun),
    said: &(RunFacts, RunFacts),
    groups: &(RunCommunicators, RunCommunicators),
    report: &Report,
) -> bool {
    let a = RunSide {
        name: "A",
        run: runs.0,
        said: &said.0,
        groups: &groups.0,
    };
    let b = RunSide {
        name: "B",
        run: runs.1,
        said: &said.1,
        groups: &groups.1,
    };
    let counts = (&runs.0.counts, &runs.1.counts);
    if !counts.0.is_empty() && !counts.1.is_empty() {
        let how = match runs.0.has_steps() && runs.1.has_steps() {
            true => "calls and bytes are per step",
            false => "calls and bytes are totals",
        };
        report.note(&format!(
            "A: {}; B: {}: {how}",
            a.describe_steps(),
            b.describe_steps()
        ));
        a.report_start(report);
        b.report_start(report);
        if runs.0.has_steps() && runs.1.has_steps() {
            report_early_end(&a, &b, report);
        }
    }
    a.report_missing(&b, report);
    b.report_missing(&a, report);
    let mut parts = a.known_parts().into_iter().zip(b.known_parts());
    parts.any(|((_, own), (_, others))| own && others) || a.said.has_common_kind(b.said)
}

/// Reports that a run has fewer steps: it may have stopped.
fn report_early_end(a: &RunSide<'_>, b: &RunSide<'_>, report: &Report) {
    let steps = |side: &RunSide<'_>| side.run.counts.step_count();
    let (fewer, more) = match steps(a).cmp(&steps(b)) {
        Ordering::Less => (a, b),
        Ordering::Greater => (b, a),
        Ordering::Equal => return,
    };
    report.note(&format!(
        "{} has fewer steps than {}: if it should have as many, nccl-check names what stopped it",
        fewer.name, more.name
    ));
}

impl RunSide<'_> {
    fn describe_steps(&self) -> String {
        let counts = &self.run.counts;
        let steps = counts.step_range().filter(|_| counts.has_steps());
        let (first, last) = match (steps, self.run.without_steps) {
            (Some(steps), 0) => steps,
            (Some(_), n) => return format!("{n} calls in inputs without step lines"),
            (None, _) => return "no steps with calls".to_owned(),
        };
        let falls = match counts.count_falls() {
            0 => String::new(),
            1 => ", the number falls once".to_owned(),
            n => format!(", the number falls {n} times"),
        };
        let n = counts.step_count();
        let steps = if n == 1 { "step" } else { "steps" };
        format!("{n} whole {steps} ({first}..{last}{falls})")
    }

    /// Reports if calls of the job's start are counted in a step.
    fn report_start(&self, report: &Report) {
        if self.run.start_counts && self.run.has_steps() {
            report.note(&format!(
                "{} has only one step: everything before its line, the job's start too, is counted \
                 in it",
                self.name
            ));
        }
    }

    /// Returns the parts of a run, and whether it has them.
    fn known_parts(&self) -> [(&'static str, bool); 7] {
        let (run, groups) = (self.run, self.groups);
        [
            ("step times", !run.times.is_empty()),
            ("TFLOP/s", !run.tflops.is_empty()),
            ("rows of nccl-tests", !run.benchmarks.is_empty()),
            ("calls", run.has_calls),
            ("communicators", groups.are_named()),
            ("the communicators' labels", groups.has_labels()),
            ("algorithms", !run.tuning.found.is_empty()),
        ]
    }

    /// Reports the parts that only the other run has.
    fn report_missing(&self, other: &RunSide<'_>, report: &Report) {
        let mut lacks = self.said.missing_kinds(other.said);
        for ((what, own), (_, others)) in self.known_parts().into_iter().zip(other.known_parts()) {
            if others && !own {
                lacks.push(what);
            }
        }
        if !lacks.is_empty() {
            report.note(&format!(
                "{} does not report {}: not compared",
                self.name,
                lacks.join(", ")
            ));
        }
    }
}
