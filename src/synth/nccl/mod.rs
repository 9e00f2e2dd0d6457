//! What NCCL prints, by its version: before the first call, of each call, and at the end.

pub(crate) mod init;
pub(crate) mod line;
pub(crate) mod net;
pub(crate) mod shapes;
mod start_and_end;
