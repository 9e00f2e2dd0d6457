//! Threads, by which lines belong together.

use crate::members::MergedNumbers;
use serde::{Deserialize, Serialize};

/// A thread: its process, and its number if the line has one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub(crate) struct SpeakerThread {
    /// The process's number.
    pub(crate) process: u32,
    /// The thread's number.
    pub(crate) tid: Option<u64>,
}

impl SpeakerThread {
    /// Makes a thread.
    pub(crate) fn new(process: u32, tid: Option<u64>) -> SpeakerThread {
        SpeakerThread { process, tid }
    }

    /// Returns the thread with the process's number in the whole.
    pub(crate) fn renumber(self, to: &MergedNumbers) -> SpeakerThread {
        SpeakerThread::new(to.processes[self.process as usize], self.tid)
    }
}
