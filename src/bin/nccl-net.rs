//! nccl-net: see `--help`.

use anyhow::Context;
use clap::Parser;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{FileArgs, FormatArgs, InputArgs, ProgramRun, StepArgs};
use nccl_pipe::stages::answers;
use nccl_pipe::stages::net::hops::{self, HopGraph};
use nccl_pipe::stages::net::{self, pairs, table};
use nccl_pipe::stages::topology;
use std::process::ExitCode;

/// Network, transports, NVLS, versions and settings, and which hosts differ from the others
///
/// Reads NCCL debug logs. NCCL_DEBUG=INFO prints most of these facts.
/// NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,P2P,SHM,GRAPH,NVLS,TUNING prints all of them. A value
/// that no line reports is `unknown`.
///
/// Writes scope (job or host), host, subject, value, hosts and processes (how many report this
/// value), of_hosts (how many hosts report any value of the subject), minority, line (the first
/// line that reports it) and, of several inputs, input. The rows of the job come first, then the
/// hosts that differ. minority is yes if at most half of the hosts report the value. It is lacks
/// if the host does not report the value of the majority, and no other value of the subject. A
/// host that made no communicator lacks no setting. Rows job.* summarise the job. Values of
/// settings that look like secrets (NCCL_API_TOKEN) are hidden.
///
/// With --pairs there is one row per pair of ranks and direction: comm_id, or comm (the address in
/// its process) of a communicator without an id, nranks, from_rank, to_rank, from_host, to_host,
/// transport (P2P, SHM, NET, ...), via (CUMEM, IB, Socket, ...), nic (the number of the NIC),
/// direction (send or receive: the end that printed the line), channels (how many), gdr (GPUDirect
/// RDMA: yes or no), pxn (the rank whose NIC is used, if it is not the rank's own) and shared (yes
/// or no: the connection is shared).
///
/// With --rings and --trees there is one row per hop: comm_id, comm, nranks, ring or tree (its number),
/// from_rank, to_rank, from_host, to_host, and the transport, via, nic and gdr of the connection that
/// serves it on that channel.
///
/// With --topology there is one row per way from a GPU to another GPU or a NIC: graph (empty for a way that exists; ring,
/// tree, nvls, ... for one that NCCL chose), from, to, nic (NCCL's number of the NIC), way (NV18: so many NVLinks; PIX, PXB,
/// PHB, NODE, SYS as nvidia-smi has them), nearest (yes for the NICs nearest to the GPU), channels and gbs (GB/s a channel) of
/// a graph, inputs (how many machines have it so), of_inputs, minority (yes if at most half of them do, lacks for one without
/// what most have: a row for each) and input.
#[derive(Debug, Parser)]
#[command(name = "nccl-net", version, after_long_help = AFTER)]
#[command(next_help_heading = "Rows")]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    /// Write the facts of every host, also addresses
    #[arg(long, conflicts_with_all = ["pairs", "dot"])]
    hosts: bool,
    /// Write the connections: one row for each pair of ranks and each direction
    #[arg(long, conflicts_with = "dot")]
    pairs: bool,
    /// Write the rings that NCCL built (NCCL_DEBUG_SUBSYS=INIT,GRAPH), a row for each hop
    #[arg(long, conflicts_with_all = ["hosts", "pairs", "dot", "trees"])]
    rings: bool,
    /// Write its trees: each rank's hop to the one above
    #[arg(long, conflicts_with_all = ["hosts", "pairs", "dot"])]
    trees: bool,
    /// Write the ways between GPUs and to NICs, of files of NCCL_TOPO_DUMP_FILE and NCCL_GRAPH_DUMP_FILE and of what
    /// nvidia-smi topo -m prints
    #[arg(long, conflicts_with_all = ["hosts", "pairs", "rings", "trees", "dot"])]
    topology: bool,
    /// Write the pairs as a graph for Graphviz
    #[arg(long, conflicts_with_all = ["format", "sort", "top"])]
    dot: bool,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    file: FileArgs,
}

const AFTER: &str = "\
The communicator of a connection: between Init START and Init COMPLETE of a thread it is that
communicator. Up to NCCL 2.17, which prints no START, it is that of the thread's next COMPLETE.
Later it is that of the last call of the thread, or of its process if the thread makes no calls,
if the ranks fit. Otherwise it is the only communicator of the process that the ranks fit and that
existed at that line. If none of these rules decides, comm_id is empty.

Examples:
  nccl-net nccl.log
  nccl-net logs/ --hosts
  nccl-net nccl.log --pairs --format csv > pairs.csv
  nccl-net nccl.log --rings
  nccl-net --topology topo/*.xml
  nccl-net nccl.log --dot | dot -Tsvg > job.svg

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-net", |cli: Cli| {
        cli.file.redirect()?;
        let mut run = ProgramRun::new("nccl-net", &cli.input, &StepArgs::default())?;
        if cli.topology {
            let (source, strict) = (run.options.source, run.options.log.strict);
            let found = topology::read_topology(&run.origins, source, strict, &mut run.report)?;
            let format = cli.format.get();
            let printer = format
                .printer(&run.report)
                .with_answer(answers::answer_topology);
            printer.print(|| topology::build_topology_grid(&found).into())?;
            return Ok(run.finish());
        }
        let found = net::read_net(&run.origins, &run.options, &mut run.report, &run.bar)?;
        if cli.dot {
            cli.format.refuse_row_options()?;
            cli::with_stdout(|out| {
                pairs::write_dot(&found, out).context("cannot write the output")
            })?;
        } else {
            let grid = match (cli.pairs, cli.rings, cli.trees) {
                (true, ..) => pairs::build_pair_grid(&found),
                (_, true, _) => hops::build_hop_grid(&found, HopGraph::Rings),
                (.., true) => hops::build_hop_grid(&found, HopGraph::Trees),
                _ => table::build_net_grid(&found, &table::Options { hosts: cli.hosts }),
            };
            cli.format
                .get()
                .printer(&run.report)
                .with_answer(answers::answer_network)
                .print(|| grid.into())?;
        }
        Ok(run.finish())
    })
}
