//! The graphs that NCCL chose: for each channel the order of its GPUs, and the NICs before and after them.

use super::{ChosenWay, TopologyEnd, TopologyPath, number_of};
use roxmltree::Node;
use std::collections::{BTreeMap, BTreeSet};

/// Lists the ways of all graphs that have channels, by graph, GPU and other end.
pub(super) fn list_chosen_ways(root: Node<'_, '_>) -> Vec<ChosenWay> {
    let graphs = root.children().filter(|node| node.has_tag_name("graph"));
    graphs.flat_map(list_graph_ways).collect()
}

fn list_graph_ways(graph: Node<'_, '_>) -> Vec<ChosenWay> {
    // The numbers are NCCL's (`NCCL_TOPO_PATTERN_RING` and others in `src/include/graph.h`, ids in `src/init.cc`).
    let name = match (number_of(graph, "pattern"), number_of(graph, "id")) {
        (Some(6), _) => "collnet_direct",
        (Some(5), _) => "nvls",
        (_, Some(2)) => "collnet_chain",
        (Some(4), _) => "ring",
        _ => "tree",
    };
    let mut ways: BTreeMap<(u32, TopologyEnd), u64> = BTreeMap::new();
    for channel in graph.children().filter(|node| node.has_tag_name("channel")) {
        let devices: Vec<ChannelDevice> = channel
            .children()
            .filter_map(ChannelDevice::of_node)
            .collect();
        let is_closed = name == "ring"
            && devices.len() > 2
            && devices
                .iter()
                .all(|device| matches!(device, ChannelDevice::Gpu(_)));
        let next = devices.iter().skip(1).chain(is_closed.then(|| &devices[0]));
        let pairs = devices.iter().zip(next);
        // A channel mostly comes and goes by one NIC.
        let own: BTreeSet<_> = pairs.filter_map(|(from, to)| from.find_way(to)).collect();
        for way in own {
            *ways.entry(way).or_default() += 1;
        }
    }
    let text = |name: &str| graph.attribute(name).unwrap_or_default().to_owned();
    let speed = |name: &str| graph.attribute(name).and_then(|text| text.parse().ok());
    let chosen = ways.into_iter().map(|((gpu, to), channels)| {
        let (way, gbs) = match to {
            TopologyEnd::Gpu(_) => (text("typeintra"), speed("speedintra")),
            TopologyEnd::Nic(..) => (text("typeinter"), speed("speedinter")),
        };
        ChosenWay {
            graph: name,
            path: TopologyPath { gpu, to, way },
            channels,
            gbs: gbs.unwrap_or(0.0),
        }
    });
    chosen.collect()
}

/// A device of a channel.
enum ChannelDevice {
    Gpu(u32),
    Net(u32),
}

impl ChannelDevice {
    /// The way between two neighbours of a channel, from a GPU.
    fn find_way(&self, next: &ChannelDevice) -> Option<(u32, TopologyEnd)> {
        let (gpu, to) = match (self, next) {
            (ChannelDevice::Gpu(gpu), ChannelDevice::Gpu(to)) => (*gpu, TopologyEnd::Gpu(*to)),
            (ChannelDevice::Gpu(gpu), ChannelDevice::Net(nic))
            | (ChannelDevice::Net(nic), ChannelDevice::Gpu(gpu)) => {
                (*gpu, TopologyEnd::Nic(format!("NIC{nic}"), Some(*nic)))
            }
            (ChannelDevice::Net(_), ChannelDevice::Net(_)) => return None,
        };
        Some((gpu, to))
    }

    fn of_node(node: Node<'_, '_>) -> Option<ChannelDevice> {
        let number = || number_of(node, "dev");
        match node.tag_name().name() {
            "gpu" => number().map(ChannelDevice::Gpu),
            "net" => number().map(ChannelDevice::Net),
            _ => None,
        }
    }
}
