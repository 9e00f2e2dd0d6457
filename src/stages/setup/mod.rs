//! What NCCL set up: communicators, the network, algorithms and protocols.

pub mod communicators;
pub(crate) mod first_line;
pub mod net;
pub(crate) mod thread;
pub mod topology;
pub mod tuning;
