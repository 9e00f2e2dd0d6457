//! Connections as their lines give them, and what they come to: who reaches whom over what.

use super::owner::OwnerClaim;
use crate::grammar::message::network::channel::{ChannelConnection, ConnectionSide};
use crate::grammar::message::network::transport::{GdrMode, Transport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A connection without its channel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConnectionPath {
    /// The rank that sends; of a COLLNET connection the one that prints.
    pub from: u32,
    /// The rank that receives.
    pub to: Option<u32>,
    /// Which end prints the line, where both do.
    pub receives: Option<bool>,
    /// What it goes over.
    pub via: ConnectionTransport,
}

/// What a connection goes over.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConnectionTransport {
    /// From GPU to GPU: how, and whether the receiver reads.
    P2p(Box<[u8]>, bool),
    /// Through the host's memory.
    Shm,
    /// Over the network.
    Net(ConnectionNic),
    /// Through the network's switches.
    CollNet(ConnectionNic),
    /// The next rank on a ring, or the rank above in a tree: what the ranks are arranged in, and no
    /// connection.
    Hop(GraphHop),
}

/// A hop of a ring or a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GraphHop {
    /// By the line of the rank that it begins at.
    Ring,
    /// By rank 0, which prints whole rings.
    RingOfAll,
    /// From a rank to the one it hands on to.
    Tree,
}

/// The NIC of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConnectionNic {
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

impl ConnectionPath {
    /// True where a communicator's rank can print a line of it.
    pub fn can_be_printed_by(&self, rank: u32, nranks: u32) -> bool {
        rank == self.printing_rank() && self.highest_rank() < nranks
    }

    /// The way of a line.
    pub fn from_connection(c: &ChannelConnection<'_>) -> ConnectionPath {
        let via = match c.via {
            Transport::P2p { how, read } => ConnectionTransport::P2p(how.into(), read),
            Transport::Shm => ConnectionTransport::Shm,
            Transport::Net {
                plugin,
                nic,
                proxy,
                gdr,
                shared,
            } => ConnectionTransport::Net(ConnectionNic {
                plugin: plugin.into(),
                nic,
                gdr: gdr != GdrMode::No,
                proxy: proxy.filter(|&proxy| proxy != c.from.rank),
                shared,
            }),
            Transport::CollNet { plugin, nic, gdr } => {
                ConnectionTransport::CollNet(ConnectionNic {
                    plugin: plugin.into(),
                    nic,
                    gdr: gdr != GdrMode::No,
                    proxy: None,
                    shared: false,
                })
            }
        };
        ConnectionPath {
            from: c.from.rank,
            to: c.to.map(|to| to.rank),
            receives: c.side.map(|side| side == ConnectionSide::Receive),
            via,
        }
    }

    /// The hop from a rank to another.
    pub fn from_hop(hop: GraphHop, from: u32, to: u32) -> ConnectionPath {
        ConnectionPath {
            from,
            to: Some(to),
            receives: None,
            via: ConnectionTransport::Hop(hop),
        }
    }

    /// The rank that prints the line.
    pub fn printing_rank(&self) -> u32 {
        match (self.receives, self.to) {
            _ if self.via == ConnectionTransport::Hop(GraphHop::RingOfAll) => 0,
            (Some(true), Some(to)) => to,
            _ => self.from,
        }
    }

    /// The higher rank: a communicator has more than that.
    pub fn highest_rank(&self) -> u32 {
        self.from.max(self.to.unwrap_or(0))
    }
}

impl ConnectionTransport {
    /// The NIC, where there is one.
    pub fn nic(&self) -> Option<&ConnectionNic> {
        match self {
            ConnectionTransport::Net(card) | ConnectionTransport::CollNet(card) => Some(card),
            _ => None,
        }
    }

    /// `P2P`, `SHM`, `NET`, `COLLNET`.
    pub fn word(&self) -> &'static str {
        match self {
            ConnectionTransport::P2p(..) => "P2P",
            ConnectionTransport::Shm => "SHM",
            ConnectionTransport::Net(_) => "NET",
            ConnectionTransport::CollNet(_) => "COLLNET",
            ConnectionTransport::Hop(GraphHop::Ring | GraphHop::RingOfAll) => "ring",
            ConnectionTransport::Hop(GraphHop::Tree) => "tree",
        }
    }

    /// What follows the word: `CUMEM/read`, `direct`, `IB`.
    pub fn format_detail(&self) -> Vec<u8> {
        match self {
            ConnectionTransport::P2p(how, true) => [how, &b"/read"[..]].concat(),
            ConnectionTransport::P2p(how, false) => how.to_vec(),
            ConnectionTransport::Shm => b"direct".to_vec(),
            ConnectionTransport::Net(card) | ConnectionTransport::CollNet(card) => {
                card.plugin.to_vec()
            }
            ConnectionTransport::Hop(_) => Vec::new(),
        }
    }

    /// Both, with GPUDirect: `NET/IB GDRDMA`.
    pub fn format_transport(&self) -> Vec<u8> {
        let gdr: &[u8] = match self.nic() {
            Some(card) if card.gdr => b" GDRDMA",
            _ => b"",
        };
        [self.word().as_bytes(), b"/", &self.format_detail(), gdr].concat()
    }
}

/// A connection's lines in a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ConnectionLines {
    /// The process that prints them.
    pub process: u32,
    /// Whose connection it is.
    pub claim: OwnerClaim,
    /// From where to where, over what.
    pub way: ConnectionPath,
}

/// Channels, each with the number of its connection.
pub(crate) type ConnectionChannels = BTreeSet<(u32, u32)>;
