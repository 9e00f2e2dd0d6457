//! The purposes of communicators.

/// The purpose of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CommPurpose {
    /// All ranks.
    World,
    /// The ranks that share a layer's tensors.
    Tp,
    /// The ranks that share a shard of the model.
    Dp,
    /// Two neighbouring pipeline stages.
    Pp,
    /// The ranks among which experts are spread.
    Ep,
    /// The ranks among which a sequence is spread.
    Cp,
    /// The ranks among which a copy of the model is sharded, where there are several copies.
    Shard,
}

impl CommPurpose {
    /// The word in the truth.
    pub fn name(self) -> &'static str {
        match self {
            CommPurpose::World => "world",
            CommPurpose::Tp => "tp",
            CommPurpose::Dp => "dp",
            CommPurpose::Pp => "pp",
            CommPurpose::Ep => "ep",
            CommPurpose::Cp => "cp",
            CommPurpose::Shard => "shard",
        }
    }
}
