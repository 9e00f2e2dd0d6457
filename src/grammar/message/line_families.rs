//! Lines that are recognised by their beginning only; their values are not read.
//!
//! The beginnings are those of NCCL 2.4 to 2.30.7 and RCCL 2.18 to 2.27, from the format strings in
//! their sources.

use super::MessageFamily;
use memchr::memmem;

/// The beginnings, each after its family. A line belongs to the first that fits.
const FAMILY_BEGINNINGS: &[(MessageFamily, &[&str])] = &[
    (
        MessageFamily::Proxy,
        &[
            "Connected to proxy",
            "Connection to proxy",
            "New proxy ",
            "proxyProgressAsync",
            "resp.opId=",
            "ncclPollProxyResponse",
            "Received and initiated operation",
            "[Proxy ",
            "[Service thread]",
            "UDS: ",
            "UDS converted handle",
            "UDS proxy",
            "ProxyCall",
            "recvProxy",
            "proxyUDS",
            "Queuing opId=",
            "socketProgressOpt",
            "NCCL_PROXY_CPUSET",
        ],
    ),
    (
        MessageFamily::Memory,
        &[
            "Allocated ",
            "MMAP ",
            "Mem Realloc",
            "Memory used = ",
            "Symmetric ",
            "CUMEM ",
            "cuMem host",
            "MemManager",
            "Register ptr",
            "rank ",
            "SHM legacy",
            "Skipping registration",
            "Skipping graph registration",
            "Cleanup buffer",
            "Imported shareable buffer",
            "fallocate: ",
        ],
    ),
    (
        MessageFamily::Topology,
        &[
            "=== System",
            "Could not find real path of ",
            "======",
            "+ PCI[",
            "+ NVL[",
            "+ SYS[",
            "+ NET[",
            "CPU/",
            "GPU/",
            "Setting affinity for GPU",
            "ncclTopo",
            "TOPO/NET",
            "Topology detection",
            "Loading topology",
            "Loading unnamed topology",
            "Could not get speed",
            "CUDA Dev ",
            "[node_id = ",
            "KV Convert to ",
            "Paths from ",
            "NVLink target ",
            "Kernel NUMA",
        ],
    ),
    (
        MessageFamily::P2p,
        &[
            "Check P2P Type",
            "P2P is disabled",
            "P2P not supported",
            "ncclP2pSchedule",
            "PXN ",
            "Tuning P2P operations",
            "Max P2P Peers",
            "Cross-clique P2P",
            "IPC symmetric alloc",
        ],
    ),
    (
        MessageFamily::Nvls,
        &[
            "NVLS Bind",
            "NVLS Creat",
            "NVLS Mapped",
            "NVLS Trees",
            "NVLS Unbind",
            "NVLS Unmap",
            "NVLS group",
            "NVLS importing",
            "NVLS rank",
            "NVLS symmetric",
            "NVLS tuning",
            "Failed to bind NVLink SHARP",
            "Binding multicast memory",
        ],
    ),
    (MessageFamily::Mnnvl, &["MNNVL "]),
    (
        MessageFamily::Ras,
        &["RAS ", "Continuing in spite of a RAS"],
    ),
    (
        MessageFamily::Tuning,
        &[
            "threadThresholds ",
            "Threads per block",
            "Algorithm   |",
            "Protocol    |",
            "Max NThreads |",
            "Enabled NCCL Func/Proto/Algo",
            "Broadcast |",
            "Reduce |",
            "AllGather |",
            "ReduceScatter |",
            "AllReduce |",
            "pre-adjustment",
            "post-adjustment",
            "minNChannels",
            "Communicator has ",
            "Closing tuner",
            "Opened tuner",
            "Tuner: ",
            "latencyinter not found",
        ],
    ),
    (
        MessageFamily::Net,
        &[
            "NET/",
            "Sharp ",
            "SHARP ",
            "Failed to open libibverbs",
            "Failed to open libmlx5",
            "dlvsym failed",
            "Call to mlx5dv",
            "Call to connect",
            "Call to accept",
            "Call to ibv",
            "Dmabuf ",
            "Retrieving state for",
            "Initialized state",
            "Using non-device net",
            "Using NCCL_NET_DEVICE",
            "GIN ",
            "GIN/",
            "RMA/",
            "NCCL_GIN_",
            "NCCL_RMA_",
            "NCCL_NET_PLUGIN list",
            "Found /sys/kernel/mm/memory_peers",
            "socketPollConnect",
            "ncclOsSocket",
            "Enabled GDRCopy",
            "Found network interface",
            "Unloading plugin",
            "External network plugin",
            "Disabling external plugins",
            "GPU Direct RDMA ",
            "Local Net device",
            "Local CollNet device",
            "Detected mixed local",
            "Socket handshake",
            "Socket progress",
            "CollNet ",
            "CollNetDirect ",
        ],
    ),
    (
        MessageFamily::Plugin,
        &[
            "External ",
            "NCCL Inspector",
            "Profiler ",
            "[rocprofiler-sdk",
        ],
    ),
    (
        MessageFamily::Bootstrap,
        &[
            "bootstrap",
            "NCCL_COMM_ID",
            "Bootstrap : Using",
            "Bootstrap: Using",
        ],
    ),
    (
        MessageFamily::Rccl,
        &["initialized internal alternative rsmi", "RCCL ", "MSCCL"],
    ),
    (
        MessageFamily::Setting,
        &[
            "ENV: ",
            "PARAM: ",
            "Warning: ENV ",
            "NCCL_",
            "CTAPolicy ",
            "Parsed environment variable",
        ],
    ),
    (MessageFamily::Warn, &["HINT: "]),
    (
        MessageFamily::Graph,
        &[
            "Loading graphs",
            "Search ",
            "Duplicating rings",
            "Limiting to ",
            "Connected collnet",
            "Connected Collnet",
            "Collnet Chains",
            "User asked for a m",
        ],
    ),
    (
        MessageFamily::Init,
        &[
            "CC Off, ",
            "CC On, ",
            "Launch mode ",
            "Comm config ",
            "ncclComm",
            "CommRevokeAsync",
            "Compute Capability",
            "CUDA Graph helper",
            "Init CE",
            "devCommCreate",
            "DEBUG file is",
            "Stack size limit",
            "Using ",
        ],
    ),
];

/// The family of a line that is known by its beginning.
pub(super) fn find_family(text: &[u8]) -> Option<MessageFamily> {
    if let Some(family) = find_special_family(text) {
        return Some(family);
    }
    let first = *text.first()?;
    FAMILY_BEGINNINGS
        .iter()
        .find(|(_, beginnings)| {
            beginnings
                .iter()
                .any(|b| b.as_bytes()[0] == first && text.starts_with(b.as_bytes()))
        })
        .map(|(family, _)| *family)
}

/// Lines that begin with a number or a source file.
fn find_special_family(text: &[u8]) -> Option<MessageFamily> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if digits > 0 {
        // ` 0 : GPU/0 GPU/1`, the graph that a search found.
        let rest = text[digits..].strip_prefix(b" : ")?;
        let node = [&b"GPU/"[..], b"NET/", b"NIC/"];
        return node
            .iter()
            .any(|n| rest.starts_with(n))
            .then_some(MessageFamily::Graph);
    }
    if text.starts_with(b"comm 0x") {
        // `... - Abort START`, `- Revoke START`, `- Revoke COMPLETE, result 0`.
        let ends = text.ends_with(b" - Abort START") || memmem::find(text, b" - Revoke ").is_some();
        return ends.then_some(MessageFamily::Init);
    }
    if text.starts_with(b"NET/") && text.get(4).is_some_and(u8::is_ascii_digit) {
        // `NET/0-0 :GPU/0-26000 (3/0.1/PHB)`.
        return Some(MessageFamily::Topology);
    }
    // `init.cc:502 Cuda Host Alloc Size 65536 pointer 0x7f40`.
    let window = &text[..text.len().min(200)];
    let source = memmem::find(window, b".cc:").or_else(|| memmem::find(window, b".h:"))?;
    let place = !window[..source].contains(&b' ');
    let words = [
        &b"lloc Size "[..],
        b"llocAsync Size ",
        b" memory stack ",
        b" Realloc ",
    ];
    let allocates = words
        .iter()
        .any(|word| memmem::find(window, word).is_some());
    if place && memmem::find(window, b" Cuda failure ").is_some() {
        return Some(MessageFamily::Warn);
    }
    (place && allocates).then_some(MessageFamily::Memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_name_families() {
        for (text, expected) in [
            ("+ PCI[24.0] - GPU/1000 (0)", MessageFamily::Topology),
            ("NET/0-0 :GPU/0-26000 (3/0.1/PHB)", MessageFamily::Topology),
            ("7 : GPU/0 GPU/1", MessageFamily::Graph),
            (
                "init.cc:502 Cuda Host Alloc Size 65536 pointer 0x7f",
                MessageFamily::Memory,
            ),
            ("MNNVL busId 0x41000 fabric UUID 0.0", MessageFamily::Mnnvl),
            ("RAS thread started", MessageFamily::Ras),
            ("ReduceScatter |     0.0/   0.0 |", MessageFamily::Tuning),
        ] {
            assert_eq!(find_family(text.as_bytes()), Some(expected), "{text}");
        }
        for none in ["", "AllReduce: opCount 1", "7 : x", "hello"] {
            assert_eq!(find_family(none.as_bytes()), None, "{none}");
        }
    }
}
