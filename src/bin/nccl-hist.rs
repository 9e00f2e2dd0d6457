//! nccl-hist: see `--help`.

use clap::Parser;
use nccl_pipe::count::{calls, groups};
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{ChainFormatArgs, Format, GroupArgs, InputArgs, Run, Size, StepArgs};
use nccl_pipe::program::exit;
use nccl_pipe::program::exit::Exit;
use nccl_pipe::stages::hist;
use std::process::ExitCode;

/// Histogram of NCCL calls: for each operation and size bucket the calls and their bytes
///
/// Reads NCCL debug logs (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL), the call table of
/// nccl-comms (CSV or JSON lines, one row a call or --unique), or `op count datatype bytes` lines;
/// each input is recognised by its content.
///
/// Writes op, bucket, from_bytes, to_bytes (the first byte beyond), calls, share_calls,
/// total_bytes, share_bytes, gpus, calls_per_gpu, the columns of --by in front. Shares are of all
/// calls and bytes of the group. gpus is how many different (host, pid, dev) made these calls;
/// unknown, like calls_per_gpu, where an input does not name its hosts. All ranks whose lines are
/// in the input count.
#[derive(Debug, Parser)]
#[command(name = "nccl-hist", version, max_term_width = 100, after_long_help = AFTER)]
struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    steps: StepArgs,
    #[command(flatten)]
    group: GroupArgs,
    /// The buckets' edges, rising (default 64KB,1MB,16MB; K, M, G of 1024)
    #[arg(long, value_delimiter = ',', value_name = "SIZES")]
    edges: Vec<Size>,
    /// A bucket for every power of two
    #[arg(long, conflicts_with = "edges")]
    log2: bool,
    #[command(flatten)]
    format: ChainFormatArgs,
}

const AFTER: &str = "\
Examples:
  nccl-hist nccl.log
  nccl-hist nccl.log --steps 45..49
  nccl-steps nccl.log --steps 45..49 --keep-init | nccl-comms | nccl-hist --by rank

Exit codes: 0 all understood, 1 written but some input was damaged, 2 failed.";

fn main() -> ExitCode {
    exit::run("nccl-hist", || {
        let cli = Cli::parse();
        if cli::generated::<Cli>(cli.input.generate)? {
            return Ok(Exit::Clean);
        }
        let mut run = Run::new("nccl-hist", &cli.input, &cli.steps, cli::AWK_WINDOW)?;
        let mut options = hist::Options {
            by: cli.group.by(),
            basis: cli.group.basis(),
            window: run.options.window.is_some(),
            ..hist::Options::default()
        };
        if cli.log2 {
            options.edges = hist::powers_of_two();
        } else if !cli.edges.is_empty() {
            options.edges = Size::rising(&cli.edges)?;
        }
        let tally = options.tally();
        let all = calls::count(
            &run.origins,
            &run.options,
            &tally,
            &mut run.report,
            &run.bar,
        )?;
        groups::note_unknown(&all, &options.by, &run.report);
        let format = cli.format.get();
        let chain = || hist::chain(&all, &options);
        cli::print(
            || hist::sheet(&all, &options, format == Format::Table),
            Some(chain),
            format,
            run.options.log.jobs,
        )?;
        Ok(run.finish())
    })
}
