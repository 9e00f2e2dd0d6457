//! The options of the made log, and which of them contradict each other.

pub(crate) mod check;
pub mod size;

use crate::error::{Error, Result};
use crate::fault::Fault;
use crate::named_choices::named;

named! {
    /// The library version that shapes the lines. Order is age; RCCL comes last.
    Nccl, "NCCL version" {
        /// 2.4: no Send and Recv, no bf16.
        V2_4 = "2.4",
        /// 2.7: the first with Send and Recv.
        V2_7 = "2.7",
        /// 2.12
        V2_12 = "2.12",
        /// 2.16: the last with bus ids in channel lines.
        V2_16 = "2.16",
        /// 2.18: `commId` in INIT lines.
        V2_18 = "2.18",
        /// 2.20
        V2_20 = "2.20",
        /// 2.21: INIT lines start with the function.
        V2_21 = "2.21",
        /// 2.22
        V2_22 = "2.22",
        /// 2.23
        V2_23 = "2.23",
        /// 2.24
        V2_24 = "2.24",
        /// 2.27: opCount stands still on one node; WARN lines have a time since 2.26.
        V2_27 = "2.27",
        /// 2.28: AlltoAll, Gather and Scatter are operations of their own.
        V2_28 = "2.28",
        /// 2.29: `[Rank 0]` in front of Init START; lines over 128 bytes tear.
        V2_29 = "2.29",
        /// 2.30: the function's name in WARN lines.
        V2_30 = "2.30",
        /// RCCL 2.22: `task` and `globalrank` after the stream.
        Rccl2_22 = "rccl-2.22",
        /// RCCL 2.27: also `acc` after the buffers, and no stream.
        Rccl2_27 = "rccl-2.27",
    }
}

named! {
    /// The step lines' trainer.
    SynthTrainer, "trainer" {
        /// NeMo 2 ProgressPrinter.
        Nemo2 = "nemo2",
        /// NeMo 1 and Lightning progress bar.
        Nemo1 = "nemo1",
        /// Megatron-LM.
        Megatron = "megatron",
        /// Megatron-Bridge: two lines from two ranks.
        MegatronBridge = "megatron-bridge",
        /// Megatron-DeepSpeed.
        MegatronDeepspeed = "megatron-deepspeed",
        /// GPT-NeoX.
        GptNeox = "gpt-neox",
        /// The DeepSpeed engine's own lines.
        Deepspeed = "deepspeed",
        /// torchtitan.
        Torchtitan = "torchtitan",
        /// MaxText: one step late.
        Maxtext = "maxtext",
        /// nanotron.
        Nanotron = "nanotron",
        /// Hugging Face Trainer: bar and dict.
        Hf = "hf",
        /// No step lines.
        None = "none",
    }
}

named! {
    /// The launcher's text before every line.
    Prefix, "prefix" {
        /// Nothing.
        None = "none",
        /// `srun --label`.
        Srun = "srun",
        /// `mpirun --tag-output`.
        Mpirun = "mpirun",
        /// `torchrun --tee`.
        Torchrun = "torchrun",
        /// Ray's actor name.
        Ray = "ray",
        /// `mpiexec.hydra -prepend-rank`.
        Hydra = "hydra",
        /// A CloudWatch export.
        Cloudwatch = "cloudwatch",
        /// `kubectl logs --prefix`.
        Kubectl = "kubectl",
    }
}

named! {
    /// `NCCL_DEBUG_TIMESTAMP_FORMAT` with every level (`NCCL_DEBUG_TIMESTAMP_LEVELS=ALL`).
    Timestamps, "time stamp" {
        /// Only WARN lines, and only where the version does so by itself.
        None = "none",
        /// NCCL's own format, `[%F %T] `.
        Default = "default",
        /// `%FT%T.%6f `.
        Iso = "iso",
        /// `[%T] `.
        Time = "time",
        /// `%s `.
        Epoch = "epoch",
    }
}

named! {
    /// The names of hosts.
    HostStyle, "host style" {
        /// `node01`
        Plain = "plain",
        /// `38dcf168f605`: as in a container.
        Digits = "digits",
        /// `ip-172-31-54-74`
        Dashes = "dashes",
        /// `gpu-001.cluster-a`
        Dots = "dots",
    }
}

named! {
    /// The network of the ranks' data.
    SynthNet, "network" {
        /// InfiniBand with GPUDirect and PXN.
        Ib = "ib",
        /// RoCE without GPUDirect.
        Roce = "roce",
        /// aws-ofi-nccl.
        Efa = "efa",
        /// Sockets between nodes, host memory in them.
        Socket = "socket",
        /// NVLink between nodes too.
        Nvlink = "nvlink",
    }
}

named! {
    /// Where the ranks' lines go.
    LogLayout, "layout" {
        /// One stream, the ranks' lines mixed.
        Stream = "stream",
        /// A file for each process.
        PerRank = "per-rank",
        /// One stream that each process writes 4096 bytes at a time, as standard output that is
        /// a file or a pipe is written without `python -u`. Step lines are flushed.
        Blocks = "blocks",
    }
}

named! {
    /// How the model and its data are split among the ranks.
    Strategy, "strategy" {
        /// By tensors, stages, experts and contexts of the given sizes.
        Megatron = "megatron",
        /// Every rank has the whole model.
        Ddp = "ddp",
        /// The model is sharded among all ranks.
        Fsdp = "fsdp",
        /// It is sharded among the ranks of a host, and each host has a copy.
        Hsdp = "hsdp",
        /// Gradients are sharded among all ranks.
        Zero2 = "zero2",
        /// Parameters too.
        Zero3 = "zero3",
        /// No training: the tensors of a model that answers requests are split among all ranks.
        Server = "server",
    }
}

named! {
    /// How a job ends that has no fault.
    SynthEnd, "end" {
        /// After its last step.
        Whole = "whole",
        /// All processes are killed at some moment.
        Killed = "killed",
        /// They are killed, and Slurm reports it.
        Cancelled = "cancelled",
        /// The log is copied while the job runs: it ends inside a line.
        Cut = "cut",
    }
}

named! {
    /// Damage to a line on its way to the disk.
    Damage, "damage" {
        /// Cut after 128 bytes, the tail later on a line of its own (NCCL 2.29).
        Torn = "torn",
        /// The trainer's line in the middle of a COLL line (block-buffered stdout).
        Spliced = "spliced",
        /// The end is missing.
        Cut = "cut",
        /// The newline is missing.
        Glued = "glued",
        /// The end and the newline are missing.
        GluedCut = "glued-cut",
        /// A `Trees` line cut at 1,023 bytes, by NCCL itself.
        Truncated = "truncated",
        /// Windows line ends.
        Crlf = "crlf",
        /// One NCCL_DEBUG_FILE for all, each process at its own offset.
        Overwritten = "overwritten",
        /// Header and body on different lines (NCCL 2.3 and 2.4, nccl#147).
        Orphan = "orphan",
    }
}

impl Nccl {
    /// AMD's library.
    pub fn is_rccl(self) -> bool {
        matches!(self, Nccl::Rccl2_22 | Nccl::Rccl2_27)
    }

    /// Returns the NCCL version with the same code: RCCL's number is the one it was forked from.
    pub fn base(self) -> Nccl {
        match self {
            Nccl::Rccl2_22 => Nccl::V2_22,
            Nccl::Rccl2_27 => Nccl::V2_27,
            other => other,
        }
    }

    /// At least that NCCL version.
    pub fn since(self, version: Nccl) -> bool {
        self.base() >= version
    }
}

impl SynthTrainer {
    /// The number of the first step (trainer-lines, ten facts, 4).
    pub fn first_number(self) -> u64 {
        u64::from(!matches!(
            self,
            SynthTrainer::Nemo2 | SynthTrainer::Nemo1 | SynthTrainer::Maxtext
        ))
    }
}

/// The job and log to make. [`Options::check`] refuses contradictions.
#[derive(Debug, Clone)]
pub struct Options {
    /// Same seed and options, same bytes. Default 1.
    pub seed: u64,
    /// Processes, one GPU each. Default 8.
    pub ranks: usize,
    /// Hosts. Default 1.
    pub nodes: usize,
    /// How the model is split. Default megatron; only this one has the sizes that follow.
    pub strategy: Strategy,
    /// Tensor-parallel size. Default 2.
    pub tp: usize,
    /// Pipeline-parallel size. Default 1.
    pub pp: usize,
    /// Expert-parallel size. Default 1.
    pub ep: usize,
    /// Context-parallel size. Default 1.
    pub cp: usize,
    /// Transformer layers of the whole model. Default 4.
    pub layers: usize,
    /// Steps to train. Default 20; ignored with [`Options::size`].
    pub steps: u64,
    /// The first step in the trainer's own numbers. Default the trainer's first.
    pub first_step: Option<u64>,
    /// Steps between two step lines. Default 1.
    pub log_interval: u64,
    /// Steps in an epoch (NeMo's `iteration` starts again). Default one epoch.
    pub epoch_steps: Option<u64>,
    /// The job dies after this step and resumes some steps earlier.
    pub restart_at: Option<u64>,
    /// Steps between two evaluations and saves.
    pub eval_every: Option<u64>,
    /// Calls after the last step.
    pub tail_calls: bool,
    /// Line shapes. Default 2.28.
    pub nccl: Nccl,
    /// Step lines. Default nemo2.
    pub trainer: SynthTrainer,
    /// torchtitan and MaxText: every rank prints its step line.
    pub every_rank: bool,
    /// Launcher prefix. Default none.
    pub prefix: Prefix,
    /// Time stamps of NCCL's own. Default none.
    pub timestamps: Timestamps,
    /// A CALL line after every COLL line (`NCCL_DEBUG=TRACE`).
    pub trace: bool,
    /// INIT, NET, GRAPH and NVLS lines. Default true.
    pub init: bool,
    /// All communicators but the first are split from it. Default false.
    pub split: bool,
    /// Cards and connections of this network. Default a few lines of InfiniBand's.
    pub net: Option<SynthNet>,
    /// The NVLink switches can be used; only with [`Options::net`] can they be not.
    pub nvls: bool,
    /// A TUNING line after each call of a rank 0.
    pub tuning: bool,
    /// Default plain.
    pub host_style: HostStyle,
    /// Send and Recv of nothing among the token exchanges.
    pub zero_counts: bool,
    /// Default stream.
    pub layout: LogLayout,
    /// Add steps until this many bytes are written.
    pub size: Option<u64>,
    /// Kinds of damage with their rates, each at most once.
    pub damage: Vec<(Damage, f64)>,
    /// The fault of the job. Default none.
    pub fault: Option<Fault>,
    /// Steps that hosts run ahead of their GPUs. Default: ranks are mixed at random, step by
    /// step.
    pub lead: Option<u64>,
    /// How it ends, with [`Options::lead`]. Default whole.
    pub end: SynthEnd,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            ranks: 8,
            nodes: 1,
            strategy: Strategy::Megatron,
            tp: 2,
            pp: 1,
            ep: 1,
            cp: 1,
            layers: 4,
            steps: 20,
            first_step: None,
            log_interval: 1,
            epoch_steps: None,
            restart_at: None,
            eval_every: None,
            tail_calls: false,
            nccl: Nccl::V2_28,
            trainer: SynthTrainer::Nemo2,
            every_rank: false,
            prefix: Prefix::None,
            timestamps: Timestamps::None,
            trace: false,
            init: true,
            split: false,
            net: None,
            nvls: false,
            tuning: false,
            host_style: HostStyle::Plain,
            zero_counts: false,
            layout: LogLayout::Stream,
            size: None,
            damage: Vec::new(),
            fault: None,
            lead: None,
            end: SynthEnd::Whole,
        }
    }
}
