//! nccl-hist: see `--help`.

use anyhow::bail;
use clap::Parser;
use nccl_pipe::count::calls::CountedCalls;
use nccl_pipe::output::render::Sheet;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{
    ByteSize, ChainFormatArgs, FileArgs, FilterArgs, GroupArgs, InputArgs, ProgramRun, RowFormat,
    StepArgs, SvgArgs,
};
use nccl_pipe::stages::pictures::{self, PictureTable};
use nccl_pipe::stages::{answers, hist, timed};
use std::process::ExitCode;

/// Histogram of NCCL calls: calls and bytes for each operation and size bucket
///
/// Reads NCCL debug logs (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL), the call table of
/// nccl-comms (CSV or JSON lines), or lines `op count datatype bytes`. Each input is recognised by
/// its content.
///
/// Writes op, bucket, from_bytes, to_bytes (the first byte beyond the bucket), calls, share_calls,
/// total_bytes, share_bytes, gpus and calls_per_gpu, after the columns of --by. A share is a share
/// of all calls or bytes of the group. gpus is the number of different (host, pid, dev) that made
/// these calls. gpus and calls_per_gpu are empty where an input does not name its hosts. The
/// numbers include all ranks whose lines are in the input.
///
/// With --time it writes calls, total_us, mean_us, p50_us, p95_us, p99_us, max_us, algbw_gbs,
/// busbw_gbs and min_us after to_bytes: how long the calls took, and their bandwidths, as nccl-ops --time does.
#[derive(Debug, Parser)]
#[command(name = "nccl-hist", version, after_long_help = AFTER)]
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
    /// The edges of the buckets, increasing (default 64KB,1MB,16MB; K, M, G of 1024)
    #[arg(long, value_delimiter = ',', value_name = "SIZES")]
    edges: Vec<ByteSize>,
    /// Make one bucket for every power of two
    #[arg(long, conflicts_with = "edges")]
    log2: bool,
    /// Report durations and bandwidths instead of calls and bytes; needs records
    /// or call tables with durations
    #[arg(long)]
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
  nccl-hist nccl.log
  nccl-hist nccl.log --steps 45..49
  nccl-steps nccl.log --steps 45..49 --keep-init | nccl-comms | nccl-hist --by rank

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

/// The rows asked for.
fn build_sheet<'c>(all: &'c CountedCalls, options: &'c hist::Options, bars: bool) -> Sheet<'c> {
    match options.time {
        true => hist::hist_times_sheet(all, options),
        false => hist::hist_sheet(all, options, bars),
    }
}

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-hist", |cli: Cli| {
        cli.file.redirect()?;
        let filter = cli.filter.build_filter()?;
        let mut run = ProgramRun::new("nccl-hist", &cli.input, &cli.steps)?;
        run.set_filter(filter, &cli.input)?;
        let mut options = hist::Options {
            by: cli.group.by(),
            basis: cli.group.basis(),
            window: run.options.window.is_some(),
            time: cli.time,
            ..hist::Options::default()
        };
        if cli.log2 {
            options.edges = hist::log2_edges();
        } else if !cli.edges.is_empty() {
            options.edges = cli::parse_edges(&cli.edges)?;
        }
        let tally = options.tally();
        let output = cli.format.get();
        if cli.time && output.format == RowFormat::Awk {
            bail!("the AWK chain has no table of durations: use --format csv");
        }
        let (all, early) = run.count_calls(
            &options.by,
            &tally,
            &output,
            &options,
            |all, options| build_sheet(all, options, false),
            cli.svg.is_wanted(),
        )?;
        if cli.time {
            timed::report_untimed_calls(&all, &run.report)?;
        }
        let picture = || {
            pictures::draw_table(
                PictureTable::Sizes,
                &build_sheet(&all, &options, false).to_grid(),
            )
        };
        cli.svg.write_picture(picture, &run.report)?;
        output
            .printer(&run.report)
            .largest_by(LARGEST_BY)
            .with_answer(answers::answer_sizes)
            .with_jobs(run.options.log.jobs)
            .with_chain(|| hist::hist_chain(&all, &options))
            .after_live_rows(&early)
            .print(|| build_sheet(&all, &options, output.format == RowFormat::Table))?;
        Ok(run.finish())
    })
}
