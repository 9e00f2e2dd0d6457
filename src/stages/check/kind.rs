//! The kinds of findings, each with the stable word by which scripts know it.

/// Declares the kinds: for each a sentence, a name and the stable word.
macro_rules! kinds {
    ($($(#[$doc:meta])+ $name:ident = $id:literal,)+) => {
        /// A kind of finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])+ $name,)+
            /// NCCL printed a WARN line.
            Warn(WarnKind),
        }

        impl Kind {
            /// Returns the stable word that is printed: `op_mismatch`, `socket_fallback`.
            pub fn id(self) -> &'static str {
                match self {
                    $(Kind::$name => $id,)+
                    Kind::Warn(WarnKind(id)) => id,
                }
            }
        }
    };
}

kinds! {
    /// A rank made fewer calls than the others of its communicator, and they wait for it.
    RankBehind = "rank_behind",
    /// A rank made fewer calls than the others, and none of its communicators shows a later one.
    RankSilent = "rank_silent",
    /// A rank made calls that the others of its communicator did not make.
    RankAhead = "rank_ahead",
    /// Ranks wait for each other in a circle.
    Deadlock = "deadlock",
    /// A rank sent to, or received from, a rank that does not expect it.
    P2pWrongPeer = "p2p_wrong_peer",
    /// A Send has no Recv, or a Recv has no Send.
    P2pMissingCounterpart = "p2p_missing_counterpart",
    /// Ranks call different operations at the same number.
    OpMismatch = "op_mismatch",
    /// Ranks call an operation with different data types.
    DatatypeMismatch = "datatype_mismatch",
    /// Ranks call an operation with different sizes.
    CountMismatch = "count_mismatch",
    /// Ranks call a reduction with different reduction operations.
    RedopMismatch = "redop_mismatch",
    /// Ranks call an operation with different roots.
    RootMismatch = "root_mismatch",
    /// Ranks call an operation from different source lines.
    LineMismatch = "line_mismatch",
    /// Ranks of an unnamed communicator differ.
    RanksPart = "ranks_part",
    /// The last calls of each rank.
    LastCalls = "last_calls",
    /// NCCL's profiler has operations without an end.
    UnfinishedTraffic = "unfinished_traffic",
    /// A process raised an exception.
    RankException = "rank_exception",
    /// A process was killed.
    RankKilled = "rank_killed",
    /// A process crashed.
    RankCrashed = "rank_crashed",
    /// A process ended with an exit code.
    RankExited = "rank_exited",
    /// The system's out-of-memory killer ended a process.
    HostOutOfMemory = "host_out_of_memory",
    /// A rank printed nothing after the job failed, and the others did.
    DeadProcess = "dead_process",
    /// A person interrupted the job.
    JobInterrupted = "job_interrupted",
    /// The scheduler cancelled the job.
    JobCancelled = "job_cancelled",
    /// A process group was not set up.
    SetupFailed = "setup_failed",
    /// PyTorch's watchdog reports that a call timed out.
    WatchdogTimeout = "watchdog_timeout",
    /// PyTorch's watchdog reports an error.
    WatchdogException = "watchdog_exception",
    /// The call of NCCL for which PyTorch's watchdog waited.
    WatchdogCall = "watchdog_call",
    /// NCCL printed WARN lines while it was shut down.
    ShutdownWarns = "shutdown_warns",
    /// Hosts have different versions of NCCL.
    VersionMixed = "version_mixed",
    /// Hosts have different versions of CUDA.
    CudaVersionMixed = "cuda_version_mixed",
    /// Hosts have different versions of the driver.
    DriverVersionMixed = "driver_version_mixed",
    /// Hosts have different plugins.
    PluginMixed = "plugin_mixed",
    /// Hosts have different NICs.
    NicDiffers = "nic_differs",
    /// Hosts have different settings.
    SettingDiffers = "setting_differs",
    /// A setting has no effect.
    SettingIgnored = "setting_ignored",
    /// A setting contradicts what the job does.
    SettingBad = "setting_bad",
    /// A setting is worth knowing.
    Setting = "setting",
    /// The initialisation of a communicator was slow on some ranks.
    InitSlow = "init_slow",
    /// A communicator has fewer channels than others of its kind.
    ChannelsFewer = "channels_fewer",
    /// GPUDirect RDMA is not used.
    GpudirectOff = "gpudirect_off",
    /// GPUDirect RDMA is used on some hosts only.
    GpudirectMixed = "gpudirect_mixed",
    /// NVLink SHARP is supported and not used.
    NvlsNotCreated = "nvls_not_created",
    /// NVLink SHARP is used on some hosts only.
    NvlsMixed = "nvls_mixed",
    /// All hosts communicate over sockets.
    SocketsOnly = "sockets_only",
    /// Hosts communicate over sockets although NICs are there.
    SocketFallback = "socket_fallback",
    /// PXN is used on some hosts only.
    PxnMixed = "pxn_mixed",
    /// Peer-to-peer access between GPUs is disabled.
    P2pDisabled = "p2p_disabled",
    /// GPUs of one host communicate over shared memory.
    ShmInsteadOfP2p = "shm_instead_of_p2p",
    /// A step took longer than its neighbours.
    SlowStep = "slow_step",
    /// A step made other calls than the others.
    OddStep = "odd_step",
    /// Steps continue after the last call.
    CallsStop = "calls_stop",
    /// Lines are damaged.
    DamagedLines = "damaged_lines",
    /// NCCL truncated lines.
    LinesTruncated = "lines_truncated",
    /// Lines were torn and rejoined.
    LinesTorn = "lines_torn",
    /// Ray omitted repeated lines.
    RayDedup = "ray_dedup",
    /// Processes overwrote each other's lines.
    SharedFile = "shared_file",
    /// Standard output was block-buffered.
    BlockBuffered = "block_buffered",
    /// The step number falls.
    SeveralRuns = "several_runs",
    /// No input can be checked.
    NotChecked = "not_checked",
    /// A process of the job on this host is stopped.
    ProcessStopped = "process_stopped",
    /// A process of the job on this host has ended.
    ProcessEnded = "process_ended",
    /// No process of the job on this host runs any more.
    ProcessesEnded = "processes_ended",
    /// The text of a pipe was checked in part.
    Shortened = "shortened",
}

/// A kind of WARN line, by the word that the table of known WARNs gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WarnKind(pub(crate) &'static str);

impl WarnKind {
    /// A peer closed its connection.
    pub const PEER_CLOSED: WarnKind = WarnKind("warn_peer_closed");
    /// Ranks of one communicator call different collectives.
    pub const COLLECTIVE_MISMATCH: WarnKind = WarnKind("warn_collective_mismatch");
    /// A message was longer than its receiver's buffer.
    pub const MESSAGE_TRUNCATED: WarnKind = WarnKind("warn_message_truncated");
    /// A connection of NCCL's proxy broke in the middle of the job.
    pub const PROXY_MIDWAY: WarnKind = WarnKind("warn_proxy_midway");
    /// A text that the table of known WARNs does not have.
    pub const UNKNOWN: WarnKind = WarnKind("warn_unknown");
    /// WARN lines of further processes, which were counted only.
    pub const UNCOUNTED: WarnKind = WarnKind("warn_uncounted");
}

impl Kind {
    /// True if ranks made different calls at one number.
    pub(crate) fn is_mismatch(self) -> bool {
        matches!(
            self,
            Kind::OpMismatch
                | Kind::DatatypeMismatch
                | Kind::CountMismatch
                | Kind::RedopMismatch
                | Kind::RootMismatch
                | Kind::LineMismatch
        )
    }

    /// True if it is about the process that failed first.
    pub(crate) fn is_first_failure(self) -> bool {
        matches!(
            self,
            Kind::RankException
                | Kind::RankKilled
                | Kind::RankCrashed
                | Kind::RankExited
                | Kind::HostOutOfMemory
                | Kind::DeadProcess
        )
    }

    /// True for a WARN line of NCCL.
    pub(crate) fn is_warn(self) -> bool {
        matches!(self, Kind::Warn(_))
    }

    /// True if PyTorch's watchdog reports it.
    pub(crate) fn is_watchdog(self) -> bool {
        matches!(
            self,
            Kind::WatchdogTimeout | Kind::WatchdogException | Kind::WatchdogCall
        )
    }
}
