//! The library as NCCL uses it: loaded, and driven by a stub of each version of the interface.
#![allow(unsafe_code, reason = "the interface is C's")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::exit,
    reason = "tests"
)]

mod nccl;
mod recorded;
mod scenes;
mod truth;
