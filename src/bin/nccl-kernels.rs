//! nccl-kernels: see `--help`.

use clap::Parser;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{FileArgs, FormatArgs, InputArgs, ProgramRun, StepArgs};
use nccl_pipe::stages::kernels::{self, KernelGrouping, KernelReadOptions};
use std::process::ExitCode;

/// Which kernels the GPUs ran, and for how long
///
/// Reads exports of Nsight Systems (nsys export --type sqlite), traces of torch.profiler, and the kernel
/// reports that nsys stats prints (gpukernsum, cuda_gpu_kern_sum, cuda_gpu_kern_gb_sum, cuda_gpu_sum,
/// cuda_gpu_trace) as csv, tsv, table, column or json, of any version.
///
/// Writes a row for each name: share (of the time of all kernels, not of the elapsed time), total_ns,
/// instances, avg_ns, median_ns, min_ns, max_ns, stddev_ns (of the sample, n - 1), op (the operation of NCCL's
/// kernels) and name. The longest total is first. Of several printed summaries together the median and the
/// deviation are not known, and empty.
///
/// The name of an NCCL kernel does not show what ran: RING_LL or Sum is in it also where another algorithm,
/// protocol or reduction ran. Only its operation is read. One kernel may run a group of calls.
#[derive(Debug, Parser)]
#[command(name = "nccl-kernels", version, after_long_help = AFTER)]
#[command(mut_arg("follow", |follow| follow.hide(true)))]
#[command(mut_arg("top", |top| cli::top_of_counts(top, LARGEST_BY)))]
#[command(next_help_heading = "Rows")]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    /// What separates rows beside the name
    ///
    /// op: NCCL's kernels by operation, others left out; grid: also grid and block, as older nsys
    /// stats; device: also the GPU.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "COLUMN",
        value_parser = cli::one_of(&KernelGrouping::ALL)
    )]
    by: Vec<KernelGrouping>,
    /// Write CSV exactly as nsys stats does: its column names, one decimal
    #[arg(long, conflicts_with_all = ["format", "sort", "top"], hide_short_help = true)]
    nsys: bool,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    file: FileArgs,
}

/// The columns that --top sorts by.
const LARGEST_BY: &[&str] = &["total_ns"];

const AFTER: &str = "\
Examples:
  nccl-kernels report.sqlite
  nccl-kernels report.sqlite --by op
  nccl-kernels node*.sqlite --by device --format csv > kernels.csv
  nsys stats --report cuda_gpu_kern_sum --format csv report.nsys-rep | nccl-kernels

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-kernels", |cli: Cli| {
        cli.file.redirect()?;
        let mut options = kernels::Options::default();
        options.by.extend(&cli.by);
        let mut run = ProgramRun::of_whole_logs("nccl-kernels", &cli.input, &StepArgs::default())?;
        let reading = KernelReadOptions {
            source: run.options.source,
            strict: run.options.log.strict,
        };
        let found = kernels::read_kernels(&run.origins, reading, &options, &mut run.report)?;
        if cli.nsys {
            let text = kernels::render_nsys_csv(found, &options);
            cli.format.refuse_row_options()?;
            cli::with_stdout(|out| Ok(out.write_all(&text)?))?;
        } else {
            let sheet = || kernels::build_grid(found, &options).into();
            cli.format
                .get()
                .printer(&run.report)
                .largest_by(LARGEST_BY)
                .print(sheet)?;
        }
        Ok(run.finish())
    })
}
