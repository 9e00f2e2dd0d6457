//! nccl-diff: what changed between two runs.
//!
//! Each run is read in one walk over its inputs, which gathers for nccl-hist, nccl-communicators, nccl-net,
//! nccl-tuning and nccl-timing ([`run`]). Values that always differ between runs are left out: hosts'
//! names, processes, addresses, ids, ports. A value that only one run has is no change; a note reports it.
//!
//! | | |
//! |---|---|
//! | [`run`] | all inputs of a run |
//! | `whole_steps` | which of its steps count |
//! | `counts` | its calls, of a step and in all |
//! | `measure` | numbers compared |
//! | `benchmarks` | differences in nccl-tests' tables |
//! | `traffic`, `facts`, `groups`, `tuning_choices` | differences in calls, facts, communicators, choices |
//! | [`row`] | changes as rows |
//! | `notes` | which parts were compared, and which were not |

mod benchmarks;
mod counts;
mod facts;
mod groups;
mod limits;
mod measure;
mod notes;
pub mod row;
pub mod run;
mod traffic;
mod tuning_choices;
mod whole_steps;

use crate::report::Report;
use facts::RunFacts;
use groups::RunCommunicators;
use measure::{Measure, Quartiles};
use row::{DiffAspect, DiffRow, DiffValue};
use run::DiffRun;
use std::collections::BTreeSet;

/// Differences that are no change, as shares of the smaller of two numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Share of counts; default 0.
    pub tolerance: f64,
    /// Share of times; default 0.05.
    pub time_tolerance: f64,
    /// Share of a bus bandwidth or a time of nccl-tests; default 0.1.
    pub benchmark_tolerance: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            tolerance: 0.0,
            time_tolerance: 0.05,
            benchmark_tolerance: limits::DEFAULT_BENCHMARK_TOLERANCE,
        }
    }
}

/// The changes between two runs.
#[derive(Debug)]
pub struct RunChanges {
    /// Each change, by aspect, the largest first.
    pub rows: Vec<DiffRow>,
    /// The runs have a part in common that could be compared.
    pub are_compared: bool,
}

/// Lists the changes from `a` to `b`.
pub fn diff_runs(a: &DiffRun, b: &DiffRun, options: &Options, report: &Report) -> RunChanges {
    let mut rows = Vec::new();
    // Its sentences come before the other notes: for two runs of nccl-tests they are the answer.
    let tables = (&a.benchmarks, &b.benchmarks);
    let tolerance = options.benchmark_tolerance;
    benchmarks::compare_benchmarks(tables.0, tables.1, tolerance, report, &mut rows);
    compare_times(a, b, options, &mut rows);
    compare_jobs(a, b, &mut rows);
    let said = (RunFacts::from_run(a), RunFacts::from_run(b));
    said.0.compare_facts(&said.1, &mut rows);
    let groups = (
        RunCommunicators::from_found(&a.found),
        RunCommunicators::from_found(&b.found),
    );
    groups.0.compare_communicators(&groups.1, &mut rows);
    tuning_choices::compare_tuning(&a.tuning, &b.tuning, &mut rows);
    let both = |has: fn(&DiffRun) -> bool| has(a) && has(b);
    if both(|run| run.has_calls) {
        let basis = traffic::DiffTrafficBasis {
            per_step: both(DiffRun::has_steps),
            labels: groups.0.has_labels() && groups.1.has_labels(),
            tolerance: options.tolerance,
        };
        traffic::compare_traffic(a, b, basis, &mut rows);
    }
    let has_common = notes::report_notes((a, b), &said, &groups, report);
    row::sort_rows(&mut rows);
    RunChanges {
        are_compared: has_common || !rows.is_empty(),
        rows,
    }
}

/// Compares medians of the step lines' values.
fn compare_times(a: &DiffRun, b: &DiffRun, options: &Options, rows: &mut Vec<DiffRow>) {
    for (aspect, a, b) in [
        (DiffAspect::StepTime, &a.times, &b.times),
        (DiffAspect::Tflops, &a.tflops, &b.tflops),
    ] {
        if let (Some(a), Some(b)) = (Quartiles::from_values(a), Quartiles::from_values(b))
            && a.differs(&b, options.time_tolerance)
        {
            let (a, b) = (DiffValue::Printed(a.median), DiffValue::Printed(b.median));
            rows.push(DiffRow {
                basis: "median step",
                ..DiffRow::new(aspect, "", a, b)
            });
        }
    }
}

/// Compares the sizes of the jobs, how many steps they made, and the trainers of their step lines.
fn compare_jobs(a: &DiffRun, b: &DiffRun, rows: &mut Vec<DiffRow>) {
    let hosts = |run: &DiffRun| {
        let all: BTreeSet<&[u8]> = run.processes().map(|p| &p.host[..]).collect();
        all.len() as u64
    };
    let processes = |run: &DiffRun| run.processes().count() as u64;
    let steps = |run: &DiffRun| match run.has_steps() {
        true => run.counts.step_count(),
        false => 0,
    };
    for (subject, a, b) in [
        ("hosts", hosts(a), hosts(b)),
        ("processes", processes(a), processes(b)),
        ("whole steps", steps(a), steps(b)),
    ] {
        // Call tables and lines without a header have no hosts, and not all logs steps.
        if a != b && a > 0 && b > 0 {
            let number = |n| DiffValue::Number(Measure::exact(n));
            rows.push(DiffRow::new(DiffAspect::Job, subject, number(a), number(b)));
        }
    }
    if a.trainers != b.trainers && !a.trainers.is_empty() && !b.trainers.is_empty() {
        let text = |run: &DiffRun| {
            let all: Vec<&str> = run.trainers.iter().copied().collect();
            DiffValue::Text(all.join("; ").into_bytes())
        };
        rows.push(DiffRow::new(
            DiffAspect::Job,
            "step lines",
            text(a),
            text(b),
        ));
    }
}
