//! GPUs and their driver, from the records of profilers.

pub mod cuda;
pub mod kernels;
mod limits;
pub mod overlap;
