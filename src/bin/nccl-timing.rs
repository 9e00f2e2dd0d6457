//! nccl-timing: see `--help`.

use anyhow::{Context, bail};
use clap::Parser;
use nccl_pipe::log::timeline::{Step, Window};
use nccl_pipe::output::early::{Early as Taker, Next};
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{
    ChainFormatArgs, FileArgs, Format, InputArgs, Run, StepArgs, SvgArgs,
};
use nccl_pipe::program::early::Early;
use nccl_pipe::program::exit;
use nccl_pipe::program::exit::Exit;
use nccl_pipe::stages::{pictures, timing};
use std::process::ExitCode;

/// Step time and TFLOP/s per GPU, as the trainer prints them
///
/// Reads logs with the step lines of NeMo, Megatron-LM, Megatron-Bridge, Megatron-DeepSpeed,
/// GPT-NeoX, DeepSpeed, torchtitan, MaxText, nanotron, HF Trainer, MLPerf and others, or lines
/// described with --step-regex. A field that the trainer does not print is empty. If it prints no
/// step time, the time follows from the lines' time stamps (without evaluations), from samples per
/// second and the batch size that the log reports, or from a progress bar's clock or rate. A note
/// names the basis.
///
/// Writes field (step_time_s, tflops_per_gpu), steps (the number of values), mean, sd (of a
/// sample), min, p50, p95, p99 (nearest rank: a value that occurs) and max; with --per-step
/// segment, step, time_s and tflops_per_gpu.
#[derive(Debug, Parser)]
#[command(name = "nccl-timing", version, after_long_help = AFTER)]
#[command(next_help_heading = "Rows")]
struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    steps: StepArgs,
    /// Write one row per step instead of the summary
    #[arg(long)]
    per_step: bool,
    #[command(flatten)]
    format: ChainFormatArgs,
    #[command(flatten)]
    svg: SvgArgs,
    #[command(flatten)]
    file: FileArgs,
}

const AFTER: &str = "\
Examples:
  nccl-timing nccl.log --steps 45..49
  nccl-timing nccl.log --per-step --format csv > steps.csv
  nccl-steps nccl.log --list

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

/// The window of the AWK chain's timing script: one step less than that of its first.
const COMPAT: Window = Window { from: 45, to: 49 };

pub(crate) fn main() -> ExitCode {
    exit::run("nccl-timing", || {
        let Some(cli) = cli::parse::<Cli>()? else {
            return Ok(Exit::Clean);
        };
        cli.file.redirect()?;
        let output = cli.format.get();
        if output.format == Format::Awk && cli.per_step {
            bail!("the AWK chain has no table of steps");
        }
        let mut run = Run::new("nccl-timing", &cli.input, &cli.steps, COMPAT)?;
        let mut early = Early::new(&output);
        let is_early = cli.per_step && early.is_possible();
        let is_needed = cli.svg.is_wanted();
        let is_summed = !cli.per_step && !is_needed && output.format != Format::Awk;
        let mut sums = timing::Sums::default();
        let mut rows = |next: Next<Vec<Step>>| {
            if is_summed {
                sums.next(next);
                return Ok(());
            }
            early.next(&next, |steps| timing::sheet(steps))
        };
        let rows = Taker::new(&mut rows).keeping(is_needed);
        let found = timing::steps(
            &run.origins,
            &run.options,
            &mut run.report,
            &run.bar,
            (is_early || is_summed).then_some(rows),
        )?;
        cli.svg.write(|| pictures::of_steps(&found), &run.report)?;
        match output.format {
            Format::Awk => {
                let ends = (
                    found.first().map_or(0, |s| s.step),
                    found.last().map_or(0, |s| s.step),
                );
                let window = run.options.window.map_or(ends, |w| (w.from, w.to));
                let text = timing::chain(&found, window.0, window.1)
                    .context("no line has both fields of the AWK chain")?;
                cli.format.only_rows()?;
                cli::with_stdout(|out| Ok(out.write_all(text.as_bytes())?))?;
            }
            _ => {
                let grid = || match cli.per_step {
                    true => timing::sheet(&found),
                    false => sums.summary(&found).into(),
                };
                let written = (&run.report, cli.per_step.then_some(&early));
                cli::print_rest(grid, None::<fn() -> Vec<u8>>, (&output, 1), written)?;
            }
        }
        Ok(run.finish())
    })
}
