//! The phases of an initialisation, and the lines that show them.

use crate::grammar::message::communicator::timing::TimedSetup;
use crate::grammar::message::graph::GraphMessage;
use crate::grammar::message::graph::nvls::NvlsMessage;
use crate::grammar::message::network::channel::{ChannelConnection, ConnectionSide};
use crate::grammar::message::{MessageFamily, NcclMessage};
use serde::{Deserialize, Serialize};

/// The last phase that a rank's lines show, in the order of `initTransportsRank` in `src/init.cc`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum SetupPhase {
    /// It began, and waits until all ranks have found each other. `Init START` is its only line.
    #[default]
    Bootstrap,
    /// All ranks have found each other (`Bootstrap timings`, 2.23 and later).
    Found,
    /// It knows the machine: GPUs, NICs, distances, nodes.
    Topology,
    /// It knows the rings and trees.
    Graphs,
    /// It connects to its peers.
    Connections,
    /// It sets up the NVLink switches.
    Nvls,
    /// It has its channels; only the last exchange and the tuner are missing.
    Channels,
}

impl SetupPhase {
    /// Returns the phase's name, as a table prints it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SetupPhase::Bootstrap => "bootstrap",
            SetupPhase::Found => "found",
            SetupPhase::Topology => "topology",
            SetupPhase::Graphs => "graphs",
            SetupPhase::Connections => "connections",
            SetupPhase::Nvls => "nvls",
            SetupPhase::Channels => "channels",
        }
    }

    /// Returns the phase that a line shows, if its thread initialises a communicator.
    pub(super) fn of_message(message: &NcclMessage<'_>) -> Option<SetupPhase> {
        Some(match message {
            NcclMessage::Timings(timings) if timings.of == TimedSetup::Bootstrap => {
                SetupPhase::Found
            }
            NcclMessage::Layout(_)
            | NcclMessage::Plain(MessageFamily::Topology | MessageFamily::Mnnvl, _)
            | NcclMessage::Nvls(NvlsMessage::Support { .. })
            | NcclMessage::Graph(GraphMessage::Pattern(_)) => SetupPhase::Topology,
            NcclMessage::Graph(GraphMessage::Channels(_)) => SetupPhase::Channels,
            NcclMessage::Graph(GraphMessage::Connected(connected)) => match connected.what {
                b"NVLS tree" => SetupPhase::Nvls,
                _ => SetupPhase::Connections,
            },
            NcclMessage::Graph(_) => SetupPhase::Graphs,
            NcclMessage::Connection(_) => SetupPhase::Connections,
            NcclMessage::Nvls(_) | NcclMessage::Plain(MessageFamily::Nvls, _) => SetupPhase::Nvls,
            _ => return None,
        })
    }
}

/// True for a line of rings or trees: connections are also made later, but rings and trees are not.
pub(super) fn begins_setup(message: &NcclMessage<'_>) -> bool {
    matches!(
        message,
        NcclMessage::Graph(
            GraphMessage::Ring(_)
                | GraphMessage::Trees(_)
                | GraphMessage::Tree(_)
                | GraphMessage::Neighbours(_)
        )
    )
}

/// Returns the rank that prints a line of a tree, a ring or a connection.
pub(super) fn find_rank(message: &NcclMessage<'_>) -> Option<u32> {
    match message {
        NcclMessage::Graph(GraphMessage::Trees(trees)) => trees.iter().next().map(|t| t.rank),
        NcclMessage::Graph(GraphMessage::Tree(tree)) => Some(tree.rank),
        NcclMessage::Graph(GraphMessage::Neighbours(ring)) => Some(ring.rank),
        NcclMessage::Connection(c) => find_printing_rank(c),
        _ => None,
    }
}

fn find_printing_rank(c: &ChannelConnection<'_>) -> Option<u32> {
    match c.side {
        Some(ConnectionSide::Receive) => c.to.map(|to| to.rank),
        _ => Some(c.from.rank),
    }
}
