//! GPU timelines of any profiler: the activities of the GPUs, and the ranges that a program named.

pub mod cuda;
pub(in crate::formats) mod kineto;
pub(in crate::formats) mod nsys;
pub mod stats;

use crate::error::Result;

/// The kind of a GPU's activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActivityKind {
    /// It ran a kernel.
    Kernel,
    /// It copied memory.
    Copy,
    /// It set memory.
    Set,
    /// It ran a CUDA graph that is recorded as a whole: its kernels, copies and sets are unknown.
    Graph,
}

/// One activity of a GPU. Times are ns on the recorder's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuActivity<'a> {
    /// What it was.
    pub kind: ActivityKind,
    /// The kernel's name, demangled if the record has that; for a copy its direction, as `HtoD`.
    pub name: &'a [u8],
    /// The process.
    pub pid: Option<u64>,
    /// The GPU, as the process or the recorder numbers it.
    pub device: u32,
    /// The stream.
    pub stream: Option<u64>,
    /// When it began and ended; activities that end before they begin are left out as damaged.
    pub start_ns: i64,
    /// See `start_ns`.
    pub end_ns: i64,
    /// The bytes of a copy or a set.
    pub bytes: Option<u64>,
    /// The GPUs that a copy goes from and to, if recorded.
    pub between: Option<(u32, u32)>,
    /// The number that it shares with the host's call that made it; unique in a process.
    pub correlation: Option<u64>,
    /// A kernel's grid and block, if recorded.
    pub launched: Option<([u32; 3], [u32; 3])>,
}

/// A range that a program named: NVTX, or an annotation of PyTorch's profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedRange<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The process.
    pub pid: Option<u64>,
    /// The thread on the host.
    pub tid: Option<u64>,
    /// The GPU where the range is one of its activities (Kineto's gpu_user_annotation); `None` on the host.
    pub device: Option<u32>,
    /// ns on the clock of the activities.
    pub start_ns: i64,
    /// See `start_ns`; equal to it for a mark.
    pub end_ns: i64,
    /// The step that it is (`ProfilerStep#7`).
    pub step: Option<u64>,
}

/// Facts about a whole record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecorderSession {
    /// The host.
    pub host: Box<[u8]>,
    /// The rank, if recorded (Kineto's distributedInfo).
    pub rank: Option<u32>,
    /// The session's first and last ns on the clock of the activities.
    pub window: Option<(i64, i64)>,
    /// The ns to add to times of this record for ns since 1970.
    pub utc_ns: Option<i64>,
}

/// Takes a GPU timeline. Its parts come in any order.
pub trait GpuVisitor {
    /// An activity.
    ///
    /// # Errors
    /// What ends the reading.
    fn visit_activity(&mut self, activity: &GpuActivity<'_>) -> Result<()>;
    /// A range.
    fn visit_range(&mut self, _range: &NamedRange<'_>) {}
    /// Facts about the whole record; comes once, before or after all else.
    fn visit_session(&mut self, _session: &RecorderSession) {}
    /// Returns true if nothing but kernels is wanted.
    fn wants_only_kernels(&self) -> bool {
        false
    }
    /// Takes a sentence for the user about gaps or damage of the record.
    fn add_note(&mut self, _text: &str) {}
}
