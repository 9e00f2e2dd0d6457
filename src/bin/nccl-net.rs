//! nccl-net: see `--help`.

use anyhow::Context;
use clap::Parser;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{FormatArgs, InputArgs, Run, StepArgs};
use nccl_pipe::program::exit;
use nccl_pipe::program::exit::Exit;
use nccl_pipe::stages::net::{self, pairs, table};
use std::process::ExitCode;

/// Network, transports, NVLS, versions and settings, and which hosts differ from the others
///
/// Reads NCCL debug logs. Most of it stands in any log of NCCL_DEBUG=INFO; all of it under
/// NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,P2P,SHM,GRAPH,NVLS,TUNING. What no line says is
/// `unknown`.
///
/// Writes scope (job or host), host, subject, value, hosts and processes that say so, of_hosts
/// (hosts that say anything of the subject), minority, line (the first that says so) and, of
/// several inputs, input. The job's row comes first, then the hosts that differ: minority is yes
/// where a host says what at most half of the hosts say, lacks where it says nothing else of the
/// subject and not what most say. A host that made no communicator lacks no setting. Rows job.* are
/// what the whole comes to. Values of settings that look like secrets (NCCL_API_TOKEN) are hidden.
///
/// With --pairs one row a pair of ranks and way: comm_id, or comm (the address in its process) of a
/// communicator without an id, nranks, from_rank, to_rank, from_host, to_host, transport (P2P, SHM,
/// NET, ...), via (how: CUMEM, IB, Socket, ...), nic (the NIC's number), direction (send or receive:
/// which end printed it), channels (how many), gdr (GPUDirect RDMA: yes or no), pxn (the rank whose
/// NIC is used, if that is another one's) and shared (yes or no: the connection is shared).
#[derive(Debug, Parser)]
#[command(name = "nccl-net", version, max_term_width = 100, after_long_help = AFTER)]
struct Cli {
    #[command(flatten)]
    input: InputArgs,
    /// Every host's facts, addresses too
    #[arg(long, conflicts_with_all = ["pairs", "dot"])]
    hosts: bool,
    /// Who reaches whom: a row for each pair of ranks of a communicator and each way, with the
    /// number of channels
    #[arg(long, conflicts_with = "dot")]
    pairs: bool,
    /// The pairs as a graph for Graphviz
    #[arg(long, conflicts_with = "format")]
    dot: bool,
    #[command(flatten)]
    format: FormatArgs,
}

const AFTER: &str = "\
Whose a connection is: between Init START and Init COMPLETE of a thread that communicator's; up to
NCCL 2.17, which prints no START, that of the thread's next COMPLETE; later that of the call the thread (or, if it makes none, its process) made last, if the ranks fit; else
the only one of the process that they fit and that lived then. Otherwise comm_id is empty.

Examples:
  nccl-net nccl.log
  nccl-net logs/ --hosts
  nccl-net nccl.log --pairs --format csv > pairs.csv
  nccl-net nccl.log --dot | dot -Tsvg > job.svg

Exit codes: 0 all understood, 1 written but some input was damaged, 2 failed.";

fn main() -> ExitCode {
    exit::run("nccl-net", || {
        let cli = Cli::parse();
        if cli::generated::<Cli>(cli.input.generate)? {
            return Ok(Exit::Clean);
        }
        let steps = StepArgs::default();
        let mut run = Run::new("nccl-net", &cli.input, &steps, cli::AWK_WINDOW)?;
        let found = net::net(&run.origins, &run.options, &mut run.report, &run.bar)?;
        if cli.dot {
            cli::with_stdout(|out| pairs::dot(&found, out).context("cannot write the output"))?;
        } else {
            let grid = match cli.pairs {
                true => pairs::grid(&found),
                false => table::grid(&found, &table::Options { hosts: cli.hosts }),
            };
            cli::print(|| grid.into(), None::<fn() -> Vec<u8>>, cli.format.get(), 1)?;
        }
        Ok(run.finish())
    })
}
