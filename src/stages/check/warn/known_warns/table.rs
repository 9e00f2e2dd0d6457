//! The table. Texts and codes are those of `src/` of NCCL 2.4 to 2.30 and of its plugins; what a
//! reference says was read in the thread or page named.

use super::WarnRole::{self, Cause, Consequence, Harmless, Setback, Teardown};
use super::{Confidence, Severity, WarnMeaning};

const ERROR: Severity = Severity::Error;
const WARNING: Severity = Severity::Warning;
const NOTE: Severity = Severity::Note;
const HIGH: Confidence = Confidence::High;
const MEDIUM: Confidence = Confidence::Medium;
const LOW: Confidence = Confidence::Low;

/// A row, in the order in which it is read.
const fn warn_meaning(
    id: &'static str,
    role: WarnRole,
    (severity, sure): (Severity, Confidence),
    means: &'static str,
    advice: &'static str,
    reference: &'static str,
) -> WarnMeaning {
    WarnMeaning {
        id,
        role,
        severity,
        sure,
        means,
        advice,
        reference,
    }
}

/// Texts, of which one must fit, and what is known of them. In a text `*` matches any bytes.
type WarnPatterns = &'static [&'static str];

/// By the status of a NIC's request, `ibv_wc_status`.
pub(crate) const IB_STATUS: [(u32, WarnMeaning); 7] = [
    (
        4,
        warn_meaning(
            "warn_ib_local_protection",
            Cause,
            (ERROR, MEDIUM),
            "a NIC was denied access to the buffer (status 4), for example because ACS breaks \
             GPUDirect RDMA",
            "disable PCIe ACS, or confirm with NCCL_NET_GDR_LEVEL=0, which is slower",
            "NVIDIA/nccl#928, NVIDIA/nccl#214",
        ),
    ),
    (
        5,
        warn_meaning(
            "warn_ib_flushed",
            Consequence,
            (ERROR, HIGH),
            "requests of a NIC were discarded because their connection had failed before (status \
             5)",
            "look for the first failure of that connection, here or at the peer",
            "NVIDIA/nccl#1814",
        ),
    ),
    (
        9,
        warn_meaning(
            "warn_ib_remote_request",
            Cause,
            (ERROR, LOW),
            "the peer's NIC refused a request as malformed (status 9)",
            "compare the versions of NCCL, its plugins and the drivers on both hosts",
            "ibv_wc_status in src/include/ibvcore.h of NVIDIA/nccl",
        ),
    ),
    (
        10,
        warn_meaning(
            "warn_ib_remote_access",
            Cause,
            (ERROR, LOW),
            "the peer's NIC was denied access to the memory of a request (status 10)",
            "look for a WARN of the peer; confirm with NCCL_NET_GDR_LEVEL=0, which is slower",
            "ibv_wc_status in src/include/ibvcore.h of NVIDIA/nccl",
        ),
    ),
    (
        11,
        warn_meaning(
            "warn_ib_remote_operation",
            Cause,
            (ERROR, LOW),
            "the peer's NIC could not execute a request (status 11)",
            "look for a WARN of the peer; confirm with NCCL_NET_GDR_LEVEL=0, which is slower",
            "ibv_wc_status in src/include/ibvcore.h of NVIDIA/nccl",
        ),
    ),
    (
        12,
        warn_meaning(
            "warn_ib_retry_exceeded",
            Cause,
            (ERROR, MEDIUM),
            "a NIC got no answer from the peer's NIC until its retries were used up (status 12, a \
             timeout)",
            "if it comes right after the start, the NICs cannot communicate: test them with \
             ib_write_bw and check routing and, on RoCE, NCCL_IB_GID_INDEX; if it comes later, \
             check link, cables and switch counters, and whether the peer's process ended; \
             NCCL_IB_TIMEOUT helps only where the network is slow",
            "NVIDIA/nccl#426, NVIDIA/nccl#902",
        ),
    ),
    (
        13,
        warn_meaning(
            "warn_ib_rnr_retry_exceeded",
            Cause,
            (ERROR, LOW),
            "the peer's NIC had no receive buffer until the retries were used up (status 13)",
            "look for a WARN of the peer, or a peer that hangs",
            "ibv_wc_status in src/include/ibvcore.h of NVIDIA/nccl",
        ),
    ),
];

/// A request of a NIC with another status.
pub(crate) const IB_OTHER_STATUS: WarnMeaning = warn_meaning(
    "warn_ib_completion",
    Cause,
    (ERROR, MEDIUM),
    "a request of a NIC failed",
    "look up the status, and look for a WARN of the peer",
    "ibv_wc_status in src/include/ibvcore.h of NVIDIA/nccl",
);

/// By CUDA's words.
pub(crate) const CUDA_ERRORS: [(WarnPatterns, WarnMeaning); 8] = [
    (
        &["out of memory"],
        warn_meaning(
            "warn_cuda_oom",
            Cause,
            (ERROR, HIGH),
            "a GPU has no memory left for NCCL",
            "leave more memory for NCCL: use a smaller batch, a smaller share for the framework's \
             allocator, fewer communicators or channels; look for another process on the GPU",
            "NVIDIA/nccl#582",
        ),
    ),
    (
        &["driver shutting down"],
        warn_meaning(
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
        warn_meaning(
            "warn_cuda_fault",
            Cause,
            (ERROR, MEDIUM),
            "a kernel that ran before had failed on the GPU; NCCL is only the next to call CUDA",
            "run with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer to find the kernel; look for Xid \
             lines in the kernel log",
            "cudaErrorIllegalAddress in \
             https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        ),
    ),
    (
        &["peer access", "peer mapping"],
        warn_meaning(
            "warn_cuda_peer",
            Cause,
            (ERROR, MEDIUM),
            "CUDA denies peer access between two GPUs of a host",
            "look at nvidia-smi topo -p2p r, at ACS and the IOMMU (in virtual machines at the \
             hypervisor's); confirm with NCCL_P2P_DISABLE=1, which is slower",
            "cudaErrorPeerAccessUnsupported in \
             https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        ),
    ),
    (
        &["NVLink error", "uncorrectable ECC", "hardware stack error"],
        warn_meaning(
            "warn_cuda_hardware",
            Cause,
            (ERROR, HIGH),
            "a GPU reports a failure of its hardware",
            "look for Xid lines in the kernel log of that host, test the GPU (dcgmi diag), and \
             take the host out until it passes",
            "cudaErrorNvlinkUncorrectable, cudaErrorECCUncorrectable in \
             https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        ),
    ),
    (
        &["system not yet initialized"],
        warn_meaning(
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
        warn_meaning(
            "warn_cuda_driver",
            Cause,
            (ERROR, HIGH),
            "the GPU's driver does not match the CUDA version that NCCL was built for",
            "compare the driver (nvidia-smi) with the +cuda part of NCCL's version; after an \
             update of the driver its modules must be loaded again",
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
        warn_meaning(
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
pub(crate) const CUDA_OTHER_ERROR: WarnMeaning = warn_meaning(
    "warn_cuda_failure",
    Cause,
    (ERROR, MEDIUM),
    "a CUDA call failed",
    "look up CUDA's error; the source file in the line shows the action that failed (nvls.cc: \
     NVLS, which NCCL_NVLS_ENABLE=0 disables); look at the kernel log of that host",
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
);

/// By other words; the first row that fits counts.
pub(crate) const WARNS_BY_TEXT: &[(WarnPatterns, WarnMeaning)] = &[
    (
        &[
            "[Service thread] Accept failed Cannot allocate memory",
            "[Service thread] Accept failed Too many open files",
        ],
        warn_meaning(
            "warn_proxy_accept",
            Cause,
            (ERROR, MEDIUM),
            "a proxy thread could not accept a connection: the host is out of memory or file \
             descriptors",
            "raise the limits of the job's processes, as the launcher starts them (ulimit -n, ulimit -l)",
            "src/proxy.cc of NVIDIA/nccl; the text after it is that of errno",
        ),
    ),
    (
        &[
            "[Service thread] Could not receive type*res=3",
            "[Service thread] Accept failed",
            "Failed to execute operation Close",
            "Failed to execute operation Stop",
        ],
        warn_meaning(
            "warn_proxy_shutdown",
            Teardown,
            (WARNING, MEDIUM),
            "proxy threads saw the abort of their own process while peers closed their connections",
            "end the process groups in order (destroy_process_group) to avoid it",
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
        warn_meaning(
            "warn_comm_teardown",
            Teardown,
            (WARNING, MEDIUM),
            "a communicator was not destroyed cleanly",
            "look for the first failure; if there is none, destroy communicators on all ranks",
            "src/init.cc and src/proxy.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["socket state (8", "socket state (9"],
        warn_meaning(
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
        warn_meaning(
            "warn_proxy_operation",
            Consequence,
            (ERROR, HIGH),
            "a proxy thread could not execute a request of a rank of its host",
            "look at the WARN before it in the same process, or in its peer",
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
        warn_meaning(
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
        warn_meaning(
            "warn_nvls_bind",
            Cause,
            (ERROR, HIGH),
            "the NVLink switches' multicast memory cannot be used",
            "check the Fabric Manager and the NVSwitches (IMEX between nodes); NCCL_NVLS_ENABLE=0 \
             disables their use",
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
        warn_meaning(
            "warn_sharp_unavailable",
            Harmless,
            (NOTE, HIGH),
            "reduction in the network's switches (SHARP) is not available; NCCL continues without \
             it",
            "no action is needed; if the cluster has no SHARP, NCCL_COLLNET_ENABLE=0 avoids the \
             line",
            "NVIDIA/nccl#1050",
        ),
    ),
    (
        &["MSCCL"],
        warn_meaning(
            "warn_msccl",
            Harmless,
            (NOTE, HIGH),
            "RCCL uses its own algorithms instead of MSCCL++",
            "nothing",
            "ROCm/rccl#1231",
        ),
    ),
    (
        &["requires GDRCopy"],
        warn_meaning(
            "warn_no_gdrcopy",
            Harmless,
            (NOTE, HIGH),
            "GDRCopy is not installed, so NCCL's one-sided operations cannot use sockets; \
             collectives, Send and Recv do not need it",
            "no action is needed unless the program calls ncclPutSignal between hosts",
            "ncclRmaSocketProxyInit in src/transport/net_socket of NVIDIA/nccl, 2.31 and later",
        ),
    ),
    (
        &["Could not find any local path from gpu"],
        warn_meaning(
            "warn_no_near_card",
            Harmless,
            (NOTE, MEDIUM),
            "NCCL found no NIC near a GPU, as on hosts with virtual NICs; buffers are then not \
             registered with a NIC",
            "no action is needed on one host; otherwise check that the container sees /sys, or set \
             NCCL_TOPO_FILE",
            "ncclTopoGetLocalNets in src/graph/topo.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["Could not read node"],
        warn_meaning(
            "warn_rccl_node",
            Harmless,
            (NOTE, MEDIUM),
            "RCCL cannot read a node of the machine's layout, for example where a container sees \
             only some GPUs",
            "no action is needed if the job runs; otherwise give each container all GPUs of its \
             host",
            "ROCm/rccl#1728",
        ),
    ),
    (
        &["cuMem support requires VMM RDMA support"],
        warn_meaning(
            "warn_rccl_vmm",
            Harmless,
            (NOTE, HIGH),
            "the driver cannot share virtual memory with NICs; RCCL allocates memory in another \
             way",
            "nothing",
            "ROCm/ROCm#6074",
        ),
    ),
    (
        &["failed to IPC register userbuff"],
        warn_meaning(
            "warn_not_registered",
            Harmless,
            (NOTE, HIGH),
            "a buffer could not be registered with the other GPUs of its host; NCCL copies instead",
            "no action is needed; NCCL prints it as INFO since 2.26",
            "NVIDIA/nccl#1684",
        ),
    ),
    (
        &[
            "Missing*from kernel command line",
            "Missing*from environment which can lead to",
            "NUMA auto balancing enabled",
        ],
        warn_meaning(
            "warn_rccl_host",
            Setback,
            (WARNING, HIGH),
            "the configuration of a host does not meet RCCL's requirements, so the job may be slow \
             or hang",
            "change the setting that the line names on that host",
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
        warn_meaning(
            "warn_collective_mismatch",
            Cause,
            (ERROR, HIGH),
            "two ranks exchange different sizes: they do not make the same calls in the same \
             order, or have different settings",
            "compare the ranks' calls (NCCL_DEBUG_SUBSYS=COLL) and their NCCL_ settings and \
             versions",
            "NVIDIA/nccl#296, NVIDIA/nccl#531",
        ),
    ),
    (
        &["essage truncated"],
        warn_meaning(
            "warn_message_truncated",
            Cause,
            (ERROR, HIGH),
            "a rank received more than it expects: the ranks' calls, settings or versions differ",
            "compare the ranks' calls (NCCL_DEBUG_SUBSYS=COLL) and their NCCL_ settings and \
             versions",
            "NVIDIA/nccl#605, NVIDIA/nccl#1328",
        ),
    ),
    (
        &["Mismatched NCCL version", "NCCL version mismatch"],
        warn_meaning(
            "warn_version_mismatch",
            Cause,
            (ERROR, HIGH),
            "ranks have different versions of NCCL",
            "use one image, and look for another libnccl.so on LD_LIBRARY_PATH",
            "src/init.cc of NVIDIA/nccl, 2.23 and later",
        ),
    ),
    (
        &["Duplicate GPU detected", "using the same GPU/Partition"],
        warn_meaning(
            "warn_duplicate_gpu",
            Cause,
            (ERROR, HIGH),
            "two ranks of a communicator use the same GPU",
            "give each rank its own GPU: torch.cuda.set_device(LOCAL_RANK), CUDA_VISIBLE_DEVICES",
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
        warn_meaning(
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
        warn_meaning(
            "warn_ib_port_error",
            Cause,
            (WARNING, HIGH),
            "the link of a NIC's port went down",
            "check the cable, the transceiver and the port's error counters on that host",
            "NVIDIA/nccl#905",
        ),
    ),
    (
        &["async fatal event", "async error event"],
        warn_meaning(
            "warn_ib_fatal_event",
            Cause,
            (ERROR, MEDIUM),
            "a NIC reports a failure of its own",
            "look at the kernel log and the NIC's counters on that host",
            "src/transport/net_ib of NVIDIA/nccl",
        ),
    ),
    (
        &["GID table change"],
        warn_meaning(
            "warn_ib_gid_changed",
            Cause,
            (WARNING, MEDIUM),
            "addresses of a NIC's port changed while the job ran",
            "find out which program changes the interface's addresses",
            "NVIDIA/nccl#1819",
        ),
    ),
    (
        &["marked as failed. Initiating recovery"],
        warn_meaning(
            "warn_ib_failover",
            Cause,
            (WARNING, MEDIUM),
            "a NIC failed; NCCL moves its traffic to the host's other NICs where possible",
            "look at the NIC's link and the kernel log on that host",
            "src/transport/net_ib/p2p_resiliency.cc of NVIDIA/nccl, 2.30 and later",
        ),
    ),
    (
        &["The error is fatal", "Fatal error. Detected"],
        warn_meaning(
            "warn_ib_no_failover",
            Cause,
            (ERROR, HIGH),
            "NICs failed, and NCCL has no other NIC to use",
            "look for the first failure of the NIC, and at the kernel log of that host",
            "src/transport/net_ib/p2p_resiliency.cc of NVIDIA/nccl, 2.30 and later",
        ),
    ),
    (
        &["async event", "unknown event type"],
        warn_meaning(
            "warn_ib_event",
            Setback,
            (WARNING, LOW),
            "a NIC reports an event",
            "look at the kernel log and the port's counters on that host",
            "src/transport/net_ib of NVIDIA/nccl",
        ),
    ),
    (
        &[
            "incompatible device",
            "device is incompatible",
            "different link_layer",
        ],
        warn_meaning(
            "warn_ib_mixed_links",
            Cause,
            (ERROR, HIGH),
            "NCCL is about to connect an InfiniBand port with a RoCE port",
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
        warn_meaning(
            "warn_ib_open_device",
            Harmless,
            (NOTE, MEDIUM),
            "a NIC cannot be opened, for example because the container has only some of them; NCCL \
             continues without it",
            "give the job (its container) the NIC's device files, or exclude the NIC with \
             NCCL_IB_HCA",
            "src/transport/net_ib and src/misc/ibvwrap.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["libibverbs", "Failed to open libibverbs"],
        warn_meaning(
            "warn_no_libibverbs",
            Harmless,
            (NOTE, HIGH),
            "libibverbs.so is missing, so NCCL cannot use InfiniBand or RoCE",
            "install it if the job should use such NICs",
            "src/misc/ibvsymbols.cc and src/misc/ibvwrap.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["ibv_reg_mr*Bad address", "ibv_reg_dmabuf_mr"],
        warn_meaning(
            "warn_ib_gpu_memory",
            Cause,
            (ERROR, MEDIUM),
            "a NIC could not register a GPU's memory",
            "check that nvidia-peermem is loaded or DMA-BUF is available; confirm with \
             NCCL_NET_GDR_LEVEL=0, which is slower",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    (
        &["ibv_modify_qp*Invalid argument"],
        warn_meaning(
            "warn_ib_gid",
            Cause,
            (ERROR, MEDIUM),
            "two NICs could not be connected, for example because the wrong address of a RoCE NIC \
             is used",
            "use NCCL 2.21 or later, which chooses the address itself, or set NCCL_IB_GID_INDEX to \
             the RoCE v2 address (show_gids)",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    (
        &["ibv_*Cannot allocate memory"],
        warn_meaning(
            "warn_locked_memory",
            Cause,
            (ERROR, MEDIUM),
            "a NIC cannot lock memory for its requests",
            "raise the limit of locked memory (ulimit -l) for the job's processes, as the \
             launcher starts them",
            "NVIDIA/nccl-tests#206",
        ),
    ),
    (
        &["ibv_modify_qp*timed out", "ibv_modify_qp*unreachable"],
        warn_meaning(
            "warn_ib_connect",
            Cause,
            (ERROR, HIGH),
            "two NICs cannot reach each other",
            "test the pair with ib_write_bw; if only NICs of one rail are connected, set \
             NCCL_CROSS_NIC=0; on RoCE check NCCL_IB_GID_INDEX and routing",
            "NVIDIA/nccl#2013",
        ),
    ),
    (
        &["ibv_"],
        warn_meaning(
            "warn_ib_verbs",
            Cause,
            (ERROR, LOW),
            "a call of the verbs library failed",
            "if it is ibv_create_qp or ibv_reg_mr, raise the limit of locked memory (ulimit -l); \
             otherwise look at the kernel log on that host, and test the NIC with ib_write_bw",
            "src/misc/ibvwrap.cc of NVIDIA/nccl, \
             https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    (
        &["NET/OFI Couldn't open AV"],
        warn_meaning(
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
        warn_meaning(
            "warn_ofi_endpoint",
            Cause,
            (ERROR, MEDIUM),
            "aws-ofi-nccl cannot open a NIC",
            "run with FI_LOG_LEVEL=warn; check the versions of libfabric and the NIC's driver",
            "aws/aws-ofi-nccl#889, aws/aws-ofi-nccl#801",
        ),
    ),
    (
        &[
            "NET/OFI Request completed with error",
            "NET/OFI Request*completed with error",
        ],
        warn_meaning(
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
        warn_meaning(
            "warn_ofi_optional",
            Harmless,
            (NOTE, MEDIUM),
            "aws-ofi-nccl continues without an optional part",
            "no action is needed; installing the part that the line names avoids it",
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
        warn_meaning(
            "warn_ofi_unused",
            Setback,
            (WARNING, HIGH),
            "aws-ofi-nccl cannot be used on a host; NCCL uses another network, which is slower \
             than EFA",
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
        warn_meaning(
            "warn_ofi_memory",
            Cause,
            (ERROR, MEDIUM),
            "libfabric could not register memory with a NIC, so the NIC cannot send from it or \
             receive into it",
            "compare the versions of libfabric, its provider and the NIC's driver on the host and \
             in the container; raise the limit of locked memory; confirm with \
             NCCL_NET_GDR_LEVEL=0, which is slower",
            "register_mr_buffers in https://github.com/aws/aws-ofi-nccl",
        ),
    ),
    (
        &["NET/OFI"],
        warn_meaning(
            "warn_ofi",
            Cause,
            (WARNING, LOW),
            "aws-ofi-nccl prints a warning",
            "run with FI_LOG_LEVEL=warn",
            "https://github.com/aws/aws-ofi-nccl",
        ),
    ),
    (
        &["UCX error"],
        warn_meaning(
            "warn_ucx",
            Cause,
            (ERROR, LOW),
            "a request of the UCX plugin failed",
            "look at UCX's own lines before it (UCX_LOG_LEVEL=info), and at the NIC's state",
            "ucx_plugin.c of https://github.com/Mellanox/nccl-rdma-sharp-plugins",
        ),
    ),
    (
        &[
            "No space left on device",
            "failed to extend",
            "posix_fallocate",
        ],
        warn_meaning(
            "warn_no_space_shm",
            Cause,
            (ERROR, HIGH),
            "/dev/shm has no space for NCCL's shared memory",
            "give the container more space (docker --shm-size, an emptyDir in memory on \
             Kubernetes), and remove stale /dev/shm/nccl-* files",
            "NVIDIA/nccl#290, \
             https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    (
        &["shared memory segment", "shared memory file"],
        warn_meaning(
            "warn_shm_segment",
            Consequence,
            (ERROR, MEDIUM),
            "a shared memory file of NCCL could not be created or opened",
            "check the free space in /dev/shm, and that ranks of one host see the same /dev/shm",
            "NVIDIA/nccl#1518, NVIDIA/nccl#290",
        ),
    ),
    (
        &["UDS:"],
        warn_meaning(
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
        warn_meaning(
            "warn_peer_closed",
            Consequence,
            (ERROR, HIGH),
            "the other end of a connection closed it: its process ended or crashed",
            "look for the first failure of that process, also outside NCCL (a crash, the \
             out-of-memory killer)",
            "NVIDIA/nccl#1486, NVIDIA/nccl#795",
        ),
    ),
    (
        &["wrong magic", "wrong type"],
        warn_meaning(
            "warn_socket_stranger",
            Cause,
            (WARNING, MEDIUM),
            "a program outside of this communicator connected to a port of NCCL",
            "keep port scanners and other jobs from these ports; newer versions ignore it",
            "NVIDIA/nccl#1808, NVIDIA/nccl#1612",
        ),
    ),
    (
        &[
            "Failed to initialize any NET plugin",
            "Error: network*not found",
        ],
        warn_meaning(
            "warn_no_network",
            Cause,
            (ERROR, HIGH),
            "NCCL finds no usable network",
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
        warn_meaning(
            "warn_address",
            Cause,
            (ERROR, HIGH),
            "an address in NCCL's settings cannot be parsed or resolved",
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
        warn_meaning(
            "warn_no_interface",
            Cause,
            (ERROR, HIGH),
            "NCCL finds no usable network interface",
            "check that NCCL_SOCKET_IFNAME names interfaces of this host, and that they are up",
            "NVIDIA/nccl#1837",
        ),
    ),
    (
        &["Connection refused"],
        warn_meaning(
            "warn_socket_refused",
            Cause,
            (ERROR, MEDIUM),
            "no process listens at the peer's port: the process ended, or the address is wrong",
            "look for a failure of the peer; check NCCL_SOCKET_IFNAME (bridges of containers) \
             and firewalls",
            "NVIDIA/nccl#913, \
             https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
    ),
    (
        &["No route to host", "Network is unreachable"],
        warn_meaning(
            "warn_socket_no_route",
            Cause,
            (ERROR, MEDIUM),
            "the peer's address cannot be reached",
            "check NCCL_SOCKET_IFNAME, routing, firewalls and the state of the link",
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
        warn_meaning(
            "warn_socket_timeout",
            Cause,
            (ERROR, MEDIUM),
            "the peer's address did not answer",
            "check NCCL_SOCKET_IFNAME, firewalls, and whether the peer's process was running",
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
        warn_meaning(
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
        warn_meaning(
            "warn_mnnvl",
            Cause,
            (ERROR, HIGH),
            "NVLink between nodes exists but does not work",
            "check the IMEX service and its channels; NCCL_MNNVL_ENABLE=0 disables its use",
            "src/mnnvl.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["lgorithm/protocol available"],
        warn_meaning(
            "warn_no_algorithm",
            Cause,
            (ERROR, HIGH),
            "NCCL_ALGO and NCCL_PROTO leave no algorithm for a call",
            "unset them, or allow Ring and Simple",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-algo",
        ),
    ),
    (
        &["P2P is disabled between NVLINK"],
        warn_meaning(
            "warn_p2p_disabled",
            Setback,
            (WARNING, HIGH),
            "peer-to-peer access between GPUs with NVLink is disabled",
            "look at nvidia-smi topo -p2p r and nvidia-smi nvlink -s, and at the kernel log of \
             that host",
            "ncclTopoCheckP2p in src/graph/paths.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["No transport found"],
        warn_meaning(
            "warn_no_transport",
            Cause,
            (ERROR, HIGH),
            "two ranks have no transport between them",
            "check NCCL_P2P_DISABLE, NCCL_SHM_DISABLE and NCCL_NET, and that the hosts see each \
             other's network",
            "src/transport.cc of NVIDIA/nccl",
        ),
    ),
    (
        &["device counts across ranks"],
        warn_meaning(
            "warn_net_mismatch",
            Setback,
            (WARNING, HIGH),
            "hosts have different numbers of NICs",
            "find the host with missing NICs",
            "NCCL_IGNORE_NET_MISMATCH in \
             https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        ),
    ),
    (
        &["Could not find real path of"],
        warn_meaning(
            "warn_nic_place",
            Setback,
            (WARNING, LOW),
            "NCCL does not find a NIC on the machine's buses, and cannot choose the NIC next to a \
             GPU; this is usual for virtual NICs",
            "check that the container sees /sys; for virtual NICs set NCCL_TOPO_FILE to the \
             machine's layout",
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
        warn_meaning(
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
        warn_meaning(
            "warn_topology_search",
            Setback,
            (WARNING, HIGH),
            "NCCL found no good ring or tree through the GPUs and uses them in simple order, which \
             is slow",
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
        warn_meaning(
            "warn_topology",
            Cause,
            (WARNING, LOW),
            "NCCL's topology contradicts itself",
            "check NCCL_TOPO_FILE and NCCL_HOSTID, that the container sees /sys, and that ranks of \
             one host agree on CUDA_VISIBLE_DEVICES; otherwise it is a bug of NCCL: try another \
             version",
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
        warn_meaning(
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
        warn_meaning(
            "warn_nvml",
            Cause,
            (WARNING, MEDIUM),
            "the driver's library NVML does not report a GPU",
            "run nvidia-smi there as the job does (in its container); NVML's text gives the \
             reason: Not Found where a container sees only some GPUs, a version mismatch after an \
             update of the driver",
            "NVIDIA/nccl#1066, src/misc/nvmlwrap.cc of NVIDIA/nccl",
        ),
    ),
    (
        &[
            "CUDA IPC handle",
            "cudaIpcGetMemHandle",
            "failed to peer with device",
        ],
        warn_meaning(
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
        warn_meaning(
            "warn_cuda_alloc",
            Consequence,
            (ERROR, HIGH),
            "NCCL got no memory from CUDA",
            "look at CUDA's error before it",
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
        warn_meaning(
            "warn_host_memory",
            Cause,
            (ERROR, MEDIUM),
            "the host is out of memory",
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
        warn_meaning(
            "warn_setting_adjusted",
            Setback,
            (WARNING, HIGH),
            "NCCL changes or ignores a setting",
            "set a value that NCCL accepts, or unset it",
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
        warn_meaning(
            "warn_argument",
            Cause,
            (ERROR, HIGH),
            "the program calls NCCL with wrong arguments",
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
        warn_meaning(
            "warn_comm_failed",
            Consequence,
            (ERROR, HIGH),
            "a communicator had failed before",
            "look for the first failure before it, here or on the other ranks",
            "src/transport/net_ib/common.cc, src/group.cc and src/init.cc of NVIDIA/nccl",
        ),
    ),
];
