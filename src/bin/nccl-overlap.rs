//! nccl-overlap: see `--help`.

use clap::Parser;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{FileArgs, FormatArgs, InputArgs, ProgramRun, StepArgs, SvgArgs};
use nccl_pipe::stages::overlap::{self, Options, OverlapGrouping, ShareWindow};
use nccl_pipe::stages::pictures::{self, PictureTable};
use std::process::ExitCode;

/// How long GPUs compute, communicate and move memory, and how much of it at the same time
///
/// Reads traces of torch.profiler, one for each rank, and exports of Nsight Systems. A row is a GPU as one
/// process sees it, and the last one all of them.
///
/// Writes, after the column of --by: host, rank, pid, device (`all` adds the others up), basis (what the window
/// is made of), window_ms, active_ms (any activity), idle_ms (none), compute_ms (kernels), comm_ms (kernels
/// that communicate), memory_ms (copies and sets), compute_comm_ms, compute_memory_ms and comm_memory_ms
/// (both at the same time), exposed_comm_ms (communication while nothing is computed); then shares
/// of the window: active, compute, comm, memory, exposed_comm; hidden_comm, the share of the communication
/// during which something is computed; and global_rank, which is rank.
#[derive(Debug, Parser)]
#[command(name = "nccl-overlap", version, after_long_help = AFTER)]
#[command(mut_arg("follow", |follow| follow.hide(true)))]
#[command(next_help_heading = "Rows")]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    /// The time that shares are parts of: gpu (from the first activity of a device to its last), session
    /// (the recorder's), step (all steps) or the name of a range
    #[arg(long, value_name = "WINDOW", default_value = "gpu")]
    window: String,
    /// Rows for each step or each name of a range
    #[arg(
        long,
        value_name = "COLUMN",
        conflicts_with = "window",
        value_parser = cli::one_of(&[(OverlapGrouping::Step, "step"), (OverlapGrouping::Range, "range")])
    )]
    by: Option<OverlapGrouping>,
    /// Names of kernels that communicate, as a regular expression
    #[arg(long, value_name = "REGEX")]
    comm_kernels: Option<String>,
    /// All devices as one, and shares of the session, as in analyze_nsys_finegrained.py: work of one
    /// GPU then overlaps with that of another
    #[arg(long, conflicts_with_all = ["window", "by"], hide_short_help = true)]
    merge_devices: bool,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    svg: SvgArgs,
    #[command(flatten)]
    file: FileArgs,
}

const AFTER: &str = "\
Examples:
  nccl-overlap trace_rank0.json.gz
  nccl-overlap traces/ --by step
  nccl-overlap report.sqlite --window forward

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-overlap", |cli: Cli| {
        cli.file.redirect()?;
        let options = Options {
            window: ShareWindow::parse(&cli.window),
            by: cli.by,
            merge: cli.merge_devices,
            comm: cli.comm_kernels,
        };
        let mut run = ProgramRun::of_whole_logs("nccl-overlap", &cli.input, &StepArgs::default())?;
        let strict = run.options.log.strict;
        let source = run.options.source;
        let rows = overlap::read_overlap(&run.origins, source, &options, strict, &mut run.report)?;
        let sheet = || overlap::build_grid(&rows, &options).into();
        let picture =
            || pictures::draw_table(PictureTable::Overlap, &overlap::build_grid(&rows, &options));
        cli.svg.write_picture(picture, &run.report)?;
        cli.format.get().printer(&run.report).print(sheet)?;
        Ok(run.finish())
    })
}
