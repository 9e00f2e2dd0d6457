//! What a communicator is for, as it is printed.

/// What a communicator is for, and why.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Label {
    /// What.
    pub(crate) of: Of,
    /// Use and place agree, and nothing else fits.
    pub(crate) high: bool,
    /// Why.
    pub(crate) evidence: Vec<String>,
}

impl Label {
    /// True where something is known.
    pub(crate) fn is_known(&self) -> bool {
        self.of != Of::Unknown
    }
}

/// What a communicator is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Of {
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

impl Of {
    /// The word in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Of::Unknown => "unknown",
            Of::Tensor => "tensor",
            Of::Pipeline => "pipeline",
            Of::Data => "data",
            Of::Expert => "expert",
            Of::Context => "context",
            Of::Embedding => "embedding",
            Of::World => "world",
        }
    }
}
