//! The kinds of findings, each with the stable word by which scripts know it.

/// How bad a finding is. The worst comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The job failed by it, or its results are wrong.
    Error,
    /// The job is slower than it need be, or may fail by it.
    Warning,
    /// Worth knowing; nothing need be done.
    Note,
}

impl Severity {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// Declares the kinds: for each a sentence, a name, how bad it usually is and the stable word.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident: $severity:ident = $id:literal,)+) => {
        /// A kind of finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[doc = $doc])+ $name,)+
            /// NCCL printed a WARN line.
            Warn(WarnKind),
        }

        impl Kind {
            /// All kinds but those of WARN lines.
            pub(crate) const ALL: &'static [Kind] = &[$(Kind::$name,)+];

            /// Returns the sentence of its declaration.
            pub(crate) fn describe(self) -> &'static str {
                match self {
                    $(Kind::$name => concat!($($doc),+),)+
                    Kind::Warn(_) => "NCCL printed a WARN line.",
                }
            }

            /// Returns the stable word that is printed: `op_mismatch`, `socket_fallback`.
            pub fn id(self) -> &'static str {
                match self {
                    $(Kind::$name => $id,)+
                    Kind::Warn(WarnKind(id)) => id,
                }
            }

            /// Returns how bad it is, unless the log shows otherwise.
            pub(crate) fn usual_severity(self) -> Severity {
                match self {
                    $(Kind::$name => Severity::$severity,)+
                    Kind::Warn(WarnKind::UNCOUNTED) => Severity::Note,
                    Kind::Warn(_) => Severity::Warning,
                }
            }
        }
    };
}

kinds! {
    /// A rank made fewer calls than the others of its communicator, and they wait for it.
    RankBehind: Error = "rank_behind",
    /// A rank made fewer calls than the others, and none of its communicators shows a later one.
    RankSilent: Error = "rank_silent",
    /// A rank made calls that the others of its communicator did not make.
    RankAhead: Error = "rank_ahead",
    /// Ranks wait for each other in a circle.
    Deadlock: Error = "deadlock",
    /// A rank sent to, or received from, a rank that does not expect it.
    P2pWrongPeer: Error = "p2p_wrong_peer",
    /// A Send has no Recv, or a Recv has no Send.
    P2pMissingCounterpart: Error = "p2p_missing_counterpart",
    /// Ranks call different operations at the same number.
    OpMismatch: Error = "op_mismatch",
    /// Ranks call an operation with different data types.
    DatatypeMismatch: Error = "datatype_mismatch",
    /// Ranks call an operation with different sizes.
    CountMismatch: Error = "count_mismatch",
    /// Ranks call a reduction with different reduction operations.
    RedopMismatch: Error = "redop_mismatch",
    /// Ranks call an operation with different roots.
    RootMismatch: Error = "root_mismatch",
    /// Ranks call an operation from different source lines.
    LineMismatch: Error = "line_mismatch",
    /// Ranks of an unnamed communicator differ.
    RanksPart: Note = "ranks_part",
    /// The last calls of each rank.
    LastCalls: Note = "last_calls",
    /// The functions in which the main threads of the processes are.
    StackGroups: Note = "stack_groups",
    /// The trace of NCCL's profiler has operations that did not end.
    UnfinishedTraffic: Note = "unfinished_traffic",
    /// A process raised an exception.
    RankException: Error = "rank_exception",
    /// A process was killed.
    RankKilled: Error = "rank_killed",
    /// A process crashed.
    RankCrashed: Error = "rank_crashed",
    /// A process ended with an exit code.
    RankExited: Error = "rank_exited",
    /// The system's out-of-memory killer ended a process.
    HostOutOfMemory: Error = "host_out_of_memory",
    /// The driver reports an error of a GPU, of its memory or of its links.
    GpuFailed: Error = "gpu_failed",
    /// A program made an error on a GPU, as the driver reports it.
    GpuProgramError: Error = "gpu_program_error",
    /// A NIC failed, or its link went down.
    LinkDown: Error = "link_down",
    /// An error of PCIe could not be corrected.
    PcieError: Error = "pcie_error",
    /// An error of a host's memory or CPU could not be corrected.
    HostMemoryError: Error = "host_memory_error",
    /// A message of a machine that did not cause the failure, or may belong to something else.
    MachineMessage: Note = "machine_message",
    /// A rank printed nothing after the job failed, and the others did.
    DeadProcess: Error = "dead_process",
    /// A person interrupted the job.
    JobInterrupted: Note = "job_interrupted",
    /// The scheduler cancelled the job.
    JobCancelled: Note = "job_cancelled",
    /// A process group was not set up, or a process lost the others.
    SetupFailed: Error = "setup_failed",
    /// PyTorch's watchdog, or another library, reports that ranks waited too long.
    WatchdogTimeout: Error = "watchdog_timeout",
    /// PyTorch's watchdog reports an error.
    WatchdogException: Error = "watchdog_exception",
    /// The NCCL call that PyTorch's watchdog waited for.
    WatchdogCall: Note = "watchdog_call",
    /// HCCL, the library of Ascend NPUs, reports an error.
    HcclError: Error = "hccl_error",
    /// NCCL gave a program an error, and no line has the reason.
    NcclError: Error = "nccl_error",
    /// NCCL printed WARN lines while it was shut down.
    ShutdownWarns: Note = "shutdown_warns",
    /// Hosts have different versions of NCCL.
    VersionMixed: Warning = "version_mixed",
    /// Hosts have different versions of CUDA.
    CudaVersionMixed: Warning = "cuda_version_mixed",
    /// Hosts have different versions of the driver.
    DriverVersionMixed: Warning = "driver_version_mixed",
    /// Hosts have different plugins.
    PluginMixed: Warning = "plugin_mixed",
    /// Hosts have different NICs.
    NicDiffers: Warning = "nic_differs",
    /// Hosts have different settings.
    SettingDiffers: Warning = "setting_differs",
    /// A setting has no effect.
    SettingIgnored: Note = "setting_ignored",
    /// A setting contradicts what the job does.
    SettingBad: Warning = "setting_bad",
    /// A setting is worth knowing.
    Setting: Note = "setting",
    /// The initialisation of a communicator had not ended on some ranks.
    InitIncomplete: Error = "init_incomplete",
    /// Processes create their process groups in different orders.
    GroupOrder: Error = "group_order",
    /// Ranks of a communicator printed nothing of its initialisation, and the others wait.
    InitMissingRank: Error = "init_missing_rank",
    /// NCCL still tried to connect when the log ends.
    ConnectRetrying: Warning = "connect_retrying",
    /// The log ends after the initialisation.
    NoFirstCall: Note = "no_first_call",
    /// An interface cannot serve a job on several hosts.
    InterfaceUnsuitable: Warning = "interface_unsuitable",
    /// The two ends of connections use NICs of different numbers, against a setting.
    RailsCrossed: Warning = "rails_crossed",
    /// The initialisation of a communicator was slow on some ranks.
    InitSlow: Warning = "init_slow",
    /// A communicator has fewer channels than others of its kind.
    ChannelsFewer: Warning = "channels_fewer",
    /// GPUDirect RDMA is not used.
    GpudirectOff: Warning = "gpudirect_off",
    /// GPUDirect RDMA is used on some hosts only.
    GpudirectMixed: Warning = "gpudirect_mixed",
    /// NVLink SHARP is supported and not used.
    NvlsNotCreated: Warning = "nvls_not_created",
    /// NVLink SHARP is used on some hosts only.
    NvlsMixed: Warning = "nvls_mixed",
    /// All hosts communicate over sockets.
    SocketsOnly: Warning = "sockets_only",
    /// Hosts communicate over sockets although NICs are there.
    SocketFallback: Warning = "socket_fallback",
    /// PXN is used on some hosts only.
    PxnMixed: Note = "pxn_mixed",
    /// Peer-to-peer access between GPUs is disabled.
    P2pDisabled: Error = "p2p_disabled",
    /// GPUs of one host communicate over shared memory.
    ShmInsteadOfP2p: Warning = "shm_instead_of_p2p",
    /// nccl-tests reports wrong results.
    WrongResults: Error = "wrong_results",
    /// nccl-tests printed the header of its table and no row.
    BenchmarkNoRow: Warning = "benchmark_no_row",
    /// The table of nccl-tests ends before its last size.
    BenchmarkUnfinished: Warning = "benchmark_unfinished",
    /// The mean bus bandwidth is below the required minimum.
    BenchmarkBelowMinimum: Warning = "benchmark_below_minimum",
    /// Tables of nccl-tests are all that could be checked.
    BenchmarkOnly: Note = "benchmark_only",
    /// A step took longer than its neighbours.
    SlowStep: Note = "slow_step",
    /// A step made other calls than the others.
    OddStep: Note = "odd_step",
    /// Steps continue after the last call.
    CallsStop: Note = "calls_stop",
    /// Lines are damaged.
    DamagedLines: Note = "damaged_lines",
    /// NCCL truncated lines.
    LinesTruncated: Note = "lines_truncated",
    /// Lines were torn and rejoined.
    LinesTorn: Note = "lines_torn",
    /// Ray omitted repeated lines.
    RayDedup: Note = "ray_dedup",
    /// Processes overwrote each other's lines.
    SharedFile: Note = "shared_file",
    /// Standard output was block-buffered.
    BlockBuffered: Note = "block_buffered",
    /// The step number falls.
    SeveralRuns: Note = "several_runs",
    /// The inputs are of several jobs.
    SeveralJobs: Note = "several_jobs",
    /// No input can be checked.
    NotChecked: Note = "not_checked",
    /// A process of the job on this host is stopped.
    ProcessStopped: Error = "process_stopped",
    /// A process of the job on this host has ended.
    ProcessEnded: Error = "process_ended",
    /// No process of the job on this host runs any more.
    ProcessesEnded: Note = "processes_ended",
    /// The text of a pipe was checked in part.
    Shortened: Note = "shortened",
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

    /// True if it is about a process that may still be there and wait.
    pub(crate) fn is_stop(self) -> bool {
        matches!(
            self,
            Kind::RankBehind | Kind::RankSilent | Kind::DeadProcess | Kind::ProcessStopped
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
                | Kind::GpuFailed
                | Kind::GpuProgramError
                | Kind::LinkDown
                | Kind::PcieError
                | Kind::HostMemoryError
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
            Kind::WatchdogTimeout | Kind::WatchdogException | Kind::WatchdogCall | Kind::HcclError
        )
    }
}
