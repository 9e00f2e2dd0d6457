//! Rings and trees that NCCL built: a row for each hop, with the transport of its connection.

use super::NetSummary;
use super::connection::{ConnectionChannels, ConnectionPath, ConnectionTransport, GraphHop};
use super::pairs::{PairOwner, RankPairs, SharedCommunicator};
use crate::grammar::message::graph::MAX_RANKS_OF_LISTED_RING;
use crate::output::render::{Grid, TableCell};
use std::collections::{BTreeMap, BTreeSet};

/// Arrangements of the ranks of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HopGraph {
    /// Each rank sends to the next.
    Rings,
    /// Each rank sends to the one above, and receives from it.
    Trees,
}

impl HopGraph {
    fn contains_hop(self, via: &ConnectionTransport) -> bool {
        match via {
            ConnectionTransport::Hop(GraphHop::Tree) => self == HopGraph::Trees,
            ConnectionTransport::Hop(_) => self == HopGraph::Rings,
            _ => false,
        }
    }
}

/// Collects all hops: owner, ring or tree, from rank, to rank.
fn collect_hops(net: &NetSummary, graph: HopGraph) -> BTreeSet<(PairOwner, u32, u32, u32)> {
    let (mut hops, mut ends) = (BTreeSet::new(), BTreeSet::new());
    for ((process, owner, way), (channels, _)) in &net.all.hops {
        // A communicator of one rank has no hop.
        if let (true, Some(to)) = (
            graph.contains_hop(&way.via),
            way.to.filter(|to| *to != way.from),
        ) {
            let of = PairOwner::new(*process, owner);
            let those = match way.via == ConnectionTransport::Hop(GraphHop::RingEnd) {
                true => &mut ends,
                false => &mut hops,
            };
            those.extend(channels.iter().map(|(index, _)| (of, *index, way.from, to)));
        }
    }
    let mut listed: BTreeMap<(PairOwner, u32), usize> = BTreeMap::new();
    for (of, index, ..) in &hops {
        *listed.entry((*of, *index)).or_default() += 1;
    }
    let is_whole = |(of, index, ..): &(PairOwner, u32, u32, u32)| {
        let ranks = listed.get(&(*of, *index)).map_or(1, |hops| hops + 1);
        match of {
            PairOwner::Comm(shared) => ranks >= shared.nranks() as usize,
            PairOwner::Process(_) => ranks < MAX_RANKS_OF_LISTED_RING,
        }
    };
    hops.extend(ends.into_iter().filter(is_whole));
    hops
}

/// Lists the hops of known communicators.
pub(crate) fn list_known_hops(
    net: &NetSummary,
    graph: HopGraph,
) -> impl Iterator<Item = (SharedCommunicator, u32, u32, u32)> + use<> {
    let known = |(of, index, from, to)| match of {
        PairOwner::Comm(shared) => Some((shared, index, from, to)),
        PairOwner::Process(_) => None,
    };
    collect_hops(net, graph).into_iter().filter_map(known)
}

/// Builds a row for each hop of the rings or trees of all communicators. A hop that several lines report is
/// one row.
pub fn build_hop_grid(net: &NetSummary, graph: HopGraph) -> Grid {
    let index = match graph {
        HopGraph::Rings => "ring",
        HopGraph::Trees => "tree",
    };
    let columns = [
        "comm_id",
        "comm",
        "nranks",
        index,
        "from_rank",
        "to_rank",
        "from_host",
        "to_host",
        "transport",
        "via",
        "nic",
        "gdr",
    ];
    let hops = collect_hops(net, graph);
    let pairs = RankPairs::new(net);
    let served = group_connections(&pairs);
    let text = |host: Option<&[u8]>| TableCell::from(host.map(<[u8]>::to_vec));
    let row = |&(of, index, from, to): &(PairOwner, u32, u32, u32)| {
        let way = served.get(&(of, from, to));
        let way = way.and_then(|all| find_on_channel(all, index));
        let card = way.and_then(|way| way.via.nic());
        let [id, comm, nranks] = of.owner_cells();
        vec![
            id,
            comm,
            nranks,
            u64::from(index).into(),
            u64::from(from).into(),
            u64::from(to).into(),
            text(pairs.host(of, Some(from))),
            text(pairs.host(of, Some(to))),
            way.map(|way| way.via.word()).into(),
            way.map(|way| way.via.format_detail()).into(),
            card.map(|card| u64::from(card.nic)).into(),
            card.map(|card| if card.gdr { "yes" } else { "no" }).into(),
        ]
    };
    Grid {
        columns: columns.map(str::to_owned).to_vec(),
        rows: hops.iter().map(row).collect(),
    }
}

/// Connections from a rank to another, each with its channels.
type HopConnections<'p> =
    BTreeMap<(PairOwner, u32, u32), Vec<(&'p ConnectionPath, &'p ConnectionChannels)>>;

fn group_connections<'p>(pairs: &'p RankPairs<'_>) -> HopConnections<'p> {
    let mut all = HopConnections::new();
    for ((of, way), channels) in &pairs.rows {
        if let Some(to) = way.to {
            all.entry((*of, way.from, to))
                .or_default()
                .push((way, channels));
        }
    }
    all
}

/// Finds the first connection on a channel: the sender's line precedes the receiver's.
fn find_on_channel<'p>(
    all: &[(&'p ConnectionPath, &'p ConnectionChannels)],
    channel: u32,
) -> Option<&'p ConnectionPath> {
    let mut those = all.iter().filter(|(_, channels)| {
        let mut of_channel = channels.range((channel, 0)..=(channel, u32::MAX));
        of_channel.next().is_some()
    });
    those.next().map(|(way, _)| *way)
}
