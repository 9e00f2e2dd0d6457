//! Purposes and states of communicators, as they are printed.

use serde::{Deserialize, Serialize};

/// Purpose of a communicator, and why.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PurposeLabel {
    /// The purpose.
    pub(crate) of: CommunicatorPurpose,
    /// Use and place agree, and nothing else fits.
    pub(crate) high: bool,
    /// The reasons.
    pub(crate) evidence: Vec<String>,
}

impl PurposeLabel {
    /// True if the purpose is known.
    pub(crate) fn is_known(&self) -> bool {
        self.of != CommunicatorPurpose::Unknown
    }

    /// `tensor`, or `tensor?` where that is unsure; `None` where nothing is known.
    pub(crate) fn describe(&self) -> Option<String> {
        let unsure = if self.high { "" } else { "?" };
        self.is_known()
            .then(|| format!("{}{unsure}", self.of.name()))
    }
}

/// Purpose of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CommunicatorPurpose {
    /// Unknown.
    #[default]
    Unknown,
    /// A layer's tensors are spread over it.
    Tensor,
    /// It connects stages of layers.
    Pipeline,
    /// Its ranks train on different data.
    Data,
    /// Experts are spread over it.
    Expert,
    /// A sequence is spread over it.
    Context,
    /// The first and the last stage of a pipeline share a layer's parameters.
    Embedding,
    /// All ranks of the job.
    World,
}

impl CommunicatorPurpose {
    /// Returns the word in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CommunicatorPurpose::Unknown => "unknown",
            CommunicatorPurpose::Tensor => "tensor",
            CommunicatorPurpose::Pipeline => "pipeline",
            CommunicatorPurpose::Data => "data",
            CommunicatorPurpose::Expert => "expert",
            CommunicatorPurpose::Context => "context",
            CommunicatorPurpose::Embedding => "embedding",
            CommunicatorPurpose::World => "world",
        }
    }
}

/// State of a communicator in one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub(crate) enum CommunicatorState {
    /// No INIT line names it.
    #[default]
    Unknown,
    /// `Init START` is its last line.
    Started,
    /// `Init COMPLETE` is its last line.
    Ready,
    /// `Revoke COMPLETE` is its last line: it takes no more calls.
    Revoked,
    /// `Finalize COMPLETE` is its last line: all its work is done.
    Finalized,
    /// `Destroy COMPLETE` is its last line.
    Destroyed,
    /// `Abort COMPLETE` is its last line.
    Aborted,
}

impl CommunicatorState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            CommunicatorState::Unknown => "",
            CommunicatorState::Started => "started",
            CommunicatorState::Ready => "ready",
            CommunicatorState::Revoked => "revoked",
            CommunicatorState::Finalized => "finalized",
            CommunicatorState::Destroyed => "destroyed",
            CommunicatorState::Aborted => "aborted",
        }
    }

    /// True if the process ended it in order, with all its work done.
    pub(crate) fn is_ended_in_order(self) -> bool {
        matches!(
            self,
            CommunicatorState::Finalized | CommunicatorState::Destroyed
        )
    }

    /// True if its initialisation ended.
    pub(crate) fn is_set_up(self) -> bool {
        !matches!(
            self,
            CommunicatorState::Unknown | CommunicatorState::Started
        )
    }

    /// True if its address may name another communicator from now on.
    pub(super) fn is_over(self) -> bool {
        matches!(
            self,
            CommunicatorState::Destroyed | CommunicatorState::Aborted
        )
    }
}
