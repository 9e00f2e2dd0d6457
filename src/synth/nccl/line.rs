//! A line of NCCL's before it has a header.

/// A line of a rank's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NcclLine {
    /// Body of an INFO line.
    Info(String),
    /// A body that NCCL itself may have cut: its `Trees`.
    Trees(String),
    /// Without a header, as old NCCL's version line.
    Bare(String),
}
