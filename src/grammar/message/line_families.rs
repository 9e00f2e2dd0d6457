//! Lines that are recognised by their beginning only; their values are not read.
//!
//! The beginnings are those of NCCL 2.3 to 2.32 and RCCL 2.18 to 2.27, from the format strings in
//! their sources and libraries.

use super::MessageFamily;
use crate::source_place::{PlacedText, split_source_place};
use memchr::memmem;

/// The beginnings, each after its family. A line belongs to the first that fits.
const FAMILY_BEGINNINGS: &[(MessageFamily, &[&str])] = &[
    (
        MessageFamily::Proxy,
        &[
            "proxy listening socket at",
            "Proxy rank ",
            "recvConnect ",
            "sendConnect ",
            "recvOpId=",
            "failed to decode NCCL_PROXY_CPUSET",
            "[RMA Proxy",
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
            "SHM ",
            "Created ",
            "SHM path string",
            "netName buffer Size",
            "memory stack ",
            "Persistent ",
            "Created shared memory",
            "Buffer 0x",
            "Set Access for buffer",
            "Legacy IPC",
            "register comm ",
            "Inserted window",
            "Intrusive map:",
            "SymCheck: ",
            "Peer ",
            "Number of segments exceeded",
            "Last reference to shared memory",
            "unlink shared memory",
            "Unlinking shared memory",
            "mkstemp: ",
            "Failed to multicast-bind",
            "Failed to get DMA-BUF handle",
            "Failed to register memory",
            "Skipping bind multicast",
            "nccl shm",
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
            "Kernel version",
            "+ LOC[",
            "+ NIC[",
            "+ GPU[",
            "Loaded NVML",
            "No NVML device",
            "nvmlDevice",
            "ncclNvml",
            "NCCL did not shutdown nvml",
            "CPUs with mixed",
            "Could not find PCI device",
            "Could not get device class",
            "Could not open XML",
            "Could not find a path",
            "Unable to open ",
            "Count not open ",
            "Assuming NVLink",
            "Device ",
            "GPU ",
            "XML Parse",
            "XML Graph",
            "Ignoring element",
            "Did not find child net device",
            "Found child net device",
            "Widening links",
            "Marking physical devices",
            "Disabling LL128 over",
            "LSA extended",
            "Detected a mix of single and multiple-port",
            "rocm_smi_lib",
            "Not using rocm_smi_lib",
            "Failed to read refresh_switch",
            "dlsym failed on",
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
            "P2P ",
            "Could not enable P2P",
            "peer query failed",
            "timings: rank",
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
            "NVLS ",
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
            "Best tuning, algorithm",
            "algo ",
            "algSelection: ",
            "config->algSelection",
            "ReduceScatter_Rail",
            "AllGather_Rail",
            "# [",
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
            "Could not open lib",
            "Found /",
            "NET : ",
            "NET_IB",
            "Net : ",
            "GDR is available",
            "GDRDMA not enabled",
            "DMA_BUF",
            "Current version of ROCm does not support dmabuf",
            "CONFIG_DMABUF",
            "CONFIG_PCI_P2PDMA",
            "Could not open kernel conf",
            "Could not open /proc/kallsyms",
            "Found ib_register_peer_memory_client",
            "RCCL_FORCE_ENABLE_GDRDMA",
            "Failed to initialize any ",
            "Unable to use GIN",
            "Capping the number of GIN",
            "Initialized a devComm",
            "ginForceEnable",
            "Unable to recognize NCCL_NETDEVS",
            "scheduleRmaTasks",
            "Connected companion QP",
            "Connected main QP",
            "Connected self-loop",
            "Registered MR",
            "Unregistering MR",
            "Segment ",
            "Initialized the",
            "Local Net",
            "socketFinalize",
            "socketProgress",
            "socketStartConnect",
            "socketTryAccept",
            "connect to ",
            "connect returned",
            "Call to ",
            "Unexpected error from ncclSocketReady",
            "WSAStartup",
            "[GIN ",
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
            "Inspector: ",
            "Inspector",
            "[Profiler",
            "Successfully loaded external",
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
        &[
            "RCCL: ",
            "Hipruntime version",
            "[RINGS]",
            "Clique",
            "clique",
            "Disabling clique",
            "Not performing bootstrap root for clique",
            "mscclGet",
            "mscclSetup",
            "KERNEL_TIMING",
            "Could not get kernel name",
            "Enabling custom signal handler",
            "Unable to register signal handler",
            "initialized internal alternative rsmi",
            "RCCL ",
            "MSCCL",
        ],
    ),
    (
        MessageFamily::Setting,
        &[
            "Invalid ",
            "No valid CTA policies",
            "Unknown CTA policy",
            "Disabling caching for environment variable",
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
            "Coll ",
            "No valid ring found",
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
            "CC ",
            "Rank ",
            "symmetricSupport ",
            "Skipping ",
            "Host enqueue",
            "Setting cudaLimitStackSize",
            "Disabling work fifo",
            "stream is being captured",
            "nranks ",
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
    // `[2] Created a QP`, `Rank 3: 2 Net devices`, `Rank 3 ncclRmaProxyPollDesc: ...`.
    let text = strip_speaker(text);
    let first = *text.first()?;
    let known = FAMILY_BEGINNINGS
        .iter()
        .find(|(_, beginnings)| {
            beginnings
                .iter()
                .any(|b| b.as_bytes()[0] == first && text.starts_with(b.as_bytes()))
        })
        .map(|(family, _)| *family);
    known.or_else(|| family_of_function(text))
}

/// Returns true for a text, perhaps cut, that is certainly of a line of which only the family is known,
/// and whose family has no line with values that are read.
pub(super) fn is_never_read(text: &[u8]) -> bool {
    let is_unread = |family| {
        matches!(
            family,
            MessageFamily::Proxy
                | MessageFamily::Memory
                | MessageFamily::Topology
                | MessageFamily::Ras
        )
    };
    // `ncclOsDlopen(libnccl-net.so) failed: ...` (2.30) has the same in a line of its own.
    text.starts_with(b"ncclOs") || find_family(text).is_some_and(is_unread)
}

/// Takes the rank that some lines begin with off a text.
fn strip_speaker(text: &[u8]) -> &[u8] {
    let number = |rest: &'_ [u8]| rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let after = |rest: &'_ [u8], end: &[u8]| -> Option<usize> {
        let digits = number(rest);
        (digits > 0 && rest[digits..].starts_with(end)).then(|| digits + end.len())
    };
    if let Some(rest) = text.strip_prefix(b"[") {
        return after(rest, b"] ").map_or(text, |at| &rest[at..]);
    }
    let Some(rest) = text.strip_prefix(b"Rank ") else {
        return text;
    };
    let at = after(rest, b" nccl").map(|at| at - b"nccl".len());
    at.map_or(text, |at| &rest[at..])
}

/// Lines that begin with a number or a source file.
fn find_special_family(text: &[u8]) -> Option<MessageFamily> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if digits > 0 {
        // ` 0 : GPU/0 GPU/1`, the graph that a search found.
        if text[digits..].starts_with(b" ring(s) set by") {
            return Some(MessageFamily::Graph);
        }
        let rest = text[digits..].strip_prefix(b" : ")?;
        let node = [&b"GPU/"[..], b"NET/", b"NIC/"];
        return node
            .iter()
            .any(|n| rest.starts_with(n))
            .then_some(MessageFamily::Graph);
    }
    if text.starts_with(b"comm 0x") {
        // `comm 0x55 rank 1 nranks 4`, up to 2.3, and ends that a later version may have.
        return Some(MessageFamily::Init);
    }
    if text.starts_with(b"NET/") && text.get(4).is_some_and(u8::is_ascii_digit) {
        // `NET/0-0 :GPU/0-26000 (3/0.1/PHB)`.
        return Some(MessageFamily::Topology);
    }
    // `init.cc:502 Cuda Host Alloc Size 65536 pointer 0x7f40`.
    let PlacedText { text, .. } = split_source_place(text)?;
    let window = &text[..text.len().min(MAX_ALLOCATION_WORDS_BYTES)];
    if window.starts_with(b"Cuda failure ") || window.starts_with(b"ROCr failure") {
        return Some(MessageFamily::Warn);
    }
    let words = [
        &b"lloc Size "[..],
        b"alloc size ",
        b"async size ",
        b"llocAsync Size ",
        b"memory stack ",
        b" Realloc ",
    ];
    let allocates = words
        .iter()
        .any(|word| memmem::find(window, word).is_some());
    allocates.then_some(MessageFamily::Memory)
}

/// The longest beginning of a text in which the words of an allocation are looked for.
const MAX_ALLOCATION_WORDS_BYTES: usize = 64;

/// NCCL's source files by what they are about; the first whose words are in a path counts.
const FAMILIES_OF_FILES: [(&[u8], MessageFamily); 26] = [
    (b"proxy", MessageFamily::Proxy),
    (b"bootstrap", MessageFamily::Bootstrap),
    (b"nvls", MessageFamily::Nvls),
    (b"mnnvl", MessageFamily::Mnnvl),
    (b"net_", MessageFamily::Net),
    (b"/net", MessageFamily::Net),
    (b"socket", MessageFamily::Net),
    (b"gin", MessageFamily::Net),
    (b"rma", MessageFamily::Net),
    (b"ibv", MessageFamily::Net),
    (b"coll_net", MessageFamily::Net),
    (b"p2p", MessageFamily::P2p),
    (b"shm", MessageFamily::Memory),
    (b"alloc", MessageFamily::Memory),
    (b"register", MessageFamily::Memory),
    (b"mem", MessageFamily::Memory),
    (b"dev_runtime", MessageFamily::Memory),
    (b"tuning", MessageFamily::Tuning),
    (b"tuner", MessageFamily::Tuning),
    (b"graph/", MessageFamily::Topology),
    (b"nvml", MessageFamily::Topology),
    (b"ras/", MessageFamily::Ras),
    (b"diagnostics", MessageFamily::Diagnostics),
    (b"plugin", MessageFamily::Plugin),
    (b"param", MessageFamily::Setting),
    (b"transport", MessageFamily::Channel),
];

/// The family of a line that names its source file in front of a text that is not known.
pub(super) fn family_of_file(file: &[u8]) -> Option<MessageFamily> {
    // Of an absolute path only what is in NCCL's own folders tells something.
    let from = memmem::rfind(file, b"src/").unwrap_or(0);
    let known = FAMILIES_OF_FILES
        .iter()
        .find(|(words, _)| memmem::find(&file[from..], words).is_some());
    Some(known.map_or(MessageFamily::Init, |(_, family)| *family))
}

/// Parts of NCCL by the names of their functions: `ncclRmaProxyPutLaunch enqueued Desc: ...`.
const FAMILIES_OF_FUNCTIONS: [(&[u8], MessageFamily); 12] = [
    (b"Topo", MessageFamily::Topology),
    (b"Nvml", MessageFamily::Topology),
    (b"Pci", MessageFamily::Topology),
    (b"Dlopen", MessageFamily::Plugin),
    (b"Dlsym", MessageFamily::Plugin),
    (b"Rma", MessageFamily::Net),
    (b"Gin", MessageFamily::Net),
    (b"Net", MessageFamily::Net),
    (b"Ib", MessageFamily::Net),
    (b"Socket", MessageFamily::Net),
    (b"Proxy", MessageFamily::Proxy),
    (b"Mem", MessageFamily::Memory),
];

/// The family of a text that begins with the name of one of NCCL's functions.
fn family_of_function(text: &[u8]) -> Option<MessageFamily> {
    let name = text.strip_prefix(b"nccl")?;
    let end = name
        .iter()
        .position(|b| !b.is_ascii_alphanumeric())
        .filter(|&end| end > 0)?;
    let (name, after) = (&name[..end], name[end]);
    let is_name = name[0].is_ascii_uppercase() && matches!(after, b':' | b'(' | b' ');
    let known = FAMILIES_OF_FUNCTIONS
        .iter()
        .find(|(part, _)| memmem::find(name, part).is_some());
    is_name.then(|| known.map_or(MessageFamily::Init, |(_, family)| *family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_values_are_not_among_the_unread() {
        for text in [
            "Check",
            "ncclCommInitRank comm 0x7e rank 1",
            "NET/IB : Using [0]mlx5_0:1/RoCE",
            "Channel 00/0 : 0[0] -> 1[1] via P2P",
            "Init timings - ncclCommInitRank: rank 1",
            "P2P is disabled between NVLINK connected GPUs",
            "NCCL_IB_HCA set",
            "AllReduce: opCo",
            "transport/p2p.cc:9 (f) Cuda failure 2",
            "",
        ] {
            assert!(!is_never_read(text.as_bytes()), "{text}");
        }
        for text in [
            "ncclOsDlopen(libnccl-net.so) failed: libnccl-net.so: cannot open",
            "transport/p2p.cc:9 (f) Cuda Host Alloc Size 6",
            "RAS handling peersUpdate from",
            "+ PCI[24.0] - GPU/1000",
        ] {
            assert!(is_never_read(text.as_bytes()), "{text}");
        }
    }

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
            (
                "transport/p2p.cc:9 (p2pMap) Cuda Host Alloc Size 6 pointer 0x7f",
                MessageFamily::Memory,
            ),
            ("+ LOC[24.0] - GPU/0-1", MessageFamily::Topology),
            ("Rank 3: 2 Net devices", MessageFamily::Init),
            (
                "Rank 3 ncclRmaProxyPollDesc: targetRank=1",
                MessageFamily::Net,
            ),
            ("[3] Created a QP: qp_idx=1, qpn=0x1", MessageFamily::Memory),
            (
                "ncclOsDlopen(libx.so) failed: no such file",
                MessageFamily::Plugin,
            ),
            ("ncclNewThing: state 3", MessageFamily::Init),
            (
                "Best tuning, algorithm, RING, protocol, LL",
                MessageFamily::Tuning,
            ),
            ("MNNVL busId 0x41000 fabric UUID 0.0", MessageFamily::Mnnvl),
            ("RAS thread started", MessageFamily::Ras),
            ("ReduceScatter |     0.0/   0.0 |", MessageFamily::Tuning),
        ] {
            assert_eq!(find_family(text.as_bytes()), Some(expected), "{text}");
        }
        for none in [
            "",
            "AllReduce: opCount 1",
            "7 : x",
            "hello",
            "nccl",
            "ncclx: y",
        ] {
            assert_eq!(find_family(none.as_bytes()), None, "{none}");
        }
    }
}
