//! What the benches share: logs of known truth, and how large they are.

// Each bench takes what it needs.
#![allow(dead_code)]

use nccl_pipe::count::calls::Progress;
use nccl_pipe::synth::{self, Options, StreamSink, Truth};

/// A log and what is true of it.
pub(crate) struct Made {
    /// The log.
    pub(crate) log: Vec<u8>,
    /// What is in it, counted while it was written.
    pub(crate) truth: Truth,
}

/// Makes a log.
pub(crate) fn make(options: &Options) -> Made {
    let mut log = Vec::new();
    let truth = synth::generate(options, &mut StreamSink::new(&mut log)).expect("a made log");
    assert_eq!(log.len() as u64, truth.size);
    Made { log, truth }
}

/// The job most benches are about: 8 ranks that train with tensor and pipeline parallelism.
pub(crate) fn job(size: u64) -> Options {
    Options {
        size: Some(size),
        layers: 8,
        pp: 2,
        ..Options::default()
    }
}

/// Bytes of a log: `full`, or little under `--test`, where nothing is timed and only the
/// answers are held against the truth.
pub(crate) fn size(full: u64) -> u64 {
    if std::env::args().any(|arg| arg == "--test") {
        256 << 10
    } else {
        full
    }
}

/// 1 thread, and as many as there are cores.
pub(crate) fn jobs() -> Vec<usize> {
    let all = nccl_pipe::pool::thread_count(None);
    if all > 1 { vec![1, all] } else { vec![1] }
}

/// Nobody watches.
pub(crate) struct Unwatched;

impl Progress for Unwatched {
    fn advance(&self, _: u64) {}
}
