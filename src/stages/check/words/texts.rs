//! The texts that all findings of a kind share, a row a kind. A question with a text of its own
//! gives that instead.

use crate::stages::check::finding::{Finding, Kind};
use crate::stages::check::wording::number_and_noun;

/// Declares the texts: why a finding is that sure, and what to do.
macro_rules! texts {
    ($($($kind:ident)|+ { $(why $why:literal)? $(do $advice:literal)? })+) => {
        /// Gives findings the texts of their kinds where they have none of their own.
        pub(in crate::stages::check) fn write_shared_texts(findings: &mut [Finding]) {
            for finding in findings {
                let (why, advice) = shared_texts(finding.kind);
                for (own, shared) in [(&mut finding.why, why), (&mut finding.advice, advice)] {
                    if own.is_empty() {
                        shared.clone_into(own);
                    }
                }
            }
        }

        /// The texts of a kind: why, and what to do; empty where each finding has its own.
        fn shared_texts(kind: Kind) -> (&'static str, &'static str) {
            match kind {
                $($(Kind::$kind)|+ => (concat!($($why)?), concat!($($advice)?)),)+
                _ => ("", ""),
            }
        }
    };
}

/// What to do where a finding has no advice of its own; empty where each has.
pub(in crate::stages::check) fn shared_advice(kind: Kind) -> &'static str {
    shared_texts(kind).1
}

texts! {
    RankBehind | RankSilent {
        do "look at this process first: its own output, its host, a stack (py-spy dump); the others \
            wait for it"
    }
    RankAhead {
        do "look in the code for a collective that only some ranks make (rank 0 alone, a condition \
            on local data), and for uneven data (a rank with one more batch)"
    }
    Deadlock {
        do "ranks that share two communicators must use them in the same order: look for a branch \
            that only some ranks take between these two calls, and for calls from several threads"
    }
    OpMismatch | DatatypeMismatch | CountMismatch | RedopMismatch | RootMismatch {
        do "every rank of a communicator must make the same calls in the same order: look in the \
            code for a branch that only some ranks take before this call"
    }
    LastCalls {
        why "they are the last calls in the lines of their processes; a call is logged when it is \
             enqueued, and it might not have begun"
        do "look first at the calls of the fewest ranks"
    }
    UnfinishedTraffic {
        why "the traces show that they began but not that they ended; in a cut trace the end may be missing"
        do "nccl-proxy --incomplete lists them, and how far each came"
    }
    RankException | RankKilled | RankCrashed | RankExited | HostOutOfMemory {
        why "the line reports it, and no process ended before it"
    }
    GpuFailed {
        why "the kernel's line reports it"
    }
    DeadProcess {
        why "PyTorch prints a line for each rank that is alive"
        do "look at this process first: its own output, its host (dmesg, power, GPU), a stack if it \
            is still there (py-spy dump)"
    }
    JobInterrupted | JobCancelled {
        why "its line is before that of any other failure"
        do "no action is needed for the ranks: different calls at this point are not a fault"
    }
    SetupFailed {
        why "PyTorch reports it, and no failure comes before it"
    }
    WatchdogTimeout {
        do "look at the ranks that are behind the others or silent: compare their calls, \
            look for a crash, an exception or a wait outside NCCL"
    }
    WatchdogException {
        why "the watchdog's lines report it"
        do "CUDA reports an error to the next caller: run with CUDA_LAUNCH_BLOCKING=1 or \
            compute-sanitizer to find the kernel, and look for Xid lines in the kernel log; see \
            vllm-project/vllm#4108"
    }
    VersionMixed | CudaVersionMixed | DriverVersionMixed | PluginMixed {
        why "the processes of these hosts print it themselves"
        do "use one image, or one set of libraries, on all hosts"
    }
    NicDiffers {
        why "NCCL lists the active ports of each host"
        do "look at the state of the missing ports (ibstat, rdma link) and at NCCL_IB_HCA on the \
            named hosts"
    }
    SettingDiffers {
        why "NCCL prints a variable where it is set and read; these hosts print other variables but \
             not this one"
        do "pass the same environment to all hosts (mpirun -x, srun --export), and compare \
            /etc/nccl.conf"
    }
    GroupOrder {
        why "each rank of a communicator is one process"
        do "look in the code of this process: every process must create all process groups (new_group, \
            init_device_mesh) in the same order, including those that it does not belong to"
    }
    InitMissingRank {
        do "look at these ranks first: whether their processes run, their own output, a stack (py-spy \
            dump); take the log of all ranks (NCCL_DEBUG=INFO for each)"
    }
    ConnectRetrying {
        do "look at whether the other end runs, at the address (which interface does Bootstrap name? set \
            NCCL_SOCKET_IFNAME), and at firewalls between the hosts"
    }
    NoFirstCall {
        do "if the job hangs here, it is in its first call: run with NCCL_DEBUG_SUBSYS=INIT,COLL; as a test \
            set NCCL_P2P_DISABLE=1; where that helps, direct access between GPUs is broken: disable ACS and \
            the IOMMU (iommu=pt), and look at nvidia-smi topo -p2p r"
    }
    RailsCrossed {
        do "compare the NICs of these hosts in NCCL's order (the line NET/IB : Using), NCCL_IB_HCA and \
            NCCL_TOPO_FILE"
    }
    ChannelsFewer {
        why "NCCL gives communicators of the same shape the same number of channels on equal hosts"
        do "compare nvidia-smi topo -m, the state of the NVLinks (nvidia-smi nvlink -s) and of the \
            NICs, and NCCL_MAX_CTAS, NCCL_MAX_NCHANNELS on the named hosts"
    }
    GpudirectOff | GpudirectMixed {
        do "check that nvidia-peermem is loaded or DMA-BUF is available (open kernel modules, Linux \
            5.12, CUDA 11.7), that ACS is off, and NCCL_NET_GDR_LEVEL"
    }
    // env.rst on NCCL_NVLS_ENABLE: 2.27 and 2.28 fall back without a message if the resources are
    // missing, and hang if that happens on some ranks only.
    NvlsNotCreated | NvlsMixed {
        do "look at the Fabric Manager, the driver and NCCL_NVLS_ENABLE, NCCL_CUMEM_ENABLE on the \
            named hosts; NCCL 2.27 and 2.28 give up NVLS without a message, and can hang if only \
            some ranks do so"
    }
    SocketsOnly {
        do "look for NICs on these hosts (ibv_devinfo, fi_info -p efa), for their devices in the \
            container (/dev/infiniband), and for a network plugin of the provider; without such \
            NICs there is no faster network"
    }
    SocketFallback {
        do "compare the NICs and their state on the named hosts with the others (ibv_devinfo, \
            fi_info), NCCL_IB_HCA, NCCL_NET and NCCL_NET_PLUGIN there, and whether the container \
            has the devices"
    }
    PxnMixed {
        why "hosts of one communicator with the same number of ranks usually do the same; the \
             positions of the ranks in the ring may differ"
        do "compare the NICs, the GPUs' order and NCCL_PXN_DISABLE on these hosts"
    }
    P2pDisabled {
        why "NCCL reports that peer-to-peer is disabled between them"
        do "look at nvidia-smi topo -p2p r, at ACS and the IOMMU, and at the hardware; some GPUs \
            are sold without peer-to-peer"
    }
    ShmInsteadOfP2p {
        do "look at nvidia-smi topo -m, at ACS and the IOMMU, at NCCL_P2P_DISABLE and \
            NCCL_P2P_LEVEL, and check that each container sees all GPUs of its host"
    }
    // The guide of NCCL on problems: with ACS or the IOMMU on, peer-to-peer may give wrong data.
    WrongResults {
        why "nccl-tests computed the right results itself and compared every element"
        do "run the same test with NCCL_P2P_DISABLE=1, and on half of the GPUs: if the results are then right, look at ACS and the IOMMU (nvidia-smi topo -p2p r) and at the GPU or link \
            that is left out; look for Xid and ECC errors (dmesg, nvidia-smi -q); do not train on these GPUs until the test passes"
    }
    BenchmarkNoRow | BenchmarkUnfinished {
        do "find out where it waits: run it with NCCL_DEBUG=INFO on all ranks and check that log; \
            compare with NCCL_P2P_DISABLE=1 (one host), with NCCL_IB_DISABLE=1 and with \
            NCCL_SOCKET_IFNAME (several hosts)"
    }
    BenchmarkBelowMinimum {
        why "the program compares its mean with NCCL_TESTS_MIN_BW, less 10 %; the mean is over all \
             sizes, and small ones lower it"
        do "compare the rows of large sizes with a run on good hosts: nccl-diff good.log this.log"
    }
    SlowStep {
        do "look at the job's other work at that time (a checkpoint, an evaluation, data), and at \
            the host that was late"
    }
    CallsStop {
        why "calls in a CUDA graph are logged once, when the graph is captured, and not when it is \
             replayed; a log whose NCCL lines were cut off looks the same"
        do "run without CUDA graphs to see the calls of every step, or count the calls of one replay"
    }
    DamagedLines {
        why "they begin like NCCL's lines and do not end like them"
        do "rerun with NCCL_DEBUG_FILE=nccl.%h.%p.log, a file for each process"
    }
    LinesTruncated {
        why "they end where NCCL's own buffer ends: NCCL prints at most 1,023 bytes of a line, RCCL \
             about 2,100"
        do "no action is needed; NCCL prints longer lines since 2.29.2"
    }
    LinesTorn {
        why "they end at byte 128, where NCCL 2.29.2 and later ends a write to a pipe that \
             processes share, and exactly one other piece fits each of them"
        do "rerun with NCCL_DEBUG_FILE=nccl.%h.%p.log, a file for each process"
    }
    RayDedup {
        why "lines end in `[repeated Nx across cluster]`"
        do "rerun with RAY_DEDUP_LOGS=0"
    }
    SharedFile {
        do "rerun with NCCL_DEBUG_FILE=nccl.%h.%p.log, a file for each process"
    }
    BlockBuffered {
        why "lines are cut at the ends of 4 KiB buffers"
        do "rerun with PYTHONUNBUFFERED=1"
    }
    SeveralRuns {
        why "the step lines show it"
        do "nccl-steps --list shows the runs (column segment)"
    }
}

/// Returns the sentence for a number of faults in how a log was written.
pub(in crate::stages::check) fn describe_hygiene(kind: Kind, n: u64) -> String {
    let lines = number_and_noun(n, "line");
    match kind {
        Kind::DamagedLines if n == 1 => "1 line is damaged".to_owned(),
        Kind::DamagedLines => format!("{lines} are damaged"),
        Kind::LinesTruncated => format!("NCCL itself truncated {lines}; no call is affected"),
        Kind::LinesTorn if n == 1 => "1 line was torn and rejoined".to_owned(),
        Kind::LinesTorn => format!("{lines} were torn and rejoined"),
        Kind::RayDedup => format!("Ray omitted {lines}: counts are too low"),
        Kind::BlockBuffered => format!(
            "standard output was block-buffered ({lines} rejoined): calls may appear in a later \
             step than theirs"
        ),
        _ => format!(
            "the step number falls {}: the file has restarts, epochs, several jobs or step lines \
             of several ranks",
            number_and_noun(n, "time")
        ),
    }
}
