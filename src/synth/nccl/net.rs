//! The network of a job that never ran, and how its calls are tuned: NET, NVLS, Channel and
//! TUNING lines, and the truth about them.
//!
//! Shapes as in `src/transport/{p2p,shm,net}.cc` and `src/enqueue.cc`, and in aws-ofi-nccl.

use crate::fault;
use crate::job::call::CallOp;
use crate::job::{JobComm, JobCommMember, JobProcess, SynthJob};
use crate::nccl::line::NcclLine;
use crate::options::{Nccl, Options, SynthNet};
use serde::Serialize;

/// Channels of a ring.
const CHANNELS_OF_RING: usize = 4;

/// From this many bytes on the NVLink switches do an AllReduce.
const NVLS_MIN_BYTES: u128 = 1 << 20;

/// A connection of two ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnectionRow {
    /// Restarts before it.
    pub segment: u64,
    /// The communicator.
    pub comm_id: String,
    /// Its size.
    pub nranks: usize,
    /// The rank that sends.
    pub from_rank: usize,
    /// The rank that receives.
    pub to_rank: usize,
    /// Where the first is.
    pub from_host: String,
    /// Where the second is.
    pub to_host: String,
    /// `P2P`, `SHM`, `NET`.
    pub transport: &'static str,
    /// How, or the plugin.
    pub via: &'static str,
    /// The card.
    pub nic: Option<usize>,
    /// `send` or `receive`, where both ends print it.
    pub direction: &'static str,
    /// Channels.
    pub channels: usize,
    /// `yes` or `no` over the network.
    pub gdr: &'static str,
    /// The rank of the sending proxy, if that is another one's.
    pub pxn: Option<usize>,
}

/// Calls that were tuned alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct TuningRow {
    /// The operation.
    pub op: &'static str,
    /// The communicator's size.
    pub nranks: usize,
    /// The bytes, as printed.
    pub bytes: u64,
    /// The algorithm.
    pub algorithm: &'static str,
    /// The protocol.
    pub protocol: &'static str,
    /// How many channels; not printed before 2.24.
    pub channels: Option<u64>,
}

/// The network's lines before the first communicator.
pub(crate) fn network_lines(
    net: SynthNet,
    nccl: Nccl,
    proc: &JobProcess,
    per_node: usize,
) -> Vec<NcclLine> {
    let address = format!("10.0.{}.{}<0>", proc.node / 250, 1 + proc.node % 250);
    let order = if nccl.since(Nccl::V2_18) {
        " [RO]"
    } else {
        " "
    };
    let mut out = Vec::new();
    let mut info = |text: String| out.push(NcclLine::Info(text));
    match net {
        SynthNet::Ib | SynthNet::Roce | SynthNet::Nvlink => {
            let link = if net == SynthNet::Roce { "RoCE" } else { "IB" };
            let list: String = (0..per_node)
                .map(|n| format!("[{n}]mlx5_{n}:1/{link} "))
                .collect();
            info(format!(
                "NET/IB : Using {}{order}; OOB eth0:{address}",
                list.trim_end()
            ));
            for n in 0..per_node {
                info(format!(
                    "NET/IB : GPU Direct RDMA Enabled for HCA {n} 'mlx5_{n}'"
                ));
            }
            info("Using network IB".into());
        }
        SynthNet::Efa => {
            info("NET/OFI Initializing aws-ofi-nccl 1.9.2-aws".into());
            info(format!(
                "NET/OFI Selected Provider is efa (found {per_node} nics)"
            ));
            info("Using network AWS Libfabric".into());
        }
        SynthNet::Socket => {
            info("NET/IB : No device found.".into());
            info(format!("NET/Socket : Using [0]eth0:{address}"));
            info("Using network Socket".into());
        }
    }
    out
}

/// One way between neighbours of a ring, as one of them prints it.
struct RingConnection {
    from: usize,
    to: usize,
    row: ConnectionRow,
}

/// The ways that a rank of a communicator prints.
fn ring_connections(
    net: SynthNet,
    nccl: Nccl,
    job: &SynthJob,
    comm: &JobComm,
    rank: usize,
) -> Vec<RingConnection> {
    let n = comm.ranks.len();
    let proc = |r: usize| &job.procs[comm.ranks[r]];
    let mut all = Vec::new();
    let mut ends = vec![
        (rank, (rank + 1) % n, true),
        ((rank + n - 1) % n, rank, false),
    ];
    ends.retain(|_| n > 1);
    for (from, to, sends) in ends {
        let (a, b) = (proc(from), proc(to));
        let mut row = ConnectionRow {
            segment: job.segment,
            comm_id: format!("{:#x}", comm.id),
            nranks: n,
            from_rank: from,
            to_rank: to,
            from_host: a.host.clone(),
            to_host: b.host.clone(),
            transport: "P2P",
            via: "IPC",
            nic: None,
            direction: "",
            channels: CHANNELS_OF_RING,
            gdr: "",
            pxn: None,
        };
        match (net, a.node == b.node) {
            (SynthNet::Socket, true) => (row.transport, row.via) = ("SHM", "direct"),
            (SynthNet::Nvlink, false) => row.via = "MNNVL",
            (_, true) if nccl.since(Nccl::V2_20) && !nccl.is_rccl() => row.via = "CUMEM",
            (_, true) => {}
            (net, false) => {
                row.transport = "NET";
                row.via = match net {
                    SynthNet::Efa => "AWS Libfabric",
                    SynthNet::Socket => "Socket",
                    _ => "IB",
                };
                row.gdr = match net {
                    SynthNet::Ib | SynthNet::Roce | SynthNet::Efa => "yes",
                    _ => "no",
                };
                row.direction = if sends { "send" } else { "receive" };
                // The data leaves the node on the rail of the GPU it goes to, through the
                // process that sits there.
                let proxy = (0..n).find(|&r| proc(r).node == a.node && proc(r).dev == b.dev);
                row.pxn = proxy.filter(|&p| net == SynthNet::Ib && sends && p != from);
                row.nic = Some(match (net, sends, row.pxn) {
                    (SynthNet::Socket, ..) => 0,
                    (_, true, None) => a.dev,
                    _ => b.dev,
                });
            }
        }
        // Only the sender prints what stays on the node.
        if sends || row.transport == "NET" {
            all.push(RingConnection { from, to, row });
        }
    }
    all
}

/// The Channel lines of a rank of a communicator.
pub(crate) fn channel_lines(
    net: SynthNet,
    nccl: Nccl,
    job: &SynthJob,
    comm: &JobComm,
    member: &JobCommMember,
    out: &mut Vec<NcclLine>,
) {
    let side = |r: usize| {
        let proc = &job.procs[comm.ranks[r]];
        if nccl.since(Nccl::V2_18) && !nccl.is_rccl() {
            format!("{r}[{}]", proc.dev)
        } else {
            format!("{r}[{:x}]", proc.bus)
        }
    };
    for RingConnection { from, to, row } in ring_connections(net, nccl, job, comm, member.rank) {
        let via = match (row.transport, row.nic) {
            ("NET", Some(nic)) => {
                let proxy = row.pxn.map_or(String::new(), |p| format!("({p})"));
                let gdr = if row.gdr == "yes" { "/GDRDMA" } else { "" };
                format!("[{}] via NET/{}/{nic}{proxy}{gdr}", row.direction, row.via)
            }
            ("SHM", _) => "via SHM/direct/direct".to_owned(),
            _ => format!("via P2P/{}", row.via),
        };
        let tail = if nccl.is_rccl() {
            format!(" comm {:#x} nRanks {}", member.ptr, comm.ranks.len())
        } else {
            String::new()
        };
        for channel in 0..CHANNELS_OF_RING {
            let word = match nccl {
                Nccl::V2_4 => format!("Ring {channel:02}"),
                Nccl::V2_7 => format!("Channel {channel:02}"),
                _ => format!("Channel {channel:02}/0"),
            };
            out.push(NcclLine::Info(format!(
                "{word} : {} -> {} {via}{tail}",
                side(from),
                side(to)
            )));
        }
    }
}

/// All connections of a life of the job.
pub(crate) fn connection_rows(options: &Options, job: &SynthJob) -> Vec<ConnectionRow> {
    let Some(net) = options.net else {
        return Vec::new();
    };
    let ranks = job
        .comms
        .iter()
        .flat_map(|comm| (0..comm.ranks.len()).map(move |rank| (comm, rank)));
    ranks
        .flat_map(|(comm, rank)| ring_connections(net, options.nccl, job, comm, rank))
        .map(|way| way.row)
        .collect()
}

/// How a call is tuned; none where NCCL does not tune it.
pub(crate) fn tune_call(
    options: &Options,
    comm: &JobComm,
    op: CallOp,
    bytes: u128,
) -> Option<TuningRow> {
    let n = comm.ranks.len();
    let moves = matches!(
        op,
        CallOp::AllReduce
            | CallOp::AllGather
            | CallOp::ReduceScatter
            | CallOp::Broadcast
            | CallOp::Reduce
    );
    if n < 2 || !moves {
        return None;
    }
    let nvls = options.nvls && n > 2 && comm.nodes == 1 && !fault::lacks_nvls(options, comm);
    let (algorithm, protocol) = match bytes {
        _ if nvls && op == CallOp::AllReduce && bytes >= NVLS_MIN_BYTES => ("NVLS", "SIMPLE"),
        0..32_768 if op == CallOp::AllReduce && n > 2 => ("TREE", "LL"),
        0..262_144 => ("RING", "LL"),
        262_144..4_194_304 => ("RING", "LL128"),
        _ => ("RING", "SIMPLE"),
    };
    let named = options.nccl.since(Nccl::V2_24);
    // The message's size, as NCCL counted it before.
    let times = match op {
        CallOp::AllGather | CallOp::ReduceScatter if !named => n as u128,
        _ => 1,
    };
    let channels = (bytes / 65_536).clamp(1, 16) as u64;
    Some(TuningRow {
        op: op.name(),
        nranks: n,
        bytes: (bytes * times) as u64,
        algorithm,
        protocol,
        channels: named.then_some(channels),
    })
}

/// The TUNING line's body.
pub(crate) fn format_tuning_line(nccl: Nccl, row: &TuningRow) -> String {
    let TuningRow {
        op,
        bytes,
        algorithm,
        protocol,
        ..
    } = row;
    if let Some(channels) = row.channels {
        let last = channels - 1;
        return format!(
            "{op}: {bytes} Bytes -> Algo {algorithm} proto {protocol} channel{{Lo..Hi}}={{0..{last}}}"
        );
    }
    let number = |names: &[&str], name: &str| names.iter().position(|n| *n == name).unwrap_or(0);
    let algorithms = ["TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS"];
    let algorithm = number(&algorithms, algorithm);
    let protocol = number(&["LL", "LL128", "SIMPLE"], protocol);
    let op = if nccl.since(Nccl::V2_23) {
        format!("{op}: ")
    } else {
        String::new()
    };
    format!("{op}{bytes} Bytes -> Algo {algorithm} proto {protocol} time 8.616000")
}
