//! Events as bytes.
//!
//! A body is a [`FrameHead`], then events. The first byte of each has its kind in the low three bits; the others are
//! flags, each for a field that is not what was predicted. Calls of a communicator count up, so most of them have
//! four fields: kind, shape, time, and the communicator where it is another than before.

mod decode;
mod encode;
mod predict;

pub(crate) use decode::{DecodedItem, EventDecoder};
pub use encode::EventEncoder;

/// What stands before the events of a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameHead {
    /// Times are differences from this one, in ns.
    pub base_ns: u64,
    /// It refers to no definition of an earlier frame.
    pub is_fresh: bool,
}

/// Kinds of events, and definitions.
mod kind {
    pub(super) const OTHER: u8 = 0;
    pub(super) const CALL: u8 = 1;
    pub(super) const TASK: u8 = 2;
    pub(super) const TASK_ENDED: u8 = 3;
    pub(super) const KERNEL: u8 = 4;
    pub(super) const PROXY: u8 = 5;
    /// The bits of the kind.
    pub(super) const BITS: u8 = 7;
}

/// Flags of an event.
mod flag {
    /// It has a communicator, since that is not the one of the event before.
    pub(super) const COMM: u8 = 1 << 3;
    /// It has its number.
    pub(super) const NUMBER: u8 = 1 << 4;
    /// A call has its ordinal, a task its call.
    pub(super) const SECOND: u8 = 1 << 5;
    /// A task has its `seq`.
    pub(super) const SEQ: u8 = 1 << 6;
    /// A call is captured.
    pub(super) const CAPTURED: u8 = 1 << 6;
    /// A call is seen at its launch.
    pub(super) const LAUNCH: u8 = 1 << 7;
    /// A proxy operation sends.
    pub(super) const SEND: u8 = 1 << 6;
}

/// What kind [`kind::OTHER`] is, in the bits above the flag of the communicator.
mod other {
    pub(super) const COMM: u8 = 0;
    pub(super) const SHAPE: u8 = 1;
    pub(super) const COMM_BEGUN: u8 = 2;
    pub(super) const COMM_ENDED: u8 = 3;
    pub(super) const DROPPED: u8 = 4;
    pub(super) const THREAD: u8 = 5;
    /// The first bit of it.
    pub(super) const SHIFT: u8 = 4;
}
