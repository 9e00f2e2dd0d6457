//! nccl-diff: see `--help`.

use anyhow::bail;
use clap::Parser;
use nccl_pipe::count::calls::Progress;
use nccl_pipe::log::timeline::StepWindow;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{
    FileArgs, FilterArgs, FormatArgs, InputArgs, PercentShare, ProgramRun, RowFormat, StepArgs,
};
use nccl_pipe::program::exit::Exit;
use nccl_pipe::report::Report;
use nccl_pipe::source::InputName;
use nccl_pipe::stages::answers;
use nccl_pipe::stages::diff::row::{self, DiffAspect};
use nccl_pipe::stages::diff::{self, Options, RunChanges, run};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Differences between two runs: times, versions, network, settings, algorithms, calls per step
///
/// A and B are logs (NCCL_DEBUG=INFO; the comparison depends on NCCL_DEBUG_SUBSYS), folders
/// of logs of one job, call tables, or outputs of nccl-tests. One of them may be - for standard input.
/// Each is read once.
///
/// Writes only differences: aspect, subject, a, b, ratio (b / a), change (only-a, only-b,
/// differs, more, less), basis (the measure of a and b). step_time_s and tflops_per_gpu come first;
/// then rows of nccl-tests, busbw_gb_per_s (call_time_us where that is small), by operation and size;
/// then job, version, network, transport, gpudirect, pxn, rails, nvls, mnnvl, nic, nic_used,
/// provider, interface, plugin, setting, config; then communicators, algorithm, channels, with the
/// most ranks and bytes first; then bytes and calls per step, by operation, size bucket, datatype
/// and the communicator's label, with the largest difference in bytes first.
///
/// With a filter (--op, --where ...) only the rows of bytes and calls are of the calls that pass.
///
/// Names of hosts, processes, addresses, ids and ports always differ and are not compared. A value
/// that one of the two does not report is not a difference; a note reports it.
#[derive(Debug, Parser)]
#[command(name = "nccl-diff", version, after_long_help = AFTER)]
#[command(mut_arg("follow", |follow| follow.hide(true)))]
#[command(mut_arg("op", |op| op.hide_short_help(true)))]
#[command(mut_arg("rank", |rank| rank.hide_short_help(true)))]
#[command(next_help_heading = "Rows")]
#[command(mut_arg("files", |files| files
    .value_names(["A", "B"])
    .num_args(2)
    .action(clap::ArgAction::Set)
    .required(true)
    .help("Two logs, folders of logs or call tables, or - for standard input; gzip and zstd too")
    .long_help(None)))]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    steps: StepArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Choose other steps of B than of A: --steps 45..49 --steps-b 145..149
    #[arg(long, value_name = "A..B", requires = "steps", help_heading = "Steps")]
    steps_b: Option<StepWindow>,
    /// Counts and bytes are equal if they differ by up to this share of the smaller one
    #[arg(long, value_name = "PERCENT", default_value = "0%")]
    tolerance: PercentShare,
    /// The same for step time and TFLOP/s (default 5%, or --tolerance if that is more) and for rows of
    /// nccl-tests (default 10%, or --tolerance if that is more)
    #[arg(long, value_name = "PERCENT")]
    time_tolerance: Option<PercentShare>,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    file: FileArgs,
}

const PIPE_AND_RANKS: &str = "--rank: the ranks of the job are known at the end of an input, and a pipe is read \
                              once: name a file, or pipe nccl-comms --rank into nccl-diff";

const AFTER: &str = "\
Steps: calls and bytes (count times element size) are means over the whole steps, summed over all
ranks in the input. A segment's first step (with --marker start its last) includes the job's start
(or end): it is used only with --steps, or if there is no other step. Calls outside of steps do not
count. If A or B has calls in an input without step lines, totals are compared instead. Buckets are
those of nccl-hist.

Equal values: counts and bytes are equal if their ratio is within --tolerance. The steps of one run
may differ, because ranks run ahead of the one that prints, or because some work is done every tenth
step. If they differ by up to v, a mean over n steps is accurate to v/n, and a smaller difference is
ignored. Step time and TFLOP/s are medians: they are equal within --time-tolerance, or if one is in
the middle half of the other run's steps. Algorithms and channels are compared for the operations,
sizes and communicators that both runs have.

Examples:
  nccl-diff yesterday.log today.log
  nccl-diff old/ new/ --steps 100..200 --tolerance 1% --format jsonl
  nccl-comms nccl.log | nccl-diff golden.csv - && echo same
  all_reduce_perf -b 8 -e 8G -f 2 -g 8 > after.log; nccl-diff before.log after.log

Exit codes: 0 nothing changed, 1 something changed or some input was damaged (standard error reports
which), 2 the program failed, 3 A and B have no part in common.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-diff", |cli: Cli| {
        cli.file.redirect()?;
        ProgramRun::refuse_follow("nccl-diff", &cli.input)?;
        let sides: Vec<_> = cli.input.files.chunks(1).collect();
        let (input, steps) = (&cli.input, &cli.steps);
        let (mut read, sides) = ProgramRun::new_with_sides("nccl-diff", input, steps, &sides)?;
        let tolerance = cli.tolerance.0;
        let times = cli.time_tolerance.map_or_else(
            || tolerance.max(Options::default().time_tolerance),
            |share| share.0,
        );
        let rows = cli.time_tolerance.map_or_else(
            || tolerance.max(Options::default().benchmark_tolerance),
            |share| share.0,
        );
        let options = Options {
            tolerance,
            time_tolerance: times,
            benchmark_tolerance: rows,
        };
        let window = read.options.window;
        let filter = cli.filter.build_filter()?;
        if filter.needs_job_ranks() && read.origins.iter().any(InputName::is_piped) {
            bail!(PIPE_AND_RANKS);
        }
        let mut side = |at: usize, window| {
            let mut filter = filter.clone();
            filter.note_prefix = ["A: ", "B: "][at];
            read.set_filter_ranks(&mut filter, &sides[at]);
            run::read_run(
                &sides[at],
                &read.options,
                window,
                &filter,
                &mut read.report,
                &read.bar,
            )
        };
        let (a, b) = (side(0, window)?, side(1, cli.steps_b.or(window))?);
        read.bar.finish();
        let changes = diff::diff_runs(&a, &b, &options, &read.report);
        let output = cli.format.get();
        if !(changes.rows.is_empty() && output.format == RowFormat::Table) {
            output
                .printer(&read.report)
                .with_answer(answers::answer_changes)
                .print(|| row::build_grid(&changes.rows).into())?;
        }
        let end = read.finish();
        Ok(report_end(&changes, &options, end, &read.report))
    })
}

/// Reports how the comparison ended, and so the program; `end` is how the reading did.
fn report_end(changes: &RunChanges, options: &Options, end: Exit, report: &Report) -> Exit {
    if !changes.are_compared {
        report.warn("nothing was compared: A and B have no part in common");
        return if end == Exit::Clean {
            Exit::Unanswerable
        } else {
            end
        };
    }
    let differences = changes.rows.len();
    let mut counts: BTreeMap<DiffAspect, usize> = BTreeMap::new();
    for row in &changes.rows {
        *counts.entry(row.aspect).or_default() += 1;
    }
    let counts = counts.iter();
    let by_aspect: Vec<_> = counts.map(|(of, n)| format!("{} {n}", of.name())).collect();
    let by_aspect = by_aspect.join(", ");
    let percent = |share: f64| format!("{} %", (share * 1e6).round() / 1e4);
    let times = percent(options.time_tolerance);
    let beyond = match percent(options.tolerance) {
        none if none == "0 %" => format!("(times within {times} count as equal)"),
        share => format!("beyond {share} (times: {times})"),
    };
    match (differences, end) {
        (0, Exit::Clean) => report.note(&format!("no differences {beyond}")),
        (0, Exit::Unread) => report.warn(&format!(
            "no differences {beyond} in the readable input; the exit code is 2 because of the \
             input that was not read"
        )),
        (0, _) => report.warn(&format!(
            "no differences {beyond} in the readable input; the exit code is 1 because of the \
             damaged input"
        )),
        (1, Exit::Clean) => report.note(&format!("1 difference {beyond}")),
        (n, Exit::Clean) => report.note(&format!("{n} differences {beyond}: {by_aspect}")),
        (n, _) => report.warn(&format!(
            "{n} differences {beyond}; input that is damaged or could not be read may have caused some"
        )),
    }
    match end {
        Exit::Unread => end,
        _ if differences > 0 => Exit::Found,
        _ => end,
    }
}
