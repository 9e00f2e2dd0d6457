//! Communicators and their members as other stages see them.

use super::Found;
use super::facts::Facts;
use super::seat::Seat;

/// A communicator.
pub struct View<'f> {
    facts: Facts<'f>,
    /// Its id, as printed.
    pub comm_id: Option<String>,
    /// Its size.
    pub nranks: Option<u32>,
    /// How many nodes it is on.
    pub nodes: Option<u32>,
}

impl Found {
    /// All communicators, in the order they were first seen.
    pub fn views(&self) -> impl Iterator<Item = View<'_>> {
        self.communicators.iter().map(|communicator| {
            let facts = Facts::of(self, communicator);
            View {
                comm_id: communicator.key.text(),
                nranks: communicator.nranks,
                nodes: facts.nodes(),
                facts,
            }
        })
    }
}

impl<'f> View<'f> {
    /// The members seen, by rank.
    pub fn seats(&self) -> impl Iterator<Item = Seat<'f>> {
        self.facts.seats()
    }
}
