//! nccl-proxy: see `--help`.

use clap::Parser;
use nccl_pipe::filter::JobRankTable;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{FileArgs, FilterArgs, FormatArgs, InputArgs, ProgramRun, StepArgs};
use nccl_pipe::stages::proxy::{self, ProxyColumn};
use std::process::ExitCode;

/// Where the network time of NCCL's calls goes: what the steps of its proxy thread wait for
///
/// Reads traces of NCCL's example profiler plugin (NCCL_PROFILE_EVENT_MASK with 8 and 16), versions 1
/// to 6. An operation is the traffic of one call on one channel with one peer, in steps.
///
/// Writes, after the columns of --by: side (send or recv), ops, incomplete (operations that did not end),
/// steps, steps_seen (steps whose waits the trace has: the plugin keeps only the last of an operation), bytes
/// (versions 1 to 3), queue_us (before the proxy thread took the operations up),
/// progress_us, mean_us and max_us (from then to their end), and what the seen steps waited for:
/// buffer_us (a slot), gpu_us (the GPU), peer_us (room at the receiver), net_us (the network, or data) and
/// flush_us (the flush into the GPU's memory). most and share are the longest of these. Times are sums
/// over operations, which run side by side. After rank comes global_rank, the rank in the job, where a log beside
/// the traces shows it.
///
/// Notes report what the longest wait usually means, and a peer or channel that takes 1.5 times as long as
/// the median of the others.
#[derive(Debug, Parser)]
#[command(name = "nccl-proxy", version, after_long_help = AFTER)]
#[command(mut_arg("follow", |follow| follow.hide(true)))]
#[command(mut_arg("top", |top| cli::top_of_counts(top, LARGEST_BY)))]
#[command(next_help_heading = "Rows")]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    /// Columns that separate rows
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "COLUMN",
        default_value = "op",
        conflicts_with = "incomplete",
        value_parser = cli::one_of(&ProxyColumn::ALL)
    )]
    by: Vec<ProxyColumn>,
    /// List the operations that did not end, and how far each came
    #[arg(long)]
    incomplete: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    file: FileArgs,
}

/// The columns that --top sorts by.
const LARGEST_BY: &[&str] = &["progress_us"];

const AFTER: &str = "\
Examples:
  nccl-proxy trace_*.json
  nccl-proxy traces/ --by op,channel,peer
  nccl-proxy traces/ --incomplete

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-proxy", |cli: Cli| {
        cli.file.redirect()?;
        let mut options = proxy::Options::default();
        options.by.extend(&cli.by);
        let mut run = ProgramRun::of_whole_logs("nccl-proxy", &cli.input, &StepArgs::default())?;
        let filter = cli.filter.build_filter()?;
        let has_ranks = cli.incomplete || cli.by.contains(&ProxyColumn::Rank);
        let ranks = match has_ranks || filter.needs_job_ranks() {
            true => run.read_job_ranks(&run.origins),
            false => JobRankTable::default(),
        };
        let found = proxy::read_proxy_operations(
            &run.origins,
            &run.options,
            &filter,
            ranks,
            &mut run.report,
        )?;
        let sheet = || match cli.incomplete {
            true => proxy::incomplete_ops_grid(&found).into(),
            false => proxy::proxy_sums_grid(&found, &options).into(),
        };
        cli.format
            .get()
            .printer(&run.report)
            .largest_by(LARGEST_BY)
            .print(sheet)?;
        if !cli.incomplete {
            proxy::report_proxy_notes(&found, &run.report);
        }
        Ok(run.finish())
    })
}
