//! The communicators by what they are for and how large they are: what two jobs can be held
//! against each other in, whose ids and addresses never agree.

use super::CommunicatorsSummary;
use super::facts::CommunicatorFacts;
use super::identity::CommunicatorKey;
use crate::grammar::message::graph::ChannelCounts;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// A communicator without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommunicatorKind {
    /// What it is for: `tensor`, `unknown`.
    pub(crate) label: &'static str,
    /// Its size.
    pub(crate) nranks: Option<u32>,
    /// Nodes it spans.
    pub(crate) nodes: Option<u32>,
    /// Its members name it: it is one, and not one process's side.
    pub(crate) named: bool,
    /// The numbers of channels that its members say it has.
    pub(crate) channels: BTreeSet<ChannelCounts>,
}

impl CommunicatorsSummary {
    /// All communicators, in the order they first appear.
    pub(crate) fn communicator_kinds(&self) -> impl Iterator<Item = CommunicatorKind> {
        self.communicators.iter().map(|communicator| {
            let of = CommunicatorFacts::new(self, communicator);
            CommunicatorKind {
                label: communicator.label.of.name(),
                nranks: of.nranks(),
                nodes: of.count_nodes(),
                named: !matches!(communicator.key, CommunicatorKey::Own(_)),
                channels: of
                    .sides()
                    .filter_map(|side| side.channels)
                    .map(|(n, _)| n)
                    .collect(),
            }
        })
    }

    /// What the communicator is for that a merged member makes its calls on.
    pub(crate) fn member_purposes(&self) -> FxHashMap<u32, &'static str> {
        let mut of_side: FxHashMap<usize, &'static str> = FxHashMap::default();
        for communicator in &self.communicators {
            let label = communicator.label.of.name();
            of_side.extend(communicator.sides.iter().map(|&side| (side, label)));
        }
        let label = |(&member, side): (&u32, &usize)| Some((member, *of_side.get(side)?));
        self.side_of.iter().filter_map(label).collect()
    }

    /// The name of an operation.
    pub(crate) fn op_name(&self, op: u32) -> &[u8] {
        self.ops.name_of_op(op)
    }
}
