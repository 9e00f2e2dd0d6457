//! nccl-agg: see `--help`.

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use nccl_pipe::count::groups::By;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{Format, GroupArgs, InputArgs, Run, StepArgs};
use nccl_pipe::program::exit;
use nccl_pipe::program::exit::Exit;
use nccl_pipe::stages::agg::{self, nccl_tests};
use std::process::ExitCode;

/// Distinct NCCL calls: each operation, count and datatype, and how often it is called
///
/// Reads NCCL debug logs (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL), the call table of
/// nccl-comms (CSV or JSON lines), or lines `op count datatype bytes`. Each input is recognised by
/// its content.
///
/// Writes op, count, datatype, bytes (of one call), calls and total_bytes, after the columns of
/// --by. The numbers include all ranks whose lines are in the input.
///
/// --format nccl-tests writes a command line of nccl-tests for each distinct call instead, most bytes first: its
/// operation, size, type, reduction, root and number of ranks, and with -n how often each rank made it. Sends are run by
/// sendrecv_perf.
#[derive(Debug, Parser)]
#[command(name = "nccl-agg", version, max_term_width = 100, after_long_help = AFTER)]
struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    steps: StepArgs,
    #[command(flatten)]
    group: GroupArgs,
    /// How rows are written (default: table on a terminal, csv in a pipe)
    #[arg(long, value_enum)]
    format: Option<Rows>,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Rows {
    /// Comma-separated with a header: the default in a pipe.
    Csv,
    /// One JSON object a line.
    Jsonl,
    /// As the AWK chain prints it.
    Awk,
    /// A table for reading: the default on a terminal.
    Table,
    /// Command lines of nccl-tests.
    NcclTests,
}

const AFTER: &str = "\
Examples:
  nccl-agg nccl.log
  nccl-agg nccl.log --steps 45..49 --by comm_id
  nccl-comms nccl.log --min-bytes 16MB | nccl-agg
  nccl-agg nccl.log --format nccl-tests > replay.sh

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
        let format = match cli.format {
            None => Format::fitting(),
            Some(Rows::Csv) => Format::Csv,
            Some(Rows::Jsonl) => Format::Jsonl,
            Some(Rows::Awk) => Format::Awk,
            Some(Rows::Table) => Format::Table,
            Some(Rows::NcclTests) => {
                if !options.by.is_empty() {
                    bail!("--format nccl-tests has a line for each distinct call: omit --by");
                }
                let tally = nccl_tests::tally(&options);
                let (all, _) =
                    run.count(&options.by, &tally, Format::Table, (&options, agg::sheet))?;
                let lines = nccl_tests::commands(&all, &options);
                cli::with_stdout(|out| out.write_all(&lines).context("cannot write the output"))?;
                return Ok(run.finish());
            }
        };
        let tally = options.tally();
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
