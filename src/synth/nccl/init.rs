//! What NCCL prints before the first call: versions, networks, communicators, channels.
//!
//! Shapes by version as in public logs of 2.4.8, 2.7.8, 2.11 to 2.12.10, 2.22.3, 2.27.7, 2.29.2
//! and RCCL 2.22.3, and `src/init.cc` of the versions between.

use super::line::NcclLine;
use crate::job::split::JobCommSplit;
use crate::job::{JobComm, JobCommMember, JobProcess, SynthJob};
use crate::nccl::net;
use crate::options::{Nccl, Options};

/// Everything a rank prints before its first call.
pub(crate) fn init_lines(options: &Options, job: &SynthJob, rank: usize) -> Vec<NcclLine> {
    let (nccl, proc) = (options.nccl, &job.procs[rank]);
    let mut out = Vec::new();
    let mut info = |text: String| out.push(NcclLine::Info(text));
    let colon = if nccl.since(Nccl::V2_24) { "" } else { " " };
    info(format!(
        "Bootstrap{colon}: Using eth0:10.0.{}.{}<0>",
        proc.node / 250,
        1 + proc.node % 250
    ));
    push_version_lines(nccl, rank, proc, &mut out);
    let mut info = |text: String| out.push(NcclLine::Info(text));
    info("NCCL_IB_TIMEOUT set by environment to 22.".into());
    if let Some(net) = options.net {
        out.extend(net::network_lines(
            net,
            nccl,
            proc,
            options.ranks / options.nodes,
        ));
    } else {
        let order = if nccl.since(Nccl::V2_18) {
            " [RO]"
        } else {
            " "
        };
        info(format!(
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB{order}; OOB eth0:10.0.{}.{}<0>",
            proc.node / 250,
            1 + proc.node % 250
        ));
        info("Using network IB".into());
    }
    for member in &proc.members {
        push_comm_lines(options, job, proc, member, &mut out);
    }
    out
}

fn push_version_lines(nccl: Nccl, rank: usize, proc: &JobProcess, out: &mut Vec<NcclLine>) {
    if nccl.is_rccl() {
        out.push(NcclLine::Info(format!(
            "RCCL version : {}",
            release_text(nccl)
        )));
        for (name, value) in [
            ("HIP version  ", "6.4.43482-0f2d60242"),
            ("ROCm version ", "6.4.0.0-47-73dae9c"),
            ("Hostname     ", proc.host.as_str()),
            ("Librccl path ", "/opt/rocm/lib/librccl.so.1"),
        ] {
            out.push(NcclLine::Bare(format!("{name}: {value}")));
        }
    } else if nccl.since(Nccl::V2_22) {
        out.push(NcclLine::Info(format!(
            "NCCL version {}",
            release_text(nccl)
        )));
    } else if rank == 0 {
        out.push(NcclLine::Bare(format!(
            "NCCL version {}",
            release_text(nccl)
        )));
    }
}

/// `src/init.cc`; `Init START` since 2.18, the function in front since 2.21, the rank since 2.29.
fn init_line(
    options: &Options,
    job: &SynthJob,
    proc: &JobProcess,
    member: &JobCommMember,
    end: &str,
) -> String {
    let (nccl, comm) = (options.nccl, &job.comms[member.comm]);
    let split = JobCommSplit::split_of_comm(options, job, member.comm);
    let (rank, nranks, dev) = (member.rank, comm.ranks.len(), proc.dev);
    let mut text = match nccl {
        _ if split.is_some() => "ncclCommSplit ",
        n if n.is_rccl() => "ncclCommInitRank ",
        n if n.since(Nccl::V2_23) => "ncclCommInitRankConfig ",
        n if n.since(Nccl::V2_21) => "ncclCommInitRank ",
        _ => "",
    }
    .to_owned();
    if nccl.since(Nccl::V2_29) && end == "START" {
        text.insert_str(0, &format!("[Rank {rank}] "));
    }
    text += &format!(
        "comm {:#x} rank {rank} nranks {nranks} cudaDev {dev}",
        member.ptr
    );
    if let Some(split) = split {
        text += &format!(" nvmlDev {dev} busId {:x}", proc.bus);
        return text + &split.format_init_end(nccl, job, proc, member, end);
    }
    text += &if nccl.since(Nccl::V2_18) {
        format!(" nvmlDev {dev} busId {:x} commId {:#x}", proc.bus, comm.id)
    } else if nccl.since(Nccl::V2_7) {
        format!(" busId {:x}", proc.bus)
    } else {
        format!(" nvmlDev {dev}")
    };
    if nccl.is_rccl() && end == "COMPLETE" {
        text += " localSize 384 used 1594278466 bytes on core 28";
    }
    text + " - Init " + end
}

/// Adds the lines of a rank while a communicator is made.
fn push_comm_lines(
    options: &Options,
    job: &SynthJob,
    proc: &JobProcess,
    member: &JobCommMember,
    out: &mut Vec<NcclLine>,
) {
    let (nccl, comm) = (options.nccl, &job.comms[member.comm]);
    let n = comm.ranks.len();
    if nccl.since(Nccl::V2_18) {
        let start = init_line(options, job, proc, member, "START");
        out.push(NcclLine::Info(start));
    }
    push_layout_lines(options, comm, proc, member, out);
    if n > 1 {
        push_connection_lines(options, job, comm, member, out);
    }
    let nvls = options.net.is_none() || options.nvls;
    if nvls && nccl.since(Nccl::V2_20) && !nccl.is_rccl() && n > 2 && comm.nodes == 1 {
        out.push(NcclLine::Info(format!(
            "NVLS comm {:#x} headRank {} nHeads {n} nvlsRanks {n} buffSize 1048576 nvlsPerRankSize 67108864 nvlsTotalSize 536870912",
            member.ptr, member.rank
        )));
    }
    let nvls = if nccl.since(Nccl::V2_18) {
        "2 collnet channels, 0 nvls channels, "
    } else {
        ""
    };
    out.push(NcclLine::Info(format!(
        "2 coll channels, {nvls}2 p2p channels, 2 p2p channels per peer"
    )));
    let complete = init_line(options, job, proc, member, "COMPLETE");
    out.push(NcclLine::Info(complete));
    if nccl.since(Nccl::V2_22) && !nccl.is_rccl() {
        out.push(NcclLine::Info(format_timings(options, job, member)));
    }
}

/// Where the ranks are, and the rings and trees that are built on that.
fn push_layout_lines(
    options: &Options,
    comm: &JobComm,
    proc: &JobProcess,
    member: &JobCommMember,
    out: &mut Vec<NcclLine>,
) {
    let (nccl, rank, n) = (options.nccl, member.rank, comm.ranks.len());
    if nccl.since(Nccl::V2_20) && !nccl.is_rccl() && n > 1 {
        let channels = if nccl.since(Nccl::V2_24) {
            " (NVLS_NCHANNELS 16)"
        } else {
            ""
        };
        let not = if options.net.is_some() && !options.nvls {
            "not "
        } else {
            ""
        };
        out.push(NcclLine::Info(format!(
            "NVLS multicast support is {not}available on dev {}{channels}",
            proc.dev
        )));
    }
    if nccl.since(Nccl::V2_20) {
        let local = n / comm.nodes.max(1);
        out.push(NcclLine::Info(format!(
            "comm {:#x} rank {rank} nRanks {n} nNodes {} localRanks {local} localRank {} MNNVL 0",
            member.ptr,
            comm.nodes,
            rank % local.max(1)
        )));
    }
    if rank == 0 && n > 1 {
        let ring: String = (0..n.min(20)).map(|r| format!("{r:4}")).collect();
        let of = if nccl.since(Nccl::V2_7) { "/02" } else { "" };
        out.push(NcclLine::Info(format!("Channel 00{of} : {ring}")));
    }
    if n > 1 && nccl.since(Nccl::V2_7) {
        let (prev, next) = ((rank + n - 1) % n, (rank + 1) % n);
        let truncated = options.damage_rate(crate::options::Damage::Truncated) > 0.0;
        let up = if rank == 0 { -1 } else { prev as i64 };
        let down = if next == 0 { -1 } else { next as i64 };
        let trees: String = (0..if truncated { 64 } else { 2 })
            .map(|c| format!(" [{c}] {down}/-1/-1->{rank}->{up}"))
            .collect();
        let tail = if nccl.is_rccl() {
            format!(" comm {:#x} nRanks {n:02} busId {:x}", member.ptr, proc.bus)
        } else {
            String::new()
        };
        out.push(NcclLine::Trees(format!("Trees{trees}{tail}")));
    }
}

/// The connections to the neighbours in the ring.
fn push_connection_lines(
    options: &Options,
    job: &SynthJob,
    comm: &JobComm,
    member: &JobCommMember,
    out: &mut Vec<NcclLine>,
) {
    let (nccl, rank, n) = (options.nccl, member.rank, comm.ranks.len());
    let (prev, next) = ((rank + n - 1) % n, (rank + 1) % n);
    if let Some(net) = options.net {
        net::channel_lines(net, nccl, job, comm, member, out);
    }
    for (from, to, own) in [(rank, next, "send"), (prev, rank, "receive")] {
        if options.net.is_none() && (own == "send" || crosses_nodes(job, comm, from, to)) {
            let text = format_channel_line(nccl, job, comm, from, to, own, member.ptr);
            out.push(NcclLine::Info(text));
        }
    }
    out.push(NcclLine::Info("Connected all rings".into()));
    out.push(NcclLine::Info("Connected all trees".into()));
}

/// How long the parts of making a communicator took.
fn format_timings(options: &Options, job: &SynthJob, member: &JobCommMember) -> String {
    let (api, alloc) = match options.nccl.since(Nccl::V2_24) {
        true if JobCommSplit::split_of_comm(options, job, member.comm).is_some() => {
            (" - ncclCommSplit", " alloc 0.24,")
        }
        true => (" - ncclCommInitRankConfig", " alloc 0.24,"),
        false => ("", ""),
    };
    format!(
        "Init timings{api}: rank {} nranks {} total 1.05 (kernels 0.60,{alloc} bootstrap 0.00, \
         allgathers 0.00, topo 0.03, graphs 0.02, connections 0.14, rest 0.01)",
        member.rank,
        job.comms[member.comm].ranks.len()
    )
}

fn crosses_nodes(job: &SynthJob, comm: &JobComm, from: usize, to: usize) -> bool {
    job.procs[comm.ranks[from]].node != job.procs[comm.ranks[to]].node
}

/// Bus ids in brackets up to 2.16 and in RCCL, NVML devices since; `/0` since 2.12.
fn format_channel_line(
    nccl: Nccl,
    job: &SynthJob,
    comm: &JobComm,
    from: usize,
    to: usize,
    own: &str,
    ptr: u64,
) -> String {
    let side = |r: usize| {
        let proc = &job.procs[comm.ranks[r]];
        if nccl.since(Nccl::V2_18) && !nccl.is_rccl() {
            format!("{r}[{}]", proc.dev)
        } else {
            format!("{r}[{:x}]", proc.bus)
        }
    };
    let via = if crosses_nodes(job, comm, from, to) {
        format!("[{own}] via NET/IB/0/GDRDMA")
    } else if nccl.since(Nccl::V2_20) && !nccl.is_rccl() {
        "via P2P/CUMEM".into()
    } else {
        "via P2P/IPC".into()
    };
    let word = match nccl {
        Nccl::V2_4 => "Ring 00",
        Nccl::V2_7 => "Channel 00",
        _ => "Channel 00/0",
    };
    let tail = if nccl.is_rccl() {
        format!(" comm {ptr:#x} nRanks {}", comm.ranks.len())
    } else {
        String::new()
    };
    format!("{word} : {} -> {} {via}{tail}", side(from), side(to))
}

/// `... - Destroy COMPLETE`, when the job ends well.
pub(crate) fn destroy_lines(job: &SynthJob, rank: usize) -> Vec<String> {
    let proc = &job.procs[rank];
    proc.members
        .iter()
        .map(|m| {
            let n = job.comms[m.comm].ranks.len();
            format!(
                "comm {:#x} rank {} nranks {n} cudaDev {} busId {:x} - Destroy COMPLETE",
                m.ptr, m.rank, proc.dev, proc.bus
            )
        })
        .collect()
}

/// Release and CUDA version.
pub(crate) fn release_text(nccl: Nccl) -> &'static str {
    match nccl {
        Nccl::V2_4 => "2.4.8+cuda10.0",
        Nccl::V2_7 => "2.7.8+cuda10.2",
        Nccl::V2_12 => "2.12.10+cuda11.6",
        Nccl::V2_16 => "2.16.5+cuda11.8",
        Nccl::V2_18 => "2.18.5+cuda12.2",
        Nccl::V2_20 => "2.20.5+cuda12.4",
        Nccl::V2_21 => "2.21.5+cuda12.4",
        Nccl::V2_22 => "2.22.3+cuda12.5",
        Nccl::V2_23 => "2.23.4+cuda12.6",
        Nccl::V2_24 => "2.24.3+cuda12.6",
        Nccl::V2_27 => "2.27.7+cuda12.9",
        Nccl::V2_28 => "2.28.9+cuda13.0",
        Nccl::V2_29 => "2.29.2+cuda13.1",
        Nccl::V2_30 => "2.30.7+cuda13.1",
        Nccl::Rccl2_22 => "2.22.3-HEAD:271856d",
        Nccl::Rccl2_27 => "2.27.7-HEAD:593de54",
    }
}
