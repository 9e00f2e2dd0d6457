//! nccl-tuning: see `--help`.

use clap::Parser;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{FileArgs, FilterArgs, FormatArgs, InputArgs, ProgramRun, StepArgs};
use nccl_pipe::stages::tuning::{self, table};
use std::process::ExitCode;

/// Which algorithm and protocol, on how many channels, served which operation and size
///
/// Reads NCCL debug logs (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING). Only rank 0 of a
/// communicator prints TUNING lines, and they do not name the communicator. Its size, and up to
/// NCCL 2.22 the operation, come from the call that the line belongs to. A log with only TUNING
/// lines is read too, without these two.
///
/// Writes op, nranks, from_bytes and last_bytes (the smallest and largest size with the same
/// choice), algorithm, protocol, min_channels, max_channels, lines (TUNING lines), calls (found
/// for these lines; up to NCCL 2.23 one line may serve several calls), ambiguous (lines that fit
/// calls of several operations or communicators of several sizes) and without_call (lines that fit
/// no call). Bytes are those of the TUNING lines: count × element size, and up to NCCL 2.23 also ×
/// nranks for AllGather and ReduceScatter. --op, --rank, --comm, --host and --where choose lines by
/// what their calls have in common.
#[derive(Debug, Parser)]
#[command(name = "nccl-tuning", version, after_long_help = AFTER)]
#[command(mut_arg("top", |top| cli::top_of_counts(top, LARGEST_BY)))]
#[command(next_help_heading = "Rows")]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    /// Also separate choices by their number of channels
    #[arg(long)]
    channels: bool,
    /// Write one row per size instead of ranges
    #[arg(long)]
    sizes: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    file: FileArgs,
}

/// The columns that --top sorts by.
const LARGEST_BY: &[&str] = &["lines"];

const AFTER: &str = "\
How lines find their calls: a burst is everything that a thread prints up to the next COLL line
after a TUNING line. A TUNING line belongs to a call of the burst with the same bytes, with the
same operation if the line names one, and by a rank 0 if INIT lines show the ranks. Up to NCCL
2.23, if no call has its bytes, it may belong to several calls of one communicator, operation and
datatype whose sum it is.

Examples:
  nccl-tuning nccl.log
  nccl-tuning nccl.log --sizes --channels --format csv > tuning.csv

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-tuning", |cli: Cli| {
        cli.file.redirect()?;
        let mut run = ProgramRun::new("nccl-tuning", &cli.input, &StepArgs::default())?;
        run.set_filter(cli.filter.build_filter()?, &cli.input)?;
        let found = tuning::read_tuning(
            &run.origins,
            &run.options,
            &run.filter,
            &mut run.report,
            &run.bar,
        )?;
        let options = table::Options {
            channels: cli.channels,
            sizes: cli.sizes,
        };
        cli.format
            .get()
            .printer(&run.report)
            .largest_by(LARGEST_BY)
            .print(|| table::build_crossover_grid(&found, &options).into())?;
        Ok(run.finish())
    })
}
