//! nccl-agg: see `--help`.

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use nccl_pipe::count::groups::GroupBy;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{
    AroundArgs, FileArgs, FilterArgs, GroupArgs, InputArgs, OrderArgs, ProgramRun, RowFormat,
    StepArgs,
};
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
#[command(name = "nccl-agg", version, after_long_help = AFTER)]
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
    /// How rows are written (default: table on a terminal, csv in a pipe)
    #[arg(short, long, value_enum, help_heading = "Output")]
    format: Option<AggFormat>,
    #[command(flatten)]
    around: AroundArgs,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    file: FileArgs,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum AggFormat {
    /// Comma-separated with a header: the default in a pipe.
    Csv,
    /// The same with tabs.
    Tsv,
    /// One JSON object a line.
    #[value(alias = "json")]
    Jsonl,
    /// As the AWK chain prints it.
    Awk,
    /// A table for reading: the default on a terminal.
    Table,
    /// Command lines of nccl-tests.
    NcclTests,
}

/// The columns that --top sorts by.
const LARGEST_BY: &[&str] = &["total_bytes"];

const AFTER: &str = "\
Examples:
  nccl-agg nccl.log
  nccl-agg nccl.log --steps 45..49 --by comm_id
  nccl-agg nccl.log --where 'bytes >= 16M and rank = 0'
  nccl-agg nccl.log --format nccl-tests > replay.sh

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-agg", |cli: Cli| {
        cli.file.redirect()?;
        let filter = cli.filter.build_filter()?;
        let mut run = ProgramRun::new("nccl-agg", &cli.input, &cli.steps)?;
        run.set_filter(filter, &cli.input)?;
        let window = run.options.window.is_some();
        let mut by = cli.group.by();
        // It has its own column.
        by.retain(|column| *column != GroupBy::Datatype);
        let options = agg::Options {
            by,
            basis: cli.group.basis(),
            window,
        };
        let format = match cli.format {
            None => RowFormat::fitting_stdout(),
            Some(AggFormat::Csv) => RowFormat::Csv,
            Some(AggFormat::Tsv) => RowFormat::Tsv,
            Some(AggFormat::Jsonl) => RowFormat::Jsonl,
            Some(AggFormat::Awk) => RowFormat::Awk,
            Some(AggFormat::Table) => RowFormat::Table,
            Some(AggFormat::NcclTests) if !cli.order.order().is_nothing() => {
                bail!("--format nccl-tests has the most bytes first: omit --sort and --top")
            }
            Some(AggFormat::NcclTests) => {
                if !options.by.is_empty() {
                    bail!("--format nccl-tests has a line for each distinct call: omit --by");
                }
                let tally = nccl_tests::nccl_tests_tally(&options);
                let table = cli.around.output(RowFormat::Table);
                let (all, _) =
                    run.count_calls(&options.by, &tally, &table, &options, agg::agg_sheet, false)?;
                let lines = nccl_tests::write_test_commands(&all, &options);
                cli.around.refuse_row_options()?;
                cli::with_stdout(|out| out.write_all(&lines).context("cannot write the output"))?;
                return Ok(run.finish());
            }
        };
        let output = cli.around.output(format).ordered(&cli.order);
        let tally = options.tally();
        let (all, early) = run.count_calls(
            &options.by,
            &tally,
            &output,
            &options,
            agg::agg_sheet,
            false,
        )?;
        output
            .printer(&run.report)
            .largest_by(LARGEST_BY)
            .with_jobs(run.options.log.jobs)
            .with_chain(|| agg::agg_chain(&all, &options))
            .after_live_rows(&early)
            .print(|| agg::agg_sheet(&all, &options))?;
        Ok(run.finish())
    })
}
