//! nccl-steps: see `--help`.

use clap::Parser;
use nccl_pipe::output::live_rows::{LiveBatch, LiveRows as Taker};
use nccl_pipe::output::render::Grid;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{FileArgs, FilterArgs, FormatArgs, InputArgs, ProgramRun, StepArgs};
use nccl_pipe::program::live_rows::LiveRowPrinter;
use nccl_pipe::stages::answers;
use nccl_pipe::stages::steps;
use std::process::ExitCode;

/// The lines of chosen training steps, byte for byte, or a list of the steps
///
/// Reads logs that have both the trainer's step lines and NCCL's lines. A trainer prints its line
/// when a step is over, so the lines of step N are those after the line of step N-1, up to and
/// including its own. Evaluations and checkpoints between two steps belong to no step, and neither
/// does anything after the last step line. Without --steps the lines of all steps are written.
///
/// --list writes segment, step, first_line, last_line, calls, total_bytes, time_s, tflops_per_gpu,
/// steps and, of several inputs, file (the name of the input). A new segment begins where the step
/// number falls or new processes take over (a restart, a new epoch). steps is the number of steps
/// that a row represents: more than 1 where the trainer prints every k-th step. Rows `between` and
/// `after` hold the calls that belong to no step. --op, --rank, --comm, --host and --where choose
/// the calls that are counted.
///
/// If the log has no step lines of a known trainer, the error shows up to three kinds of lines
/// that may be step lines, with the --step-regex that reads each. None is used without
/// --step-regex.
///
/// A log from a pipe is first copied to a temporary file (see TMPDIR). On a terminal, control
/// bytes of the log are escaped; in a pipe or a file its bytes are unchanged.
#[derive(Debug, Parser)]
#[command(name = "nccl-steps", version, after_long_help = AFTER)]
#[command(next_help_heading = "Rows")]
#[command(mut_arg("format", |format| format.requires("list")))]
#[command(mut_arg("sort", |sort| sort.requires("list")))]
#[command(mut_arg("top", |top| cli::top_of_counts(top, LARGEST_BY).requires("list")))]
#[command(mut_arg("op", |op| op.requires("list")))]
#[command(mut_arg("rank", |rank| rank.requires("list")))]
#[command(mut_arg("comm", |comm| comm.requires("list")))]
#[command(mut_arg("host", |host| host.requires("list")))]
#[command(mut_arg("expression", |expression| expression.requires("list")))]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    steps: StepArgs,
    /// Write one row per step instead of its lines
    #[arg(long)]
    list: bool,
    /// Also write the lines that identify communicators, so that later programs know the ranks
    #[arg(long, conflicts_with = "list")]
    keep_init: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    file: FileArgs,
}

/// `--top` keeps the largest values of this column.
const LARGEST_BY: &[&str] = &["time_s"];

const AFTER: &str = "\
Examples:
  nccl-steps nccl.log --list
  nccl-steps nccl.log --steps 45..49 | nccl-comms | nccl-hist
  nccl-steps nccl.log --steps 45..49 --keep-init | nccl-comms --rank 0

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed, or a step of the
window is not in the log.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-steps", |cli: Cli| {
        cli.file.redirect()?;
        let mut run = ProgramRun::new("nccl-steps", &cli.input, &cli.steps)?;
        run.options.log.keep_init_lines = cli.keep_init;
        run.set_filter(cli.filter.build_filter()?, &cli.input)?;
        let ProgramRun {
            origins,
            options,
            report,
            bar,
            filter,
            ..
        } = &mut run;
        if cli.list {
            let output = cli.format.get();
            let mut early = LiveRowPrinter::new(&output);
            let is_early = early.is_possible();
            let mut rows = |next: LiveBatch<Grid>| early.print_next(&next, |grid| grid.into());
            let rows = is_early.then(|| Taker::new(&mut rows));
            let list = steps::list_steps(origins, options, filter, report, bar, rows)?;
            output
                .printer(report)
                .largest_by(LARGEST_BY)
                .with_answer(answers::answer_slowest_step)
                .after_live_rows(&early)
                .print(|| list.build_sheet())?;
        } else {
            cli.format.refuse_row_options()?;
            cli::with_stdout(|out| {
                Ok(steps::write_step_lines(origins, options, report, bar, out)?)
            })?;
        }
        Ok(run.finish())
    })
}
