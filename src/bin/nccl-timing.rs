//! nccl-timing: see `--help`.

use anyhow::{Context, bail};
use clap::Parser;
use nccl_pipe::log::timeline::{StepWindow, TrainStep};
use nccl_pipe::output::live_rows::{LiveBatch, LiveRows as Taker};
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{
    ChainFormatArgs, FileArgs, InputArgs, ProgramRun, RowFormat, StepArgs, SvgArgs,
};
use nccl_pipe::program::live_rows::LiveRowPrinter;
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
#[command(mut_arg("top", |top| cli::top_of_counts(top, LARGEST_BY)))]
#[command(next_help_heading = "Rows")]
pub(crate) struct Cli {
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

/// `--top` keeps the largest values of this column.
const LARGEST_BY: &[&str] = &["time_s"];

const AFTER: &str = "\
Examples:
  nccl-timing nccl.log --steps 45..49
  nccl-timing nccl.log --per-step --format csv > steps.csv
  nccl-steps nccl.log --list

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

/// The window of the AWK chain's timing script: one step less than that of its first.
const TIMING_COMPAT_WINDOW: StepWindow = StepWindow { from: 45, to: 49 };

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-timing", |cli: Cli| {
        cli.file.redirect()?;
        let output = cli.format.get();
        if output.format == RowFormat::Awk && cli.per_step {
            bail!("the AWK chain has no table of steps");
        }
        let mut run = ProgramRun::new("nccl-timing", &cli.input, &cli.steps)?;
        run.options.window = cli.steps.window(TIMING_COMPAT_WINDOW);
        let mut early = LiveRowPrinter::new(&output);
        let is_early = cli.per_step && early.is_possible();
        let is_needed = cli.svg.is_wanted();
        let is_summed = !cli.per_step && !is_needed && output.format != RowFormat::Awk;
        let mut sums = timing::TimingSums::default();
        let mut rows = |next: LiveBatch<Vec<TrainStep>>| {
            if is_summed {
                sums.take_batch(next);
                return Ok(());
            }
            early.print_next(&next, |steps| timing::sheet_per_step(steps))
        };
        let rows = Taker::new(&mut rows).keep_all(is_needed);
        let found = timing::read_steps(
            &run.origins,
            &run.options,
            &mut run.report,
            &run.bar,
            (is_early || is_summed).then_some(rows),
        )?;
        cli.svg
            .write_picture(|| pictures::draw_steps(&found), &run.report)?;
        match output.format {
            RowFormat::Awk => {
                let ends = (
                    found.first().map_or(0, |s| s.step),
                    found.last().map_or(0, |s| s.step),
                );
                let window = run.options.window.map_or(ends, |w| (w.from, w.to));
                let text = timing::awk_chain_summary(&found, window.0, window.1)
                    .context("no line has both fields of the AWK chain")?;
                cli.format.refuse_row_options()?;
                cli::with_stdout(|out| Ok(out.write_all(text.as_bytes())?))?;
            }
            _ => {
                let grid = || match cli.per_step {
                    true => timing::sheet_per_step(&found),
                    false => sums.summary_grid(&found).into(),
                };
                let mut printer = output.printer(&run.report).largest_by(LARGEST_BY);
                if cli.per_step {
                    printer = printer.after_live_rows(&early);
                }
                printer.print(grid)?;
            }
        }
        Ok(run.finish())
    })
}
