//! nccl-communicators: see `--help`.

use clap::Parser;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{
    FileArgs, FilterArgs, FormatArgs, InputArgs, ProgramRun, RowFormat, StepArgs,
};
use nccl_pipe::stages::answers;
use nccl_pipe::stages::communicators;
use std::process::ExitCode;

/// Communicators: their members, the places of their ranks, and their purpose
///
/// Reads NCCL debug logs (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL), one file or one for each
/// process. Writes one row per communicator, in the order of their first appearance. An empty
/// field means that the value is unknown.
///
/// From INIT lines: comm_id (as printed; a split without a printed id is parent/child.color, which
/// is the same for all its members), nranks, members_seen, missing (ranks that are not in the
/// logs, or none), nodes and ranks_per_node (from NCCL's own line, or from the hosts of all
/// ranks), locality (single, one-node, one-per-node, mixed), stride (the distance of its ranks in
/// the job, if one communicator has all ranks of the job), parent (the id of the communicator it
/// was split from), color, created_by (the function called), state (started, ready, destroyed,
/// aborted; with counts where members differ). From Init timings: init_s (the time of the slowest
/// member), init_slowest (its rank), init_breakdown (its parts as part=seconds). From calls: calls
/// and total_bytes of all members, ops (op=calls:bytes). From both: model_wire_bytes, a model of
/// the bytes that all ranks must move, and the part of them between nodes if collectives use rings
/// (model_inter_ring_bytes) or if AllReduce uses trees (model_inter_tree_bytes); they are empty if
/// a rank or its node is unknown. name is the name that the program gave it (commName in
/// ncclConfig_t). NCCL does not print it, but a profiler plugin does (NCCL's example or
/// Inspector).
///
/// label (tensor, pipeline, data, expert, context, embedding, world, unknown) is inferred from the
/// members and from the calls. confidence is high only if both agree and no other label fits.
/// evidence gives the reasons.
///
/// A communicator of a log without INIT lines, or without commId (NCCL before 2.18), is one row
/// for each process's address, with host and pid. Its members are not guessed.
///
/// With --members there is one row per member: comm_id, rank, host, pid, dev, bus_id
/// (hexadecimal), nvml_dev, comm (its address in the process), calls, nranks, global_rank (its
/// rank in the job), label, state, phase (how far its initialisation came).
///
/// --op, --rank, --comm, --host and --where choose calls: a row has those that fit, and is left out
/// if it has none. Where a member made no calls at all, its own columns decide. Labels and
/// members are by all calls.
#[derive(Debug, Parser)]
#[command(name = "nccl-communicators", version, after_long_help = AFTER)]
#[command(mut_arg("top", |top| cli::top_of_counts(top, LARGEST_BY)))]
#[command(next_help_heading = "Rows")]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    steps: StepArgs,
    /// Write one row per member instead of one per communicator
    #[arg(long)]
    members: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    file: FileArgs,
}

/// The columns that --top sorts by.
const LARGEST_BY: &[&str] = &["total_bytes", "calls"];

const AFTER: &str = "\
Examples:
  nccl-communicators nccl.log
  nccl-communicators logs/ --members
  nccl-communicators nccl.log --format jsonl

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-communicators", |cli: Cli| {
        cli.file.redirect()?;
        let mut run = ProgramRun::new("nccl-communicators", &cli.input, &cli.steps)?;
        run.set_filter(cli.filter.build_filter()?, &cli.input)?;
        let found = communicators::read_communicators(
            &run.origins,
            &run.options,
            &run.filter,
            &mut run.report,
            &run.bar,
        )?;
        let output = cli.format.get();
        let grid = match (cli.members, output.format) {
            (true, _) => communicators::build_member_grid(&found),
            (false, RowFormat::Table) => communicators::build_terminal_grid(&found),
            (false, _) => communicators::build_communicator_grid(&found),
        };
        output
            .printer(&run.report)
            .largest_by(LARGEST_BY)
            .with_answer(answers::answer_communicators)
            .print(|| grid.into())?;
        Ok(run.finish())
    })
}
