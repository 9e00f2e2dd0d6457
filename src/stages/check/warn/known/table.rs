//! The table. Texts and codes are those of `src/` of NCCL 2.4 to 2.30 and of its plugins; what a
//! reference says was read in the thread or page named.

use super::Role::{self, Cause, Consequence, Harmless, Setback, Teardown};
use super::{Known, Severity, Sure};

const ERROR: Severity = Severity::Error;
const WARNING: Severity = Severity::Warning;
const NOTE: Severity = Severity::Note;
const HIGH: Sure = Sure::High;
const MEDIUM: Sure = Sure::Medium;
const LOW: Sure = Sure::Low;

/// A row, in the order in which it is read.
const fn row(
    id: &'static str,
    role: Role,
    (severity, sure): (Severity, Sure),
    means: &'static str,
    advice: &'static str,
    reference: &'static str,
) -> Known {
    Known {
        id,
        role,
        severity,
        sure,
        means,
        advice,
        reference,
    }
}

/// Texts, of which one must fit, and what is known of them. In a text `*` stands for any bytes.
type Texts = &'static [&'static str];

/// By the status of a card's request, `ibv_wc_status`.
pub(crate) const IB_STATUS: [(u32, Known); 7] = [
    (
        4,
        row(
            "warn_ib_local_protection",
            Cause,
            (ERROR, MEDIUM),
            "a card may not reach the memory it was given (status 4), as where ACS breaks \
             GPUDirect RDMA",
            "switch PCIe ACS off, or confirm with NCCL_NET_GDR_LEVEL=0, which is slower",
            "NVIDIA/nccl#928, NVIDIA/nccl#214",
        ),
    ),
    (
        5,
        row(
            "warn_ib_flushed",
            Consequence,
            (ERROR, HIGH),
            "requests of a card were thrown away as their connection had failed before (status 5)",
            "look for the first failure of that connection, here or at the peer",
            "NVIDIA/nccl#1814",
        ),
    ),
    (
        9,
        row(
            "warn_ib_remote_request",
            Cause,
            (ERROR, LOW),
            "the peer's card refused a request as malformed (status 9)",
            "compare the versions of NCCL, its plugins and the drivers on both hosts",
            "ibv_wc_status in src/include/ibvcore.h of NVIDIA/nccl",
        ),
    ),
    (
        10,
        row(
            "warn_ib_remote_access",
            Cause,
            (ERROR, LOW),
            "the peer's card may not reach the memory that a request names (status 10)",
            "look for a WARN of the peer; confirm with NCCL_NET_GDR_LEVEL=0, which is slower",
            "ibv_wc_status in src/include/ibvcore.h of NVIDIA/nccl",
        ),
    ),
    (
        11,
        row(
            "warn_ib_remote_operation",
            Cause,
            (ERROR, LOW),
            "the peer's card could not do what a request asks (status 11)",
            "look for a WARN of the peer; confirm with NCCL_NET_GDR_LEVEL=0, which is slower",
            "ibv_wc_status in src/include/ibvcore.h of NVIDIA/nccl",
        ),
    ),
    (
        12,
        row(
            "warn_ib_retry_exceeded",
            Cause,
            (ERROR, MEDIUM),
            "a card got no answer from the peer's card until its retries were used up (status \
             12, a timeout)",
            "right after the start: the cards cannot talk, test them with ib_write_bw and check \
             routing and, on RoCE, NCCL_IB_GID_INDEX; later: check link, cables and switch \
             counters, and whether the peer's process was gone; NCCL_IB_TIMEOUT helps only where \
             the network is slow",
            "NVIDIA/nccl#426, NVIDIA/nccl#902",
        ),
    ),
    (
        13,
        row(
            "warn_ib_rnr_retry_exceeded",
            Cause,
            (ERROR, LOW),
            "the peer's card had no place to receive until the retries were used up (status 13)",
            "look for a WARN of the peer, or a peer that hangs",
            "ibv_wc_status in src/include/ibvcore.h of NVIDIA/nccl",
        ),
    ),
];

/// A request of a card with another status.
pub(crate) const IB_OTHER: Known = row(
    "warn_ib_completion",
    Cause,
    (ERROR, MEDIUM),
    "a request of a card failed",
    "look the status up, and look for a WARN of the peer",
    "ibv_wc_status in src/include/ibvcore.h of NVIDIA/nccl",
);

/// By CUDA's words.
pub(crate) const CUDA: [(Texts, Known); 8] = [
    (
        &["out of memory"],
        row(
            "warn_cuda_oom",
            Cause,
            (ERROR, HIGH),
            "a GPU has no memory left for NCCL",
            "leave NCCL more of it: a smaller batch, a smaller share for the framework's \
             allocator, fewer communicators or channels; look for another process on the GPU",
            "NVIDIA/nccl#582",
        ),
    ),
    (
        &["driver shutting down"],
        row(
            "warn_cuda_exit",
            Teardown,
            (WARNING, MEDIUM),
            "CUDA was called while the process was ending",
            "destroy the communicators before the program ends",
            "cudaErrorCudartUnloading in \
             https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        ),
    ),
    (
        &[
            "illegal memory access",
            "unspecified launch failure",
            "device-side assert",
            "misaligned address",
            "illegal instruction",
        ],
        row(
            "warn_cuda_fault",
            Cause,
            (ERROR, MEDIUM),
            "a kernel that ran before had failed on the GPU; NCCL is only the next to call CUDA",
            "run with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer to find the kernel; look for \
             Xid lines in the kernel's log",
            "cudaErrorIllegalAddress in \
             https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        ),
    ),
    (
        &["peer access", "peer mapping"],
        row(
            "warn_cuda_peer",
            Cause,
            (ERROR, MEDIUM),
            "CUDA does not let two GPUs of a host reach each other",
            "look at nvidia-smi topo -p2p r, at ACS and the IOMMU (in virtual machines at the \
             hypervisor's); confirm with NCCL_P2P_DISABLE=1, which is slower",
            "cudaErrorPeerAccessUnsupported in \
             https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        ),
    ),
    (
        &["NVLink error", "uncorrectable ECC", "hardware stack error"],
        row(
            "warn_cuda_hardware",
            Cause,
            (ERROR, HIGH),
            "a GPU reports a failure of its hardware",
            "look for Xid lines in the kernel's log of that host, test the GPU (dcgmi diag), and \
             take the host out until it passes",
            "cudaErrorNvlinkUncorrectable, cudaErrorECCUncorrectable in \
             https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        ),
    ),
    (
        &["system not yet initialized"],
        row(
            "warn_cuda_fabric",
            Cause,
            (ERROR, HIGH),
            "the NVSwitches are not set up, so CUDA cannot use the GPUs (error 802)",
            "start the Fabric Manager on that host, of the driver's own version",
            "cudaErrorSystemNotReady in \
             https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        ),
    ),
    (
        &[
            "driver version is insufficient",
            "driver/library version mismatch",
            "unsupported display driver",
            "forward compatibility was attempted",
            "unsupported toolchain",
            "no kernel image is available",
        ],
        row(
            "warn_cuda_driver",
            Cause,
            (ERROR, HIGH),
            "the GPU's driver does not fit the CUDA that NCCL was built for",
            "compare the driver (nvidia-smi) with the +cuda part of NCCL's version; a driver that was \
             just updated needs its modules loaded anew",
            "https://docs.nvidia.com/deploy/cuda-compatibility/",
        ),
    ),
    (
        &[
            "invalid device ordinal",
            "no CUDA-capable device",
            "initialization error",
            "busy or unavailable",
        ],
        row(
            "warn_cuda_setup",
            Cause,
            (ERROR, HIGH),
            "CUDA cannot be initialised in a process, or cannot use its GPU",
            "run nvidia-smi and a CUDA sample there as the job does (in its container); check \
             CUDA_VISIBLE_DEVICES, the GPUs' compute mode, and that no process forks after its \
             first call of CUDA",
            "NVIDIA/nccl#1029, cudaErrorInitializationError in \
             https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        ),
    ),
];

/// Another error of CUDA's.
pub(crate) const CUDA_OTHER: Known = row(
    "warn_cuda_failure",
    Cause,
    (ERROR, MEDIUM),
    "a call of CUDA's failed",
    "look CUDA's error up; the source file in the line says what NCCL was about to do (nvls.cc: NVLS, \
     which NCCL_NVLS_ENABLE=0 turns off); look at the kernel's log of that host",
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
);

/// By other words; the first row that fits counts.
pub(crate) const BY_WORDS: &[(Texts, Known)] = &[
    (
        &[
            "[Service thread] Accept failed Cannot allocate memory",
            "[Service thread] Accept failed Too many open files",
        ],
        row(
            "warn_proxy_accept",
            Cause,
            (ERROR, MEDIUM),
            "a proxy thread could not accept a connection: the host has no memory or no file \
             descriptor left for it",
            "raise the limits of the job's processes, as the launcher starts them (ulimit -n, ulimit -l)",
            "src/proxy.cc of NVIDIA/nccl; the words behind it are those of errno",
        ),
    ),
    (
        &[
            "[Service thread] Could not receive type*res=3",
            "[Service thread] Accept failed",
            "Failed to execute operation Close",
            "Failed to execute operation Stop",
        ],
        row(
            "warn_proxy_shutdown",
            Teardown,
            (WARNING, MEDIUM),
            "proxy threads met their own process's abort while peers closed their connections",
            "end the process groups in order (destroy_process_group) to be rid of it",
            "NVIDIA/nccl#1668; src/proxy.cc and src/misc/socket.cc of NVIDIA/nccl give result 3 \
             there once the abort flag is set",
        ),
    ),
    (
        &[
            "commReclaim:",
            "commDestroySync:",
            "ncclProxyStop:",
            "proxyDestroy failed",
            "shm unlink failed",
            "shm close failed",
            "unlink shared memory",
            "munmap of shared memory",
            "is in abort state",
            "deregister IPC buffer",
            "gdr_unpin_buffer",
            "gdr_unmap",
            "gdr_close",
        ],
        row(
            "warn_comm_teardown",
            Teardown,
            (WARNING, MEDIUM),
            "a communicator was not taken down cleanly",
            "look for the first failure; without one, destroy communicators on all ranks",
            "src/init.cc and src/proxy.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["socket state (8", "socket state (9"],
        row(
            "warn_socket_closed",
            Teardown,
            (WARNING, MEDIUM),
            "a connection was used that its own process had closed or was closing",
            "destroy communicators on all ranks before the program ends",
            "enum ncclSocketState in src/include/socket.h of NVIDIA/nccl",
        ),
    ),
    (
        &[
            "Failed to execute operation",
            "Error encountered progressing operation",
        ],
        row(
            "warn_proxy_operation",
            Consequence,
            (ERROR, HIGH),
            "a proxy thread could not do what a rank of its host asked for",
            "look at the WARN in front of it in the same process, or at its peer's",
            "NVIDIA/nccl#795, NVIDIA/nccl-tests#185",
        ),
    ),
    (
        &[
            "Socket recv failed while polling for opId",
            "Proxy Call to rank*failed",
            "ncclProxyCallBlockingUDS call",
            "ncclProxyClient*failed",
            "[Service thread] Could not receive type",
        ],
        row(
            "warn_proxy_no_answer",
            Consequence,
            (ERROR, HIGH),
            "a proxy thread of the host did not answer: its process failed or is gone",
            "look for the first failure on that host",
            "NVIDIA/nccl-tests#166",
        ),
    ),
    (
        &["NVLink SHARP", "NVLS"],
        row(
            "warn_nvls_bind",
            Cause,
            (ERROR, HIGH),
            "the NVLink switches' multicast memory cannot be used",
            "check the Fabric Manager and the NVSwitches (IMEX between nodes); NCCL_NVLS_ENABLE=0 \
             goes without them",
            "NVIDIA/nccl#1672, NVIDIA/nccl#1488",
        ),
    ),
    (
        &[
            "SHARP",
            "SHArP",
            "Cannot initialize CollNet",
            "CollNet is not supported",
            "CollNet currently only supports",
            "CollNet does not support",
        ],
        row(
            "warn_sharp_unavailable",
            Harmless,
            (NOTE, HIGH),
            "the network's switches do not reduce (SHARP); NCCL goes on without them",
            "nothing, or NCCL_COLLNET_ENABLE=0 to be rid of it, if the cluster has no SHARP",
            "NVIDIA/nccl#1050",
        ),
    ),
    (
        &["MSCCL"],
        row(
            "warn_msccl",
            Harmless,
            (NOTE, HIGH),
            "RCCL's MSCCL++ is not used; RCCL's own algorithms are",
            "nothing",
            "ROCm/rccl#1231",
        ),
    ),
    (
        &["requires GDRCopy"],
        row(
            "warn_no_gdrcopy",
            Harmless,
            (NOTE, HIGH),
            "GDRCopy is not installed, so NCCL's one-sided operations do not go over sockets; \
             collectives, Send and Recv do not need it",
            "nothing, unless the program calls ncclPutSignal between hosts",
            "ncclRmaSocketProxyInit in src/transport/net_socket of NVIDIA/nccl, 2.31 and later",
        ),
    ),
    (
        &["Could not find any local path from gpu"],
        row(
            "warn_no_near_card",
            Harmless,
            (NOTE, MEDIUM),
            "NCCL knows of no network card near a GPU, as on hosts whose cards are virtual; buffers are \
             then not registered with one",
            "nothing on one host; else check that the container sees /sys, or set NCCL_TOPO_FILE",
            "ncclTopoGetLocalNets in src/graph/topo.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["Could not read node"],
        row(
            "warn_rccl_node",
            Harmless,
            (NOTE, MEDIUM),
            "RCCL cannot read a node of the machine's layout, as where a container sees only some GPUs",
            "nothing where the job runs; else give each container all GPUs of its host",
            "ROCm/rccl#1728",
        ),
    ),
    (
        &["cuMem support requires VMM RDMA support"],
        row(
            "warn_rccl_vmm",
            Harmless,
            (NOTE, HIGH),
            "the driver cannot give virtual memory to network cards; RCCL allocates another way",
            "nothing",
            "ROCm/ROCm#6074",
        ),
    ),
    (
        &["failed to IPC register userbuff"],
        row(
            "warn_not_registered",
            Harmless,
            (NOTE, HIGH),
            "a buffer could not be registered with the other GPUs of its host; NCCL copies instead",
            "nothing; NCCL prints it as INFO since 2.26",
            "NVIDIA/nccl#1684",
        ),
    ),
    (
        &[
            "Missing*from kernel command line",
            "Missing*from environment which can lead to",
            "NUMA auto balancing enabled",
        ],
        row(
            "warn_rccl_host",
            Setback,
            (WARNING, HIGH),
            "a host is not set up as RCCL wants it, which can make it slow or hang",
            "set what the line names on that host",
            "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/reference/install-faq.html, \
             ROCm/rccl#1129",
        ),
    ),
    (
        &[
            "collective mismatch",
            "Mismatched collective",
            "posted incorrect receive info",
        ],
        row(
            "warn_collective_mismatch",
            Cause,
            (ERROR, HIGH),
            "two ranks exchange other sizes: they do not make the same calls in the same order, \
             or run with other settings",
            "compare the ranks' calls (NCCL_DEBUG_SUBSYS=COLL) and their NCCL_ settings and \
             versions",
            "NVIDIA/nccl#296, NVIDIA/nccl#531",
        ),
    ),
    (
        &["essage truncated"],
        row(
            "warn_message_truncated",
            Cause,
            (ERROR, HIGH),
            "a rank got more than it expects: the ranks' calls, settings or versions differ",
            "compare the ranks' calls (NCCL_DEBUG_SUBSYS=COLL) and their NCCL_ settings and \
             versions",
            "NVIDIA/nccl#605, NVIDIA/nccl#1328",
        ),
    ),
    (
        &["Mismatched NCCL version", "NCCL version mismatch"],
        row(
            "warn_version_mismatch",
            Cause,
            (ERROR, HIGH),
            "ranks run other versions of NCCL",
            "use one image, and look for another libnccl.so on LD_LIBRARY_PATH",
            "src/init.cc of NVIDIA/nccl, 2.23 and later",
        ),
    ),
    (
        &["Duplicate GPU detected", "using the same GPU/Partition"],
        row(
            "warn_duplicate_gpu",
            Cause,
            (ERROR, HIGH),
            "two ranks of a communicator were given the same GPU",
            "give each rank its own: torch.cuda.set_device(LOCAL_RANK), CUDA_VISIBLE_DEVICES",
            "NVIDIA/nccl#1241",
        ),
    ),
    (
        &[
            "has already checked in",
            "mismatch in rank count",
            "mismatch in info from procs",
            "exceeds ndev",
            "improper usage of ncclCommInitRank",
        ],
        row(
            "warn_bootstrap_ranks",
            Cause,
            (ERROR, HIGH),
            "processes that make one communicator disagree on the number of its ranks, or two take \
             the same rank",
            "check RANK and WORLD_SIZE of all processes, and that no process of another job uses the \
             same address and port",
            "src/bootstrap.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["port error"],
        row(
            "warn_ib_port_error",
            Cause,
            (WARNING, HIGH),
            "the link of a card's port went down",
            "check the cable, the transceiver and the port's error counters on that host",
            "NVIDIA/nccl#905",
        ),
    ),
    (
        &["async fatal event", "async error event"],
        row(
            "warn_ib_fatal_event",
            Cause,
            (ERROR, MEDIUM),
            "a card reports a failure of its own",
            "look at the kernel's log and the card's counters on that host",
            "src/transport/net_ib of NVIDIA/nccl",
        ),
    ),
    (
        &["GID table change"],
        row(
            "warn_ib_gid_changed",
            Cause,
            (WARNING, MEDIUM),
            "addresses of a card's port changed under the job",
            "look for what changes the interface's addresses while the job runs",
            "NVIDIA/nccl#1819",
        ),
    ),
    (
        &["marked as failed. Initiating recovery"],
        row(
            "warn_ib_failover",
            Cause,
            (WARNING, MEDIUM),
            "a card failed; NCCL moves its traffic to the host's other cards where it may",
            "look at the card's link and the kernel's log on that host",
            "src/transport/net_ib/p2p_resiliency.cc of NVIDIA/nccl, 2.30 and later",
        ),
    ),
    (
        &["The error is fatal", "Fatal error. Detected"],
        row(
            "warn_ib_no_failover",
            Cause,
            (ERROR, HIGH),
            "cards failed, and NCCL has no other card to go on with",
            "look for the first failure of the card, and at the kernel's log of that host",
            "src/transport/net_ib/p2p_resiliency.cc of NVIDIA/nccl, 2.30 and later",
        ),
    ),
    (
        &["async event", "unknown event type"],
        row(
            "warn_ib_event",
            Setback,
            (WARNING, LOW),
            "a card reports an event",
            "look at the kernel's log and the port's counters on that host",
            "src/transport/net_ib of NVIDIA/nccl",
        ),
    ),
    (
        &[
            "incompatible device",
            "device is incompatible",
            "different link_layer",
        ],
        row(
            "warn_ib_mixed_links",
            Cause,
            (ERROR, HIGH),
            "NCCL would connect an InfiniBand port with a RoCE port",
            "choose the ports of one kind with NCCL_IB_HCA",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-hca",
        ),
    ),
    (
        &[
            "ibv_open_device",
            "Unable to open device",
            "Unable to query device",
        ],
        row(
            "warn_ib_open_device",
            Harmless,
            (NOTE, MEDIUM),
            "a card cannot be opened, as where a container is given only some; NCCL does without it",
            "give the job (its container) the card's device files, or leave the card out with \
             NCCL_IB_HCA",
            "src/transport/net_ib and src/misc/ibvwrap.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["libibverbs", "Failed to open libibverbs"],
        row(
            "warn_no_libibverbs",
            Harmless,
            (NOTE, HIGH),
            "there is no libibverbs.so, so NCCL has no InfiniBand or RoCE",
            "install it where the job should use such cards",
            "src/misc/ibvsymbols.cc and src/misc/ibvwrap.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["ibv_reg_mr*Bad address", "ibv_reg_dmabuf_mr"],
        row(
            "warn_ib_gpu_memory",
            Cause,
            (ERROR, MEDIUM),
            "a card could not register a GPU's memory",
            "check that nvidia-peermem is loaded or DMA-BUF is available; confirm with \
             NCCL_NET_GDR_LEVEL=0, which is slower",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    (
        &["ibv_modify_qp*Invalid argument"],
        row(
            "warn_ib_gid",
            Cause,
            (ERROR, MEDIUM),
            "two cards could not be connected, as where the wrong address of a RoCE card is used",
            "use NCCL 2.21 or later, which chooses the address itself, or set NCCL_IB_GID_INDEX to the \
             RoCE v2 one (show_gids)",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    (
        &["ibv_*Cannot allocate memory"],
        row(
            "warn_locked_memory",
            Cause,
            (ERROR, MEDIUM),
            "a card cannot lock memory for its requests",
            "raise the limit of locked memory (ulimit -l) for the job's processes, as the \
             launcher starts them",
            "NVIDIA/nccl-tests#206",
        ),
    ),
    (
        &["ibv_modify_qp*timed out", "ibv_modify_qp*unreachable"],
        row(
            "warn_ib_connect",
            Cause,
            (ERROR, HIGH),
            "two cards cannot reach each other",
            "test the pair with ib_write_bw; where only cards of one rail are connected, set \
             NCCL_CROSS_NIC=0; on RoCE check NCCL_IB_GID_INDEX and routing",
            "NVIDIA/nccl#2013",
        ),
    ),
    (
        &["ibv_"],
        row(
            "warn_ib_verbs",
            Cause,
            (ERROR, LOW),
            "a call of the verbs library failed",
            "where it is ibv_create_qp or ibv_reg_mr raise the limit of locked memory (ulimit -l); else \
             look at the kernel's log on that host, and test the card with ib_write_bw",
            "src/misc/ibvwrap.cc of NVIDIA/nccl, \
             https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    (
        &["NET/OFI Couldn't open AV"],
        row(
            "warn_ofi_address_vector",
            Cause,
            (ERROR, MEDIUM),
            "aws-ofi-nccl cannot open libfabric's table of addresses",
            "compare the versions of libfabric, its provider and aws-ofi-nccl",
            "aws/aws-ofi-nccl#24",
        ),
    ),
    (
        &[
            "NET/OFI Creating new endpoint",
            "NET/OFI Couldn't open a fabric access domain",
        ],
        row(
            "warn_ofi_endpoint",
            Cause,
            (ERROR, MEDIUM),
            "aws-ofi-nccl cannot open a card",
            "run with FI_LOG_LEVEL=warn; check the versions of libfabric and the card's driver",
            "aws/aws-ofi-nccl#889, aws/aws-ofi-nccl#801",
        ),
    ),
    (
        &[
            "NET/OFI Request completed with error",
            "NET/OFI Request*completed with error",
        ],
        row(
            "warn_ofi_request",
            Cause,
            (ERROR, MEDIUM),
            "a request of libfabric failed",
            "run with FI_LOG_LEVEL=warn; look for a failure of the peer",
            "aws/aws-ofi-nccl#161",
        ),
    ),
    (
        &[
            "NET/OFI Could not find ncclGetVersion",
            "NET/OFI Failed to initialize GDRCopy",
            "NET/OFI Error opening file",
            "NET/OFI pciPath",
        ],
        row(
            "warn_ofi_optional",
            Harmless,
            (NOTE, MEDIUM),
            "aws-ofi-nccl goes on without something that it would use",
            "nothing, or install what the line names",
            "https://github.com/aws/aws-ofi-nccl",
        ),
    ),
    (
        &[
            "aws-ofi-nccl initialization failed",
            "NET/OFI Only EFA provider is supported",
            "NET/OFI Failed to initialize sendrecv protocol",
            "NET/OFI Failed to initialize rdma protocol",
        ],
        row(
            "warn_ofi_unused",
            Setback,
            (WARNING, HIGH),
            "aws-ofi-nccl cannot be used on a host; NCCL takes another network, which is slower where \
             there is EFA",
            "check fi_info -p efa there, in the container too; compare the versions of libfabric and \
             aws-ofi-nccl",
            "https://github.com/aws/aws-ofi-nccl",
        ),
    ),
    (
        &[
            "NET/OFI Unable to register memory",
            "NET/OFI Could not register memory",
        ],
        row(
            "warn_ofi_memory",
            Cause,
            (ERROR, MEDIUM),
            "libfabric could not register memory with a card, so it cannot send from or receive \
             into it",
            "compare the versions of libfabric, its provider and the card's driver on the host and in \
             the container; raise the limit of locked memory; confirm with NCCL_NET_GDR_LEVEL=0, \
             which is slower",
            "register_mr_buffers in https://github.com/aws/aws-ofi-nccl",
        ),
    ),
    (
        &["NET/OFI"],
        row(
            "warn_ofi",
            Cause,
            (WARNING, LOW),
            "aws-ofi-nccl warns",
            "run with FI_LOG_LEVEL=warn",
            "https://github.com/aws/aws-ofi-nccl",
        ),
    ),
    (
        &["UCX error"],
        row(
            "warn_ucx",
            Cause,
            (ERROR, LOW),
            "a request of the UCX plugin failed",
            "look at UCX's own lines in front of it (UCX_LOG_LEVEL=info), and at the card's state",
            "ucx_plugin.c of https://github.com/Mellanox/nccl-rdma-sharp-plugins",
        ),
    ),
    (
        &[
            "No space left on device",
            "failed to extend",
            "posix_fallocate",
        ],
        row(
            "warn_no_space_shm",
            Cause,
            (ERROR, HIGH),
            "/dev/shm has no room for NCCL's shared memory",
            "give the container more (docker --shm-size, an emptyDir in memory on Kubernetes), \
             and remove stale /dev/shm/nccl-* files",
            "NVIDIA/nccl#290, \
             https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    (
        &["shared memory segment", "shared memory file"],
        row(
            "warn_shm_segment",
            Consequence,
            (ERROR, MEDIUM),
            "a shared memory file of NCCL's could not be made or opened",
            "check the room in /dev/shm, and that ranks of one host see the same /dev/shm",
            "NVIDIA/nccl#1518, NVIDIA/nccl#290",
        ),
    ),
    (
        &["UDS:"],
        row(
            "warn_uds",
            Cause,
            (ERROR, MEDIUM),
            "a socket between two processes of a host failed",
            "check that ranks of one host share its network namespace (one container, or \
             hostNetwork), and look for a failure of the other process",
            "src/misc/ipcsocket.cc of NVIDIA/nccl",
        ),
    ),
    (
        &[
            "closed by remote peer",
            "Connection reset by peer",
            "Broken pipe",
        ],
        row(
            "warn_peer_closed",
            Consequence,
            (ERROR, HIGH),
            "the other end of a connection is gone: its process ended or crashed",
            "look for the first failure of that process, also outside NCCL (a crash, the \
             out-of-memory killer)",
            "NVIDIA/nccl#1486, NVIDIA/nccl#795",
        ),
    ),
    (
        &["wrong magic", "wrong type"],
        row(
            "warn_socket_stranger",
            Cause,
            (WARNING, MEDIUM),
            "something that is not of this communicator connected to a port of NCCL's",
            "keep port scanners and other jobs from these ports; newer versions ignore it",
            "NVIDIA/nccl#1808, NVIDIA/nccl#1612",
        ),
    ),
    (
        &[
            "Failed to initialize any NET plugin",
            "Error: network*not found",
        ],
        row(
            "warn_no_network",
            Cause,
            (ERROR, HIGH),
            "NCCL finds no network that it may use",
            "check NCCL_NET and NCCL_NET_PLUGIN: the network they name has no device here, or its \
             library cannot be loaded",
            "ncclNetInit in src/plugin/net.cc of NVIDIA/nccl",
        ),
    ),
    (
        &[
            "Invalid NCCL_COMM_ID",
            "getting address info",
            "pair found",
            "Unsupported address family",
            "unsupported IP family",
        ],
        row(
            "warn_address",
            Cause,
            (ERROR, HIGH),
            "an address that NCCL was given cannot be read or resolved",
            "check NCCL_COMM_ID and the name service of that host",
            "src/misc/socket.cc and src/bootstrap.cc of NVIDIA/nccl",
        ),
    ),
    (
        &[
            "no socket interface found",
            "No IP interface found",
            "NET/Socket : no interface found",
            "No usable listening interface",
            "verify NCCL_OOB_NET_IFNAME",
            "neither AF_INET",
            "No interface found in the same subnet",
        ],
        row(
            "warn_no_interface",
            Cause,
            (ERROR, HIGH),
            "NCCL finds no network interface that it may use",
            "check that NCCL_SOCKET_IFNAME names interfaces of this host, and that they are up",
            "NVIDIA/nccl#1837",
        ),
    ),
    (
        &["Connection refused"],
        row(
            "warn_socket_refused",
            Cause,
            (ERROR, MEDIUM),
            "nobody listens at the peer's port: its process is gone, or the address is not its own",
            "look for a failure of the peer; check NCCL_SOCKET_IFNAME (bridges of containers) \
             and firewalls",
            "NVIDIA/nccl#913, \
             https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    (
        &["No route to host", "Network is unreachable"],
        row(
            "warn_socket_no_route",
            Cause,
            (ERROR, MEDIUM),
            "the peer's address cannot be reached",
            "check NCCL_SOCKET_IFNAME, routing, firewalls, and whether the link was up",
            "NVIDIA/nccl#1311, \
             https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    (
        &[
            "exceeded timeouts",
            "exceeded retries",
            "retry count",
            "timed out",
            "Timeout waiting for connection",
        ],
        row(
            "warn_socket_timeout",
            Cause,
            (ERROR, MEDIUM),
            "the peer's address did not answer",
            "check NCCL_SOCKET_IFNAME, firewalls, and whether the peer's process was there",
            "NVIDIA/nccl-tests#15, \
             https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    (
        &[
            "socketStartConnect",
            "socketPollConnect",
            "socketProgressOpt",
            "socketTryAccept",
            "socketFinalize",
            "Connect to*failed",
            "Call to connect",
            "Call to accept",
            "Call to bind",
            "Call to listen",
            "Call to recv",
            "Call to send",
            "NET/Socket : socket progress error",
            "Socket creation failed",
            "ncclSocket*is not ready",
        ],
        row(
            "warn_socket",
            Cause,
            (ERROR, LOW),
            "a socket failed",
            "look for a failure of the peer; check NCCL_SOCKET_IFNAME and firewalls",
            "NVIDIA/nccl-tests#162, \
             https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    (
        &["MNNVL*not working", "MNNVL is not supported"],
        row(
            "warn_mnnvl",
            Cause,
            (ERROR, HIGH),
            "NVLink between nodes is there, but does not work",
            "check the IMEX service and its channels; NCCL_MNNVL_ENABLE=0 goes without it",
            "src/mnnvl.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["lgorithm/protocol available"],
        row(
            "warn_no_algorithm",
            Cause,
            (ERROR, HIGH),
            "NCCL_ALGO and NCCL_PROTO leave no algorithm for a call",
            "take them away, or allow Ring and Simple",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-algo",
        ),
    ),
    (
        &["P2P is disabled between NVLINK"],
        row(
            "warn_p2p_disabled",
            Setback,
            (WARNING, HIGH),
            "GPUs with NVLink between them must not reach each other",
            "look at nvidia-smi topo -p2p r and nvidia-smi nvlink -s, and at the kernel's log of that \
             host",
            "ncclTopoCheckP2p in src/graph/paths.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["No transport found"],
        row(
            "warn_no_transport",
            Cause,
            (ERROR, HIGH),
            "two ranks have no way to reach each other",
            "check NCCL_P2P_DISABLE, NCCL_SHM_DISABLE and NCCL_NET, and that the hosts see each \
             other's network",
            "src/transport.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["device counts across ranks"],
        row(
            "warn_net_mismatch",
            Setback,
            (WARNING, HIGH),
            "hosts have other numbers of network cards",
            "find the host whose cards are missing",
            "NCCL_IGNORE_NET_MISMATCH in \
             https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        ),
    ),
    (
        &["Could not find real path of"],
        row(
            "warn_nic_place",
            Setback,
            (WARNING, LOW),
            "NCCL does not find where a network card is on the machine's buses, and cannot choose the \
             card next to a GPU; usual for virtual cards",
            "check that the container sees /sys; for virtual cards set NCCL_TOPO_FILE to the machine's \
             layout",
            "ncclIbGetPciPath in src/transport/net_ib of NVIDIA/nccl",
        ),
    ),
    (
        &[
            "XML",
            "Attribute*of node*not found",
            "Add PCI Link error",
            "Add NVLink error",
            "Add C2c error",
        ],
        row(
            "warn_topology_xml",
            Setback,
            (WARNING, MEDIUM),
            "NCCL cannot read the machine's layout",
            "check NCCL_TOPO_FILE and NCCL_GRAPH_FILE, and that the container sees /sys",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-topo-file",
        ),
    ),
    (
        &["falling back to simple order"],
        row(
            "warn_topology_search",
            Setback,
            (WARNING, HIGH),
            "NCCL found no good ring or tree through the GPUs and takes them in simple order: \
             slow",
            "check NCCL_TOPO_FILE, NCCL_P2P_LEVEL and NCCL_NET_GDR_LEVEL, and that the container \
             sees /sys; compare nvidia-smi topo -m with other hosts",
            "NVIDIA/nccl#487",
        ),
    ),
    (
        &[
            "ncclTopo*could not find",
            "ould not find gpu rank",
            "ould not find local GPU",
            "ould not find intermediate GPU",
            "ould not find node of type",
            "ould not find rev link",
            "ould not find id",
            "ould not find net id",
            "ould not find NET",
            "ould not find CPU",
            "Failed to find reverse path",
            "No path computed",
            "unable to find GPU/CPU",
            "tried to create too many nodes",
            "too many Topo links",
            "does not loop back to start",
            "does not contain rank",
            "tree already has",
            "Failed to determine*ranks",
        ],
        row(
            "warn_topology",
            Cause,
            (WARNING, LOW),
            "NCCL's picture of the machines contradicts itself",
            "check NCCL_TOPO_FILE and NCCL_HOSTID, that the container sees /sys, and that ranks of one \
             host agree on CUDA_VISIBLE_DEVICES; else it is a fault of NCCL's: try another version",
            "src/graph and src/init.cc of NVIDIA/nccl",
        ),
    ),
    (
        &[
            "Minimum requirement is",
            "Failed to find CUDA library",
            "Failed to load CUDA missing symbol",
            "PFN functions not found",
        ],
        row(
            "warn_cuda_library",
            Cause,
            (ERROR, MEDIUM),
            "the GPU's driver, or its library libcuda.so, is missing or too old for NCCL",
            "compare the driver (nvidia-smi) with the +cuda part of NCCL's version; look for another \
             libcuda.so on LD_LIBRARY_PATH",
            "src/misc/cudawrap.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["nvml*failed", "NVML failure", "libnvidia-ml.so"],
        row(
            "warn_nvml",
            Cause,
            (WARNING, MEDIUM),
            "the driver's library NVML does not answer for a GPU",
            "run nvidia-smi there as the job does (in its container); NVML's words say more: Not \
             Found where a container sees only some GPUs, a version mismatch after an update of the \
             driver",
            "NVIDIA/nccl#1066, src/misc/nvmlwrap.cc of NVIDIA/nccl",
        ),
    ),
    (
        &[
            "CUDA IPC handle",
            "cudaIpcGetMemHandle",
            "failed to peer with device",
        ],
        row(
            "warn_ipc",
            Cause,
            (ERROR, MEDIUM),
            "a GPU's memory cannot be shared with another GPU or process of its host",
            "run the ranks of a host in one container, or share its IPC and PID namespaces; confirm \
             with NCCL_P2P_DISABLE=1, which is slower",
            "src/transport/p2p.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["Failed to CUDA"],
        row(
            "warn_cuda_alloc",
            Consequence,
            (ERROR, HIGH),
            "NCCL got no memory from CUDA",
            "look at CUDA's error in front of it",
            "src/include/alloc.h of NVIDIA/nccl",
        ),
    ),
    (
        &[
            "Failed to malloc",
            "Allocation failed",
            "Failed to calloc",
            "malloc(size=",
        ],
        row(
            "warn_host_memory",
            Cause,
            (ERROR, MEDIUM),
            "the host has no memory left",
            "look at the host's memory and the limits of the job",
            "src/include/alloc.h of NVIDIA/nccl",
        ),
    ),
    (
        &[
            "is being ignored",
            "imiting value to",
            "imiting to",
            "imiting it to",
            "set it to",
            "set both to",
            "setting it to",
            "setting to",
            "cap it to",
            "defaulting to",
            "maximum allowed, setting",
            "Invalid NCCL_*(m",
            "ignoring NCCL_",
            "NCCL_OOB_NET_IFNAME*ignoring",
            "invalid for family*ignoring",
            "is too small. Minimum",
        ],
        row(
            "warn_setting_adjusted",
            Setback,
            (WARNING, HIGH),
            "NCCL does not take a setting as it was given",
            "set a value that NCCL takes, or unset it",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        ),
    ),
    (
        &[
            "not a valid pointer",
            "argument is NULL",
            "invalid root",
            "invalid type",
            "invalid reduction operation",
            "unknown to this communicator",
            "Invalid rank requested",
            "Invalid device",
            "before the previous operation returned",
            "has already been destroyed",
            "corrupted comm object",
            "mismatchs with NCCL device",
            "Invalid config",
            "Invalid argument",
            "not initialized via NCCL_",
            "not in a group call",
            "to self without a matching",
            "does not match type given to reduction",
            "ncclRedOpDestroy",
            "invalid device count",
            "allowed in the same group",
            "captured by the same graph",
            "can be CUDA graph captured",
        ],
        row(
            "warn_argument",
            Cause,
            (ERROR, HIGH),
            "the program calls NCCL with arguments that are wrong",
            "look at the call that the line names in the program",
            "ncclInvalidArgument in \
             https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    (
        &[
            "communicator encountered a fatal error",
            "ncclAsyncJobComplete",
        ],
        row(
            "warn_comm_failed",
            Consequence,
            (ERROR, HIGH),
            "a communicator had failed before",
            "look for the first failure in front of it, here or on the other ranks",
            "src/transport/net_ib/common.cc, src/group.cc and src/init.cc of NVIDIA/nccl",
        ),
    ),
];
