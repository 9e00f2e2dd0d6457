//! Communicators and their members as other stages see them.

use super::CommunicatorsSummary;
use super::facts::CommunicatorFacts;
use super::member::CommunicatorMember;

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
