//! Generates the log of a training job together with its truth.
//!
//! No public log holds step lines and COLL lines together, and no real log comes with counts of
//! its contents. Here a job is laid out (`job`), its calls are scheduled (`job::schedule`), every
//! line is given the shape its NCCL version prints (`nccl`) and its trainer prints
//! (`trainer`), the ranks are mixed and damaged as a real file is (`stream`),
//! and the truth of the result is counted on the way (`truth`), never read back.
//!
//! Same options, same bytes. Memory does not grow with the log but for one small record a step
//! line, and for `overwritten`, which is simulated in memory.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod ahead;
mod clock;
mod error;
pub mod fault;
mod job;
mod named_choices;
mod nccl;
pub mod options;
mod rng;
mod run;
mod stream;
#[cfg(test)]
mod tests;
mod trainer;
mod truth;

pub use error::{Error, Result};
pub use options::Options;
pub use stream::sink::{FolderSink, LogSink, StreamSink};
pub use truth::Truth;

/// Writes the log into `sink` and returns its truth.
pub fn generate(options: &Options, sink: &mut dyn LogSink) -> Result<Truth> {
    run::write_log(options, sink)
}
