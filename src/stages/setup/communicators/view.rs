//! Communicators as other stages see them: with their members, and by purpose and size to compare jobs,
//! since ids and addresses always differ.

use super::CommunicatorsSummary;
use super::facts::{CommunicatorFacts, CommunicatorMember};
use super::identity::CommunicatorKey;
use crate::grammar::message::graph::ChannelCounts;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// A communicator.
pub struct CommunicatorView<'f> {
    facts: CommunicatorFacts<'f>,
    /// Its id, as printed.
    pub comm_id: Option<String>,
    /// Its size.
    pub nranks: Option<u32>,
    /// Its number of nodes.
    pub nodes: Option<u32>,
}

impl CommunicatorsSummary {
    /// Lists all communicators, in the order in which they were first seen.
    pub fn views(&self) -> impl Iterator<Item = CommunicatorView<'_>> {
        self.communicators.iter().map(|communicator| {
            let facts = CommunicatorFacts::new(self, communicator);
            CommunicatorView {
                comm_id: communicator.key.format_id(),
                nranks: communicator.nranks,
                nodes: facts.count_nodes(),
                facts,
            }
        })
    }
}

impl<'f> CommunicatorView<'f> {
    /// Returns the members seen, by rank.
    pub fn members(&self) -> impl Iterator<Item = CommunicatorMember<'f>> {
        self.facts.members()
    }
}

/// A communicator without its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommunicatorKind {
    /// Its purpose: `tensor`, `unknown`.
    pub(crate) label: &'static str,
    /// Its size.
    pub(crate) nranks: Option<u32>,
    /// Number of nodes.
    pub(crate) nodes: Option<u32>,
    /// Its members share an identity; otherwise it is one process's side.
    pub(crate) named: bool,
    /// Numbers of channels that its members report.
    pub(crate) channels: BTreeSet<ChannelCounts>,
}

impl CommunicatorsSummary {
    /// Lists all communicators in the order in which they first appear.
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

    /// Returns the purpose of the communicator of each merged member's calls.
    pub(crate) fn member_purposes(&self) -> FxHashMap<u32, &'static str> {
        let mut of_side: FxHashMap<usize, &'static str> = FxHashMap::default();
        for communicator in &self.communicators {
            let label = communicator.label.of.name();
            of_side.extend(communicator.sides.iter().map(|&side| (side, label)));
        }
        let label = |(&member, side): (&u32, &usize)| Some((member, *of_side.get(side)?));
        self.side_of.iter().filter_map(label).collect()
    }

    /// Returns the name of an operation.
    pub(crate) fn op_name(&self, op: u32) -> &[u8] {
        self.ops.name_of_op(op)
    }
}
