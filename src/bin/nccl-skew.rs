//! nccl-skew: see `--help`.

use clap::{Parser, ValueEnum};
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{
    FileArgs, FilterArgs, FormatArgs, InputArgs, ProgramRun, StepArgs, SvgArgs,
};
use nccl_pipe::stages::answers;
use nccl_pipe::stages::pictures::{self, PictureTable};
use nccl_pipe::stages::skew;
use std::process::ExitCode;
use std::str::FromStr;

/// Which rank is late: the spread of the ranks at the same calls
///
/// Reads NCCL debug logs with time stamps (NCCL_DEBUG_TIMESTAMP_LEVELS=ALL, with fractions of a second:
/// NCCL_DEBUG_TIMESTAMP_FORMAT='[%F %T.%6f] '), NCCL Inspector's records, traces of NCCL's profiler plugin, exports
/// of Nsight Systems, dumps of PyTorch's flight recorder (given by name), or the call table of nccl-comms with
/// time or start_ns. Each rank is compared with the median (of two, the earlier) of the ranks at the
/// same collective of the same communicator. Sends and receives are left out.
///
/// Writes a row for each rank: rank (in the communicator of all ranks; empty where none has all of
/// them), host, pid, pattern (always, at times, often), calls, late_calls (late by --late or more),
/// last_share (the share of the calls to which it came last), p50_us, p95_us and max_us (how late it
/// came to a call). Where the input has steps: steps, late_steps (clearly later than in the others, by
/// --late or more), late_us (how late in the median late step), every (the rhythm of the late steps,
/// if most keep it) and which_steps. Last global_rank, which equals rank. A step counts with its
/// latest call.
///
/// A log's time stamp is the time at which the rank's host handed the call to NCCL, as is start_ns of
/// Inspector's records (NCCL_INSPECTOR_DUMP_VERBOSE=1), and enqueue_ns of records with the times of kernels. With
/// --from kernels the kernels' starts are compared, which a GPU that is behind its host delays. With
/// --from durations the durations show which
/// rank came last: all ranks of an AllReduce, AllGather, ReduceScatter or AlltoAll end together, so
/// the last one waits least. This needs no clock.
#[derive(Debug, Parser)]
#[command(name = "nccl-skew", version, after_long_help = AFTER)]
#[command(mut_arg("follow", |follow| follow.hide(true)))]
#[command(mut_arg("top", |top| cli::top_of_counts(top, LARGEST_BY)))]
#[command(next_help_heading = "Rows")]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    steps: StepArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// The source of the time at which a rank came to a call
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = ArrivalSourceArg::Starts)]
    from: ArrivalSourceArg,
    /// From how late on a rank is late: 500us, 1ms, 0.5s
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    late: SkewTimeArg,
    /// Take the clocks of hosts as they are. By default the offset of two hosts at most calls is taken
    /// for the offset of their clocks
    #[arg(long, hide_short_help = true)]
    no_align: bool,
    /// Report instead how long calls take without waiting: the least duration of each call's ranks,
    /// by operation
    #[arg(long, conflicts_with_all = ["from", "late", "no_align"])]
    latency: bool,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    svg: SvgArgs,
    #[command(flatten)]
    file: FileArgs,
}

/// The source of the time at which a rank came.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ArrivalSourceArg {
    /// When it was handed to NCCL
    Starts,
    /// When its kernel began: a GPU that is behind its host shows, too
    Kernels,
    /// How long it took: the last rank waits least
    Durations,
}

/// A time as typed.
#[derive(Debug, Clone, Copy)]
struct SkewTimeArg {
    ns: u64,
}

impl FromStr for SkewTimeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<SkewTimeArg, String> {
        let wrong = || format!("invalid time `{text}`; expected 500us, 1ms or 0.5s");
        let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
        let found = units.iter().find_map(|(unit, ns)| {
            let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
            Some(number * ns)
        });
        let ns = found
            .filter(|ns| (0.0..1e18).contains(ns))
            .ok_or_else(wrong)?;
        Ok(SkewTimeArg {
            ns: ns.round() as u64,
        })
    }
}

/// `--top` keeps the largest values of this column.
const LARGEST_BY: &[&str] = &["p95_us"];

const AFTER: &str = "\
Examples:
  nccl-skew nccl.log
  nccl-skew inspector/ --from durations
  nccl-skew inspector/ --latency
  nccl-skew nccl.log --where 'op = AllReduce and bytes >= 1M'
  nccl-comms nccl.log --steps 45..49 | nccl-skew --late 5ms

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-skew", |cli: Cli| {
        cli.file.redirect()?;
        let filter = cli.filter.build_filter()?;
        let mut run = ProgramRun::of_whole_logs("nccl-skew", &cli.input, &cli.steps)?;
        run.set_filter(filter, &cli.input)?;
        let options = skew::Options {
            from: match cli.from {
                ArrivalSourceArg::Starts => skew::ArrivalSource::Starts,
                ArrivalSourceArg::Kernels => skew::ArrivalSource::Kernels,
                ArrivalSourceArg::Durations => skew::ArrivalSource::Durations,
            },
            late_ns: cli.late.ns,
            align: !cli.no_align,
            latency: cli.latency,
            filter: std::mem::take(&mut run.filter),
            ..skew::Options::default()
        };
        let grid = skew::read_skew(
            &run.origins,
            &run.options,
            &options,
            &mut run.report,
            &run.bar,
        )?;
        cli.svg.write_picture(
            || pictures::draw_table(PictureTable::Skew, &grid),
            &run.report,
        )?;
        cli.format
            .get()
            .printer(&run.report)
            .largest_by(LARGEST_BY)
            .with_answer(answers::answer_lateness)
            .print(|| grid.into())?;
        Ok(run.finish())
    })
}
