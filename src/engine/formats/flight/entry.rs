//! A record of a call: its process group, its tensors, its stack, and how far it came.

use std::sync::Arc;

/// The operation that NCCL ran for a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FlightOp {
    /// A collective, as NCCL names it.
    Collective(&'static str),
    /// A send to a rank of the group.
    Send {
        /// The rank in the group that sends.
        from: u32,
        /// The one that receives.
        to: u32,
    },
    /// A receive from a rank of the group.
    Recv {
        /// The rank in the group that receives.
        to: u32,
        /// The one that sends.
        from: u32,
    },
    /// The launch of calls that were put together. It has no sizes: those of sends and receives have
    /// records of their own, those of collectives have none.
    Coalesced,
    /// Another library's, such as Gloo's.
    Foreign,
    /// A name that this version does not know.
    Unknown,
}

/// A process group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlightGroup {
    /// PyTorch's name for it: `0`, or a hash.
    pub name: Arc<str>,
    /// The program's name for it: `default_pg`, `mesh_tp`; `undefined` if it has none. In
    /// [`Dump::groups`](super::FlightDump::groups) it is empty for groups of a mesh.
    pub desc: Arc<str>,
    /// Its members' ranks in the job, in the order of their ranks in the group. Empty if unknown.
    pub ranks: Arc<[u32]>,
}

/// How far a call came, as the watchdog saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlightCallState {
    /// It was enqueued.
    Scheduled,
    /// It runs on the GPU. Only seen with TORCH_NCCL_ENABLE_TIMING.
    Started,
    /// It has ended on the GPU.
    Completed,
}

impl FlightCallState {
    /// Returns its name in a dump.
    pub fn name(self) -> &'static str {
        match self {
            FlightCallState::Scheduled => "scheduled",
            FlightCallState::Started => "started",
            FlightCallState::Completed => "completed",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<FlightCallState> {
        let all = [
            FlightCallState::Scheduled,
            FlightCallState::Started,
            FlightCallState::Completed,
        ];
        all.into_iter().find(|state| state.name() == name)
    }
}

/// A line of a call's stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackFrame {
    /// The file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u64,
    /// The function.
    pub function: Arc<str>,
}

/// The tensors of one side of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallTensors {
    /// The shape of each.
    pub shapes: Arc<[Box<[u64]>]>,
    /// PyTorch's name for the type of each: `BFloat16`.
    pub types: Arc<[Arc<str>]>,
}

impl CallTensors {
    /// The number of elements of each; `None` beyond 64 bits.
    pub fn element_counts(&self) -> impl ExactSizeIterator<Item = Option<u64>> {
        let count = |shape: &[u64]| {
            // A dimension of 0 means no elements, even if the product of the others overflows.
            let mut dims = shape.iter();
            match shape.contains(&0) {
                true => Some(0),
                false => dims.try_fold(1_u64, |n, &dim| n.checked_mul(dim)),
            }
        };
        self.shapes.iter().map(move |shape| count(shape))
    }
}

/// A record of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct DumpEntry {
    /// Its number among all records of the process, from 0.
    pub record_id: u64,
    /// The group's number in the process.
    pub pg_id: u64,
    /// The group.
    pub group: Arc<FlightGroup>,
    /// The group's number of collectives so far, this one included: the first is 1. Calls that are
    /// coalesced share it.
    pub collective_seq: u64,
    /// The group's number of sends and receives so far.
    pub p2p_seq: u64,
    /// The group's number of operations so far; each call of a coalesced group counts.
    pub op_id: u64,
    /// PyTorch's name for the call: `nccl:_all_gather_base`, `nccl:send 0->1`.
    pub name: Arc<str>,
    /// Its operation.
    pub op: FlightOp,
    /// The tensors that it reads.
    pub inputs: CallTensors,
    /// The tensors that it fills.
    pub outputs: CallTensors,
    /// How far it came.
    pub state: FlightCallState,
    /// The state of the coalesced group of this send or receive: such a call is recorded before the
    /// group is launched, and its own state stays `scheduled`.
    pub coalesced: Option<FlightCallState>,
    /// When it was enqueued: ns since 1970 on the host's clock.
    pub created_ns: Option<u64>,
    /// When the watchdog saw that it had started, at the earliest; the same clock.
    pub started_ns: Option<u64>,
    /// When it saw that it had completed.
    pub completed_ns: Option<u64>,
    /// How long it ran on the GPU, by CUDA events, in ns. Only with TORCH_NCCL_ENABLE_TIMING.
    pub duration_ns: Option<u64>,
    /// After how many ms the watchdog aborts the job.
    pub timeout_ms: Option<u64>,
    /// It is a send or a receive, or a coalesced group of them.
    pub is_p2p: bool,
    /// The watchdog no longer watches it. A retired call that has not completed timed out.
    pub is_retired: bool,
    /// Where it was called, the innermost line first.
    pub stack: Arc<[Arc<StackFrame>]>,
}

impl DumpEntry {
    /// Returns how far it came, by itself or with its coalesced group.
    pub fn reached_state(&self) -> FlightCallState {
        self.coalesced
            .map_or(self.state, |state| state.max(self.state))
    }

    /// Returns the program's line that made the call: the innermost one outside PyTorch and Python's
    /// library. `None` if no Python line made it, as in the backward pass of DDP.
    pub fn source_frame(&self) -> Option<&StackFrame> {
        let mut frames = self.stack.iter().map(|frame| &**frame);
        frames.find(|frame| frame.is_program_code())
    }
}

impl StackFrame {
    fn is_program_code(&self) -> bool {
        // C++ lines have no line of Python; `<frozen importlib>` and the like are no files.
        let is_python = self.file.ends_with(".py") || self.file.ends_with(".ipynb");
        let parts: Vec<&str> = self.file.split(['/', '\\']).collect();
        let after = |name: &str| parts.iter().position(|p| *p == name).map(|at| at + 1);
        let installed = after("site-packages").or(after("dist-packages"));
        let package = installed.and_then(|at| parts.get(at).copied());
        let is_torch = match package {
            Some(package) => package == "torch",
            // PyTorch as it is developed.
            None => parts
                .windows(2)
                .any(|two| two[0] == "torch" && is_of_torch(two[1])),
        };
        // `/usr/lib/python3.12/contextlib.py`
        let is_library = package.is_none()
            && parts.windows(2).any(|two| {
                two[0].starts_with("lib") && two[1].strip_prefix("python").is_some_and(is_version)
            });
        is_python && !is_torch && !is_library
    }
}

fn is_version(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Returns true for a folder or file of PyTorch's Python code.
pub(super) fn is_of_torch(name: &str) -> bool {
    const TORCH_PATH_PARTS: [&str; 18] = [
        "distributed",
        "nn",
        "autograd",
        "utils",
        "optim",
        "cuda",
        "fx",
        "jit",
        "futures",
        "csrc",
        "multiprocessing",
        "profiler",
        "export",
        "compiler",
        "func",
        "ao",
        "testing",
        "_tensor.py",
    ];
    name.starts_with('_') || TORCH_PATH_PARTS.contains(&name)
}
