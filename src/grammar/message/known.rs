//! Lines that are known by how they begin: what they say is not read.
//!
//! The beginnings are those of NCCL 2.4 to 2.30.7 and RCCL 2.18 to 2.27, from the format strings in
//! their sources.

use super::Family;
use memchr::memmem;

/// The beginnings, each behind its family. A line belongs to the first that fits.
const BEGINNINGS: &[(Family, &[&str])] = &[
    (
        Family::Proxy,
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
            "recvProxy",
            "sendProxy",
            "ncclProxy",
            "socketProgressOpt",
            "Proxy ",
            "proxy",
            "Progress thread",
        ],
    ),
    (
        Family::Memory,
        &[
            "Allocated ",
            "MMAP allocated",
            "Mem Realloc",
            "Memory used",
            "Symmetric ",
            "memory stack hunk",
            "CUMEM ",
            "cuMem",
            "Cuda Alloc",
            "Cuda Host Alloc",
            "Mem Alloc",
            "Registered ",
            "rank ",
            "Register",
            "Using CUMEM",
            "freed ",
            "Freed ",
        ],
    ),
    (
        Family::Topology,
        &[
            "=== ",
            "=====",
            "+ PCI",
            "+ NVL",
            "+ SYS",
            "+ NET",
            "+ GPU",
            "+ XGMI",
            "+ C2C",
            "+ LOC",
            "CPU/",
            "GPU/",
            "PCI/",
            "NIC/",
            "NVS/",
            "DIE/",
            "Setting affinity for GPU",
            "ncclTopo",
            "TOPO/NET",
            "Topology detection",
            "Loading topology",
            "Loading unnamed topology",
            "Could not get speed from",
            "CUDA Dev ",
            "[node_id = ",
            "Attribute ",
            "KV Convert",
            "Ignoring PCI",
            "Path ",
            "GetXmlFrom",
            "Discovered ",
            "Node ",
            "Keeping ",
        ],
    ),
    (
        Family::P2p,
        &[
            "Check P2P Type",
            "P2P is disabled",
            "P2P not supported",
            "P2P ",
            "ncclP2pSchedule",
            "Could not enable P2P",
            "All ranks ",
            "PXN Disabled",
            "PXN ",
            "ipc",
            "IPC ",
            "Use IPC",
        ],
    ),
    (Family::Nvls, &["NVLS ", "NVLink SHARP"]),
    (Family::Mnnvl, &["MNNVL ", "MNNVL", "Fabric "]),
    (Family::Ras, &["RAS ", "RAS:"]),
    (
        Family::Tuning,
        &[
            "threadThresholds",
            "Threads per block",
            "Algorithm   |",
            "Protocol    |",
            "Max NThreads |",
            "Enabled NCCL Func/Proto/Algo",
            "Function |",
            "Latency/",
            "Broadcast |",
            "Reduce |",
            "AllGather |",
            "ReduceScatter |",
            "AllReduce |",
            "SendRecv |",
            "Function",
            "TUNER",
            "pre-adjustment",
            "post-adjustment",
            "minNChannels",
            "NCCL_ALGO",
            "NCCL_PROTO",
            "Communicator has ",
        ],
    ),
    (
        Family::Net,
        &[
            "NET/",
            "Sharp ",
            "SHARP",
            "CollNet",
            "COLLNET",
            "NCCL_IB",
            "Failed to open libibverbs",
            "dlvsym failed",
            "dlsym failed",
            "Call to mlx5dv",
            "Call to ibv",
            "libibverbs",
            "Dmabuf ",
            "Retrieving state for",
            "Initialized state",
            "Using non-device net",
            "Using NCCL_NET_DEVICE",
            "GDR",
            "GIN",
            "GIN/",
            "RMA",
            "RMA/",
            "Found /sys/kernel/mm/memory_peers",
            "socketPoll",
            "socketStart",
            "socketTry",
            "ncclSocket",
            "ncclOsSocket",
            "Net : ",
            "Enabled GDRCopy",
            "Could not find file: ",
            "NetIb",
            "Found ib_",
            "nccl_net",
            "Unloading plugin",
            "External network plugin",
            "Disabling external",
            "recvProxyProgress",
            "Peer memory",
            "IB ",
            "OOB ",
            "Rank ",
            "DMABUF",
            "misc/",
            "Disabling ",
        ],
    ),
    (
        Family::Plugin,
        &[
            "External ",
            "NCCL Inspector",
            "Profiler ",
            "PROFILER",
            "Plugin ",
            "[rocprofiler-sdk",
        ],
    ),
    (
        Family::Bootstrap,
        &[
            "Bootstrap",
            "bootstrap",
            "NCCL_COMM_ID",
            "Waiting for ",
            "Root ",
        ],
    ),
    (
        Family::Rccl,
        &[
            "initialized internal alternative rsmi",
            "RCCL ",
            "Hip",
            "HIP",
            "rocm",
            "MSCCL",
            "Enabling MSCCL",
            "Disabling MSCCL",
            "Kernel trace",
            "## ",
            "Connected to rsmi",
            "rsmi",
            "hsa",
            "Cannot ",
            "gfx",
        ],
    ),
    (
        Family::Init,
        &[
            "CC Off",
            "CC On",
            "Launch mode",
            "comm ",
            "Comm ",
            "ncclComm",
            "Connected ",
            "Channel",
            "Communicator",
            "CommRevoke",
            "cudaDriver",
            "cuda",
            "Created ",
            "Trees",
            "Destroy",
            "Abort",
            "Removing",
            "commDestroy",
            "commReclaim",
            "group",
            "Compute Capability",
            "NCCL ",
        ],
    ),
];

/// The family of a line that is known by its beginning.
pub(super) fn family(text: &[u8]) -> Option<Family> {
    if let Some(family) = special(text) {
        return Some(family);
    }
    let first = *text.first()?;
    BEGINNINGS
        .iter()
        .find(|(_, beginnings)| {
            beginnings
                .iter()
                .any(|b| b.as_bytes()[0] == first && text.starts_with(b.as_bytes()))
        })
        .map(|(family, _)| *family)
}

/// Lines that begin with a number or a source file.
fn special(text: &[u8]) -> Option<Family> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if digits > 0 {
        // ` 0 : GPU/0 GPU/1`, the graph that a search found.
        let rest = text[digits..].strip_prefix(b" : ")?;
        let node = [&b"GPU/"[..], b"NET/", b"NIC/"];
        return node
            .iter()
            .any(|n| rest.starts_with(n))
            .then_some(Family::Graph);
    }
    if text.starts_with(b"NET/") && text.get(4).is_some_and(u8::is_ascii_digit) {
        // `NET/0-0 :GPU/0-26000 (3/0.1/PHB)`.
        return Some(Family::Topology);
    }
    // `init.cc:502 Cuda Host Alloc Size 65536 pointer 0x7f40`.
    let window = &text[..text.len().min(200)];
    let source = memmem::find(window, b".cc:").or_else(|| memmem::find(window, b".h:"))?;
    let place = !window[..source].contains(&b' ');
    let allocates = memmem::find(window, b" Alloc Size ").is_some()
        || memmem::find(window, b" memory stack hunk ").is_some();
    (place && allocates).then_some(Family::Memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_name_families() {
        for (text, expected) in [
            ("+ PCI[24.0] - GPU/1000 (0)", Family::Topology),
            ("NET/0-0 :GPU/0-26000 (3/0.1/PHB)", Family::Topology),
            ("7 : GPU/0 GPU/1", Family::Graph),
            (
                "init.cc:502 Cuda Host Alloc Size 65536 pointer 0x7f",
                Family::Memory,
            ),
            ("MNNVL busId 0x41000 fabric UUID 0.0", Family::Mnnvl),
            ("RAS thread started", Family::Ras),
            ("ReduceScatter |     0.0/   0.0 |", Family::Tuning),
        ] {
            assert_eq!(family(text.as_bytes()), Some(expected), "{text}");
        }
        for none in ["", "AllReduce: opCount 1", "7 : x", "hello"] {
            assert_eq!(family(none.as_bytes()), None, "{none}");
        }
    }
}
