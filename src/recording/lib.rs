//! The file format of nccl-pipe's recorders: one file a process, written while the job runs.
//!
//! ```text
//! MAGIC, then frames:
//!     sync (3 bytes), kind (1), number (4), length of the body (4), CRC-32 of all that and the body (4), body
//! ```
//!
//! - Integers outside of bodies are little-endian. In bodies they are LEB128, signed ones as zigzag.
//! - A frame of kind [`FrameKind::Process`] comes first. Frames of kind [`FrameKind::Events`] have the events of
//!   all threads in the order of their times, each as its difference from what the events before it in the frame
//!   suggest: so a call comes before its launch, and that before its kernel, also where other threads report them.
//! - Shapes of calls and communicators are defined once and then referred to by number. A *fresh* frame refers to
//!   nothing that an earlier frame defines: reading goes on there after damage.
//! - What a killed process wrote is readable to its last whole frame.
//!
//! The meaning of an event is in [`Event`], its bytes are in `codec`.

mod codec;
mod error;
mod event;
mod frame;
mod join;
pub mod limits;
pub mod names;
mod reader;
#[cfg(test)]
mod tests;
mod varint;

pub use codec::{EventEncoder, FrameHead};
pub use error::Malformed;
pub use event::{
    CallBegun, CommFacts, Event, KernelSpan, ProcessFacts, ProxyEnded, RecordedShape, TaskBegun,
    TimedEvent,
};
pub use frame::{FrameKind, MAGIC, append_frame};
pub use join::{CallJoiner, RecordingCall};
pub use reader::{RecordingDamage, RecordingItem, RecordingReader};
