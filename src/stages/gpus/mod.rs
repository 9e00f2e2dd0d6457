//! What GPUs and their driver did, from the records of profilers.

pub mod cuda;
pub mod kernels;
pub mod overlap;
