//! nccl-communicators: see `--help`.

use clap::Parser;
use nccl_pipe::cli::{self, Format, FormatArgs, InputArgs, Run, StepArgs};
use nccl_pipe::exit::{self, Exit};
use nccl_pipe::stages::communicators;
use std::process::ExitCode;

/// Communicators: who is in them, where they lie, what they are for
#[derive(Debug, Parser)]
#[command(name = "nccl-communicators", version, max_term_width = 100, after_long_help = AFTER)]
struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    steps: StepArgs,
    /// One row a member instead of one a communicator
    #[arg(long)]
    members: bool,
    #[command(flatten)]
    format: FormatArgs,
}

const AFTER: &str = "\
Examples:
  nccl-communicators nccl.log
  nccl-communicators logs/ --members
  nccl-communicators nccl.log --format jsonl

Exit codes: 0 all understood, 1 written but some input was damaged, 2 failed.";

fn main() -> ExitCode {
    exit::run("nccl-communicators", || {
        let cli = Cli::parse();
        if cli::generated::<Cli>(cli.input.generate)? {
            return Ok(Exit::Clean);
        }
        let mut run = Run::new(
            "nccl-communicators",
            &cli.input,
            &cli.steps,
            cli::AWK_WINDOW,
        )?;
        let found = communicators::read(&run.origins, &run.options, &mut run.report, &run.bar)?;
        let format = cli.format.get();
        let grid = || match (cli.members, format) {
            (true, _) => communicators::members(&found),
            (false, Format::Table) => communicators::look(communicators::grid(&found)),
            (false, _) => communicators::grid(&found),
        };
        cli::print(grid, None::<fn() -> Vec<u8>>, format)?;
        Ok(run.finish())
    })
}
