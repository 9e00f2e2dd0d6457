//! How far each rank's initialisation has come, from the lines that NCCL prints on the way.
//!
//! A rank prints `Init START` (since 2.18) and later `Init COMPLETE`; between them the same thread prints what it
//! found and did (`initTransportsRank` in `src/init.cc`). Up to 2.17 the first of its lines is its rings and
//! trees, and only the last one, `Init COMPLETE`, names the communicator.

mod phase;
mod progress;

pub(crate) use phase::SetupPhase;
pub(crate) use progress::{SetupProgress, StampedSpot, UnnamedSetup, UnnamedSetups};

use crate::grammar::message::NcclMessage;
use crate::stages::setup::thread::SpeakerThread;
use phase::{begins_setup, find_rank};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// What a line shows of the initialisation that its thread is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SetupStep {
    /// It has come to a phase.
    Reached(ReachedPhase),
    /// The initialisation returned this error.
    Failed(i32),
}

/// A phase that a thread has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReachedPhase {
    pub(super) phase: SetupPhase,
    /// The rank that prints the line, if it names it.
    pub(super) rank: Option<u32>,
    /// Such a line is printed by initialisations only.
    pub(super) begins: bool,
}

/// What the lines of a chunk's threads have shown since their last INIT lines: only news is kept.
#[derive(Debug, Default)]
pub(super) struct BegunThreads(FxHashMap<SpeakerThread, ShownSteps>);

#[derive(Debug, Default)]
struct ShownSteps {
    phase: Option<SetupPhase>,
    has_rank: bool,
    begins: bool,
    failed: bool,
}

impl BegunThreads {
    /// Forgets a thread: an INIT line follows.
    pub(super) fn reset_thread(&mut self, thread: SpeakerThread) {
        self.0.remove(&thread);
    }

    /// Returns what a message shows that the thread's earlier ones did not.
    pub(super) fn take_message(
        &mut self,
        thread: SpeakerThread,
        message: &NcclMessage<'_>,
    ) -> Option<SetupStep> {
        if let NcclMessage::Return(returned) = message {
            // An error on the way may be handled: without SHARP NCCL goes on without CollNet. One that leaves
            // the group's job (`ncclAsyncJobMain` in `src/group.cc`) ends the initialisation.
            if !returned.file.ends_with(b"group.cc") {
                return None;
            }
            let shown = self.0.entry(thread).or_default();
            let first = !std::mem::replace(&mut shown.failed, true);
            return first.then_some(SetupStep::Failed(returned.code));
        }
        let phase = SetupPhase::of_message(message)?;
        let shown = self.0.entry(thread).or_default();
        let begins = !shown.begins && begins_setup(message);
        if begins {
            // What the thread showed before was of no initialisation.
            *shown = ShownSteps::default();
        }
        let rank = find_rank(message).filter(|_| !shown.has_rank);
        if shown.phase >= Some(phase) && !begins && rank.is_none() {
            return None;
        }
        shown.phase = shown.phase.max(Some(phase));
        shown.begins |= begins;
        shown.has_rank |= rank.is_some();
        Some(SetupStep::Reached(ReachedPhase {
            phase,
            rank,
            begins,
        }))
    }
}
