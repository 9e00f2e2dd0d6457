//! nccl-cuda: see `--help`.

use anyhow::bail;
use clap::Parser;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{FileArgs, FormatArgs, InputArgs, ProgramRun, StepArgs};
use nccl_pipe::stages::cuda::{self, Options};
use std::process::ExitCode;

/// Calls of CUDA's interfaces by function: how many, how much they copied, how long the host was in them
///
/// Reads timeline.log and metrics.log of Alnair's interposer, of all versions, alone or together.
///
/// Writes a row for each function and direction of copy: function, copy (HtoD, DtoH, ...), calls, bytes,
/// host_us, mean_us, p50_us, p95_us, max_us (the host's time in the calls), no_time (calls whose printed time is
/// longer than a day and left out), and of the sums in metrics.log sums_calls, sums_us and agreement with the
/// timeline.
///
/// The host's time is not the copy's: an asynchronous copy is only enqueued in it. So there is no bandwidth.
#[derive(Debug, Parser)]
#[command(name = "nccl-cuda", version, after_long_help = AFTER)]
#[command(mut_arg("follow", |follow| follow.hide(true)))]
#[command(mut_arg("top", |top| cli::top_of_counts(top, LARGEST_BY)))]
#[command(next_help_heading = "Rows")]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    /// Write a row for every stretch of so many seconds: from_s (after the first call), calls, bytes, host_us
    #[arg(long, value_name = "SECONDS", conflicts_with = "gaps")]
    every: Option<f64>,
    /// Write the longest stretches without a call: from_s, gap_us, the functions before and after
    #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "20")]
    gaps: Option<usize>,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    file: FileArgs,
}

/// The columns that --top sorts by.
const LARGEST_BY: &[&str] = &["host_us"];

const AFTER: &str = "\
Examples:
  nccl-cuda timeline.log metrics.log
  nccl-cuda timeline.log --every 1
  nccl-cuda timeline.log --gaps
  nccl-hist timeline.log

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-cuda", |cli: Cli| {
        cli.file.redirect()?;
        let every = cli.every.unwrap_or(1.0);
        if !(1e-6..=1e9).contains(&every) {
            bail!("--every {every}: expected seconds, 0.000001 or more");
        }
        let options = Options {
            every_ns: (every * 1e9) as u64,
            gaps: cli.gaps.unwrap_or(0).min(100_000),
        };
        let mut run = ProgramRun::of_whole_logs("nccl-cuda", &cli.input, &StepArgs::default())?;
        let strict = run.options.log.strict;
        let source = run.options.source;
        let found = cuda::read_cuda_logs(&run.origins, source, options, strict, &mut run.report)?;
        let sheet = || match (cli.every, cli.gaps) {
            (Some(_), _) => cuda::rate_grid(&found, &options).into(),
            (_, Some(_)) => cuda::gaps_grid(&found).into(),
            (None, None) => cuda::functions_grid(&found).into(),
        };
        cli.format
            .get()
            .printer(&run.report)
            .largest_by(LARGEST_BY)
            .print(sheet)?;
        cuda::report_differences(&found, &run.report);
        Ok(run.finish())
    })
}
