//! The stages, from a mapped file to rows, on one thread and on all.
//!
//! Every bench first holds its answer against the truth of the made log.

#![allow(missing_docs)]

mod common;

use common::{Made, Unwatched, job, jobs, make, size};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nccl_pipe::count::calls;
use nccl_pipe::count::calls::CountedCalls;
use nccl_pipe::count::groups::GroupBy;
use nccl_pipe::count::tally;
use nccl_pipe::filter::CallFilter;
use nccl_pipe::grammar::trainer::Recogniser;
use nccl_pipe::log;
use nccl_pipe::log::timeline;
use nccl_pipe::output::render::{Grid, TableCell};
use nccl_pipe::report::Report;
use nccl_pipe::source::{self, InputName};
use nccl_pipe::stages::{agg, comms, hist, ops, steps};
use std::io::Write;
use tempfile::NamedTempFile;

/// Bytes of a log here: enough chunks for the threads to share.
const SIZE: u64 = 64 << 20;

/// A made log on the disk.
struct Bench {
    made: Made,
    file: NamedTempFile,
}

impl Bench {
    fn new() -> Bench {
        let made = make(&job(size(SIZE)));
        let file = file(&made.log);
        Bench { made, file }
    }

    fn origins(&self) -> Vec<InputName> {
        vec![InputName::Path(self.file.path().to_owned())]
    }

    fn throughput(&self) -> Throughput {
        Throughput::Bytes(self.made.log.len() as u64)
    }
}

fn file(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    file
}

fn options(jobs: usize) -> calls::Options {
    calls::Options {
        source: source::Options::default(),
        log: log::Options {
            jobs,
            recogniser: Recogniser::all(),
            strict: false,
            keep_init_lines: false,
            keep_marks: true,
        },
        timeline: timeline::Options::default(),
        window: None,
    }
}

fn report() -> Report {
    Report::new("bench", false, true)
}

fn count(origins: &[InputName], jobs: usize, tally: &tally::Options) -> CountedCalls {
    let mut report = report();
    let calls = calls::count_calls(origins, &options(jobs), tally, &mut report, &Unwatched);
    assert!(!report.is_damaged());
    calls.expect("calls")
}

/// The sum of a column of whole numbers.
fn sum(grid: &Grid, column: &str) -> u128 {
    let names = grid.columns.iter();
    let at = names.enumerate().find(|(_, name)| *name == column);
    let (at, _) = at.expect("the column");
    let cells = grid.rows.iter().map(|row| match row[at] {
        TableCell::Int(n) => n,
        _ => 0,
    });
    cells.sum()
}

/// Holds a table of calls against the truth and times the stage that made it.
fn table(c: &mut Criterion, name: &str, grid: impl Fn(&[InputName], usize) -> Grid) {
    let bench = Bench::new();
    let truth = &bench.made.truth;
    let bytes: u128 = truth.ops.values().map(|op| op.sum.bytes).sum();
    let mut group = c.benchmark_group(name);
    group.sample_size(20).throughput(bench.throughput());
    for jobs in jobs() {
        let rows = grid(&bench.origins(), jobs);
        assert_eq!(sum(&rows, "calls"), u128::from(truth.calls), "{name}");
        assert_eq!(sum(&rows, "total_bytes"), bytes, "{name}");
        group.bench_function(jobs.to_string(), |b| {
            b.iter(|| grid(&bench.origins(), jobs));
        });
    }
    group.finish();
}

fn hists(c: &mut Criterion) {
    let plain = hist::Options::default();
    table(c, "nccl-hist", |origins, jobs| {
        hist::hist_sheet(&count(origins, jobs, &plain.tally()), &plain, false).to_grid()
    });
    let grouped = hist::Options {
        by: vec![GroupBy::Step, GroupBy::Comm],
        ..hist::Options::default()
    };
    table(c, "nccl-hist --by step,comm", |origins, jobs| {
        hist::hist_sheet(&count(origins, jobs, &grouped.tally()), &grouped, false).to_grid()
    });
}

fn others(c: &mut Criterion) {
    let plain = ops::Options::default();
    table(c, "nccl-ops", |origins, jobs| {
        ops::ops_sheet(&count(origins, jobs, &plain.tally()), &plain).to_grid()
    });
    let plain = agg::Options::default();
    table(c, "nccl-agg", |origins, jobs| {
        agg::agg_sheet(&count(origins, jobs, &plain.tally()), &plain).to_grid()
    });
}

/// Takes bytes and counts their lines.
#[derive(Default)]
struct Sink {
    lines: u64,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn rows(origins: &[InputName], jobs: usize, unique: bool, out: &mut (dyn Write + Send)) {
    let (read, asked, mut report) = (options(jobs), comms::Options::default(), report());
    let write = if unique {
        comms::write_unique_rows
    } else {
        comms::write_rows
    };
    write(origins, &read, &asked, &mut report, &Unwatched, out).expect("rows");
    assert!(!report.is_damaged());
}

fn call_table(c: &mut Criterion) {
    let bench = Bench::new();
    let mut group = c.benchmark_group("nccl-comms");
    group.sample_size(20).throughput(bench.throughput());
    for jobs in jobs() {
        let mut out = Sink::default();
        rows(&bench.origins(), jobs, false, &mut out);
        assert_eq!(out.lines, bench.made.truth.calls + 1);
        group.bench_function(jobs.to_string(), |b| {
            b.iter(|| rows(&bench.origins(), jobs, false, &mut Sink::default()));
        });
    }
    group.finish();
    unique(c, &bench);
    back(c, &bench);
}

fn unique(c: &mut Criterion, bench: &Bench) {
    let mut group = c.benchmark_group("nccl-comms --unique");
    group.sample_size(20).throughput(bench.throughput());
    for jobs in jobs() {
        let mut csv = Vec::new();
        rows(&bench.origins(), jobs, true, &mut csv);
        assert_eq!(calls_of(&file(&csv)), u128::from(bench.made.truth.calls));
        group.bench_function(jobs.to_string(), |b| {
            b.iter(|| rows(&bench.origins(), jobs, true, &mut Sink::default()));
        });
    }
    group.finish();
}

/// The calls of a call table.
fn calls_of(csv: &NamedTempFile) -> u128 {
    let origins = [InputName::Path(csv.path().to_owned())];
    let plain = agg::Options::default();
    sum(
        &agg::agg_sheet(&count(&origins, 1, &plain.tally()), &plain).to_grid(),
        "calls",
    )
}

/// The call table read back: what a stage behind a pipe does.
fn back(c: &mut Criterion, bench: &Bench) {
    let mut csv = Vec::new();
    rows(&bench.origins(), 1, false, &mut csv);
    let file = file(&csv);
    let origins = [InputName::Path(file.path().to_owned())];
    let plain = hist::Options::default();
    let grid =
        |jobs| hist::hist_sheet(&count(&origins, jobs, &plain.tally()), &plain, false).to_grid();
    let mut group = c.benchmark_group("nccl-hist calls.csv");
    group
        .sample_size(10)
        .throughput(Throughput::Bytes(csv.len() as u64));
    for jobs in jobs() {
        assert_eq!(
            sum(&grid(jobs), "calls"),
            u128::from(bench.made.truth.calls)
        );
        group.bench_function(jobs.to_string(), |b| b.iter(|| grid(jobs)));
    }
    group.finish();
}

/// The first walk of every stage that must know a call's step before it can write the call.
fn first_walk(c: &mut Criterion) {
    table(c, "nccl-steps --list", |origins, jobs| {
        let (options, every) = (options(jobs), CallFilter::default());
        let list = steps::list_steps(origins, &options, &every, &mut report(), &Unwatched, None);
        list.expect("steps").build_sheet().to_grid()
    });
}

criterion_group!(benches, hists, others, call_table, first_walk);
criterion_main!(benches);
