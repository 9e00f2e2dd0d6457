//! The limits of topologies. The largest file at hand, of a host with 8 GPUs, has 20 kB.

/// Bytes of a file that is read.
pub(super) const MAX_TOPOLOGY_BYTES: usize = 16 << 20;

/// GPUs and NICs of a machine that are compared: NCCL takes 72 GPUs with NVLink between hosts for one.
pub(super) const MAX_DEVICES: usize = 256;

/// Elements around a device that are looked at: real machines have at most a dozen.
pub(super) const MAX_PCIE_DEPTH: usize = 64;

/// Lines of other text after a matrix: prompts. The output of a job that begins with a matrix has more.
pub(super) const MAX_OTHER_LINES: usize = 2;
