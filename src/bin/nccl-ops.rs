//! nccl-ops: see `--help`.

use anyhow::bail;
use clap::Parser;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{
    ChainFormatArgs, FileArgs, FilterArgs, GroupArgs, InputArgs, ProgramRun, RowFormat, StepArgs,
    SvgArgs,
};
use nccl_pipe::stages::pictures::{self, PictureTable};
use nccl_pipe::stages::{ops, timed};
use std::process::ExitCode;

/// Sizes of NCCL calls: the number of calls of each operation, and the distribution of their bytes
///
/// Reads NCCL debug logs (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL), the call table of
/// nccl-comms (CSV or JSON lines), or lines `op count datatype bytes`. Each input is recognised by
/// its content.
///
/// Writes op, calls, min_bytes, mean_bytes, p50_bytes, p95_bytes, p99_bytes, max_bytes and
/// total_bytes, after the columns of --by. Minimum, mean, maximum and total are exact. Percentiles
/// have three significant digits. The numbers include all ranks whose lines are in the input.
///
/// With --time it writes op, calls, total_us, mean_us, p50_us, p95_us, p99_us, max_us, algbw_gbs,
/// busbw_gbs and min_us: how long the calls took, in microseconds, and nccl-tests' algorithm and bus bandwidth in
/// GB/s (of 10^9 bytes): the bytes of all these calls over the time of all. calls is then the number
/// of calls with a duration of their own. NCCL Inspector's records have one. A row of the call table
/// that represents several calls has only the sum of their durations, and a log has no durations: NCCL
/// prints a call when it is enqueued. Notes report how many calls are left out, and what measured the
/// others. Where clocks or qualities differ, each has a row of its own, with the columns clock and quality.
#[derive(Debug, Parser)]
#[command(name = "nccl-ops", version, after_long_help = AFTER)]
#[command(mut_arg("top", |top| cli::top_of_counts(top, LARGEST_BY)))]
#[command(next_help_heading = "Rows")]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    steps: StepArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    group: GroupArgs,
    /// Report durations and bandwidths instead of sizes; needs records or call
    /// tables with durations
    #[arg(long, conflicts_with = "basis")]
    time: bool,
    #[command(flatten)]
    format: ChainFormatArgs,
    #[command(flatten)]
    svg: SvgArgs,
    #[command(flatten)]
    file: FileArgs,
}

/// The columns that --top sorts by.
const LARGEST_BY: &[&str] = &["total_bytes", "total_us"];

const AFTER: &str = "\
Examples:
  nccl-ops nccl.log
  nccl-ops nccl.log --steps 45..49 --by step
  nccl-ops nccl.log --op AllGather --basis wire
  nccl-ops calls.csv --time
  nccl-ops inspector/ --time --by algo,proto

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-ops", |cli: Cli| {
        cli.file.redirect()?;
        let filter = cli.filter.build_filter()?;
        let mut run = ProgramRun::new("nccl-ops", &cli.input, &cli.steps)?;
        run.set_filter(filter, &cli.input)?;
        let window = run.options.window.is_some();
        let options = ops::Options {
            by: cli.group.by(),
            basis: cli.group.basis(),
            window,
            time: cli.time,
        };
        let output = cli.format.get();
        if cli.time && output.format == RowFormat::Awk {
            bail!("the AWK chain has no table of durations: use --format csv");
        }
        let tally = options.tally();
        let sheet = match cli.time {
            true => ops::ops_times_sheet,
            false => ops::ops_sheet,
        };
        let (all, early) = run.count_calls(
            &options.by,
            &tally,
            &output,
            &options,
            sheet,
            cli.svg.is_wanted(),
        )?;
        if cli.time {
            timed::report_untimed_calls(&all, &run.report)?;
        }
        let picture =
            || pictures::draw_table(PictureTable::Operations, &sheet(&all, &options).to_grid());
        cli.svg.write_picture(picture, &run.report)?;
        output
            .printer(&run.report)
            .largest_by(LARGEST_BY)
            .with_jobs(run.options.log.jobs)
            .with_chain(|| ops::ops_chain(&all, &options))
            .after_live_rows(&early)
            .print(|| sheet(&all, &options))?;
        Ok(run.finish())
    })
}
