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
pub(super) const IB_STATUS: [(u32, Known); 7] = [
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
pub(super) const IB_OTHER: Known = row(
    "warn_ib_completion",
    Cause,
    (ERROR, MEDIUM),
    "a request of a card failed",
    "look the status up, and look for a WARN of the peer",
    "ibv_wc_status in src/include/ibvcore.h of NVIDIA/nccl",
);

/// By CUDA's words.
pub(super) const CUDA: [(Texts, Known); 4] = [
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
            "uncorrectable ECC",
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
        &[
            "invalid device ordinal",
            "no CUDA-capable device",
            "driver version is insufficient",
            "initialization error",
            "system not yet initialized",
        ],
        row(
            "warn_cuda_setup",
            Cause,
            (ERROR, HIGH),
            "CUDA cannot use the GPU",
            "check the driver's version, CUDA_VISIBLE_DEVICES, that no process forks behind \
             CUDA's first call, and, on NVSwitch machines, the Fabric Manager",
            "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        ),
    ),
];

/// Another error of CUDA's.
pub(super) const CUDA_OTHER: Known = row(
    "warn_cuda_failure",
    Cause,
    (ERROR, MEDIUM),
    "a call of CUDA's failed",
    "look CUDA's error up; look at the kernel's log of that host",
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
);

/// By other words; the first row that fits counts.
pub(super) const BY_WORDS: [(Texts, Known); 43] = [
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
        &["SHARP", "SHArP", "Cannot initialize CollNet"],
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
        &["ibv_open_device", "Unable to open device"],
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
            "look at the kernel's log on that host, and test the card with ib_write_bw",
            "src/misc/ibvwrap.cc of NVIDIA/nccl",
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
            "no socket interface found",
            "No IP interface found",
            "NET/Socket : no interface found",
            "No usable listening interface",
            "NCCL_OOB_NET_IFNAME",
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
        &[
            "XML",
            "Could not find real path of",
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
        &["Failed to malloc", "Allocation failed", "Failed to calloc"],
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
        &["communicator encountered a fatal error"],
        row(
            "warn_comm_failed",
            Consequence,
            (ERROR, HIGH),
            "a card of this connection had failed before",
            "look for the first failure of the card, and at the kernel's log of that host",
            "src/transport/net_ib/common.cc of NVIDIA/nccl",
        ),
    ),
];
