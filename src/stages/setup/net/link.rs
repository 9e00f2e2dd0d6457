//! Connections as their lines give them, and what they come to: who reaches whom over what.

use super::owner::Claim;
use crate::grammar::message::network::channel::{Connection, Side};
use crate::grammar::message::network::transport::{Gdr, Transport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A connection without its channel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Way {
    /// The rank that sends; of a COLLNET connection the one that prints.
    pub from: u32,
    /// The rank that receives.
    pub to: Option<u32>,
    /// Which end prints the line, where both do.
    pub receives: Option<bool>,
    /// What it goes over.
    pub via: Via,
}

/// What a connection goes over.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Via {
    /// From GPU to GPU: how, and whether the receiver reads.
    P2p(Box<[u8]>, bool),
    /// Through the host's memory.
    Shm,
    /// Over the network.
    Net(Card),
    /// Through the network's switches.
    CollNet(Card),
    /// The next rank on a ring, or the rank above in a tree: what the ranks are arranged in, and no
    /// connection.
    Hop(Hop),
}

/// A hop of a ring or a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Hop {
    /// By the line of the rank that it begins at.
    Ring,
    /// By rank 0, which prints whole rings.
    RingOfAll,
    /// From a rank to the one it hands on to.
    Tree,
}

/// The NIC of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Card {
    /// The plugin.
    pub plugin: Box<[u8]>,
    /// The NIC's number.
    pub nic: u32,
    /// It reaches the GPU's memory.
    pub gdr: bool,
    /// The rank whose proxy sends, if that is another one's (PXN).
    pub proxy: Option<u32>,
    /// The buffers are shared.
    pub shared: bool,
}

impl Way {
    /// True where a communicator's rank can print a line of it.
    pub fn fits(&self, rank: u32, nranks: u32) -> bool {
        rank == self.own() && self.top() < nranks
    }

    /// The way of a line.
    pub fn of(c: &Connection<'_>) -> Way {
        let via = match c.via {
            Transport::P2p { how, read } => Via::P2p(how.into(), read),
            Transport::Shm => Via::Shm,
            Transport::Net {
                plugin,
                nic,
                proxy,
                gdr,
                shared,
            } => Via::Net(Card {
                plugin: plugin.into(),
                nic,
                gdr: gdr != Gdr::No,
                proxy: proxy.filter(|&proxy| proxy != c.from.rank),
                shared,
            }),
            Transport::CollNet { plugin, nic, gdr } => Via::CollNet(Card {
                plugin: plugin.into(),
                nic,
                gdr: gdr != Gdr::No,
                proxy: None,
                shared: false,
            }),
        };
        Way {
            from: c.from.rank,
            to: c.to.map(|to| to.rank),
            receives: c.side.map(|side| side == Side::Receive),
            via,
        }
    }

    /// The hop from a rank to another.
    pub fn hop(hop: Hop, from: u32, to: u32) -> Way {
        Way {
            from,
            to: Some(to),
            receives: None,
            via: Via::Hop(hop),
        }
    }

    /// The rank that prints the line.
    pub fn own(&self) -> u32 {
        match (self.receives, self.to) {
            _ if self.via == Via::Hop(Hop::RingOfAll) => 0,
            (Some(true), Some(to)) => to,
            _ => self.from,
        }
    }

    /// The higher rank: a communicator has more than that.
    pub fn top(&self) -> u32 {
        self.from.max(self.to.unwrap_or(0))
    }
}

impl Via {
    /// The NIC, where there is one.
    pub fn card(&self) -> Option<&Card> {
        match self {
            Via::Net(card) | Via::CollNet(card) => Some(card),
            _ => None,
        }
    }

    /// `P2P`, `SHM`, `NET`, `COLLNET`.
    pub fn word(&self) -> &'static str {
        match self {
            Via::P2p(..) => "P2P",
            Via::Shm => "SHM",
            Via::Net(_) => "NET",
            Via::CollNet(_) => "COLLNET",
            Via::Hop(Hop::Ring | Hop::RingOfAll) => "ring",
            Via::Hop(Hop::Tree) => "tree",
        }
    }

    /// What follows the word: `CUMEM/read`, `direct`, `IB`.
    pub fn how(&self) -> Vec<u8> {
        match self {
            Via::P2p(how, true) => [how, &b"/read"[..]].concat(),
            Via::P2p(how, false) => how.to_vec(),
            Via::Shm => b"direct".to_vec(),
            Via::Net(card) | Via::CollNet(card) => card.plugin.to_vec(),
            Via::Hop(_) => Vec::new(),
        }
    }

    /// Both, with GPUDirect: `NET/IB GDRDMA`.
    pub fn text(&self) -> Vec<u8> {
        let gdr: &[u8] = match self.card() {
            Some(card) if card.gdr => b" GDRDMA",
            _ => b"",
        };
        [self.word().as_bytes(), b"/", &self.how(), gdr].concat()
    }
}

/// A connection's lines in a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Link {
    /// The process that prints them.
    pub process: u32,
    /// Whose connection it is.
    pub claim: Claim,
    /// From where to where, over what.
    pub way: Way,
}

/// Channels, each with the number of its connection.
pub(crate) type Channels = BTreeSet<(u32, u32)>;
