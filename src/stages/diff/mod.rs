//! nccl-diff: what changed between two runs.
//!
//! Each run is read in one walk over its inputs, which keeps what nccl-hist, nccl-communicators,
//! nccl-net, nccl-tuning and nccl-timing keep ([`run`]). What two runs never agree in is
//! left out: hosts' names, processes, addresses, ids, ports. What one run does not tell is no
//! change; a note reports it.
//!
//! | | |
//! |---|---|
//! | [`run`] | all inputs of a run |
//! | `whole` | which of its steps count |
//! | `counts` | its calls, of a step and in all |
//! | `measure` | numbers compared |
//! | `traffic`, `facts`, `groups`, `tuned` | what differs in calls, words, communicators, choices |
//! | [`row`] | changes as rows |
//! | `notes` | which parts were compared, and which were not |

mod counts;
mod facts;
mod groups;
mod measure;
mod notes;
pub mod row;
pub mod run;
mod traffic;
mod tuned;
mod whole_steps;

use crate::report::Report;
use facts::Said;
use groups::Groups;
use measure::{Measure, Quartiles};
use row::{Aspect, Row, Value};
use run::Run;
use std::collections::BTreeSet;

/// What is no change. Shares are of the smaller of two numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Of counts; default 0.
    pub tolerance: f64,
    /// Of times; default 0.05.
    pub time_tolerance: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            tolerance: 0.0,
            time_tolerance: 0.05,
        }
    }
}

/// What changed from `a` to `b`, by what it is about, the largest first.
pub fn diff(a: &Run, b: &Run, options: &Options, report: &Report) -> Vec<Row> {
    let mut rows = Vec::new();
    times(a, b, options, &mut rows);
    job(a, b, &mut rows);
    let said = (Said::of(a), Said::of(b));
    said.0.compare(&said.1, &mut rows);
    let groups = (Groups::of(&a.found), Groups::of(&b.found));
    groups.0.compare(&groups.1, &mut rows);
    tuned::compare(&a.tuning, &b.tuning, &mut rows);
    let both = |has: fn(&Run) -> bool| has(a) && has(b);
    if both(|run| !run.counts.is_empty()) {
        let basis = traffic::Basis {
            per_step: both(Run::has_steps),
            labels: groups.0.knows_labels() && groups.1.knows_labels(),
            tolerance: options.tolerance,
        };
        traffic::compare(a, b, basis, &mut rows);
    }
    notes::say((a, b), &said, &groups, report);
    row::sort(&mut rows);
    rows
}

/// Medians of what the step lines print.
fn times(a: &Run, b: &Run, options: &Options, rows: &mut Vec<Row>) {
    for (aspect, a, b) in [
        (Aspect::StepTime, &a.times, &b.times),
        (Aspect::Tflops, &a.tflops, &b.tflops),
    ] {
        if let (Some(a), Some(b)) = (Quartiles::of(a), Quartiles::of(b))
            && a.differs(&b, options.time_tolerance)
        {
            let (a, b) = (Value::Printed(a.median), Value::Printed(b.median));
            rows.push(Row {
                basis: "median step",
                ..Row::new(aspect, "", a, b)
            });
        }
    }
}

/// How large the job is, and whose step lines it prints.
fn job(a: &Run, b: &Run, rows: &mut Vec<Row>) {
    let hosts = |run: &Run| {
        let all: BTreeSet<&[u8]> = run.processes().map(|p| &p.host[..]).collect();
        all.len() as u64
    };
    let processes = |run: &Run| run.processes().count() as u64;
    for (subject, a, b) in [
        ("hosts", hosts(a), hosts(b)),
        ("processes", processes(a), processes(b)),
    ] {
        // A call table does not say, and lines without a header do not.
        if a != b && a > 0 && b > 0 {
            let number = |n| Value::Number(Measure::exact(n));
            rows.push(Row::new(Aspect::Job, subject, number(a), number(b)));
        }
    }
    if a.trainers != b.trainers && !a.trainers.is_empty() && !b.trainers.is_empty() {
        let text = |run: &Run| {
            let all: Vec<&str> = run.trainers.iter().copied().collect();
            Value::Text(all.join("; ").into_bytes())
        };
        rows.push(Row::new(Aspect::Job, "step lines", text(a), text(b)));
    }
}
