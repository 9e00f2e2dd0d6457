//! NCCL's profiler plugin of nccl-pipe: records every call of a process into one file
//! ([`nccl_pipe_recording`] has its format). NCCL loads it where `NCCL_PROFILER_PLUGIN` names it.
//!
//! ```text
//! NCCL's threads -> abi (versions 1 to 6) -> calls (numbers, handles) -> lane (a ring a thread)
//!                                                                            |
//!                                             file <- writer (one thread) <--+
//! ```
//!
//! - A thread of NCCL takes a time, a number, and a place in its own ring: it never waits. Without room an event is
//!   dropped and counted.
//! - What NCCL holds of an event is a number, never an address: an event that comes after its communicator is gone
//!   does no harm.
//! - The process may fork, abort or end without `finalize`: what came until [`limits::FLUSH_PERIOD`] before is in
//!   the file.

mod abi;
mod calls;
mod kernels;
mod lane;
pub mod limits;
mod output;
mod proxies;
mod recorder;
mod settings;
mod system;
mod writer;
