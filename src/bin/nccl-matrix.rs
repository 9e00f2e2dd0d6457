//! nccl-matrix: see `--help`.

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use nccl_pipe::filter::CallFilter;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{
    AroundArgs, FileArgs, FilterArgs, InputArgs, OrderArgs, ProgramRun, RowFormat, StepArgs,
    SvgArgs,
};
use nccl_pipe::program::exit::Exit;
use nccl_pipe::stages::matrix::cells::TrafficUnit;
use nccl_pipe::stages::matrix::{
    self, EndpointLevel, Options, dot, snoopie, svg_heat_map, text_map,
};
use std::path::PathBuf;
use std::process::ExitCode;

/// Who sends to whom: calls and bytes between ranks, GPUs or hosts
///
/// Reads NCCL debug logs (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL, and GRAPH for rings and
/// trees), call tables, exports of Nsight Systems, traces of torch.profiler, dumps of the flight
/// recorder, MPI message logs and the files of Snoopie.
///
/// Writes from, to, calls, bytes and basis, after step with --by step. An end is a rank of the job, a
/// GPU (host/gpu0), a host, or the memory of a host (host/memory). Where it is not known which rank
/// of the job a member of a communicator is, it is written as communicator:rank. bytes is empty where
/// the bytes of a call are not known. basis is how it is known what goes from one end to the other:
///
///   sent        the sender's record of a message (Send)
///   received    the receiver's record (Recv), if the sender is not in the input
///   copied      copies of GPUs, recorded by a profiler
///   accessed    loads, stores and copies in other GPUs' memory (Snoopie)
///   definition  AlltoAll, Gather and Scatter: what each rank sends to each other
///   ring model  what a collective would send over the rings of its communicator
///   tree model  the same over its trees
///
/// A message counts once. A warning has the pairs of ranks in which the receiver expected something
/// else.
#[derive(Debug, Parser)]
#[command(name = "nccl-matrix", version, after_long_help = AFTER)]
#[command(mut_arg("follow", |follow| follow.hide(true)))]
#[command(mut_arg("top", |top| cli::top_of_counts(top, LARGEST_BY)))]
#[command(next_help_heading = "Rows")]
#[command(verbatim_doc_comment)]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    steps: StepArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// What the ends are (default: rank), and step for rows of each step
    ///
    /// op, object, line and context are tables of Snoopie's accesses; of several (line,object) a row has one
    /// of each.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    by: Vec<MatrixByArg>,
    /// What the heat map and the graph show
    #[arg(long, value_enum, default_value_t = UnitArg::Bytes)]
    unit: UnitArg,
    /// Only what is recorded: no definition and no model
    #[arg(long)]
    recorded: bool,
    /// Write the program's source with the accesses of each line, from the files in this folder (Snoopie)
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "by",
        hide_short_help = true
    )]
    source: Option<PathBuf>,
    /// Snoopie recorded one of N packets (SAMPLE_SIZE=N): numbers are times N, with their standard error
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000),
        hide_short_help = true
    )]
    sampling: Option<u64>,
    #[command(flatten)]
    svg: SvgArgs,
    /// How the matrix is written (default: table on a terminal, csv in a pipe)
    #[arg(short, long, value_enum, help_heading = "Output")]
    format: Option<MatrixFormat>,
    #[command(flatten)]
    around: AroundArgs,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    file: FileArgs,
}

/// What `--by` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MatrixByArg {
    /// Ranks of the job
    Rank,
    /// GPUs
    Device,
    /// Hosts
    Host,
    /// Rows of each step
    Step,
    /// Instructions (Snoopie)
    Op,
    /// Data objects, with the call stacks that allocated them (Snoopie)
    Object,
    /// Lines of the program (Snoopie)
    Line,
    /// Call stacks of launches (Snoopie)
    Context,
}

impl MatrixByArg {
    /// The table of accesses that is asked for.
    fn access_table(self) -> Option<snoopie::AccessGrouping> {
        match self {
            MatrixByArg::Op => Some(snoopie::AccessGrouping::Op),
            MatrixByArg::Object => Some(snoopie::AccessGrouping::Object),
            MatrixByArg::Line => Some(snoopie::AccessGrouping::Line),
            MatrixByArg::Context => Some(snoopie::AccessGrouping::Context),
            MatrixByArg::Rank | MatrixByArg::Device | MatrixByArg::Host | MatrixByArg::Step => None,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum UnitArg {
    /// Bytes
    Bytes,
    /// Calls or copies
    Calls,
}

/// How the matrix is written.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum MatrixFormat {
    /// Comma-separated with a header: the default in a pipe.
    Csv,
    /// The same with tabs.
    Tsv,
    /// One JSON object a line.
    #[value(alias = "json")]
    Jsonl,
    /// A heat map: the default on a terminal.
    Table,
    /// A graph for Graphviz.
    Dot,
}

/// The columns that --top sorts by.
const LARGEST_BY: &[&str] = &["bytes", "calls"];

const AFTER: &str = "\
Examples:
  nccl-matrix nccl.log
  nccl-matrix logs/ --by host --format csv
  nccl-matrix nccl.log --op Send,Recv --rank 8-15
  nccl-matrix nccl.log --recorded --svg matrix.svg
  nccl-matrix nccl.log --format dot | dot -Tsvg > job.svg
  nccl-matrix results-4102198/ --by object
  nccl-matrix results-4102198/ --by line,object --op STG.E
  nccl-comms nccl.log --op Send,Recv | nccl-matrix --format table

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-matrix", |cli: Cli| {
        cli.file.redirect()?;
        let filter = cli.filter.build_filter()?;
        let mut run = ProgramRun::of_whole_logs("nccl-matrix", &cli.input, &cli.steps)?;
        let ends = cli.by.iter().rev().find_map(|by| match by {
            MatrixByArg::Rank => Some(EndpointLevel::Ranks),
            MatrixByArg::Device => Some(EndpointLevel::Devices),
            MatrixByArg::Host => Some(EndpointLevel::Hosts),
            _ => None,
        });
        let options = Options {
            ends: ends.unwrap_or_default(),
            by_step: cli.by.contains(&MatrixByArg::Step),
            recorded: cli.recorded,
            sampling: cli.sampling.unwrap_or(1),
            ..Options::default()
        };
        let mut by: Vec<snoopie::AccessGrouping> = Vec::new();
        for grouping in cli.by.iter().filter_map(|by| by.access_table()) {
            if !by.contains(&grouping) {
                by.push(grouping);
            }
        }
        if !by.is_empty() || cli.source.is_some() {
            return write_accesses(&cli, &by, &filter, &mut run);
        }
        run.set_filter(filter, &cli.input)?;
        let unit = match cli.unit {
            UnitArg::Bytes => TrafficUnit::Bytes,
            UnitArg::Calls => TrafficUnit::Calls,
        };
        let matrix = matrix::read_matrix(
            &run.origins,
            &run.options,
            &options,
            &run.filter,
            &mut run.report,
            &run.bar,
        )?;
        cli.svg.write_picture(
            || Some(svg_heat_map::draw_matrix_svg(&matrix, unit)),
            &run.report,
        )?;
        let is_ordered = !cli.order.order().is_nothing();
        let format = match (cli.format, RowFormat::fitting_stdout()) {
            (Some(MatrixFormat::Dot), _) if is_ordered => {
                bail!("--format dot: a graph has no rows to sort or leave out")
            }
            // The heat map has its own order: only rows are sorted.
            (Some(MatrixFormat::Table), _) | (None, RowFormat::Table) if is_ordered => {
                RowFormat::Table
            }
            (Some(MatrixFormat::Table), _) | (None, RowFormat::Table) => {
                cli.around.refuse_row_options()?;
                cli::with_stdout(|out| {
                    let text = text_map::draw_text_map(&matrix, unit, cli::terminal_width());
                    out.write_all(text.as_bytes())
                        .context("cannot write the output")
                })?;
                return Ok(run.finish());
            }
            (Some(MatrixFormat::Dot), _) => {
                cli.around.refuse_row_options()?;
                cli::with_stdout(|out| Ok(dot::write_dot(&matrix, unit, out)?))?;
                return Ok(run.finish());
            }
            (Some(MatrixFormat::Jsonl), _) => RowFormat::Jsonl,
            (Some(MatrixFormat::Tsv), _) => RowFormat::Tsv,
            _ => RowFormat::Csv,
        };
        let sheet = || matrix.sheet(options.by_step);
        let output = cli.around.output(format).ordered(&cli.order);
        output
            .printer(&run.report)
            .largest_by(LARGEST_BY)
            .print(sheet)?;
        Ok(run.finish())
    })
}

/// Writes a table of Snoopie's accesses, or the source with them.
fn write_accesses(
    cli: &Cli,
    by: &[snoopie::AccessGrouping],
    filter: &CallFilter,
    run: &mut ProgramRun,
) -> anyhow::Result<Exit> {
    let has_ends = cli.by.iter().any(|by| by.access_table().is_none());
    if has_ends || cli.svg.is_wanted() {
        bail!(
            "--by op, object, line and context are tables of accesses: without rank, device, host, step and --svg"
        );
    }
    let source = run.options.source;
    let (_, others) = snoopie::split_snoopie_files(&run.origins, source)?;
    if let Some(other) = others.first() {
        bail!(
            "{}: --by op, object, line and context, and --source, need the files of Snoopie",
            other.name()
        );
    }
    let how = snoopie::SnoopieReadOptions {
        source,
        strict: run.options.log.strict,
        sampling: cli.sampling.unwrap_or(1),
        filter: Some(filter),
    };
    let runs = snoopie::SnoopieRuns::read(&run.origins, how, &mut run.report, &run.bar)?;
    match &cli.source {
        None => {
            let format = match cli.format {
                None => RowFormat::fitting_stdout(),
                Some(MatrixFormat::Csv) => RowFormat::Csv,
                Some(MatrixFormat::Tsv) => RowFormat::Tsv,
                Some(MatrixFormat::Jsonl) => RowFormat::Jsonl,
                Some(MatrixFormat::Table) => RowFormat::Table,
                Some(MatrixFormat::Dot) => {
                    bail!("--format dot: a graph has no rows of instructions or lines")
                }
            };
            let grid = snoopie::views::access_grid(&runs, by);
            let output = cli.around.output(format).ordered(&cli.order);
            output
                .printer(&run.report)
                .largest_by(LARGEST_BY)
                .print(|| grid.into())?;
        }
        Some(folder) => {
            cli.around.refuse_row_options()?;
            cli::with_stdout(|out| {
                Ok(snoopie::annotated::write_annotated_sources(
                    &runs,
                    folder,
                    &run.report,
                    out,
                )?)
            })?;
        }
    }
    Ok(run.finish())
}
