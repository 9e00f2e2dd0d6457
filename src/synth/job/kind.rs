//! What communicators are for.

/// What a communicator is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
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

impl Kind {
    /// The word in the truth.
    pub fn name(self) -> &'static str {
        match self {
            Kind::World => "world",
            Kind::Tp => "tp",
            Kind::Dp => "dp",
            Kind::Pp => "pp",
            Kind::Ep => "ep",
            Kind::Cp => "cp",
            Kind::Shard => "shard",
        }
    }
}
