//! What a communicator is for, as it is printed.

/// What a communicator is for, and why.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PurposeLabel {
    /// What.
    pub(crate) of: CommunicatorPurpose,
    /// Use and place agree, and nothing else fits.
    pub(crate) high: bool,
    /// Why.
    pub(crate) evidence: Vec<String>,
}

impl PurposeLabel {
    /// True where something is known.
    pub(crate) fn is_known(&self) -> bool {
        self.of != CommunicatorPurpose::Unknown
    }
}

/// What a communicator is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CommunicatorPurpose {
    /// Not known.
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
    /// The word in the table.
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
