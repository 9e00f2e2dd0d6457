//! nccl-communicators: see `--help`.

use clap::Parser;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{Format, FormatArgs, InputArgs, Run, StepArgs};
use nccl_pipe::program::exit;
use nccl_pipe::program::exit::Exit;
use nccl_pipe::stages::communicators;
use std::process::ExitCode;

/// Communicators: who is in them, where their ranks are, what they are for
///
/// Reads NCCL debug logs (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL), one file or one for each
/// process. One row a communicator, in the order they first appear; an empty field means not known.
///
/// From INIT lines: comm_id (as printed; a split that prints none is parent/child.color, which all
/// its members know it by), nranks, members_seen, missing (ranks that the logs do not show, or
/// none), nodes and ranks_per_node (NCCL's own, or the hosts of all ranks), locality (single,
/// one-node, one-per-node, mixed), stride (how far apart its ranks are in the job, where one
/// communicator has all of the job's ranks), parent (the id of the one it was split from), color,
/// created_by (the function called), state (started, ready, destroyed, aborted; with counts where
/// members differ). From Init timings: init_s (the slowest member's), init_slowest (its rank),
/// init_breakdown (its parts=seconds). From calls: calls and total_bytes of all members, ops
/// (op=calls:bytes). From both, a model of what all ranks move: model_wire_bytes at best, and of it
/// between nodes if collectives go round rings (model_inter_ring_bytes), or if AllReduce goes up and
/// down trees (model_inter_tree_bytes); empty where a rank or its node is not known.
/// name is what the program that made it called it (commName in ncclConfig_t). NCCL prints it nowhere;
/// a profiler plugin does (NCCL's example or Inspector), on a line of its own.
///
/// label (tensor, pipeline, data, expert, context, embedding, world, unknown) is inferred: from who is
/// a member and from the calls. confidence is high only where both agree and nothing else fits; evidence says
/// what it rests on.
///
/// A communicator of a log without INIT lines, or without commId (NCCL before 2.18), is a row for
/// each process's address, with host and pid: members are not guessed.
///
/// With --members one row a member: comm_id, rank, host, pid, dev, bus_id (hex), nvml_dev, comm (its
/// address in the process), calls, nranks, global_rank (its rank in the job), label, state.
#[derive(Debug, Parser)]
#[command(name = "nccl-communicators", version, max_term_width = 100, after_long_help = AFTER)]
struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    steps: StepArgs,
    /// One row a member instead of one a communicator
    #[arg(long)]
    members: bool,
    #[command(flatten)]
    format: FormatArgs,
}

const AFTER: &str = "\
Examples:
  nccl-communicators nccl.log
  nccl-communicators logs/ --members
  nccl-communicators nccl.log --format jsonl

Exit codes: 0 all understood, 1 written but some input was damaged, 2 failed.";

fn main() -> ExitCode {
    exit::run("nccl-communicators", || {
        let cli = Cli::parse();
        if cli::generated::<Cli>(cli.input.generate)? {
            return Ok(Exit::Clean);
        }
        let mut run = Run::new(
            "nccl-communicators",
            &cli.input,
            &cli.steps,
            cli::AWK_WINDOW,
        )?;
        let found = communicators::read(&run.origins, &run.options, &mut run.report, &run.bar)?;
        let format = cli.format.get();
        let grid = match (cli.members, format) {
            (true, _) => communicators::members(&found),
            (false, Format::Table) => communicators::look(&found),
            (false, _) => communicators::grid(&found),
        };
        cli::print(|| grid.into(), None::<fn() -> Vec<u8>>, format, 1)?;
        Ok(run.finish())
    })
}
