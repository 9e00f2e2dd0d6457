//! nccl-agg: see `--help`.

use clap::Parser;
use nccl_pipe::count::groups::By;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{ChainFormatArgs, GroupArgs, InputArgs, Run, StepArgs};
use nccl_pipe::program::exit;
use nccl_pipe::program::exit::Exit;
use nccl_pipe::stages::agg;
use std::process::ExitCode;

/// Distinct NCCL calls: each operation, count and datatype, and how often it is called
///
/// Reads NCCL debug logs (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL), the call table of
/// nccl-comms (CSV or JSON lines), or lines `op count datatype bytes`. Each input is recognised by
/// its content.
///
/// Writes op, count, datatype, bytes (of one call), calls and total_bytes, after the columns of
/// --by. The numbers include all ranks whose lines are in the input.
#[derive(Debug, Parser)]
#[command(name = "nccl-agg", version, max_term_width = 100, after_long_help = AFTER)]
struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    steps: StepArgs,
    #[command(flatten)]
    group: GroupArgs,
    #[command(flatten)]
    format: ChainFormatArgs,
}

const AFTER: &str = "\
Examples:
  nccl-agg nccl.log
  nccl-agg nccl.log --steps 45..49 --by comm_id
  nccl-comms nccl.log --min-bytes 16MB | nccl-agg

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

fn main() -> ExitCode {
    exit::run("nccl-agg", || {
        let cli = Cli::parse();
        if cli::generated::<Cli>(cli.input.generate)? {
            return Ok(Exit::Clean);
        }
        let mut run = Run::new("nccl-agg", &cli.input, &cli.steps, cli::AWK_WINDOW)?;
        let window = run.options.window.is_some();
        let mut by = cli.group.by();
        // Its own column says it.
        by.retain(|column| *column != By::Datatype);
        let options = agg::Options {
            by,
            basis: cli.group.basis(),
            window,
        };
        let tally = options.tally();
        let format = cli.format.get();
        let (all, early) = run.count(&options.by, &tally, format, (&options, agg::sheet))?;
        let chain = || agg::chain(&all, &options);
        cli::print_rest(
            || agg::sheet(&all, &options),
            Some(chain),
            (format, run.options.log.jobs),
            Some((&early, &run.report)),
        )?;
        Ok(run.finish())
    })
}
