//! nccl-check: see `--help`.

use anyhow::Context;
use clap::{Parser, ValueEnum};
use nccl_pipe::cli::{self, Format, InputArgs, Run, StepArgs};
use nccl_pipe::exit::{self, Exit};
use nccl_pipe::stages::check::{self, table};
use std::process::ExitCode;

/// What is wrong with a job, where, and how sure; and what its log cannot tell
#[derive(Debug, Parser)]
#[command(name = "nccl-check", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    input: InputArgs,
    /// How findings are written
    #[arg(long, value_enum, default_value_t = Shape::Text)]
    format: Shape,
}

/// How findings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// To read.
    Text,
    /// Comma-separated with a header, a row a finding.
    Csv,
    /// One JSON object a line.
    Jsonl,
}

fn main() -> ExitCode {
    exit::run("nccl-check", || {
        let cli = Cli::parse();
        if cli::generated::<Cli>(cli.input.generate)? {
            return Ok(Exit::Clean);
        }
        let steps = StepArgs::default();
        let mut run = Run::new("nccl-check", &cli.input, &steps, cli::AWK_WINDOW)?;
        let checked = check::check(&run.origins, &run.options, &mut run.report, &run.bar)?;
        match cli.format {
            Shape::Text => cli::with_stdout(|out| {
                table::text(&checked, out).context("cannot write the output")
            })?,
            Shape::Csv | Shape::Jsonl => {
                let format = match cli.format {
                    Shape::Csv => Format::Csv,
                    _ => Format::Jsonl,
                };
                let grid = table::grid(&checked);
                cli::print(|| grid.into(), None::<fn() -> Vec<u8>>, format, 1)?;
            }
        }
        Ok(run.finish())
    })
}
