//! The rings and trees that NCCL built, a row a hop, with the transport of the connection that serves it.

use super::Net;
use super::link::{Channels, Hop, Via, Way};
use super::pairs::{Of, Pairs, Shared};
use crate::output::render::{Cell, Grid};
use std::collections::{BTreeMap, BTreeSet};

/// What the ranks of a communicator are arranged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Graph {
    /// Each rank sends to the next.
    Rings,
    /// Each rank sends to the one above, and receives from it.
    Trees,
}

impl Graph {
    fn has(self, via: &Via) -> bool {
        match via {
            Via::Hop(Hop::Ring | Hop::RingOfAll) => self == Graph::Rings,
            Via::Hop(Hop::Tree) => self == Graph::Trees,
            _ => false,
        }
    }
}

/// All hops: whose, on which ring or tree, from which rank to which.
fn all(net: &Net, graph: Graph) -> BTreeSet<(Of, u32, u32, u32)> {
    let mut hops = BTreeSet::new();
    for ((process, owner, way), (channels, _)) in &net.all.hops {
        // A communicator of one rank has no hop.
        if let (true, Some(to)) = (graph.has(&way.via), way.to.filter(|to| *to != way.from)) {
            let of = Of::new(*process, owner);
            hops.extend(channels.iter().map(|(index, _)| (of, *index, way.from, to)));
        }
    }
    hops
}

/// The hops of communicators that are known.
pub(crate) fn hops(
    net: &Net,
    graph: Graph,
) -> impl Iterator<Item = (Shared, u32, u32, u32)> + use<> {
    let known = |(of, index, from, to)| match of {
        Of::Comm(shared) => Some((shared, index, from, to)),
        Of::Process(_) => None,
    };
    all(net, graph).into_iter().filter_map(known)
}

/// A row for each hop of the rings or trees of all communicators. Where several ranks print a hop, or one
/// prints it twice, it is one row.
pub fn grid(net: &Net, graph: Graph) -> Grid {
    let index = match graph {
        Graph::Rings => "ring",
        Graph::Trees => "tree",
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
    let hops = all(net, graph);
    let pairs = Pairs::new(net);
    let served = connections(&pairs);
    let text = |host: Option<&[u8]>| Cell::from(host.map(<[u8]>::to_vec));
    let row = |&(of, index, from, to): &(Of, u32, u32, u32)| {
        let way = served.get(&(of, from, to));
        let way = way.and_then(|all| on_channel(all, index));
        let card = way.and_then(|way| way.via.card());
        let [id, comm, nranks] = of.cells();
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
            way.map(|way| way.via.how()).into(),
            card.map(|card| u64::from(card.nic)).into(),
            card.map(|card| if card.gdr { "yes" } else { "no" }).into(),
        ]
    };
    Grid {
        columns: columns.map(str::to_owned).to_vec(),
        rows: hops.iter().map(row).collect(),
    }
}

/// The connections from a rank to another, each with its channels.
type Connections<'p> = BTreeMap<(Of, u32, u32), Vec<(&'p Way, &'p Channels)>>;

fn connections<'p>(pairs: &'p Pairs<'_>) -> Connections<'p> {
    let mut all = Connections::new();
    for ((of, way), channels) in &pairs.rows {
        if let Some(to) = way.to {
            all.entry((*of, way.from, to))
                .or_default()
                .push((way, channels));
        }
    }
    all
}

/// The first of these on a channel: the sender's line of a connection is before the receiver's.
fn on_channel<'p>(all: &[(&'p Way, &'p Channels)], channel: u32) -> Option<&'p Way> {
    let mut those = all.iter().filter(|(_, channels)| {
        let mut of_channel = channels.range((channel, 0)..=(channel, u32::MAX));
        of_channel.next().is_some()
    });
    those.next().map(|(way, _)| *way)
}
