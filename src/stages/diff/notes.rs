//! What a reader of the table must know: what was compared, and what a run does not tell.

use super::facts::Said;
use super::groups::Groups;
use super::run::Run;
use crate::report::Report;

/// One of the two, as far as notes are about it.
struct Side<'r> {
    name: &'static str,
    run: &'r Run,
    said: &'r Said,
    groups: &'r Groups,
}

/// Says what was compared, and what one of the two does not tell.
pub(super) fn say(
    runs: (&Run, &Run),
    said: &(Said, Said),
    groups: &(Groups, Groups),
    report: &Report,
) {
    let a = Side {
        name: "A",
        run: runs.0,
        said: &said.0,
        groups: &groups.0,
    };
    let b = Side {
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
        report.note(&format!("A: {}; B: {}: {how}", a.steps(), b.steps()));
        a.start(report);
        b.start(report);
    }
    a.lacks(&b, report);
    b.lacks(&a, report);
}

impl Side<'_> {
    fn steps(&self) -> String {
        let counts = &self.run.counts;
        let steps = counts.range().filter(|_| counts.has_steps());
        let (first, last) = match (steps, self.run.without_steps) {
            (Some(steps), 0) => steps,
            (Some(_), n) => return format!("{n} calls in inputs without step lines"),
            (None, _) => return "no steps with calls".to_owned(),
        };
        let falls = match counts.falls() {
            0 => String::new(),
            1 => ", the number falls once".to_owned(),
            n => format!(", the number falls {n} times"),
        };
        let n = counts.steps();
        let steps = if n == 1 { "step" } else { "steps" };
        format!("{n} whole {steps} ({first}..{last}{falls})")
    }

    /// Says so where calls of the job's start are counted to a step.
    fn start(&self, report: &Report) {
        if self.run.start_counts && self.run.has_steps() {
            report.note(&format!(
                "{} has only one step: everything before its line, the job's start too, is counted \
                 in it",
                self.name
            ));
        }
    }

    /// Whether there is anything to compare, besides what processes say.
    fn knows(&self) -> [(&'static str, bool); 6] {
        let (run, groups) = (self.run, self.groups);
        [
            ("step times", !run.times.is_empty()),
            ("TFLOP/s", !run.tflops.is_empty()),
            ("calls", !run.counts.is_empty()),
            ("communicators", groups.are_named()),
            ("the communicators' labels", groups.knows_labels()),
            ("algorithms", !run.tuning.found.is_empty()),
        ]
    }

    /// What this one does not tell and the other does.
    fn lacks(&self, other: &Side<'_>, report: &Report) {
        let mut lacks = self.said.lacks(other.said);
        for ((what, own), (_, others)) in self.knows().into_iter().zip(other.knows()) {
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
