//! The log of a training job whose truth is known.
//!
//! No public log holds step lines and COLL lines together, and no real log comes with a count of
//! what is in it. Here a job is laid out ([`job`]), its calls are scheduled ([`schedule`]), every
//! line is given the shape its NCCL version prints ([`shapes`], [`init`]) and its trainer prints
//! ([`trainer`], [`events`]), the ranks are mixed and damaged as a real file is ([`stretch`]),
//! and what is true of the result is counted on the way ([`truth`]), never read back.
//!
//! Same options, same bytes. Memory does not grow with the log but for one small record a step
//! line, and for `overwritten`, which is simulated in memory.

mod ahead;
pub mod call;
pub mod cells;
pub mod check;
pub mod clock;
pub mod damage;
pub mod events;
pub mod fault;
mod harm;
pub mod init;
pub mod job;
mod megatron;
pub mod net;
pub mod options;
pub mod out;
mod placed;
pub mod prefix;
pub mod pynum;
pub mod rng;
pub mod rows;
mod run;
pub mod schedule;
pub mod shapes;
pub mod size;
mod split;
mod starting;
mod strategies;
pub mod stretch;
#[cfg(test)]
mod tests;
pub mod trainer;
pub mod truth;
pub mod writer;

pub use options::Options;
pub use out::{FolderSink, Sink, StreamSink};
pub use truth::Truth;

/// Writes the log into `sink` and says what is in it.
pub fn generate(options: &Options, sink: &mut dyn Sink) -> crate::error::Result<Truth> {
    run::run(options, sink)
}
