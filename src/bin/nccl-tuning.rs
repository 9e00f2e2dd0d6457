//! nccl-tuning: see `--help`.

use clap::Parser;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{FormatArgs, InputArgs, Run, StepArgs};
use nccl_pipe::program::exit;
use nccl_pipe::program::exit::Exit;
use nccl_pipe::stages::tuning::{self, table};
use std::process::ExitCode;

/// Which algorithm and protocol, on how many channels, served which operation and size
///
/// Reads NCCL debug logs (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING). Only rank 0 of a
/// communicator prints TUNING lines. They do not name it: from the call they belong to comes its
/// size, and up to NCCL 2.22 the operation. TUNING lines alone do too, without these.
///
/// Writes op, nranks, from_bytes and last_bytes (sizes in the log with the same choice, both in it),
/// algorithm, protocol, min_channels, max_channels, lines (TUNING lines), calls (those found for
/// them; up to NCCL 2.23 one line may serve several), ambiguous (lines that fit calls of several
/// operations or sizes of communicator) and without_call. Bytes are those of the TUNING lines: count × element size, and up to NCCL 2.23
/// times nranks for AllGather and ReduceScatter.
#[derive(Debug, Parser)]
#[command(name = "nccl-tuning", version, max_term_width = 100, after_long_help = AFTER)]
struct Cli {
    #[command(flatten)]
    input: InputArgs,
    /// Tell choices apart by their number of channels too
    #[arg(long)]
    channels: bool,
    /// One row a size instead of ranges
    #[arg(long)]
    sizes: bool,
    #[command(flatten)]
    format: FormatArgs,
}

const AFTER: &str = "\
The join: a burst is what a thread prints up to the next COLL line behind a TUNING line. In it a
TUNING line belongs to a call with its operation, where it names one, and its bytes; by a rank 0,
where INIT lines say who that is. Up to NCCL 2.23, where no call has its bytes, it may belong to
calls of one communicator, operation and datatype that have them together.

Examples:
  nccl-tuning nccl.log
  nccl-tuning nccl.log --sizes --channels --format csv > tuning.csv

Exit codes: 0 all understood, 1 written but some input was damaged, 2 failed.";

fn main() -> ExitCode {
    exit::run("nccl-tuning", || {
        let cli = Cli::parse();
        if cli::generated::<Cli>(cli.input.generate)? {
            return Ok(Exit::Clean);
        }
        let steps = StepArgs::default();
        let mut run = Run::new("nccl-tuning", &cli.input, &steps, cli::AWK_WINDOW)?;
        let found = tuning::tuning(&run.origins, &run.options, &mut run.report, &run.bar)?;
        let options = table::Options {
            channels: cli.channels,
            sizes: cli.sizes,
        };
        let none = None::<fn() -> Vec<u8>>;
        cli::print(
            || table::grid(&found, &options).into(),
            none,
            cli.format.get(),
            1,
        )?;
        Ok(run.finish())
    })
}
