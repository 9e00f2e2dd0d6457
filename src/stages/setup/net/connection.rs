//! Connections of ranks, as lines report them.

use super::owner::OwnerClaim;
use crate::grammar::message::network::channel::{ChannelConnection, ConnectionSide};
use crate::grammar::message::network::transport::{GdrMode, Transport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A connection without its channel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConnectionPath {
    /// The rank that sends; for COLLNET the rank that prints.
    pub from: u32,
    /// The rank that receives.
    pub to: Option<u32>,
    /// True if the receiving end prints the line; unknown for transports with one line.
    pub receives: Option<bool>,
    /// Its transport.
    pub via: ConnectionTransport,
}

/// Transport of a connection.
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
    /// A hop to the next rank on a ring or the parent in a tree; it is an arrangement and no connection.
    Hop(GraphHop),
}

/// A hop of a ring or a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GraphHop {
    /// A ring's hop, from the line of the rank where it begins.
    Ring,
    /// A ring's hop, from rank 0, which prints whole rings.
    RingOfAll,
    /// A tree's hop to the parent.
    Tree,
    /// The hop from the last rank of such a list to the first, if the list has all ranks.
    RingEnd,
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
    /// The rank of the proxy that sends, if it is another rank (PXN).
    pub proxy: Option<u32>,
    /// The buffers are shared.
    pub shared: bool,
}

impl ConnectionPath {
    /// True if `rank` of a communicator of `nranks` can print a line of it.
    pub fn can_be_printed_by(&self, rank: u32, nranks: u32) -> bool {
        rank == self.printing_rank() && self.highest_rank() < nranks
    }

    /// Returns the path of a line.
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

    /// Returns the path of a hop.
    pub fn from_hop(hop: GraphHop, from: u32, to: u32) -> ConnectionPath {
        ConnectionPath {
            from,
            to: Some(to),
            receives: None,
            via: ConnectionTransport::Hop(hop),
        }
    }

    /// Returns the rank that prints the line.
    pub fn printing_rank(&self) -> u32 {
        match (self.receives, self.to) {
            _ if matches!(
                self.via,
                ConnectionTransport::Hop(GraphHop::RingOfAll | GraphHop::RingEnd)
            ) =>
            {
                0
            }
            (Some(true), Some(to)) => to,
            _ => self.from,
        }
    }

    /// Returns the higher rank: the communicator is larger.
    pub fn highest_rank(&self) -> u32 {
        self.from.max(self.to.unwrap_or(0))
    }
}

impl ConnectionTransport {
    /// Returns the NIC, if there is one.
    pub fn nic(&self) -> Option<&ConnectionNic> {
        match self {
            ConnectionTransport::Net(card) | ConnectionTransport::CollNet(card) => Some(card),
            _ => None,
        }
    }

    /// Returns `P2P`, `SHM`, `NET` or `COLLNET`.
    pub fn word(&self) -> &'static str {
        match self {
            ConnectionTransport::P2p(..) => "P2P",
            ConnectionTransport::Shm => "SHM",
            ConnectionTransport::Net(_) => "NET",
            ConnectionTransport::CollNet(_) => "COLLNET",
            ConnectionTransport::Hop(GraphHop::Tree) => "tree",
            ConnectionTransport::Hop(_) => "ring",
        }
    }

    /// Formats the part after the word: `CUMEM/read`, `direct`, `IB`.
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

    /// Formats word and detail with GPUDirect: `NET/IB GDRDMA`.
    pub fn format_transport(&self) -> Vec<u8> {
        let gdr: &[u8] = match self.nic() {
            Some(card) if card.gdr => b" GDRDMA",
            _ => b"",
        };
        [self.word().as_bytes(), b"/", &self.format_detail(), gdr].concat()
    }
}

/// Lines of a connection in a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ConnectionLines {
    /// The process that prints them.
    pub process: u32,
    /// Its possible owners.
    pub claim: OwnerClaim,
    /// Its path.
    pub way: ConnectionPath,
}

/// Channels with the numbers of their connections.
pub(crate) type ConnectionChannels = BTreeSet<(u32, u32)>;

/// Adds channels of a connection, and keeps the first line that reports it.
pub(crate) fn merge_channels<L: Ord + Copy>(
    known: &mut (ConnectionChannels, L),
    channels: ConnectionChannels,
    line: L,
) {
    known.0.extend(channels);
    known.1 = line.min(known.1);
}
